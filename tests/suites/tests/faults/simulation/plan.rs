//! What happens to a simulated fleet: faults, changes of objects, clusters that come and go. Entry point: [`Plan::random`].

use super::guest;
use crate::keeper::child_of;
use crate::rig::Rig;
use anyhow::Result;
use fastrand::Rng;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use windlass_apiserver::{Faults, Schedule, Shape};
use windlass_fleet::cluster::KubeconfigPolicy;
use windlass_harness::fleet::name;

/// Names of marked objects in each cluster.
const OBJECTS: u32 = 5;
/// Time between two things that go wrong in one cluster, on average.
const BETWEEN_FAULTS: Duration = Duration::from_secs(60);
/// Time between two changes of the fleet, on average.
const BETWEEN_CHANGES: Duration = Duration::from_secs(10);

/// Everything that happens, in its order. It follows from the seed.
pub(super) struct Plan {
    pub(super) seed: u64,
    clusters: Vec<String>,
    /// Namespaces that are clusters too, with the clusters that they are parts of.
    pub(super) parts: BTreeMap<String, String>,
    faults: Schedule,
    changes: Vec<(Duration, Change)>,
}

/// What happens beside the faults.
enum Change {
    /// A marked object is made or changed.
    Put { cluster: String, object: String },
    /// A marked object is deleted.
    Delete { cluster: String, object: String },
    /// A child is deleted behind the engine's back.
    DeleteChild { cluster: String, object: String },
    /// A child is changed behind the engine's back.
    Spoil { cluster: String, object: String },
    /// Somebody is to be greeted by the guest, or by another name.
    Greet { cluster: String, object: String },
    /// Nobody is any more.
    Ignore { cluster: String, object: String },
    /// A cluster leaves the fleet.
    Leave(String),
    /// A cluster joins it, again too.
    Join(String),
    /// A cluster is reached with another token from now on.
    NewToken(String),
}

impl Plan {
    /// A plan of so long.
    pub(super) fn random(seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let clusters: Vec<String> = (0..rng.usize(2..6)).map(|n| format!("c{n}")).collect();
        let parts: BTreeMap<String, String> = (0..rng.usize(0..4))
            .map(|n| {
                (
                    format!("part{n}"),
                    clusters[rng.usize(..clusters.len())].clone(),
                )
            })
            .collect();
        let per_cluster = length.as_secs() / BETWEEN_FAULTS.as_secs();
        let shape = Shape {
            clusters: clusters.clone(),
            resources: vec!["configmaps".to_owned()],
            length,
            steps: usize::try_from(per_cluster).unwrap_or_default() * clusters.len(),
        };
        let all: Vec<String> = clusters.iter().chain(parts.keys()).cloned().collect();
        let count = length.as_secs() / BETWEEN_CHANGES.as_secs();
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let mut changes: Vec<(Duration, Change)> = (0..count)
            .map(|_| {
                let at = Duration::from_millis(rng.u64(0..length));
                (at, Change::random(&mut rng, &all))
            })
            .collect();
        changes.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            faults: Schedule::random(seed, &shape),
            clusters,
            parts,
            changes,
        }
    }

    pub(super) fn clusters(&self) -> Vec<&str> {
        self.clusters.iter().map(String::as_str).collect()
    }

    /// How many steps it has: first the faults, then the changes.
    pub(super) fn len(&self) -> usize {
        self.faults.steps().len() + self.changes.len()
    }

    /// Plays it, but for some steps.
    pub(super) async fn play(
        &self,
        rig: &Rig,
        faults: &Faults,
        without: &BTreeSet<usize>,
    ) -> Result<()> {
        let count = self.faults.steps().len();
        let schedule = self.faults.clone().without(without);
        let began = Instant::now();
        let change = async {
            for (at, (when, change)) in self.changes.iter().enumerate() {
                // Not a wait: time is simulated.
                sleep_until(began + *when).await;
                if !without.contains(&(count + at)) {
                    change.happen(rig, at)?;
                }
            }
            anyhow::Ok(())
        };
        let ((), changed) = tokio::join!(schedule.play(&rig.server, faults), change);
        changed
    }
}

impl Change {
    fn random(rng: &mut Rng, clusters: &[String]) -> Self {
        let cluster = clusters[rng.usize(..clusters.len())].clone();
        let object = format!("o{}", rng.u32(0..OBJECTS));
        match rng.u8(0..32) {
            0..=12 => Self::Put { cluster, object },
            13..=15 => Self::Delete { cluster, object },
            16 => Self::DeleteChild { cluster, object },
            17..=18 => Self::Spoil { cluster, object },
            19..=20 => Self::Leave(cluster),
            21..=22 => Self::Join(cluster),
            23..=29 => Self::Greet { cluster, object },
            30 => Self::Ignore { cluster, object },
            _ => Self::NewToken(cluster),
        }
    }

    /// What is not there is neither deleted nor changed.
    fn happen(&self, rig: &Rig, value: usize) -> Result<()> {
        match self {
            Self::Put { cluster, object } => rig.put(cluster, object, &value.to_string())?,
            Self::Delete { cluster, object } => drop(rig.delete(cluster, object)),
            Self::DeleteChild { cluster, object } => drop(rig.delete(cluster, &child_of(object))),
            Self::Spoil { cluster, object } => {
                let spoilt = json!({"data": {"value": "spoilt"}});
                let (at, namespace) = rig.place(cluster);
                drop(at.merge("v1", "ConfigMap", namespace, &child_of(object), &spoilt));
            }
            Self::Greet { cluster, object } => {
                let at = rig.simulated(rig.whole(cluster));
                guest::greet(&at, object, &format!("n{value}"))?;
            }
            Self::Ignore { cluster, object } => {
                let at = rig.simulated(rig.whole(cluster));
                drop(at.delete("v1", "ConfigMap", guest::NAMESPACE, object));
            }
            Self::Leave(cluster) => drop(rig.provider.remove(&name(cluster))),
            Self::Join(cluster) => rig.join(cluster)?,
            Self::NewToken(cluster) => {
                let cluster = rig.whole(cluster);
                let (server, token) = (rig.server.url(cluster), format!("token-{value}"));
                let text = json!({"apiVersion": "v1", "kind": "Config",
                    "clusters": [{"name": cluster, "cluster": {"server": server}}],
                    "users": [{"name": cluster, "user": {"token": token}}],
                    "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}]});
                rig.add_from(cluster, &text.to_string(), &KubeconfigPolicy::file())?;
            }
        }
        Ok(())
    }
}
