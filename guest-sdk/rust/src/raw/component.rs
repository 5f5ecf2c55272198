//! The host's functions, in a component. Entry point: [`Handle`].

use super::Answer;
use crate::bindings::windlass::runtime::{
    client, clock, config as config_import, fleet, http as http_import, log as log_import,
};
use crate::http;
use crate::types::{
    ApplyOptions, ClusterInfo, DeleteOptions, Event, GetOptions, GroupVersionKind, Level,
    ListOptions, ListPage, ObjectKey, Operation, PatchType, Reply, Selection, WriteOptions,
};

/// The handle that the host passed.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) client::Cluster);

impl Handle {
    pub(super) fn name(&self) -> String {
        self.0.name()
    }

    pub(super) fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Answer<Option<String>> {
        Ok(self.0.get(kind, key, options)?)
    }

    pub(super) fn list(&self, kind: &GroupVersionKind, options: &ListOptions) -> Answer<ListPage> {
        Ok(self.0.list(kind, options)?)
    }

    pub(super) fn create(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        Ok(self.0.create(kind, object, options)?)
    }

    pub(super) fn update(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        Ok(self.0.update(kind, object, options)?)
    }

    pub(super) fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Answer<String> {
        Ok(self.0.patch(kind, key, patch_type, patch, options)?)
    }

    pub(super) fn apply(
        &self,
        kind: &GroupVersionKind,
        object: &str,
        options: &ApplyOptions,
    ) -> Answer<String> {
        Ok(self.0.apply(kind, object, options)?)
    }

    pub(super) fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Answer<()> {
        Ok(self.0.delete(kind, key, options)?)
    }

    pub(super) fn delete_collection(
        &self,
        kind: &GroupVersionKind,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Answer<()> {
        Ok(self.0.delete_collection(kind, selection, options)?)
    }

    pub(super) fn record_event(&self, event: &Event) {
        self.0.record_event(event);
    }

    pub(super) fn batch(&self, operations: &[Operation]) -> Vec<Answer<Reply>> {
        typed(self.0.batch(operations))
    }
}

fn typed(answers: Vec<Result<Reply, crate::types::RawApiError>>) -> Vec<Answer<Reply>> {
    answers
        .into_iter()
        .map(|answer| answer.map_err(Into::into))
        .collect()
}

pub(super) fn fleet_clusters(label_selector: Option<&str>) -> Answer<Vec<ClusterInfo>> {
    Ok(fleet::clusters(label_selector)?)
}

pub(super) fn fleet_open(name: &str) -> Answer<Handle> {
    Ok(Handle(fleet::open(name)?))
}

pub(super) fn http_send(request: &http::Request) -> Answer<http::Response> {
    let timeout = request.timeout.map(|timeout| timeout.as_millis());
    let response = http_import::send(&http_import::Request {
        method: request.method.clone(),
        url: request.url.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        timeout_ms: timeout.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
        options: Vec::new(),
    })?;
    Ok(http::Response {
        status: response.status,
        headers: response.headers,
        body: response.body,
    })
}

pub(super) fn fleet_batch(operations: &[(String, Operation)]) -> Vec<Answer<Reply>> {
    typed(fleet::batch(operations))
}

pub(super) fn config() -> String {
    config_import::get()
}

pub(super) fn now() -> String {
    clock::now()
}

pub(super) fn log(level: Level, message: &str, fields: &[(String, String)]) {
    log_import::write(level, message, fields);
}
