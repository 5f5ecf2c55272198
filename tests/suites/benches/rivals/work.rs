//! Where the work is: the clusters, their objects, and how they are reached. Entry point: [`Work`].

use anyhow::Result;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use serde_json::Value;
use std::path::PathBuf;
use windlass_harness::testenv::kcp::Client;

/// What names of sources begin with.
pub(crate) const OBJECT: &str = "object-";
/// Keys of one cluster that run at once.
pub(crate) const SLOTS: u16 = 16;

/// Some clusters with the same number of objects each.
pub(crate) struct Work {
    /// Where subjects find the clusters.
    pub(crate) given: Given,
    pub(crate) places: Vec<Place>,
    /// What shows the objects of all clusters.
    pub(crate) watched: Vec<Api<ConfigMap>>,
}

/// What a subject has to know of the clusters.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Given {
    /// A kubeconfig for each cluster.
    pub(crate) kubeconfigs: Vec<PathBuf>,
    /// The kubeconfig of the workspace of their export, if the clusters are workspaces.
    pub(crate) provider: Option<PathBuf>,
    /// Objects of each cluster.
    pub(crate) objects: usize,
    /// Keys of a cluster that may run at once.
    pub(crate) slots: u16,
}

/// The ConfigMaps of a cluster's namespace `default`.
#[derive(Clone)]
pub(crate) struct Place {
    client: Client,
    path: String,
}

const CONFIG_MAPS: &str = "api/v1/namespaces/default/configmaps";

impl Place {
    /// Of a cluster at a path: `/`, or `/clusters/<name>/`.
    pub(crate) fn new(client: Client, path: &str) -> Self {
        Self {
            client,
            path: format!("{path}{CONFIG_MAPS}"),
        }
    }

    pub(crate) async fn create(&self, object: &Value) -> Result<()> {
        self.client.post(&self.path, object).await?.ok().map(drop)
    }

    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Result<()> {
        let path = format!("{}/{name}", self.path);
        self.client
            .ask(Method::PATCH, &path, patch)
            .await?
            .ok()
            .map(drop)
    }

    /// Deletes those that have certain labels.
    pub(crate) async fn delete(&self, labels: &str) -> Result<()> {
        let path = format!("{}?labelSelector={labels}", self.path);
        self.client.delete(&path).await?.ok().map(drop)
    }
}
