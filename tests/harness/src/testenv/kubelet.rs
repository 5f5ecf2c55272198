//! Plays the scheduler and the kubelet of a real server, and the agents of MongoDB in its pods. Entry point: [`Kubelet::start`].

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube_client::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Server;

/// How often it looks at all pods.
const INTERVAL: Duration = Duration::from_millis(250);
/// Where MongoDB's agent says which configuration it has carried out.
const AGENT_VERSION: &str = "agent.mongodb.com/version";
/// The node of all pods, which does not exist.
const NODE: &str = "node";

/// Says of every pod that it runs, and lets deleted ones go, until it is dropped.
#[derive(Debug)]
pub struct Kubelet {
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Starts to look after the pods of a server. The server may be away at times.
    ///
    /// # Errors
    /// When a client cannot be built.
    pub async fn start(server: &Server) -> Result<Self> {
        let client = server.client().await?;
        let task = tokio::spawn(async move {
            let mut rounds = tokio::time::interval(INTERVAL);
            loop {
                rounds.tick().await;
                // What changed meanwhile, or could not be reached, is there in the next round.
                drop(look(&client).await);
            }
        });
        Ok(Self { task })
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::all(client.clone());
    for pod in pods.list(&ListParams::default()).await? {
        drop(look_at(client, &pod).await);
    }
    Ok(())
}

async fn look_at(client: &Client, pod: &Pod) -> Result<()> {
    let metadata = &pod.metadata;
    let name = metadata.name.as_deref().context("a pod without a name")?;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    if metadata.deletion_timestamp.is_some() {
        let now = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default().grace_period(0)
        };
        pods.delete(name, &now).await?;
        return Ok(());
    }
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    if spec.node_name.is_none() {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&binding)?)?;
        client.request_text(request).await?;
    }
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if phase != Some("Running") {
        let containers = spec.containers.iter();
        let running: Vec<Value> = containers
            .map(|container| {
                json!({"name": container.name, "ready": true, "started": true, "restartCount": 0,
                "image": container.image, "imageID": "none", "state": {"running": {}}})
            })
            .collect();
        let met = |kind: &str| json!({"type": kind, "status": "True"});
        let status = json!({"status": {"phase": "Running", "containerStatuses": running,
            "conditions": [met("PodScheduled"), met("Initialized"), met("ContainersReady"), met("Ready")]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    play_agent(client, &pods, pod, name, namespace).await
}

/// Carries out the configuration that the operator wrote, which is to say that it was.
async fn play_agent(
    client: &Client,
    pods: &Api<Pod>,
    pod: &Pod,
    name: &str,
    namespace: &str,
) -> Result<()> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let set = owners.map(|owner| &owner.name).next();
    let set = set.context("a pod of no StatefulSet")?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let configuration = secrets.get(&format!("{set}-config")).await?.data;
    let configuration = configuration.and_then(|mut data| data.remove("cluster-config.json"));
    let configuration: Value = serde_json::from_slice(&configuration.context("a key")?.0)?;
    let version = configuration["version"].to_string();
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.and_then(|all| all.get(AGENT_VERSION)) != Some(&version) {
        let patch = json!({"metadata": {"annotations": {AGENT_VERSION: version}}});
        pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    Ok(())
}
