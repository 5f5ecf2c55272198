//! The functions of a native build: they call the host of the thread's process, or else its current test fleet. Entry point: [`Handle`].

use super::Answer;
use crate::error::ApiError;
use crate::http;
use crate::native::{Host, Lent};
use crate::testing::{Current, TestCluster};
use crate::types::{
    ApiCode, ApplyOptions, ClusterInfo, DeleteOptions, Event, GetOptions, GroupVersionKind, Level,
    ListOptions, ListPage, ObjectKey, Operation, PatchType, Reply, Selection, WriteOptions,
};

/// A stand-in for the host's handle.
#[derive(Debug)]
pub(crate) enum Handle {
    /// A cluster in memory.
    Memory(TestCluster),
    /// A cluster that the host has lent to this process.
    Lent(Lent),
    /// The expected calls of a case of the specification.
    #[cfg(test)]
    Script(crate::spec::Script),
}

impl Handle {
    /// Runs one call.
    fn run(&self, operation: &Operation) -> Answer<Reply> {
        match self {
            Self::Memory(cluster) => cluster.run(operation),
            Self::Lent(cluster) => cluster.run(operation),
            #[cfg(test)]
            Self::Script(script) => script.run(operation),
        }
    }

    /// Runs a write, which answers an object.
    fn write(&self, operation: &Operation) -> Answer<String> {
        match self.run(operation)? {
            Reply::Object(text) => Ok(text),
            Reply::Nothing | Reply::Page(_) => Ok(String::new()),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Memory(cluster) => cluster.name().to_owned(),
            Self::Lent(cluster) => cluster.name(),
            #[cfg(test)]
            Self::Script(_) => "alpha".to_owned(),
        }
    }

    pub(super) fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Answer<Option<String>> {
        let operation = Operation::Get((kind.clone(), key.clone(), options.clone()));
        match self.run(&operation)? {
            Reply::Object(text) => Ok(Some(text)),
            Reply::Nothing | Reply::Page(_) => Ok(None),
        }
    }

    pub(super) fn list(&self, kind: &GroupVersionKind, options: &ListOptions) -> Answer<ListPage> {
        match self.run(&Operation::List((kind.clone(), options.clone())))? {
            Reply::Page(page) => Ok(page),
            Reply::Nothing | Reply::Object(_) => Ok(ListPage {
                items: Vec::new(),
                continue_token: None,
                resource_version: String::new(),
            }),
        }
    }

    pub(super) fn create(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.write(&Operation::Create((
            kind.clone(),
            object.to_owned(),
            options.clone(),
        )))
    }

    pub(super) fn update(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.write(&Operation::Update((
            kind.clone(),
            object.to_owned(),
            options.clone(),
        )))
    }

    pub(super) fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        let (kind, key, options) = (kind.clone(), key.clone(), options.clone());
        self.write(&Operation::Patch((
            kind,
            key,
            patch_type,
            patch.to_owned(),
            options,
        )))
    }

    pub(super) fn apply(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &ApplyOptions,
    ) -> Answer<String> {
        self.write(&Operation::Apply((
            kind.clone(),
            object.to_owned(),
            options.clone(),
        )))
    }

    pub(super) fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Answer<()> {
        let operation = Operation::Delete((kind.clone(), key.clone(), options.clone()));
        self.run(&operation).map(drop)
    }

    pub(super) fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Answer<()> {
        match self {
            Self::Memory(cluster) => cluster.delete_collection(kind, selection, options),
            Self::Lent(cluster) => cluster.delete_collection(kind, selection, options),
            #[cfg(test)]
            Self::Script(_) => unreachable!("no case deletes a collection"),
        }
    }

    pub(super) fn record_event(&self, event: &Event) {
        match self {
            Self::Memory(cluster) => cluster.record(event),
            Self::Lent(cluster) => cluster.record(event),
            #[cfg(test)]
            Self::Script(script) => script.record(event),
        }
    }

    pub(super) fn batch(&self, operations: &[Operation]) -> Vec<Answer<Reply>> {
        #[cfg(test)]
        if let Self::Script(script) = self {
            return script.batch(operations);
        }
        operations
            .iter()
            .map(|operation| self.run(operation))
            .collect()
    }
}

pub(super) fn fleet_clusters(label_selector: Option<&str>) -> Answer<Vec<ClusterInfo>> {
    match Host::current() {
        Some(host) => host.clusters(label_selector),
        None => Current::fleet().infos(label_selector),
    }
}

pub(super) fn fleet_open(name: &str) -> Answer<Handle> {
    if let Some(host) = Host::current() {
        return host.open(name).map(Handle::Lent);
    }
    let cluster = Current::fleet().find(name);
    cluster.map(Handle::Memory).ok_or_else(|| {
        ApiError::new(
            ApiCode::Denied,
            format!(
                "this fleet has no cluster {name:?}: the test names it with TestFleet::cluster"
            ),
        )
    })
}

pub(super) fn http_send(request: &http::Request) -> Answer<http::Response> {
    match Host::current() {
        Some(host) => host.http(request),
        None => Current::fleet().answer(request),
    }
}

pub(super) fn fleet_batch(operations: &[(String, Operation)]) -> Vec<Answer<Reply>> {
    operations
        .iter()
        .map(|(cluster, operation)| fleet_open(cluster)?.run(operation))
        .collect()
}

pub(super) fn config() -> String {
    match Host::current() {
        Some(host) => host.config(),
        None => Current::fleet().config_text(),
    }
}

pub(super) fn now() -> String {
    match Host::current() {
        Some(host) => host.now(),
        None => Current::fleet().time(),
    }
}

pub(super) fn log(level: Level, message: &str, fields: &[(String, String)]) {
    match Host::current() {
        Some(host) => host.log(level, message, fields),
        None => Current::fleet().write_log(level, message, fields),
    }
}
