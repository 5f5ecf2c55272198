//! The manager that leads in a cluster, called through the API server. Entry point: [`Leader::find`].
//!
//! The Lease names the leader, which is a pod, and the API server passes requests on to the pod's port. It removes their `Authorization`, which
//! is for itself. So the token for the manager goes in a header of its own.

use crate::admin::TOKEN_HEADER;
use crate::cli::AdminArgs;
use crate::command::api_server::ApiServer;
use crate::config::kinds::ManagerSpec;
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value as Json, json};
use windlass_fleet::api::{GetOptions, ReadMode, WriteOptions};
use windlass_fleet::cluster::PodCall;
use windlass_fleet::{Client, GroupVersionKind, ObjectKey};

/// How long a token that this command makes is valid: the least that API servers allow.
const VALID: u64 = 600;

/// A pod that is called through its API server.
pub(super) struct Leader {
    server: ApiServer,
    namespace: String,
    pod: String,
    port: u16,
    token: String,
    /// Of `kubectl`, for the same API server.
    flags: String,
    /// For people.
    place: String,
}

impl Leader {
    /// Connects to the API server, finds the pod, and gets a token if there is none.
    ///
    /// # Errors
    /// When the API server is not reached or refuses it, nobody leads, or no flag says how to get a token.
    pub(super) async fn find(args: &AdminArgs, token: Option<String>) -> Result<Self> {
        if token.is_none() && args.as_service_account.is_none() {
            bail!(
                "the manager wants a token: give --as-service-account NAME, or --token FILE with what kubectl create token NAME --audience {} prints",
                args.audience
            );
        }
        let server = ApiServer::connect(args.kubeconfig.as_deref(), args.context.as_deref());
        let server = server.await?;
        let namespace = args.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| server.namespace.clone());
        let client = &server.client;
        let pod = match &args.pod {
            Some(pod) => pod.clone(),
            None => leading(client, &namespace, args.lease.as_deref()).await?,
        };
        let token = match (token, &args.as_service_account) {
            (Some(token), _) => token,
            (None, account) => {
                let account = account.as_deref().unwrap_or_default();
                token_of(client, &namespace, account, &args.audience).await?
            }
        };
        let port = args.port.unwrap_or(ManagerSpec::DEFAULT_ADMIN.port());
        Ok(Self {
            place: format!("{namespace}/{pod}:{port}"),
            flags: flags(args),
            server,
            namespace,
            pod,
            port,
            token,
        })
    }

    /// Namespace, pod and port, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The command that forwards a port of this machine to the pod, and where the pod is then.
    pub(super) fn forwarded(&self) -> (String, String) {
        let Self {
            namespace,
            pod,
            port,
            flags,
            ..
        } = self;
        let forward = format!("kubectl{flags} port-forward -n {namespace} pod/{pod} {port}");
        (forward, format!("127.0.0.1:{port}"))
    }

    pub(super) async fn exchange(
        &self,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<(StatusCode, Bytes)> {
        let call = PodCall {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            port: self.port,
            path: path.to_owned(),
            header: Some((TOKEN_HEADER, self.token.clone())),
            body,
        };
        let answer = self.server.client.call_pod(call).await;
        let answer = answer.map_err(|error| anyhow!(error.message));
        let answer = answer.with_context(|| format!("call the pod {}", self.place))?;
        Ok((StatusCode::from_u16(answer.status)?, answer.body))
    }
}

/// The flags with which `kubectl` asks the same API server.
fn flags(args: &AdminArgs) -> String {
    let kubeconfig = args
        .kubeconfig
        .as_ref()
        .map(|path| path.display().to_string());
    let flags = [
        ("--kubeconfig", kubeconfig),
        ("--context", args.context.clone()),
    ];
    let given = flags.into_iter().filter_map(|(flag, value)| {
        // In single quotes a shell takes everything as it is but those.
        let value = value?.replace('\'', r"'\''");
        Some(format!(" {flag} '{value}'"))
    });
    given.collect()
}

/// The pod that holds the Lease.
async fn leading(client: &Client, namespace: &str, lease: Option<&str>) -> Result<String> {
    let lease = lease.unwrap_or(ManagerSpec::DEFAULT_LEASE);
    let kind = GroupVersionKind::new("coordination.k8s.io", "v1", "Lease");
    let key = ObjectKey::namespaced(namespace, lease);
    let options = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let found = client.get(&kind, &key, &options).await;
    let found = found.map_err(|error| anyhow!(error.message));
    let found = found.with_context(|| format!("read the Lease {namespace}/{lease}"))?;
    let Some(found) = found else {
        bail!(
            "there is no Lease {namespace}/{lease}: name the namespace with -n, or the Lease with --lease, or a pod with --pod"
        );
    };
    let found: Json = serde_json::from_slice(&found)?;
    let holder = found["spec"]["holderIdentity"].as_str().unwrap_or_default();
    pod_of(holder).with_context(|| {
        format!("the Lease {namespace}/{lease} is held by {holder:?}, which names no pod: try again soon, or name a pod with --pod")
    })
}

/// The pod of a candidate: its name stands before the part that no other process has.
fn pod_of(candidate: &str) -> Option<String> {
    let (pod, _) = candidate.rsplit_once('_')?;
    (!pod.is_empty()).then(|| pod.to_owned())
}

/// A new token of a service account, for the manager.
async fn token_of(
    client: &Client,
    namespace: &str,
    account: &str,
    audience: &str,
) -> Result<String> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {"name": account, "namespace": namespace},
        "spec": {"audiences": [audience], "expirationSeconds": VALID},
    });
    let options = WriteOptions {
        subresource: Some("token".to_owned()),
        ..WriteOptions::default()
    };
    let kind = GroupVersionKind::new("", "v1", "ServiceAccount");
    let made = client
        .create(&kind, request.to_string().into(), &options)
        .await;
    let made = made.map_err(|error| anyhow!(error.message));
    let made =
        made.with_context(|| format!("make a token of the service account {namespace}/{account}"))?;
    let made: Json = serde_json::from_slice(&made)?;
    let token = made["status"]["token"].as_str();
    Ok(token.context("the API server made no token")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_begins_with_its_pod() {
        assert_eq!(
            pod_of("windlass-7d9f-x2x_0af3").as_deref(),
            Some("windlass-7d9f-x2x")
        );
        for other in ["", "_0af3", "somebody"] {
            assert_eq!(pod_of(other), None, "{other}");
        }
    }
}
