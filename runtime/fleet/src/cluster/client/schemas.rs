//! The schemas that a server publishes. Entry point: [`Client::schemas`].

use super::Client;
use super::target::{Awaited, check_segment};
use crate::api::{ApiCode, ApiError};
use crate::http::status::error;
use crate::http::transport::{Call, JSON};
use bytes::Bytes;

impl Client {
    /// The schemas of a version of a group, with those of CustomResourceDefinitions: the document of OpenAPI 3 that `kubectl explain` reads
    /// (KEP-2896). Waits for a connection. No cache has it. For a part of a server they are those of the whole server.
    ///
    /// # Errors
    /// See [`Client`]; `denied` if no rule names the group, and `not-found` if the server has no such version.
    pub async fn schemas(&self, group: &str, version: &str) -> Result<Bytes, ApiError> {
        check_segment(version)?;
        let path = match group {
            "" => format!("/openapi/v3/api/{version}"),
            group => {
                check_segment(group)?;
                format!("/openapi/v3/apis/{group}/{version}")
            }
        };
        let grant = self.grant();
        if !grant.names_group(group) {
            let message = format!("no rule names the group {group:?}");
            return Err(ApiError::host(ApiCode::Denied, message));
        }
        let backend = self
            .within(Awaited::Connection, self.cluster.connected())
            .await??;
        let timeout = backend.connection.options().call_timeout;
        let call = Call::get(path, JSON).made_for(self.owner(), grant.identity());
        let answer = backend.connection.send(call, timeout).await?;
        match answer.status {
            400.. => Err(error(answer.status, answer.retry_after, &answer.body)),
            _ => Ok(answer.body),
        }
    }
}
