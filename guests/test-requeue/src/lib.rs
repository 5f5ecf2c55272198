//! Runs again after every reconcile: it requeues, or writes to an object that it watches. Entry point: [`Requeue`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;
use windlass_sdk::{PatchType, WriteOptions};

/// The annotation that counts runs.
const RUNS: &str = "test.windlass.dev/runs";

/// The annotation with the time of the first run.
const FIRST: &str = "test.windlass.dev/first";
/// The annotation that says that the time has passed.
const OVER: &str = "test.windlass.dev/over";

/// How it runs again.
#[derive(Deserialize)]
struct Config {
    /// Requeues after this number of milliseconds; 0 is at once.
    after: Option<u32>,
    /// Writes the number of runs to the object of the request.
    #[serde(default)]
    counts: bool,
    /// Waits until so many seconds have passed since the first run by the clock of guests, and writes that they have.
    due: Option<u32>,
}

/// The guest.
struct Requeue;
windlass_sdk::guest!(Requeue);

impl Reconciler for Requeue {
    fn describe() -> Result<Description> {
        Ok(Description::new("asks to run again")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let config = config::<Config>()?;
        if let Some(due) = config.due {
            return wait(request, cluster, due);
        }
        if config.counts && !count(request, cluster)? {
            return Ok(Action::Done);
        }
        Ok(config.after.map_or(Action::Done, Action::RequeueAfterMs))
    }
}

/// Whether the object is there.
fn count(request: &Request, cluster: &Cluster) -> Result<bool> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let Some(object) = cluster.of(kind.clone()).get(&request.key)? else {
        return Ok(false);
    };
    let before = object.annotation(RUNS).and_then(|runs| runs.parse().ok());
    let runs = before.unwrap_or(0_u32) + 1;
    let patch = format!(r#"{{"metadata":{{"annotations":{{"{RUNS}":"{runs}"}}}}}}"#);
    let options = WriteOptions::default();
    let raw = cluster.raw();
    raw.patch(&kind, &request.key, PatchType::Merge, &patch, &options)?;
    Ok(true)
}

/// Notes the time of the first run, and later that it is so many seconds ago.
fn wait(request: &Request, cluster: &Cluster, due: u32) -> Result<Action> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let Some(object) = cluster.of(kind.clone()).get(&request.key)? else {
        return Ok(Action::Done);
    };
    let now = now();
    let (name, value) = match object.annotation(FIRST) {
        None => (FIRST, now.as_str()),
        Some(first) => {
            let left = i64::from(due) - (seconds(&now) - seconds(first));
            if left > 0 {
                return Ok(Action::RequeueAfterMs(left as u32 * 1000));
            }
            (OVER, "yes")
        }
    };
    if object.annotation(OVER).is_none() {
        let patch = format!(r#"{{"metadata":{{"annotations":{{"{name}":"{value}"}}}}}}"#);
        let options = WriteOptions::default();
        let raw = cluster.raw();
        raw.patch(&kind, &request.key, PatchType::Merge, &patch, &options)?;
    }
    Ok(Action::Done)
}

/// Seconds since the epoch, of a time as `now` has it.
fn seconds(time: &str) -> i64 {
    let number = |from: usize, to: usize| -> i64 {
        let digits = time.get(from..to).unwrap_or_default();
        digits.parse().unwrap_or_default()
    };
    let (month, day) = (number(5, 7), number(8, 10));
    // Years begin in March, so that a leap day is the last.
    let year = number(0, 4) - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    days * 86_400 + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_seconds_since_the_epoch() {
        assert_eq!(super::seconds("1970-01-01T00:00:01.000Z"), 1);
        assert_eq!(super::seconds("2000-02-29T00:00:00.000Z"), 951_782_400);
    }
}
