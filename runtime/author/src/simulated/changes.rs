//! Changes of an in-memory fleet while it runs: clusters join, leave, are labelled, fail and heal, and the clock moves. Entry point:
//! [`Simulated::join`].
//!
//! A cluster that leaves is served on, so that what is left in it can be looked at, and has its objects when it joins again.

use super::{Simulated, config, described, fill};
use anyhow::{Context, Result, bail};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use windlass_apiserver::{RequestFault, Rule, RuleId};
use windlass_fleet::ClusterName;
use windlass_fleet::engage::ClusterSpec;

/// The answer of a cluster that answers errors: of a proxy that does not reach its server.
const BAD_GATEWAY: u16 = 502;

/// Labels and properties of a cluster, besides those in documents of its seed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Description {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) properties: BTreeMap<String, String>,
}

impl Description {
    /// Those in documents of a cluster's seed.
    fn of(name: &str, objects: &[Json]) -> Result<Self> {
        Ok(Self {
            labels: described(name, objects, "labels", |it| &it["metadata"]["labels"])?,
            properties: described(name, objects, "properties", |it| &it["properties"])?,
        })
    }
}

/// How a cluster fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// Connections break, and none is made.
    Unreachable,
    /// Watches break, and every request is answered with an error.
    Errors,
}

/// The clusters of the fleet.
#[derive(Default)]
pub(super) struct Members {
    there: BTreeMap<String, Member>,
    gone: BTreeSet<String>,
    /// How far the clocks of all clusters are ahead.
    ahead: Duration,
}

struct Member {
    spec: ClusterSpec,
    /// The number of changes that filled it.
    filled: u64,
    failed: Option<Failed>,
}

enum Failed {
    Unreachable,
    Errors(RuleId),
}

/// Which clusters are to be engaged, and how.
#[derive(Debug, Clone, Default)]
pub struct Membership {
    /// Those of the fleet, without the local one and workspaces, each with its labels.
    pub there: BTreeMap<String, BTreeMap<String, String>>,
    /// Those that have left.
    pub gone: BTreeSet<String>,
    /// Of those that are there, the ones that fail.
    pub failed: BTreeSet<String>,
}

impl Simulated {
    /// Adds a cluster, or one again that has left, with these objects. Documents of kind `Cluster` among them describe it.
    ///
    /// # Errors
    /// When it is there already, the fleet has no Provider for it, or it refuses an object.
    pub(crate) fn join(
        &self,
        name: &str,
        objects: &[Json],
        description: Description,
    ) -> Result<()> {
        if self.provider.is_none() {
            bail!("no cluster can join: the documents have no Provider of clusters in memory");
        }
        if self.members.lock().there.contains_key(name) {
            bail!("cluster {name} is in the fleet already");
        }
        self.admit(name, objects, description)?;
        self.write_kubeconfig()
    }

    pub(super) fn admit(
        &self,
        name: &str,
        objects: &[Json],
        description: Description,
    ) -> Result<()> {
        let served = self.server.add_cluster(name);
        let Description {
            mut labels,
            mut properties,
        } = Description::of(name, objects)?;
        labels.extend(description.labels);
        properties.extend(description.properties);
        let mut members = self.members.lock();
        // One that has left has been moved with the others.
        if !members.gone.remove(name) {
            served.advance(members.ahead);
        }
        let filled = fill(&self.server, name, objects)?;
        let spec = ClusterSpec {
            labels: labels.into(),
            properties: properties.into(),
            ..ClusterSpec::new(ClusterName::new(name)?, config(&self.server, name)?)
        };
        self.stand_ins.put(spec.clone());
        let member = Member {
            spec,
            filled,
            failed: None,
        };
        members.there.insert(name.to_owned(), member);
        Ok(())
    }

    /// Takes a cluster out of the fleet.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn leave(&self, name: &str) -> Result<()> {
        self.heal(name)?;
        let mut members = self.members.lock();
        members.there.remove(name);
        members.gone.insert(name.to_owned());
        self.stand_ins.remove(&ClusterName::new(name)?);
        Ok(())
    }

    /// Changes labels of a cluster. Without a value a label is removed.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn label(
        &self,
        name: &str,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<()> {
        let mut members = self.members.lock();
        let spec = &mut found(&mut members, name)?.spec;
        let mut labels = spec.labels.to_map();
        for (key, value) in changes {
            match value {
                Some(value) => labels.insert(key.clone(), value.clone()),
                None => labels.remove(key),
            };
        }
        spec.labels = labels.into();
        self.stand_ins.put(spec.clone());
        Ok(())
    }

    /// Gives a cluster the labels and properties that documents of its seed have now.
    ///
    /// # Errors
    /// When it is not there, or one of them is not a text.
    pub(super) fn describe(&self, name: &str, objects: &[Json]) -> Result<()> {
        let Description { labels, properties } = Description::of(name, objects)?;
        let mut members = self.members.lock();
        let spec = &mut found(&mut members, name)?.spec;
        (spec.labels, spec.properties) = (labels.into(), properties.into());
        self.stand_ins.put(spec.clone());
        Ok(())
    }

    /// Makes a cluster fail until it [heals](Self::heal).
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn fail(&self, name: &str, failure: Failure) -> Result<()> {
        self.heal(name)?;
        let mut members = self.members.lock();
        let member = found(&mut members, name)?;
        let Some(served) = self.server.cluster(name) else {
            bail!("cluster {name} is not served");
        };
        member.failed = Some(match failure {
            Failure::Unreachable => {
                served.down(true);
                Failed::Unreachable
            }
            Failure::Errors => {
                let fault = RequestFault::Status {
                    code: BAD_GATEWAY,
                    retry_after: None,
                };
                let rule = self.world.faults.add(Rule::new(fault).cluster(name));
                served.cut_watches();
                Failed::Errors(rule)
            }
        });
        Ok(())
    }

    /// Ends the failure of a cluster, if it fails.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn heal(&self, name: &str) -> Result<()> {
        let mut members = self.members.lock();
        let failed = found(&mut members, name)?.failed.take();
        match (failed, self.server.cluster(name)) {
            (Some(Failed::Unreachable), Some(served)) => served.down(false),
            (Some(Failed::Errors(rule)), _) => drop(self.world.faults.remove(rule)),
            _ => {}
        }
        Ok(())
    }

    /// Moves the clocks of all clusters forward, also of those that join later.
    pub fn advance(&self, by: Duration) {
        let mut members = self.members.lock();
        members.ahead = members.ahead.saturating_add(by);
        let names = self.server.clusters().into_iter();
        for served in names.filter_map(|name| self.server.cluster(&name)) {
            served.advance(by);
        }
    }

    /// Which clusters are to be engaged now.
    pub fn membership(&self) -> Membership {
        let members = self.members.lock();
        let there = members.there.iter();
        let labels = |member: &Member| member.spec.labels.to_map();
        let failed = there.clone().filter(|(_, member)| member.failed.is_some());
        Membership {
            failed: failed.map(|(name, _)| name.clone()).collect(),
            there: there
                .map(|(name, member)| (name.clone(), labels(member)))
                .collect(),
            gone: members.gone.clone(),
        }
    }

    /// The names of the fleet's clusters, without the local one and workspaces.
    pub fn names(&self) -> BTreeSet<String> {
        self.members.lock().there.keys().cloned().collect()
    }

    /// The number of changes in a cluster since it was filled.
    pub fn changes(&self, name: &str) -> Option<u64> {
        let filled = self.members.lock().there.get(name)?.filled;
        Some(self.server.cluster(name)?.version().saturating_sub(filled))
    }
}

fn found<'a>(members: &'a mut Members, name: &str) -> Result<&'a mut Member> {
    let there: Vec<String> = members.there.keys().cloned().collect();
    let member = members.there.get_mut(name);
    member.with_context(|| {
        let there = there.join(", ");
        format!("the fleet has no cluster {name}: it has {there}")
    })
}
