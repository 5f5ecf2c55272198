//! Everything that one cluster holds, under its one lock: [`State`].

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cleanup::Work;
use crate::resource::{CollectionId, Registry, Resource};
use crate::status::ApiError;
use crate::store::{Object, Store, key};

/// One cluster's objects, kinds and pending clean-up.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    /// What garbage collection and namespace deletion have still to look at; no entry twice.
    pub(crate) work: VecDeque<Work>,
    pub(crate) queued: BTreeSet<Work>,
    /// The next cluster IP to try, as an offset into 10.96.0.0/16.
    pub(crate) next_ip: u32,
}

impl State {
    /// A cluster with the namespaces that every cluster has.
    pub(crate) fn new(history_limit: usize) -> Self {
        let mut state = Self {
            store: Store::new(history_limit),
            registry: Registry::default(),
            work: VecDeque::new(),
            queued: BTreeSet::new(),
            next_ip: 1,
        };
        for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
            state.seed_namespace(name);
        }
        state
    }

    fn seed_namespace(&mut self, name: &str) {
        let label = json!({"kubernetes.io/metadata.name": name});
        let metadata = json!({"name": name, "uid": new_uid(), "creationTimestamp": now(), "labels": label,
            "managedFields": [{"manager": "kube-apiserver", "operation": "Update", "apiVersion": "v1", "time": now(), "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}}]});
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata,
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        self.store.put(&namespaces(), namespace);
    }

    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<Resource>> {
        self.registry.find(group, version, plural).cloned()
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<&Arc<Object>> {
        self.store.get(&namespaces(), name)
    }

    /// # Errors
    /// 404 in the words of the resource.
    pub(crate) fn object(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<&Arc<Object>, ApiError> {
        let found = self
            .store
            .get(&resource.collection(), &key(namespace, name));
        found.ok_or_else(|| ApiError::not_found(resource.subject(), name))
    }

    /// Stores an object and queues what follows from it.
    pub(crate) fn commit(&mut self, id: &CollectionId, value: Value) -> Arc<Object> {
        let object = self.store.put(id, value);
        self.after_put(id, &object);
        if *id == crate::crd::collection() {
            self.crd_changed(&object);
        }
        object
    }

    /// Removes an object and queues what follows from it.
    pub(crate) fn discard(&mut self, id: &CollectionId, key: &str) -> Option<Arc<Object>> {
        let last = self.store.remove(id, key)?;
        self.after_remove(id, &last);
        if *id == crate::crd::collection() {
            self.crd_removed(&last);
        }
        Some(last)
    }
}

pub(crate) fn namespaces() -> CollectionId {
    CollectionId {
        group: "".into(),
        plural: "namespaces".into(),
    }
}

pub(crate) fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// RFC 3339 in whole seconds, as object metadata has it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
