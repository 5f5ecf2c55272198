//! The clusters of an inventory, and how they are brought in line with its objects. Entry point: [`Clusters::bring_in_line`].

use super::{Desired, Inventory, Related, Watches, Wish};
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::hub::HubObject;
use crate::name::ClusterName;
use crate::provider::Problem;
use crate::request::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};

/// The clusters of an inventory, by the keys of their objects. In boxes, because the nodes of such a map are half empty.
#[derive(Default)]
pub(super) struct Clusters(BTreeMap<ObjectKey, Box<Entry>>);

/// What is known of an object, and of its cluster.
#[derive(Default)]
struct Entry {
    /// The objects that the rest was computed from.
    object: Option<HubObject>,
    related: Vec<HubObject>,
    /// The last good cluster that the object has asked for.
    cluster: Option<ClusterSpec>,
    /// Whether this run has engaged that.
    is_engaged: bool,
    /// The name of the cluster that the object would stand for, while the object asks for none. An earlier provider of the same name may
    /// have engaged it.
    kept: Option<ClusterName>,
    /// Why the object, as it is, cannot be used.
    problem: Option<String>,
    /// Why the cluster is not engaged.
    refused: Option<EngageError>,
}

/// The objects of an inventory at one moment.
pub(super) struct View {
    /// Of the keys that were asked about, those that would be on a list if they existed.
    known: BTreeSet<ObjectKey>,
    objects: Vec<Seen>,
}

/// An object that stands for a cluster.
pub(super) struct Seen {
    object: HubObject,
    /// The objects related to it; `None` as long as they are not listed.
    related: Option<Vec<HubObject>>,
}

impl View {
    /// Reads the objects. `asked`: the keys whose absence matters.
    pub(super) fn of<'a>(
        inventory: &impl Inventory,
        watches: &Watches,
        asked: impl Iterator<Item = &'a ObjectKey>,
    ) -> Self {
        // In this order: what is read after a list was in, has that list.
        let known = asked
            .filter(|key| watches.clusters.knows(key))
            .cloned()
            .collect();
        let objects: Vec<(HubObject, bool)> = watches
            .clusters
            .objects()
            .into_iter()
            .map(|object| {
                let complete = watches.know_related(&object.key());
                (object, complete)
            })
            .collect();
        let related = inventory.related(&watches.related);
        Self::new(known, objects, related)
    }

    /// `objects`: each with whether its related objects are listed.
    pub(super) fn new(
        known: BTreeSet<ObjectKey>,
        objects: Vec<(HubObject, bool)>,
        mut related: Related,
    ) -> Self {
        let seen = |(object, complete): (HubObject, bool)| {
            let related = related.remove(&object.key()).unwrap_or_default();
            Seen {
                related: complete.then_some(related),
                object,
            }
        };
        Self {
            known,
            objects: objects.into_iter().map(seen).collect(),
        }
    }
}

impl Clusters {
    /// Forgets what an earlier run has engaged, which may have left since, but not which clusters were good last.
    pub(super) fn begin_run(&mut self) {
        for entry in self.0.values_mut() {
            entry.is_engaged = false;
        }
    }

    /// The keys of the objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.0.keys()
    }

    /// Problems of the objects and their clusters.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.0.iter().flat_map(|(key, entry)| entry.problems(key))
    }

    /// Disengages clusters that are to leave, then engages those that are new or changed. False if the manager is stopping.
    pub(super) fn bring_in_line(
        &mut self,
        inventory: &impl Inventory,
        view: View,
        engage: &dyn Engage,
    ) -> bool {
        let View { known, objects } = view;
        let present: BTreeSet<ObjectKey> = objects.iter().map(|seen| seen.object.key()).collect();
        self.0.retain(|key, entry| {
            let stays = present.contains(key) || !known.contains(key);
            if !stays {
                entry.leave(engage);
            }
            stays
        });
        for Seen { object, related } in objects {
            let Some(related) = related else {
                continue;
            };
            let entry = self.0.entry(object.key()).or_default();
            if !entry.is_of(&object, &related) {
                let desired = inventory.desired(&object, &related);
                entry.object = Some(object);
                entry.related = related;
                entry.want(desired, engage);
            }
        }
        // After every cluster that leaves: it may have had the name of one that comes.
        self.0.values_mut().all(|entry| entry.engage(engage))
    }
}

impl Entry {
    /// Whether it was computed from these objects as they are.
    fn is_of(&self, object: &HubObject, related: &[HubObject]) -> bool {
        let same = |one: &HubObject, other: &HubObject| one.is(other);
        self.object.as_ref().is_some_and(|one| one.is(object))
            && self.related.len() == related.len()
            && self.related.iter().zip(related).all(|(a, b)| same(a, b))
    }

    /// Takes over what the object asks for.
    fn want(&mut self, desired: Desired, engage: &dyn Engage) {
        let Desired { wish, mut problem } = desired;
        match wish {
            Wish::Engage(spec) => {
                self.kept = None;
                self.change(*spec, engage);
            }
            Wish::Refresh(spec) if self.cluster.is_some() => {
                problem = None;
                self.change(*spec, engage);
            }
            Wish::Refresh(spec) => self.kept = Some(spec.name),
            Wish::Keep(name) => {
                self.kept = name;
                if let Some(problem) = problem.as_mut().filter(|_| self.cluster.is_some()) {
                    problem.push_str("; its last good cluster stays");
                }
            }
            Wish::Leave => self.leave(engage),
        }
        self.problem = problem;
    }

    fn change(&mut self, spec: ClusterSpec, engage: &dyn Engage) {
        if let Some(before) = &self.cluster {
            if before.name != spec.name {
                self.leave(engage);
            } else if !before.same(&spec) {
                self.is_engaged = false;
            }
        }
        self.cluster = Some(spec);
    }

    fn leave(&mut self, engage: &dyn Engage) {
        self.is_engaged = false;
        self.refused = None;
        let cluster = self.cluster.take().map(|cluster| cluster.name);
        if let Some(name) = self.kept.take().or(cluster) {
            engage.disengage(&name);
        }
    }

    /// Engages its cluster, unless this run has done so. False if the manager is stopping.
    fn engage(&mut self, engage: &dyn Engage) -> bool {
        if let Some(name) = self.kept.as_ref().filter(|_| self.cluster.is_none()) {
            engage.keep(name);
        }
        let Some(cluster) = self.cluster.as_ref().filter(|_| !self.is_engaged) else {
            return true;
        };
        self.refused = engage.engage(cluster.clone()).err();
        self.is_engaged = self.refused.is_none();
        self.refused != Some(EngageError::Stopping)
    }

    fn problems(&self, key: &ObjectKey) -> impl Iterator<Item = Problem> {
        let unusable = self.problem.as_ref().map(|problem| Problem {
            subject: key.to_string(),
            message: problem.clone(),
        });
        let name = self.cluster.as_ref().map(|cluster| &cluster.name);
        let refused = name.zip(self.refused.as_ref());
        let refused = refused.map(|(name, error)| Problem {
            subject: name.to_string(),
            message: error.to_string(),
        });
        unusable.into_iter().chain(refused)
    }
}
