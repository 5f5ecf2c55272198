//! What kube-controller-manager does behind an API server: garbage collection by owner references, here, and the end of
//! namespaces and CRDs, in `contents`.
//!
//! Writes only queue [`Work`]; a task per cluster calls [`State::clean_up_one`] until nothing is left.

use std::sync::Arc;

use serde_json::Value;

use crate::resource::{CollectionId, Resource, group_version};
use crate::state::{State, Work};
use crate::store::object::Owner;
use crate::store::{Object, Place};
use crate::write::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};

mod contents;

impl State {
    /// Looks at one thing; returns whether there was one.
    pub(crate) fn clean_up_one(&mut self) -> bool {
        let Some(work) = self.work.pop() else {
            return false;
        };
        match work {
            // An API server ends its own definitions.
            Work::Crd(name) => self.empty_crd(&name),
            _ if !self.controllers => {}
            Work::Dependent(id, key) => self.check_owners(&id, &key),
            Work::Owner(id, key) => self.release_owner(&id, &key),
            Work::Namespace(name) => self.empty_namespace(&name),
        }
        true
    }

    /// The owner that a reference means, if it lives.
    fn owner_of(&self, owner: &Owner, namespace: &str) -> Option<&Arc<Object>> {
        let (id, key) = self.place_of(owner, namespace)?;
        self.store
            .get(&id, &key)
            .filter(|found| found.head.uid == owner.uid)
    }

    /// Deletes a dependent none of whose owners lives; drops references to owners that do not.
    fn check_owners(&mut self, id: &CollectionId, key: &str) {
        let Some(object) = self.store.get(id, key).cloned() else {
            return;
        };
        let Some(resource) = self.registry.of_collection(id).cloned() else {
            return;
        };
        if object.head.deleting || object.head.owners.is_empty() {
            return;
        }
        let namespace = &object.head.namespace;
        // A kind that is not served may come back, so its objects may still exist.
        let unknown = |owner: &Owner| {
            let (group, version) = group_version(&owner.api_version);
            self.registry
                .find_kind(group, version, &owner.kind)
                .is_none()
        };
        let elsewhere = |owner: &Owner| {
            let place = self.place_of(owner, namespace);
            place.is_some_and(|(id, key)| self.may_live_elsewhere(&id, &key))
        };
        if object.head.owners.iter().any(unknown) || object.head.owners.iter().any(elsewhere) {
            return;
        }
        let (mut solid, mut waiting, mut dangling) = (Vec::new(), Vec::new(), Vec::new());
        for owner in &object.head.owners {
            match self.owner_of(owner, namespace) {
                None => dangling.push(owner.uid.clone()),
                Some(found) if found.head.deleting && has_finalizer(&found.value(), FOREGROUND) => {
                    waiting.push(owner.uid.clone())
                }
                Some(_) => solid.push(owner.uid.clone()),
            }
        }
        if !solid.is_empty() {
            if !dangling.is_empty() || !waiting.is_empty() {
                let gone: Vec<Box<str>> = dangling.into_iter().chain(waiting).collect();
                self.drop_owners(&resource, &object, &gone);
            }
            return;
        }
        let has_dependents = !self.store.dependents(&object.head.uid).is_empty();
        let propagation = if !waiting.is_empty() && has_dependents {
            Some(Propagation::Foreground)
        } else {
            let value = object.value();
            (!has_finalizer(&value, ORPHAN) && !has_finalizer(&value, FOREGROUND))
                .then_some(Propagation::Background)
        };
        let options = DeleteOptions {
            propagation,
            uid: Some(object.head.uid.to_string()),
            ..DeleteOptions::default()
        };
        self.delete_quietly(
            &resource,
            &object.head.namespace,
            &object.head.name,
            &options,
        );
    }

    fn drop_owners(&mut self, resource: &Arc<Resource>, object: &Arc<Object>, gone: &[Box<str>]) {
        let dropped = self.amend(resource, object, |value| {
            let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() else {
                return;
            };
            owners.retain(|owner| !gone.iter().any(|uid| owner["uid"] == **uid));
            if owners.is_empty()
                && let Some(metadata) = value["metadata"].as_object_mut()
            {
                metadata.remove("ownerReferences");
            }
        });
        if let Err(error) = dropped {
            tracing::debug!(%error, "an owner reference could not be dropped");
        }
    }

    /// An object under deletion with one of the garbage collector's finalizers.
    fn release_owner(&mut self, id: &CollectionId, key: &str) {
        let Some(object) = self
            .store
            .get(id, key)
            .filter(|object| object.head.deleting)
            .cloned()
        else {
            return;
        };
        let Some(resource) = self.registry.of_collection(id).cloned() else {
            return;
        };
        let value = object.value();
        let dependents = self.store.dependents(&object.head.uid);
        if has_finalizer(&value, ORPHAN) {
            for (id, key) in dependents {
                let found = self
                    .store
                    .get(&id, &key)
                    .cloned()
                    .zip(self.registry.of_collection(&id).cloned());
                if let Some((dependent, resource)) = found {
                    self.drop_owners(
                        &resource,
                        &dependent,
                        std::slice::from_ref(&object.head.uid),
                    );
                }
            }
            self.drop_finalizer(&resource, id, key, ORPHAN);
        } else if has_finalizer(&value, FOREGROUND) {
            let blocks = |(id, key): &Place| {
                let owners = self.store.get(id, key).map(|dependent| {
                    dependent
                        .head
                        .owners
                        .iter()
                        .any(|owner| owner.uid == object.head.uid && owner.blocks)
                });
                owners.unwrap_or_default()
            };
            let blocked = dependents.iter().any(blocks);
            for (id, key) in dependents {
                self.work.push(Work::Dependent(id, key));
            }
            if !blocked {
                self.drop_finalizer(&resource, id, key, FOREGROUND);
            }
        }
    }

    fn drop_finalizer(
        &mut self,
        resource: &Arc<Resource>,
        id: &CollectionId,
        key: &str,
        finalizer: &str,
    ) {
        let Some(object) = self.store.get(id, key).cloned() else {
            return;
        };
        let dropped = self.amend(resource, &object, |value| {
            let Some(finalizers) = value["metadata"]["finalizers"].as_array_mut() else {
                return;
            };
            finalizers.retain(|one| one != finalizer);
            if finalizers.is_empty()
                && let Some(metadata) = value["metadata"].as_object_mut()
            {
                metadata.remove("finalizers");
            }
        });
        if let Err(error) = dropped {
            tracing::debug!(%error, finalizer, "a finalizer could not be dropped");
        }
    }
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| list.iter().any(|one| one == finalizer))
}
