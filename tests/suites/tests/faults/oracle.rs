//! What must hold once faults have ended, whatever they were. Entry point: [`settled`].
//!
//! Every child is as its source wants it and no other child is there, within a deadline, and it stays so with nobody writing and no
//! key running any more; no key ever ran twice at once. When the clusters are gone, [`Rig::finish`] holds that nothing is left of them.
//! Memory can be told apart by process only: the soak measures it.

use crate::keeper::{MARK, child_of, is_right};
use crate::rig::Rig;
use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use windlass_apiserver::Cluster;
use windlass_fleet::manager::KeyFilter;
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;

/// How long after the last fault everything is right at the latest: the longest backoff of a watch and of a key, and some.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether everything stays right.
const LOOKS: u32 = 100;
/// Most differences that a failure names.
const NAMED: usize = 10;

/// Waits until what is desired is so, in every cluster, and holds it to stay so.
pub(crate) async fn settled(rig: &Rig) -> Result<()> {
    settled_within(rig, WITHIN).await
}

/// As [`settled`], within another time.
pub(crate) async fn settled_within(rig: &Rig, within: Duration) -> Result<()> {
    right_within(rig, within).await?;
    stays(rig, rig.stays).await?;
    let overlaps = rig.keeper.overlaps();
    if !overlaps.is_empty() {
        bail!("keys that ran twice at once: {overlaps:?}");
    }
    Ok(())
}

/// Waits until every child is right, whatever else waits or runs: as long as clusters are held to be bad, their keys do.
pub(crate) async fn children_right_within(rig: &Rig, within: Duration) -> Result<()> {
    eventually(within, "every child to be right", || async {
        Ok(Seen::of(differences(rig)?, Vec::is_empty))
    })
    .await
    .map(drop)
}

/// Waits until what is desired is so and no key waits or runs.
pub(crate) async fn right_within(rig: &Rig, within: Duration) -> Result<()> {
    eventually(within, "what is desired to be so", || async {
        let wrong = differences(rig)?;
        if !wrong.is_empty() {
            return Ok(Seen::NotYet(format!(
                "{}{}",
                wrong.join("; "),
                engine(rig, &wrong)
            )));
        }
        let idle = rig.handle.idle().await;
        let mut busy = idle.busy;
        busy.extend(idle.terminal.iter().map(|key| format!("{key:?}")));
        Ok(Seen::of(busy, Vec::is_empty))
    })
    .await
    .map(drop)
}

/// What the engine makes of the clusters that differences name.
fn engine(rig: &Rig, wrong: &[String]) -> String {
    let names: BTreeSet<&str> = wrong
        .iter()
        .filter_map(|text| Some(text.split_once(':')?.0))
        .collect();
    let mut text = String::new();
    for name in names {
        let keys = rig.handle.keys(&KeyFilter::default());
        let keys: Vec<_> = keys
            .iter()
            .filter(|key| key.queued.request.to_string().contains(name))
            .collect();
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{name}: {:?}, keys {keys:?}", rig.status(name));
    }
    text
}

/// Nobody writes what is right already, and soon no key runs for so long.
async fn stays(rig: &Rig, time: Duration) -> Result<()> {
    let versions = || -> Vec<u64> {
        let names = rig.server.clusters();
        names
            .iter()
            .map(|name| rig.simulated(name).version())
            .collect()
    };
    let before = versions();
    let (mut runs, end) = (rig.keeper.total(), Instant::now() + time + WITHIN);
    let mut until = Instant::now() + time;
    while Instant::now() < until {
        let wrong = differences(rig)?;
        if !wrong.is_empty() {
            bail!("it did not stay as desired: {}", wrong.join("; "));
        }
        let now = rig.keeper.total();
        if now > runs {
            // What was written last is seen once more.
            (runs, until) = (now, Instant::now() + time);
        }
        ensure!(
            Instant::now() < end,
            "keys go on running: {runs} runs so far"
        );
        // Not a wait: it looks that nothing changes, for a time.
        sleep(time / LOOKS).await;
    }
    if versions() != before {
        bail!("somebody goes on writing what is right already");
    }
    Ok(())
}

/// What is not as desired, in the clusters that are engaged, past the engine and its caches.
fn differences(rig: &Rig) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for cluster in rig.kept() {
        differ_in(rig, &cluster, &mut wrong)?;
    }
    wrong.truncate(NAMED);
    Ok(wrong)
}

fn differ_in(rig: &Rig, cluster: &str, wrong: &mut Vec<String>) -> Result<()> {
    let (at, namespace) = rig.place(cluster);
    differ_at(&at, namespace, cluster, wrong)
}

/// What is not as desired in a namespace of a server's cluster.
pub(crate) fn differ_at(
    at: &Cluster,
    namespace: &str,
    cluster: &str,
    wrong: &mut Vec<String>,
) -> Result<()> {
    let objects = at
        .list("v1", "ConfigMap", namespace)
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
