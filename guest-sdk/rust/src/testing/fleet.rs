//! Several clusters, and the config, clock and log of a guest. Entry point: [`TestFleet`].

use super::cluster::TestCluster;
use super::host::Host;
use crate::Reconciler;
use crate::error::{ApiError, Result};
use crate::http;
use crate::types::{ApiCode, ClusterInfo, Description, GroupVersionKind, Level};
use crate::wire;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Clusters, config, clock and log of a test. Clones share them.
#[derive(Debug, Clone)]
pub struct TestFleet(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    config: String,
    now: String,
    clusters: BTreeMap<String, TestCluster>,
    logs: Vec<LogLine>,
    answers: Answers,
    host: Host,
}

/// Answers to what a guest asks servers that are no API servers.
#[derive(Clone, Default)]
struct Answers(Option<Rc<Answer>>);

type Answer = dyn Fn(&http::Request) -> http::Response;

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answers").field(&self.0.is_some()).finish()
    }
}

/// A line that the guest logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// The severity.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The fields, in order.
    pub fields: Vec<(String, String)>,
}

impl Default for TestFleet {
    fn default() -> Self {
        Self::new()
    }
}

impl TestFleet {
    /// A fleet with no clusters, an empty config, and the time 2026-01-31T09:30:00.000Z.
    #[must_use]
    pub fn new() -> Self {
        let now = "2026-01-31T09:30:00.000Z".to_owned();
        let inner = Inner {
            config: "{}".to_owned(),
            now,
            clusters: BTreeMap::new(),
            logs: Vec::new(),
            answers: Answers::default(),
            host: Host::default(),
        };
        Self(Rc::new(RefCell::new(inner)))
    }

    /// Sets the reconciler's `config`.
    #[must_use]
    pub fn config(self, config: &Value) -> Self {
        self.0.borrow_mut().config = config.to_string();
        self
    }

    /// Sets the time that the guest reads.
    pub fn set_now(&self, now: impl Into<String>) {
        self.0.borrow_mut().now = now.into();
    }

    /// The cluster of this name, created empty by the first call; `""` is the local one.
    #[must_use]
    pub fn cluster(&self, name: &str) -> TestCluster {
        if let Some(cluster) = self.find(name) {
            return cluster;
        }
        self.test(&json!({"Cluster": {"name": name}}));
        let cluster = TestCluster::new(self.clone(), name);
        self.0
            .borrow_mut()
            .clusters
            .insert(name.to_owned(), cluster.clone());
        cluster
    }

    /// Answers what guests ask servers that are no API servers. Without this, every such call is denied.
    pub fn serve(&self, answer: impl Fn(&http::Request) -> http::Response + 'static) {
        self.0.borrow_mut().answers = Answers(Some(Rc::new(answer)));
    }

    pub(crate) fn answer(&self, request: &http::Request) -> Result<http::Response, ApiError> {
        let answers = self.0.borrow().answers.clone();
        let Answers(Some(answer)) = answers else {
            let message = "this fleet has no answers for calls of servers: the test gives them with TestFleet::serve";
            return Err(ApiError::new(ApiCode::Denied, message));
        };
        Ok(answer(request))
    }

    /// Serves a kind without a schema in all clusters. Not needed for kinds that are built in, that the project
    /// has a CustomResourceDefinition of, or of which the test puts an object.
    pub fn define(&self, kind: &GroupVersionKind, namespaced: bool) {
        let kind = wire::kind(kind);
        self.test(&json!({"Define": {"kind": kind, "namespaced": namespaced}}));
    }

    /// Calls the guest's `describe`.
    ///
    /// # Errors
    /// The guest's.
    pub fn describe<G: Reconciler>(&self) -> Result<Description> {
        self.enter(G::describe)
    }

    /// The lines that the guest logged so far.
    #[must_use]
    pub fn logs(&self) -> Vec<LogLine> {
        self.0.borrow().logs.clone()
    }

    /// Runs code of a guest with this fleet as its host.
    pub fn enter<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        let _restore = Restore(before);
        run()
    }

    /// Takes a cluster out of what guests may open.
    pub(super) fn forget(&self, name: &str) {
        self.0.borrow_mut().clusters.remove(name);
    }

    pub(crate) fn find(&self, name: &str) -> Option<TestCluster> {
        self.0.borrow().clusters.get(name).cloned()
    }

    pub(crate) fn infos(&self, label_selector: Option<&str>) -> Result<Vec<ClusterInfo>, ApiError> {
        let Some(any) = self.0.borrow().clusters.keys().next().cloned() else {
            return Ok(Vec::new());
        };
        let asked = json!({"Clusters": {"label_selector": label_selector}});
        let infos = wire::result(self.call(&any, |_| asked))?;
        Ok(wire::infos(&infos))
    }

    /// Does something for the test, as another writer.
    pub(super) fn test(&self, asked: &Value) -> Value {
        self.0.borrow_mut().host.test(asked)
    }

    /// Calls a host function with the handle of a cluster.
    pub(super) fn call(&self, cluster: &str, function: impl FnOnce(u32) -> Value) -> Value {
        self.0.borrow_mut().host.call(cluster, function)
    }

    /// Ends the run of a guest, so that what it left without an owner goes.
    pub(super) fn end_run(&self) {
        self.0.borrow_mut().host.end();
    }

    pub(crate) fn config_text(&self) -> String {
        self.0.borrow().config.clone()
    }

    pub(crate) fn time(&self) -> String {
        self.0.borrow().now.clone()
    }

    pub(crate) fn write_log(&self, level: Level, message: &str, fields: &[(String, String)]) {
        self.0.borrow_mut().logs.push(LogLine {
            level,
            message: message.to_owned(),
            fields: fields.to_vec(),
        });
    }
}

thread_local! {
    /// The fleet that the thread's guest code runs in. Set only by [`TestFleet::enter`].
    static CURRENT: RefCell<Option<TestFleet>> = const { RefCell::new(None) };
}

/// Restores the previous fleet, also after a panic of the guest.
struct Restore(Option<TestFleet>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.with(|current| current.replace(self.0.take()));
    }
}

/// The thread's current fleet.
pub(crate) struct Current;

impl Current {
    /// A thread without one gets an empty fleet, so that `now()` and log lines work anywhere.
    pub(crate) fn fleet() -> TestFleet {
        CURRENT.with(|current| {
            current
                .borrow_mut()
                .get_or_insert_with(TestFleet::new)
                .clone()
        })
    }
}
