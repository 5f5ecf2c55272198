//! A pod of a manager, called through the API server. Entry point: [`Pods::of`].
//!
//! The API server passes requests on to the pod's port. It removes their `Authorization`, which is for itself. So the token for the manager goes in
//! a header of its own.

use crate::admin::TOKEN_HEADER;
use crate::cli::AdminArgs;
use crate::command::api_server::ApiServer;
use crate::config::kinds::ManagerSpec;
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use hyper::StatusCode;
use std::sync::Arc;
use windlass_fleet::cluster::PodCall;

/// The pods of a namespace.
pub(super) struct Pods {
    server: ApiServer,
    namespace: String,
    port: u16,
    token: String,
    /// Of `kubectl`, for the same API server.
    flags: String,
}

/// A pod.
#[derive(Clone)]
pub(super) struct Pod {
    pods: Arc<Pods>,
    name: String,
    /// Namespace, pod and port, for people.
    place: String,
}

impl Pods {
    /// The pods of these names.
    pub(super) fn of(
        args: &AdminArgs,
        server: ApiServer,
        namespace: String,
        token: String,
        names: impl IntoIterator<Item = String>,
    ) -> Vec<Pod> {
        let pods = Arc::new(Self {
            flags: flags(args),
            port: args.port.unwrap_or(ManagerSpec::DEFAULT_ADMIN.port()),
            server,
            namespace,
            token,
        });
        let names = names.into_iter();
        let all = names.map(|name| Pod {
            place: format!("{}/{name}:{}", pods.namespace, pods.port),
            pods: pods.clone(),
            name,
        });
        all.collect()
    }
}

impl Pod {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Namespace, pod and port, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn token(&self) -> &str {
        &self.pods.token
    }

    /// The command that forwards a port of this machine to the pod, and where the pod is then.
    pub(super) fn forwarded(&self) -> (String, String) {
        let Pods {
            namespace,
            port,
            flags,
            ..
        } = &*self.pods;
        let pod = &self.name;
        let forward = format!("kubectl{flags} port-forward -n {namespace} pod/{pod} {port}");
        (forward, format!("127.0.0.1:{port}"))
    }

    pub(super) async fn exchange(
        &self,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<(StatusCode, Bytes)> {
        let call = PodCall {
            namespace: self.pods.namespace.clone(),
            pod: self.name.clone(),
            port: self.pods.port,
            path: path.to_owned(),
            header: Some((TOKEN_HEADER, self.pods.token.clone())),
            body,
        };
        let answer = self.pods.server.client.call_pod(call).await;
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
