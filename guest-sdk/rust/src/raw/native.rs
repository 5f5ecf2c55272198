//! The functions of a native build: they call the current test fleet of the thread. Entry point: [`Handle`].

use super::Answer;
use crate::error::ApiError;
use crate::testing::{Current, TestCluster};
use crate::types::{
    ApiCode, ApplyOptions, ClusterInfo, DeleteOptions, Event, GetOptions, GroupVersionKind, Level,
    ListOptions, ListPage, ObjectKey, Operation, PatchType, Reply, Selection, WriteOptions,
};

/// A test cluster in the place of the host's handle.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) TestCluster);

impl Handle {
    pub(super) fn name(&self) -> String {
        self.0.name().to_owned()
    }

    pub(super) fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Answer<Option<String>> {
        self.0.serve_get(kind, key, options)
    }

    pub(super) fn list(&self, kind: &GroupVersionKind, options: &ListOptions) -> Answer<ListPage> {
        self.0.serve_list(kind, options)
    }

    pub(super) fn create(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.0.serve_create(kind, object, options)
    }

    pub(super) fn update(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.0.serve_update(kind, object, options)
    }

    pub(super) fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        self.0.serve_patch(kind, key, patch_type, patch, options)
    }

    pub(super) fn apply(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &ApplyOptions,
    ) -> Answer<String> {
        self.0.serve_apply(kind, object, options)
    }

    pub(super) fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Answer<()> {
        self.0.serve_delete(kind, key, options)
    }

    pub(super) fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Answer<()> {
        self.0.serve_delete_collection(kind, selection, options)
    }

    pub(super) fn record_event(&self, event: &Event) {
        self.0.serve_event(event);
    }

    pub(super) fn batch(&self, operations: &[Operation]) -> Vec<Answer<Reply>> {
        operations
            .iter()
            .map(|operation| run(&self.0, operation))
            .collect()
    }
}

fn run(cluster: &TestCluster, operation: &Operation) -> Answer<Reply> {
    Ok(match operation {
        Operation::Get((kind, key, options)) => match cluster.serve_get(kind, key, options)? {
            Some(object) => Reply::Object(object),
            None => Reply::Nothing,
        },
        Operation::Create((kind, object, options)) => {
            Reply::Object(cluster.serve_create(kind, object, options)?)
        }
        Operation::Update((kind, object, options)) => {
            Reply::Object(cluster.serve_update(kind, object, options)?)
        }
        Operation::Patch((kind, key, patch_type, patch, options)) => {
            Reply::Object(cluster.serve_patch(kind, key, *patch_type, patch, options)?)
        }
        Operation::Apply((kind, object, options)) => {
            Reply::Object(cluster.serve_apply(kind, object, options)?)
        }
        Operation::Delete((kind, key, options)) => {
            cluster.serve_delete(kind, key, options)?;
            Reply::Nothing
        }
        Operation::List((kind, options)) => Reply::Page(cluster.serve_list(kind, options)?),
    })
}

pub(super) fn fleet_clusters(label_selector: Option<&str>) -> Answer<Vec<ClusterInfo>> {
    Current::fleet().infos(label_selector)
}

pub(super) fn fleet_open(name: &str) -> Answer<Handle> {
    let cluster = Current::fleet().find(name);
    cluster.map(Handle).ok_or_else(|| {
        ApiError::new(
            ApiCode::Denied,
            format!("no rule opens the cluster {name:?}"),
        )
    })
}

pub(super) fn fleet_batch(operations: &[(String, Operation)]) -> Vec<Answer<Reply>> {
    operations
        .iter()
        .map(|(cluster, operation)| run(&fleet_open(cluster)?.0, operation))
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
