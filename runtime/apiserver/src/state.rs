//! Everything that one cluster holds, under its one lock: [`State`].

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::crd;
use crate::place::Place;
use crate::registry::Registry;
use crate::resource::{CollectionId, Resource};
use crate::stamp;
use crate::status::ApiError;
use crate::store::{Object, Store, key};

mod copied;
mod work;

pub(crate) use copied::{Copied, Selection, Wanted};
pub(crate) use work::{Work, WorkQueue};

/// The cluster IP of the Service `default/kubernetes`.
const OWN_IP: u32 = 1;

/// One cluster's objects, kinds and pending clean-up.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) work: WorkQueue,
    /// The cluster IP that was given last, as an offset into 10.96.0.0/16.
    pub(crate) next_ip: u32,
    /// Whether kube-controller-manager's part of the clean-up is done.
    pub(crate) controllers: bool,
    /// Where it stands, if it is a workspace of kcp.
    pub(crate) place: Option<Place>,
    /// How far its clock is ahead of the machine's.
    pub(crate) ahead: SignedDuration,
    /// What it holds of another cluster, if it is a fork of one.
    pub(crate) copied: Option<Copied>,
}

impl State {
    /// A cluster with the namespaces and the Service that every cluster has.
    pub(crate) fn new(history_limit: usize) -> Self {
        let mut state = Self::bare(Store::new(history_limit), Registry::default());
        for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
            state.seed_namespace(name);
        }
        state.seed_service();
        state
    }

    /// A workspace of kcp with the namespaces that every workspace has.
    pub(crate) fn workspace(store: Store, registry: Registry, place: Place) -> Self {
        let mut state = Self::bare(store, registry);
        state.place = Some(place);
        for name in ["default", "kube-system"] {
            state.seed_namespace(name);
        }
        state
    }

    /// A cluster that holds nothing.
    pub(crate) fn bare(store: Store, registry: Registry) -> Self {
        Self {
            store,
            registry,
            work: WorkQueue::default(),
            next_ip: OWN_IP,
            controllers: true,
            place: None,
            ahead: SignedDuration::ZERO,
            copied: None,
        }
    }

    /// A fork of a cluster, which holds nothing of it yet.
    pub(crate) fn fork(history_limit: usize) -> Self {
        Self {
            copied: Some(Copied::default()),
            ..Self::bare(Store::new(history_limit), Registry::on([]))
        }
    }

    /// The time of its clock, for what objects say of when they were made, changed and deleted.
    pub(crate) fn now(&self) -> String {
        stamp::ahead(self.ahead)
    }

    /// The time `seconds` from now, by its clock.
    pub(crate) fn later(&self, seconds: i64) -> String {
        stamp::ahead(
            self.ahead
                .saturating_add(SignedDuration::from_secs(seconds)),
        )
    }

    /// The same cluster without a past; changes go on from `version`.
    pub(crate) fn backup(&self, version: u64) -> Self {
        Self {
            store: self.store.backup(version),
            registry: self.registry.clone(),
            work: self.work.clone(),
            next_ip: self.next_ip,
            controllers: self.controllers,
            place: self.place.clone(),
            ahead: self.ahead,
            copied: self.copied.clone(),
        }
    }

    fn seed_namespace(&mut self, name: &str) {
        let now = stamp::now();
        let label = json!({"kubernetes.io/metadata.name": name});
        let metadata = json!({"name": name, "uid": stamp::uid(), "creationTimestamp": now, "labels": label,
            "managedFields": [{"manager": "kube-apiserver", "operation": "Update", "apiVersion": "v1", "time": now, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}}]});
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata,
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let mut namespace = namespace;
        if let Some(place) = &self.place {
            place.mark(&namespaces(), &mut namespace);
        }
        self.store.put(&namespaces(), namespace);
    }

    /// The Service of the API server itself, with the first address.
    fn seed_service(&mut self) {
        let now = stamp::now();
        let address = format!("10.96.0.{OWN_IP}");
        let port =
            json!({".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
            "f:spec": {"f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:ipFamilyPolicy": {}, "f:sessionAffinity": {}, "f:type": {},
                "f:ports": {".": {}, "k:{\"port\":443,\"protocol\":\"TCP\"}": port}},
        });
        let metadata = json!({"name": "kubernetes", "namespace": "default", "uid": stamp::uid(), "creationTimestamp": now,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
            "managedFields": [{"manager": "kube-apiserver", "operation": "Update", "apiVersion": "v1", "time": now,
                "fieldsType": "FieldsV1", "fieldsV1": fields}]});
        let spec = json!({"ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            "clusterIP": address, "clusterIPs": [address], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"});
        let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec,
            "status": {"loadBalancer": {}}});
        let services = CollectionId {
            plural: "services".into(),
            ..namespaces()
        };
        self.store.put(&services, service);
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

    /// Stores an object, queues what follows from it and, where it is a CRD, serves what it defines.
    pub(crate) fn commit(&mut self, id: &CollectionId, mut value: Value) -> Arc<Object> {
        if let Some(place) = &self.place {
            place.mark(id, &mut value);
        }
        let object = self.store.put(id, value);
        self.after_put(id, &object);
        if *id == crd::collection() {
            self.crd_changed(&object);
        }
        object
    }

    /// Removes an object, queues what follows from it and, where it is a CRD, serves its kind no longer.
    pub(crate) fn discard(&mut self, id: &CollectionId, key: &str) -> Option<Arc<Object>> {
        let last = self.store.remove(id, key)?;
        if let Some(copied) = &mut self.copied {
            // Whatever the other cluster has there does not come back.
            let (namespace, name) = (&last.head.namespace, &last.head.name);
            copied.complete(id, Wanted::One(namespace.to_string(), name.to_string()));
        }
        self.after_remove(id, &last);
        if *id == crd::collection() {
            let crd = last.value();
            crd::set_unserved(&mut self.registry, &crd);
            self.store.end_watches(&crd::defined(&crd));
        }
        Some(last)
    }

    /// Serves what a stored CRD defines and says so in its status.
    fn crd_changed(&mut self, object: &Object) {
        if object.head.deleting {
            self.work.push(Work::Crd(object.head.name.clone()));
            return;
        }
        let crd = object.value();
        if crd::changes_served(&self.registry, &crd) {
            self.store.end_watches(&crd::defined(&crd));
        }
        crd::set_served(&mut self.registry, &crd);
        let left_out = crd::left_out(&self.registry, &crd);
        if let Some(line) = left_out.filter(|line| crd::is_news(line)) {
            tracing::warn!("{line}");
        }
        if let Some(established) = crd::established(&crd) {
            self.commit(&crd::collection(), established);
        }
    }
}

pub(crate) fn namespaces() -> CollectionId {
    CollectionId {
        group: "".into(),
        plural: "namespaces".into(),
        identity: "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use std::time::Duration;

    #[tokio::test]
    async fn objects_have_the_times_of_a_clock_that_was_moved() {
        let server = Server::builder().cluster("a").bind("127.0.0.1:0").await;
        let cluster = server.unwrap().cluster("a").unwrap();
        let object = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default", "finalizers": ["x.dev/held"]}})
        };
        let time = |object: &Value, field: &str| -> jiff::Timestamp {
            let text = object["metadata"][field].as_str().unwrap_or_default();
            text.parse().unwrap()
        };
        let before = cluster.create(object("before")).unwrap();
        cluster.advance(Duration::from_secs(3600));
        let after = cluster.create(object("after")).unwrap();
        let created = "creationTimestamp";
        let apart = time(&after, created).duration_since(time(&before, created));
        assert!((3600..3660).contains(&apart.as_secs()), "{apart:?}");
        let there = ("v1", "ConfigMap", "default", "before");
        cluster.delete(there.0, there.1, there.2, there.3).unwrap();
        let held = cluster.get(there.0, there.1, there.2, there.3).unwrap();
        let deleted = time(&held.unwrap(), "deletionTimestamp");
        assert!(deleted >= time(&after, created));
    }
}
