//! What ends when its contents have: namespaces and CRDs.

use std::sync::Arc;

use serde_json::json;

use crate::crd;
use crate::part::Part;
use crate::resource::CollectionId;
use crate::state::State;
use crate::store::Object;
use crate::write::WriteOptions;
use crate::write::delete::{DeleteOptions, Propagation};

impl State {
    /// Deletes everything in a dying namespace, then the namespace.
    pub(super) fn empty_namespace(&mut self, name: &str) {
        let Some(namespace) = self
            .namespace(name)
            .filter(|namespace| namespace.head.deleting)
            .cloned()
        else {
            return;
        };
        let prefix = format!("{name}/");
        let collections: Vec<CollectionId> = self.store.collections().cloned().collect();
        let mut left = false;
        for id in collections {
            let Some(resource) = self
                .registry
                .of_collection(&id)
                .filter(|resource| resource.namespaced)
                .cloned()
            else {
                continue;
            };
            let objects: Vec<Arc<Object>> = self.store.range(&id, &prefix).cloned().collect();
            for object in objects.iter().filter(|object| !object.head.deleting) {
                let options = DeleteOptions {
                    propagation: Some(Propagation::Background),
                    grace: Some(0),
                    ..DeleteOptions::default()
                };
                self.delete_quietly(&resource, name, &object.head.name, &options);
            }
            left |= self.store.range(&id, &prefix).next().is_some();
        }
        if left {
            return;
        }
        let Some(resource) = self.resource("", "v1", "namespaces") else {
            return;
        };
        let mut finalized = namespace.value();
        finalized["spec"] = json!({});
        let options = WriteOptions {
            manager: "kube-controller-manager".into(),
            ..WriteOptions::default()
        };
        let done = self.replace(
            &resource,
            Part::Finalize,
            &namespace,
            finalized,
            None,
            &options,
            Vec::new(),
        );
        if let Err(error) = done {
            tracing::debug!(%error, name, "a namespace could not be let go");
        }
    }

    /// Deletes what is left of a dying CRD's objects, then lets the CRD go.
    pub(super) fn empty_crd(&mut self, name: &str) {
        let Some(live) = self
            .store
            .get(&crd::collection(), name)
            .filter(|live| live.head.deleting)
            .cloned()
        else {
            return;
        };
        let id = crd::defined(&live.value());
        let Some(resource) = self.registry.of_collection(&id).cloned() else {
            return;
        };
        let objects: Vec<Arc<Object>> = self
            .store
            .range(&id, "")
            .filter(|object| !object.head.deleting)
            .cloned()
            .collect();
        for object in objects {
            self.delete_quietly(
                &resource,
                &object.head.namespace,
                &object.head.name,
                &DeleteOptions::default(),
            );
        }
        if self.store.range(&id, "").next().is_some() {
            return;
        }
        let Some(crds) = self.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return;
        };
        if let Err(error) = self.amend(&crds, &live, crd::let_go) {
            tracing::debug!(%error, name, "a CRD could not be let go");
        }
    }
}
