//! What a copy reads of the cluster that it stands for: get, list and watch, and nothing else. Entry point: [`Reads`].
//!
//! A workspace of kcp that begins or ends is read through the endpoint of its type. Nobody may list LogicalClusters there, so the copy gets the
//! one that each workspace has. One that ends serves nothing else, and refuses to say so.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Origin, OriginError};
use windlass_fleet::ClusterName;
use windlass_fleet::cluster::RefusedClaims;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::grant::{Grant, Rule};
use windlass_fleet::manager::ManagerHandle;

/// How long a copy waits until the cluster that it stands for is engaged.
const ENGAGING: Duration = Duration::from_secs(10);
/// How often it looks meanwhile.
const MOMENT: Duration = Duration::from_millis(10);

const NOT_FOUND: u16 = 404;
const JSON: &str = "application/json";
/// The one LogicalCluster of a workspace, and the collection that has it.
const LOGICAL_CLUSTERS: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters";
const LOGICAL_CLUSTER: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// Reads of one real cluster.
pub(super) struct Reads {
    reads: ManagerHandle,
    name: ClusterName,
    /// What the owner of a workspace does not let it be read.
    refused: Arc<RefusedClaims>,
    stage: Option<Stage>,
}

/// When somebody outside works on a workspace of kcp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Initializing,
    Terminating,
}

impl Reads {
    /// Reads with the manager of `reads`, which has the cluster under this name. `read`: as it is engaged there.
    pub(super) fn new(reads: ManagerHandle, name: ClusterName, read: &ClusterSpec) -> Self {
        let stage = if read.config.is_of_initializing() {
            Some(Stage::Initializing)
        } else {
            let ends = read.config.is_of_terminating();
            ends.then_some(Stage::Terminating)
        };
        Self {
            reads,
            name,
            refused: read.refused_claims.clone(),
            stage,
        }
    }

    async fn answer(&self, path: String, accept: &'static str) -> Result<Bytes, OriginError> {
        let Some(stage) = self.stage else {
            return self.answer_of_server(path, accept).await;
        };
        match path.split('?').next().unwrap_or_default() {
            LOGICAL_CLUSTERS => self.logical_clusters().await,
            "/api" if stage == Stage::Terminating => Err(absent()),
            "/apis" if stage == Stage::Terminating => Ok(Bytes::from(of_ending().to_string())),
            _ => self.answer_of_server(path, accept).await,
        }
    }

    /// A list of the one LogicalCluster.
    async fn logical_clusters(&self) -> Result<Bytes, OriginError> {
        let own = self.answer_of_server(LOGICAL_CLUSTER.to_owned(), JSON);
        let items: Vec<Value> = match own.await {
            Ok(body) => vec![serde_json::from_slice(&body).map_err(unreadable)?],
            // The workspace has gone on meanwhile.
            Err(OriginError::Answered {
                code: NOT_FOUND, ..
            }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let list = json!({"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalClusterList", "metadata": {}, "items": items});
        Ok(Bytes::from(list.to_string()))
    }

    async fn answer_of_server(
        &self,
        path: String,
        accept: &'static str,
    ) -> Result<Bytes, OriginError> {
        let engaged = async {
            loop {
                if let Some(cluster) = self.reads.fleet().cluster(&self.name) {
                    return cluster;
                }
                tokio::time::sleep(MOMENT).await;
            }
        };
        let collection = collection(&path);
        let asked = path.clone();
        let unreachable = |why: String| OriginError::Unreachable(why);
        let cluster = tokio::time::timeout(ENGAGING, engaged).await;
        let cluster = cluster.map_err(|_| unreachable(format!("{} is not engaged", self.name)))?;
        let answer = cluster
            .client(allowing(&["get", "list", "watch"]))
            .read_raw(path, accept)
            .await;
        let (code, body) = answer.map_err(|error| unreachable(error.to_string()))?;
        if (200..300).contains(&code) {
            return Ok(body);
        }
        // The endpoint of all workspaces lacks such objects without a word, and so does a run.
        let is_refused = code == 403 && self.refused.contains(&collection) && !is_namespace(&asked);
        let code = if is_refused { NOT_FOUND } else { code };
        Err(OriginError::Answered { code, body })
    }
}

impl Origin for Reads {
    fn read(
        &self,
        path: String,
        accept: &'static str,
    ) -> BoxFuture<'_, Result<Bytes, OriginError>> {
        self.answer(path, accept).boxed()
    }
}

fn absent() -> OriginError {
    OriginError::Answered {
        code: NOT_FOUND,
        body: Bytes::new(),
    }
}

fn unreadable(error: serde_json::Error) -> OriginError {
    OriginError::Unreachable(format!("the server's answer cannot be read: {error}"))
}

/// What a workspace serves that ends, as discovery.
fn of_ending() -> Value {
    let kind = json!({"group": "core.kcp.io", "version": "v1alpha1", "kind": "LogicalCluster"});
    let status =
        json!({"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]});
    let resource = json!({"resource": "logicalclusters", "singularResource": "logicalcluster", "scope": "Cluster", "responseKind": kind,
        "verbs": ["get", "list", "patch", "update", "watch"], "subresources": [status]});
    json!({"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "items": [
        {"metadata": {"name": "core.kcp.io"}, "versions": [{"version": "v1alpha1", "resources": [resource]}]}]})
}

/// Whether a path is one of a namespace. One that may not be read is there all the same.
fn is_namespace(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let name = path.strip_prefix("/api/v1/namespaces/");
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// The group and the plural that a path is about.
fn collection(path: &str) -> (String, String) {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('/').skip(1).collect();
    let group = match parts.first() {
        Some(&"apis") if parts.len() > 1 => parts.remove(1),
        _ => "",
    };
    let at = match parts.get(2) {
        Some(&"namespaces") if parts.len() > 4 => 4,
        _ => 2,
    };
    let plural = parts.get(at).copied().unwrap_or_default();
    (group.to_owned(), plural.to_owned())
}

/// The right to do this, and nothing else.
pub(super) fn allowing(verbs: &[&str]) -> Grant {
    let all = || vec!["*".into()];
    Grant::new([Rule {
        api_groups: all(),
        resources: all(),
        verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
        namespaces: all(),
        ..Rule::default()
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_group_and_a_plural() {
        for (path, group, plural) in [
            ("/api/v1/configmaps?limit=100", "", "configmaps"),
            ("/api/v1/namespaces/a/configmaps/b", "", "configmaps"),
            ("/api/v1/namespaces/a", "", "namespaces"),
            ("/apis/x.dev/v1/boats", "x.dev", "boats"),
            (
                "/apis/x.dev/v1/namespaces/a/boats?limit=1",
                "x.dev",
                "boats",
            ),
            ("/apis/x.dev/v1", "x.dev", ""),
            ("/apis", "", ""),
        ] {
            let expected = (group.to_owned(), plural.to_owned());
            assert_eq!(collection(path), expected, "{path}");
        }
    }
}
