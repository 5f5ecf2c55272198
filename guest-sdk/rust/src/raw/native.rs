//! The functions of a native build: they call the current test fleet of the thread. Entry point: [`Handle`].

use super::Answer;
use crate::error::ApiError;
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
    /// The expected calls of a case of the specification.
    #[cfg(test)]
    Script(crate::spec::Script),
}

impl Handle {
    /// Runs one call.
    fn run(&self, operation: &Operation) -> Answer<Reply> {
        match self {
            Self::Memory(cluster) => cluster.run(operation),
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
            #[cfg(test)]
            Self::Script(_) => unreachable!("no case deletes a collection"),
        }
    }

    pub(super) fn record_event(&self, event: &Event) {
        match self {
            Self::Memory(cluster) => cluster.record(event),
            #[cfg(test)]
            Self::Script(script) => script.record(event),
        }
    }

    pub(super) fn batch(&self, operations: &[Operation]) -> Vec<Answer<Reply>> {
        match self {
            Self::Memory(cluster) => operations
                .iter()
                .map(|operation| cluster.run(operation))
                .collect(),
            #[cfg(test)]
            Self::Script(script) => script.batch(operations),
        }
    }
}

pub(super) fn fleet_clusters(label_selector: Option<&str>) -> Answer<Vec<ClusterInfo>> {
    Current::fleet().infos(label_selector)
}

fn find(name: &str) -> Answer<TestCluster> {
    Current::fleet().find(name).ok_or_else(|| {
        ApiError::new(
            ApiCode::Denied,
            format!(
                "this fleet has no cluster {name:?}: the test names it with TestFleet::cluster"
            ),
        )
    })
}

pub(super) fn fleet_open(name: &str) -> Answer<Handle> {
    find(name).map(Handle::Memory)
}

pub(super) fn fleet_batch(operations: &[(String, Operation)]) -> Vec<Answer<Reply>> {
    operations
        .iter()
        .map(|(cluster, operation)| find(cluster)?.run(operation))
        .collect()
}

pub(super) fn config() -> String {
    Current::fleet().config_text()
}

pub(super) fn now() -> String {
    Current::fleet().time()
}

pub(super) fn log(level: Level, message: &str, fields: &[(String, String)]) {
    Current::fleet().write_log(level, message, fields);
}
