//! The calls that the helpers make. Entry point: [`Calls`], which a client and the script of a test implement.

use crate::api::{ApiCode, ApiError, GetOptions, Operation, Reply};
use crate::cluster::Client;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::request::ObjectKey;

/// A client, or what stands in for one.
pub(super) trait Calls: Sync {
    /// Runs one operation.
    fn run(&self, operation: Operation) -> impl Future<Output = Result<Reply, ApiError>> + Send;

    /// Runs operations concurrently. Answers are in the order of the operations.
    fn batch(
        &self,
        operations: Vec<Operation>,
    ) -> impl Future<Output = Vec<Result<Reply, ApiError>>> + Send;
}

impl Calls for Client {
    async fn run(&self, operation: Operation) -> Result<Reply, ApiError> {
        Self::run(self, operation).await
    }

    async fn batch(&self, operations: Vec<Operation>) -> Vec<Result<Reply, ApiError>> {
        Self::batch(self, operations).await
    }
}

/// Reads an object; `None` if there is none.
pub(super) async fn read(
    calls: &impl Calls,
    kind: &GroupVersionKind,
    key: &ObjectKey,
) -> Result<Option<Object>, ApiError> {
    let get = Operation::Get(kind.clone(), key.clone(), GetOptions::default());
    match calls.run(get).await? {
        Reply::Object(json) => Object::parse(&json).map(Some),
        Reply::Nothing | Reply::Page(_) => Ok(None),
    }
}

/// Writes an object, and returns it as the server keeps it.
pub(super) async fn written(calls: &impl Calls, write: Operation) -> Result<Object, ApiError> {
    match calls.run(write).await? {
        Reply::Object(json) => Object::parse(&json),
        Reply::Nothing | Reply::Page(_) => Err(ApiError::host(
            ApiCode::Other,
            "the write was not answered with an object",
        )),
    }
}
