//! One cluster of a test. Entry point: [`TestCluster`].

use super::Verb;
use super::difference::difference;
use super::fleet::TestFleet;
use crate::cluster::Cluster;
use crate::error::{ApiError, Result, settled};
use crate::raw::Handle;
use crate::resource::{Object, Resource, Typed, encode};
use crate::types::{Action, Event, GroupVersionKind, ObjectKey, Request};
use crate::wire;
use crate::{Mapper, Reconciler};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A cluster in memory. Clones are the same cluster.
///
/// The methods of this type act for the test: they are not counted as calls of the guest, and [`Self::fail_next`] does not fail them.
#[derive(Clone)]
pub struct TestCluster {
    name: Rc<str>,
    pub(super) fleet: TestFleet,
    pub(super) state: Rc<RefCell<State>>,
}

/// How an API server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFailure {
    /// No connection is made.
    Unreachable,
    /// Every request is answered with an error.
    Errors,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) events: Vec<Event>,
    /// Calls that the guest made, in order.
    pub(super) calls: Vec<Verb>,
    /// The errors of the next calls, in order; each is used once.
    pub(super) failures: Vec<(Verb, ApiError)>,
}

impl fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCluster")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl TestCluster {
    pub(super) fn new(fleet: TestFleet, name: &str) -> Self {
        Self {
            name: name.into(),
            fleet,
            state: Rc::default(),
        }
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls the guest's `reconcile` for an object of this cluster.
    ///
    /// # Errors
    /// The guest's.
    pub fn reconcile<G: Reconciler>(&self, key: &ObjectKey) -> Result<Action> {
        let request = Request {
            cluster: self.name.to_string(),
            key: key.clone(),
        };
        let run = || settled(G::reconcile(&request, &self.client()));
        let result = self.fleet.enter(run);
        self.fleet.end_run();
        result
    }

    /// Calls the guest's `reconcile` and returns the number of its writes in this cluster. A second call should return 0.
    ///
    /// # Errors
    /// The guest's.
    pub fn reconciled_writes<G: Reconciler>(&self, key: &ObjectKey) -> Result<usize> {
        let before = self.writes();
        self.reconcile::<G>(key)?;
        Ok(self.writes() - before)
    }

    /// Calls the guest's mapper for objects of this cluster.
    ///
    /// # Errors
    /// The guest's.
    pub fn map<G: Mapper>(
        &self,
        kind: &GroupVersionKind,
        objects: &[Object],
    ) -> Result<Vec<Request>> {
        let requests = self.fleet.enter(|| G::map(&self.client(), kind, objects));
        self.fleet.end_run();
        requests
    }

    /// The guest's client, for a test of a part of a guest. Use it inside [`TestFleet::enter`] if that part logs,
    /// reads its config or opens clusters.
    #[must_use]
    pub fn client(&self) -> Cluster {
        Cluster::from_handle(Handle::Memory(self.clone()))
    }

    /// Stores an object as another writer would, by a server-side apply: creates it, or replaces the fields that it names. Its namespace
    /// is made if it lacks, and a kind that is not served is defined without a schema. With a `deletionTimestamp` it is deleted then,
    /// which finalizers hold up.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn put(&self, object: Value) {
        let object = object.to_string();
        self.fleet
            .test(&json!({"Put": {"cluster": self.name(), "object": object}}));
    }

    /// As [`Self::put`], for an object with a type.
    ///
    /// # Panics
    /// When it cannot be written as JSON.
    pub fn put_object<T: Resource>(&self, object: &T) {
        self.put(value_of(object));
    }

    /// An object as it is stored now, if there is one.
    ///
    /// # Panics
    /// When it is not of this type.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test's own mistake")]
    pub fn object<T: Typed>(&self, key: &ObjectKey) -> Option<T> {
        let value = self.asked("Stored", &T::KIND.into(), key, &Value::Null);
        if value.is_null() {
            return None;
        }
        Some(serde_json::from_value(value).expect("the stored object is of this type"))
    }

    /// Every object that the test and the guest have made, by kind, namespace and name.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        match self
            .fleet
            .test(&json!({"Objects": {"cluster": self.name()}}))
        {
            Value::Array(objects) => objects.into_iter().map(Object).collect(),
            _ => Vec::new(),
        }
    }

    /// Changes an object as another writer would: stores what differs after the change, removes what is no longer there, and
    /// keeps all other fields.
    ///
    /// # Panics
    /// When there is none, it is not of this type, or the change gives it another name.
    #[expect(clippy::expect_used, reason = "a test's own mistake")]
    pub fn edit<T: Typed>(&self, key: &ObjectKey, change: impl FnOnce(&mut T)) {
        let mut object = self.object::<T>(key).expect("there is an object to edit");
        let (before, named) = (value_of(&object), object.key());
        change(&mut object);
        assert_eq!(object.key(), named, "an edit keeps the name");
        let patch = difference(&before, &value_of(&object));
        self.asked("Merge", &T::KIND.into(), key, &patch);
    }

    /// Deletes an object as another writer would, and the objects that had no other owner.
    pub fn remove<T: Typed>(&self, key: &ObjectKey) {
        self.remove_object(&T::KIND.into(), key);
    }

    /// As [`Self::remove`], for a kind without a type.
    pub fn remove_object(&self, kind: &GroupVersionKind, key: &ObjectKey) {
        self.asked("Remove", kind, key, &Value::Null);
    }

    /// Does something with an object, as another writer.
    fn asked(&self, what: &str, kind: &GroupVersionKind, key: &ObjectKey, patch: &Value) -> Value {
        let mut asked = json!({
            "cluster": self.name(), "kind": wire::kind(kind), "namespace": key.namespace, "name": key.name,
        });
        if !patch.is_null() {
            asked["patch"] = patch.clone();
        }
        self.fleet.test(&json!({ what: asked }))
    }

    /// Lets the next call of this verb fail. Several errors are used in order, one for each call.
    pub fn fail_next(&self, verb: Verb, error: ApiError) {
        self.state.borrow_mut().failures.push((verb, error));
    }

    /// Gives the cluster a label, for `fleet::clusters_labelled`.
    pub fn label(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        self.fleet
            .test(&json!({"Cluster": {"name": self.name(), "labels": {key: value}}}));
    }

    /// Takes a label from the cluster.
    pub fn unlabel(&self, key: &str) {
        self.change("Label", json!({"labels": {key: null}}));
    }

    /// Takes the cluster out of the fleet: a guest neither sees nor opens it. It keeps its objects, which this still answers;
    /// [`TestFleet::cluster`] lets it join again.
    pub fn leave(&self) {
        self.change("Leave", json!({}));
        self.fleet.forget(self.name());
    }

    /// Makes the cluster's API server fail, until it [heals](Self::heal). Guests get the errors of their calls, and see that one
    /// that is not reached is not ready. The test itself still reads and writes.
    pub fn fail(&self, failure: ServerFailure) {
        let failure = match failure {
            ServerFailure::Unreachable => "Unreachable",
            ServerFailure::Errors => "Errors",
        };
        self.change("Fail", json!({ "failure": failure }));
    }

    /// Ends the failure of the cluster's API server.
    pub fn heal(&self) {
        self.change("Fail", json!({ "failure": null }));
    }

    fn change(&self, what: &str, mut asked: Value) {
        asked["cluster"] = self.name().into();
        self.fleet.test(&json!({ what: asked }));
    }

    /// Events that the guest recorded here.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.state.borrow().events.clone()
    }

    /// Calls that the guest made here, failed ones too.
    #[must_use]
    pub fn calls(&self) -> Vec<Verb> {
        self.state.borrow().calls.clone()
    }

    /// How many of the calls were writes.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.state
            .borrow()
            .calls
            .iter()
            .filter(|verb| verb.is_write())
            .count()
    }
}

#[expect(clippy::expect_used, reason = "a test's own mistake")]
fn value_of<T: Resource>(object: &T) -> Value {
    let text = encode(object).expect("the object becomes JSON");
    serde_json::from_str(&text).expect("what serde wrote it reads")
}
