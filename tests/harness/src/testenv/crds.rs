//! Kinds of other projects that a fleet is described with, on an API server. Entry points: [`ClusterApi::definition`], [`files`],
//! [`definition`], [`cluster_profile`] and [`install`].

use super::binaries::made_from;
use crate::eventually::{DEADLINE, Seen, eventually};
use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A version of Cluster API's `Cluster`. Conversion between the two is a webhook's, so a server has one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterApi {
    /// The older version, with `status.controlPlaneReady`.
    V1Beta1,
    /// The newer version, with `status.initialization`.
    V1Beta2,
}

impl ClusterApi {
    /// The name of the version.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }

    /// Cluster API's own definition of `Cluster`, with this version alone.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run.
    pub fn definition(self) -> Result<Value> {
        definition("cluster.x-k8s.io_clusters.yaml", self.as_str())
    }
}

/// The files with the definitions of Cluster API's and cert-manager's kinds, as their projects have them.
///
/// # Errors
/// When `tests/testenv/build` did not run.
pub fn files() -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(made_from("crds")?)?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// The definition in one of these files, with one version alone.
///
/// # Errors
/// When `tests/testenv/build` did not run, or there is no such definition.
pub fn definition(file: &str, version: &str) -> Result<Value> {
    let mut definition = read(&made_from("crds")?.join(file))?;
    let versions = definition["spec"]["versions"]
        .as_array_mut()
        .context("a definition without versions")?;
    versions.retain(|one| one["name"] == version);
    versions
        .iter_mut()
        .for_each(|version| version["storage"] = json!(true));
    Ok(definition)
}

/// The definition of `ClusterProfile`.
///
/// # Errors
/// When it cannot be read.
pub fn cluster_profile() -> Result<Value> {
    read(&crate::repository().join("tests/testenv/crds/clusterprofiles.yaml"))
}

/// Gives a server a kind, and waits until it serves it.
///
/// # Errors
/// When the server refuses the definition or does not serve the kind in time.
pub async fn install(client: &Client, definition: &Value) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition["metadata"]["name"]
        .as_str()
        .context("a definition without a name")?;
    let params = PatchParams::apply("testenv").force();
    api.patch(name, &params, &Patch::Apply(definition)).await?;
    eventually(DEADLINE, &format!("{name} to be served"), || async {
        let conditions = api.get(name).await?.status.and_then(|s| s.conditions);
        Ok(Seen::of(conditions, |all| {
            all.iter().flatten().any(established)
        }))
    })
    .await
    .map(drop)
}

fn established(condition: &CustomResourceDefinitionCondition) -> bool {
    condition.type_ == "Established" && condition.status == "True"
}

/// What a file in YAML holds.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))
}
