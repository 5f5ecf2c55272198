//! What a server says of itself and of users' rights. Entry point: [`Cluster::review`].
//!
//! These calls need no grant: they change nothing, and read no object. Every user of a server may ask about itself; questions about others
//! need a right of the cluster's credentials. They wait for no cache.

use super::{Cluster, Scope};
use crate::api::{ApiCode, ApiError, Json};
use crate::grant::Identity;
use crate::http::status::error_for_status;
use crate::http::transport::{Call, JSON, Owner};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

/// A question about a user, by the kind that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// `SelfSubjectAccessReview`: whether one call is allowed.
    Access,
    /// `SelfSubjectRulesReview`: everything that is allowed in a namespace, as far as the server can say.
    Rules,
    /// `SelfSubjectReview`: the caller's user.
    User,
    /// `TokenReview`: the user of a token.
    Token,
    /// `SubjectAccessReview`: whether a user may make one call.
    AccessOfUser,
}

impl Review {
    fn group(self) -> &'static str {
        match self {
            Self::Access | Self::Rules | Self::AccessOfUser => "authorization.k8s.io",
            Self::User | Self::Token => "authentication.k8s.io",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Access => "SelfSubjectAccessReview",
            Self::Rules => "SelfSubjectRulesReview",
            Self::User => "SelfSubjectReview",
            Self::Token => "TokenReview",
            Self::AccessOfUser => "SubjectAccessReview",
        }
    }

    fn call(self, spec: &Value) -> Call {
        let (group, kind) = (self.group(), self.kind());
        let mut body = json!({"apiVersion": format!("{group}/v1"), "kind": kind});
        if self != Self::User {
            body["spec"] = spec.clone();
        }
        let path = format!("/apis/{group}/v1/{}s", kind.to_lowercase());
        Call::write(Method::POST, path, JSON, body.to_string().into())
    }
}

impl Cluster {
    /// Waits until the cluster is connected, or until an attempt to connect has failed. It is tried again in the background all the same.
    ///
    /// # Errors
    /// Why the attempt failed; `cluster-gone`.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn reached(&self) -> Result<(), ApiError> {
        let mut changes = self.changes();
        loop {
            if self.backend().is_some() {
                return Ok(());
            }
            let now = self.now();
            if now.next_attempt.is_some() {
                return Err(ApiError::host(ApiCode::Unavailable, &*now.reason));
            }
            let is_gone = now.state == super::ClusterState::Gone;
            if is_gone || changes.changed().await.is_err() {
                return Err(self.gone());
            }
        }
    }

    /// The UID by which its server is recognised: that of the namespace kube-system. With a `/` and the namespace's UID, if the cluster is
    /// a namespace. Of a workspace the name of its logical cluster. `None` before it is connected, and if the server refuses to give it.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        let backend = self.backend()?;
        let server = || backend.continuity.server_uid();
        match self.scope() {
            Scope::Whole => server(),
            Scope::Namespace(namespace) => Some(format!("{}/{}", server()?, namespace.uid)),
            Scope::Workspace(workspace) => Some(workspace.to_string()),
        }
    }

    /// Asks the server for its version, for example `v1.36.0`. Waits for a connection.
    ///
    /// # Errors
    /// The server's refusal, or there is no answer.
    pub async fn server_version(&self) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let body = self.ask(Call::get("/version".to_owned(), JSON)).await?;
        let version: Version = serde_json::from_slice(&body).map_err(unreadable)?;
        Ok(version.git_version)
    }

    /// Asks the server a question as the user of the cluster's credentials, or as a user whom they impersonate, and returns the
    /// `status` of its answer. `spec` is the question. Nothing is written. Waits for a connection.
    ///
    /// # Errors
    /// The server's refusal, or there is no answer.
    pub async fn review(
        &self,
        review: Review,
        spec: &Value,
        identity: Option<&Identity>,
    ) -> Result<Value, ApiError> {
        let call = review.call(spec).made_for(Owner::Program, identity);
        let body = self.ask(call).await?;
        let mut answer: Value = serde_json::from_slice(&body).map_err(unreadable)?;
        Ok(answer
            .get_mut("status")
            .map(Value::take)
            .unwrap_or_default())
    }

    async fn ask(&self, call: Call) -> Result<Json, ApiError> {
        let connection = self.connected().await?.connection.clone();
        let timeout = connection.options().call_timeout;
        let call = call.in_workspace(self.scope().workspace());
        Ok(error_for_status(connection.send(call, timeout).await?)?.body)
    }
}

fn unreadable(error: serde_json::Error) -> ApiError {
    let message = format!("the answer cannot be read at byte {}", error.column());
    ApiError::host(ApiCode::Other, message)
}
