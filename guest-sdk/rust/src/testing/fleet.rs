//! Several clusters, and the config, clock and log of a guest. Entry point: [`TestFleet`].

use super::cluster::TestCluster;
use super::select;
use crate::Reconciler;
use crate::error::{ApiError, Result};
use crate::types::{ClusterInfo, Description, Level};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
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
        let cluster = TestCluster::new(self.clone(), name);
        self.0
            .borrow_mut()
            .clusters
            .insert(name.to_owned(), cluster.clone());
        cluster
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

    pub(crate) fn find(&self, name: &str) -> Option<TestCluster> {
        self.0.borrow().clusters.get(name).cloned()
    }

    pub(crate) fn infos(&self, label_selector: Option<&str>) -> Result<Vec<ClusterInfo>, ApiError> {
        let matches = select::label_selector(label_selector)?;
        let mut infos = Vec::new();
        for (name, cluster) in &self.0.borrow().clusters {
            let labels = cluster.labels();
            if matches(&labels) {
                infos.push(ClusterInfo {
                    name: name.clone(),
                    labels: labels.into_iter().collect(),
                    properties: Vec::new(),
                    ready: true,
                });
            }
        }
        Ok(infos)
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
