//! The Leases of an API server. Entry point: [`Server::serve`].

use crate::shard::assignment::Assignment;
use crate::shard::call::{Outcome, Wire};
use crate::shard::record::{ASSIGNMENT, LeaseObject, Listing};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the sharding.
pub(crate) const NAME: &str = "fleet";

#[derive(Default)]
pub(crate) struct Server {
    objects: BTreeMap<String, Arc<LeaseObject>>,
    /// What a list answers; `None`: something was written since.
    listing: Option<Listing>,
    version: u64,
    /// Writes of the assignment.
    pub(crate) assigned: u64,
    /// Shards that got a holder, or another one.
    pub(crate) moved: u64,
}

impl Server {
    /// What an API server does, optimistic concurrency included.
    pub(crate) fn serve(&mut self, wire: &Wire) -> Outcome {
        match wire {
            Wire::List => Outcome::List(self.listing().clone()),
            Wire::Create(body) => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                if self.objects.contains_key(&name) {
                    return Outcome::Conflict;
                }
                self.store(&name, object, None)
            }
            Wire::Replace(name, body) => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let Some(there) = self.objects.get(name) else {
                    return Outcome::Absent;
                };
                if object["metadata"]["resourceVersion"] != *there.version {
                    return Outcome::Conflict;
                }
                let uid = there.uid.clone();
                self.store(name, object, Some(uid))
            }
            Wire::Delete(name, version) => match self.objects.get(name) {
                None => Outcome::Absent,
                Some(there) if there.version != *version => Outcome::Conflict,
                Some(_) => {
                    self.delete(name);
                    Outcome::Deleted
                }
            },
        }
    }

    fn store(&mut self, name: &str, mut object: Value, uid: Option<Arc<str>>) -> Outcome {
        self.version += 1;
        let uid = uid.unwrap_or_else(|| format!("uid-{}", self.version).into());
        object["metadata"]["uid"] = (*uid).into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let lease = LeaseObject::parse(object.to_string().as_bytes()).unwrap();
        let before = self.assignment();
        self.objects.insert(name.to_owned(), lease.clone());
        self.listing = None;
        if name == NAME {
            self.assigned += 1;
            self.count(before);
        }
        Outcome::Written(lease)
    }

    fn count(&mut self, before: Option<Assignment>) {
        let (Some(before), Some(after)) = (before, self.assignment()) else {
            return;
        };
        for (incarnation, share) in after.shares() {
            let got = share.holds - before.share(incarnation).holds;
            self.moved += u64::from(got.len());
        }
    }

    /// Deletes an object, also by hand.
    pub(crate) fn delete(&mut self, name: &str) {
        self.objects.remove(name);
        self.listing = None;
    }

    /// Replaces the text of the assignment by hand.
    pub(crate) fn damage(&mut self, text: &str) {
        let lease = self.objects[NAME].clone();
        let body = serde_json::json!({
            "kind": "Lease",
            "metadata": {"name": NAME, "annotations": {ASSIGNMENT: text}},
        });
        self.store(NAME, body, Some(lease.uid.clone()));
    }

    fn listing(&mut self) -> &Listing {
        let objects = &self.objects;
        self.listing.get_or_insert_with(|| {
            let mut listing = Listing::default();
            for lease in objects.values() {
                listing.add(lease.clone(), NAME);
            }
            listing
        })
    }

    /// The assignment, if it can be read.
    pub(crate) fn assignment(&mut self) -> Option<Assignment> {
        let assigned = self.listing().assignment.as_ref()?;
        assigned.assignment.clone().ok()
    }

    /// The incarnation that holds a shard.
    pub(crate) fn holder(&mut self, shard: u16) -> Option<Arc<str>> {
        let assigned = self.listing().assignment.as_ref()?;
        let assignment = assigned.assignment.as_ref().ok()?;
        assignment.holder(shard).cloned()
    }

    /// How many Leases of members there are.
    pub(crate) fn members(&self) -> usize {
        self.objects.keys().filter(|name| *name != NAME).count()
    }
}
