//! What must hold once faults have ended, whatever they were. Entry points: [`settled`] and [`nothing_is_left`].
//!
//! Every child is as its source wants it and no other child is there, within a deadline, and it stays so with nobody writing any
//! more; the caches hold what the servers hold; no key ever ran twice at once. When the clusters are gone, tasks and
//! sockets are as many as before the first came, no metric names any of them, and memory has not grown out of proportion.

use crate::keeper::{MARK, child_of, is_right};
use crate::rig::Rig;
use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use windlass_apiserver::Cluster;
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::footprint::Footprint;

/// How long after the last fault everything is right at the latest: the longest backoff of a watch and of a key, and some.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);
/// How long it then stays right.
const STAYS: Duration = Duration::from_millis(300);
/// How much more memory a process may hold after a test than before: what its tests that run at the same time need, too.
const GROWTH: usize = 128 << 20;
/// Most differences that a failure names.
const NAMED: usize = 10;

/// Waits until what is desired is so, in every cluster, and holds it to stay so.
pub(crate) async fn settled(rig: &Rig) -> Result<()> {
    settled_within(rig, WITHIN).await
}

/// As [`settled`], within another time.
pub(crate) async fn settled_within(rig: &Rig, within: Duration) -> Result<()> {
    eventually(within, "what is desired to be so", || async {
        let wrong = differences(rig)?;
        if !wrong.is_empty() {
            return Ok(Seen::NotYet(wrong.join("; ")));
        }
        let idle = rig.handle.idle().await;
        let mut busy = idle.busy;
        busy.extend(idle.terminal.iter().map(|key| format!("{key:?}")));
        Ok(Seen::of(busy, Vec::is_empty))
    })
    .await?;
    stays(rig).await?;
    let overlaps = rig.keeper.overlaps();
    if !overlaps.is_empty() {
        bail!("keys that ran twice at once: {overlaps:?}");
    }
    Ok(())
}

/// Nobody writes what is right already.
async fn stays(rig: &Rig) -> Result<()> {
    let versions = || -> Vec<u64> {
        let names = rig.server.clusters();
        names
            .iter()
            .map(|name| rig.cluster(name).version())
            .collect()
    };
    let (before, until) = (versions(), Instant::now() + STAYS);
    eventually(STAYS * 20, "the time that it must stay so to pass", || {
        let (wrong, past) = (differences(rig), Instant::now() >= until);
        async move {
            match wrong {
                Ok(wrong) if wrong.is_empty() && !past => Ok(Seen::NotYet("right so far".into())),
                // Said at once, not looked at until it is right again.
                other => Ok(Seen::Yes(other)),
            }
        }
    })
    .await?
    .and_then(|wrong| {
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(anyhow!("it did not stay as desired: {}", wrong.join("; ")))
        }
    })?;
    if versions() != before {
        bail!("somebody goes on writing what is right already");
    }
    Ok(())
}

/// What is not as desired, in the clusters that are engaged, past the engine and its caches.
fn differences(rig: &Rig) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for cluster in rig.provider.names() {
        differ_in(&rig.cluster(cluster.as_str()), &mut wrong)?;
    }
    wrong.truncate(NAMED);
    Ok(wrong)
}

fn differ_in(cluster: &Cluster, wrong: &mut Vec<String>) -> Result<()> {
    let objects = cluster
        .list("v1", "ConfigMap", "default")
        .map_err(|error| anyhow!("{error:?}"))?;
    let name = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (sources, others): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .partition(|object| object["metadata"]["labels"].get(MARK).is_some());
    let mut children: BTreeMap<String, Value> = others
        .into_iter()
        .map(|child| (name(&child), child))
        .collect();
    let cluster = cluster.name();
    for source in sources {
        let name = name(&source);
        match children.remove(&child_of(&name)) {
            None => wrong.push(format!("{cluster}: {name} has no child")),
            Some(child) if is_right(&source, &child) => {}
            Some(child) => wrong.push(format!(
                "{cluster}: {name} is {} and its child {}",
                source["data"], child["data"]
            )),
        }
    }
    wrong.extend(
        children
            .keys()
            .filter(|name| *name != "kube-root-ca.crt")
            .map(|name| format!("{cluster}: {name} belongs to nobody")),
    );
    Ok(())
}

/// Waits until nothing is left of clusters that have all been let go.
pub(crate) async fn nothing_is_left(rig: &Rig) -> Result<()> {
    let (before, ports) = (rig.before(), [rig.server.address().port()]);
    eventually(WITHIN, "nothing to be left of the clusters", || async {
        let now = Footprint::now(&ports)?;
        let engaged = rig.handle.clusters().len();
        let metrics = rig.metrics()?;
        let series: Vec<&str> = metrics
            .lines()
            .filter(|line| line.contains("cluster=\"") && !line.contains("cluster=\"\""))
            .collect();
        let gone = engaged == 0
            && now.tasks <= before.tasks
            && now.sockets <= before.sockets
            && series.is_empty();
        let seen =
            format!("{engaged} clusters, series {series:?}, {now:?} where there was {before:?}");
        Ok(if gone {
            Seen::Yes(())
        } else {
            Seen::NotYet(seen)
        })
    })
    .await?;
    let now = Footprint::now(&ports)?;
    if now.resident > before.resident + GROWTH {
        bail!(
            "memory grew from {} to {} bytes",
            before.resident,
            now.resident
        );
    }
    Ok(())
}
