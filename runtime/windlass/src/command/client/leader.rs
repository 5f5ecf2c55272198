//! The pods of a manager in a cluster, by its Leases. Entry point: [`find`].
//!
//! The Lease of an election names the pod that leads. The assignment of a sharding names no pod: each member has a Lease with its name.

use super::members::Members;
use super::pod::{Pod, Pods};
use crate::cli::AdminArgs;
use crate::command::api_server::ApiServer;
use crate::config::kinds::ManagerSpec;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use windlass_fleet::api::{GetOptions, ListOptions, ReadMode, WriteOptions};
use windlass_fleet::shard;
use windlass_fleet::{Client, GroupVersionKind, ObjectKey};

/// How long a token that this command makes is valid: the least that API servers allow.
const VALID: u64 = 600;

/// The pods that are called.
pub(super) enum Found {
    /// One does the work, or is named.
    One(Pod),
    /// Each works on its clusters.
    Members(Members),
}

/// Connects to the API server, finds the pods, and gets a token if there is none.
///
/// # Errors
/// When the API server is not reached or refuses it, nobody leads, or no flag says how to get a token.
pub(super) async fn find(args: &AdminArgs, token: Option<String>) -> Result<Found> {
    if token.is_none() && args.as_service_account.is_none() {
        bail!(
            "the manager wants a token: give --as-service-account NAME, or --token FILE with what kubectl create token NAME --audience {} prints",
            args.audience
        );
    }
    let server = ApiServer::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let namespace = args.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| server.namespace.clone());
    let client = &server.client;
    let holders = match &args.pod {
        Some(pod) => Holders::Leader(pod.clone()),
        None => holders(client, &namespace, args.lease.as_deref()).await?,
    };
    let token = match (token, &args.as_service_account) {
        (Some(token), _) => token,
        (None, account) => {
            let account = account.as_deref().unwrap_or_default();
            token_of(client, &namespace, account, &args.audience).await?
        }
    };
    let (names, is_sharded) = match holders {
        Holders::Leader(name) => (BTreeSet::from([name]), false),
        Holders::Members(names) => (names, true),
    };
    let mut pods = Pods::of(args, server, namespace, token, names);
    if is_sharded {
        return Ok(Found::Members(Members::new(pods)));
    }
    let pod = pods.pop().context("no pod is named")?;
    Ok(Found::One(pod))
}

/// The pods that Leases name.
enum Holders {
    Leader(String),
    Members(BTreeSet<String>),
}

fn lease() -> GroupVersionKind {
    GroupVersionKind::new("coordination.k8s.io", "v1", "Lease")
}

/// The pod that holds the Lease, or the members whose assignment it is.
async fn holders(client: &Client, namespace: &str, name: Option<&str>) -> Result<Holders> {
    let name = name.unwrap_or(ManagerSpec::DEFAULT_LEASE);
    let key = ObjectKey::namespaced(namespace, name);
    let options = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let found = client.get(&lease(), &key, &options).await;
    let found = found.map_err(|error| anyhow!(error.message));
    let found = found.with_context(|| format!("read the Lease {namespace}/{name}"))?;
    let Some(found) = found else {
        bail!(
            "there is no Lease {namespace}/{name}: name the namespace with -n, or the Lease with --lease, or a pod with --pod"
        );
    };
    let found: Json = serde_json::from_slice(&found)?;
    if found["metadata"]["labels"][shard::LABEL] == name {
        let members = members(client, namespace, name).await?;
        return Ok(Holders::Members(members));
    }
    let holder = found["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let pod = pod_of(holder).with_context(|| {
        format!("the Lease {namespace}/{name} is held by {holder:?}, which names no pod: try again soon, or name a pod with --pod")
    })?;
    Ok(Holders::Leader(pod))
}

/// The members of a sharding: each is named as its pod.
async fn members(client: &Client, namespace: &str, name: &str) -> Result<BTreeSet<String>> {
    let mut options = ListOptions {
        namespace: Some(namespace.to_owned()),
        label_selector: Some(format!("{}={name}", shard::LABEL)),
        mode: ReadMode::Live,
        ..ListOptions::default()
    };
    let mut names = BTreeSet::new();
    loop {
        let page = client.list(&lease(), &options).await;
        let page = page.map_err(|error| anyhow!(error.message));
        let page =
            page.with_context(|| format!("list the Leases of the members of {namespace}/{name}"))?;
        let leases = page.items.iter();
        names.extend(leases.filter_map(|lease| Some(shard::member_of(lease, name)?.to_string())));
        options.continue_token = page.continue_token;
        if options.continue_token.is_none() || names.len() > shard::MAX_MEMBERS {
            break;
        }
    }
    if names.is_empty() {
        bail!("the Lease {namespace}/{name} has no members: no process runs");
    }
    Ok(names)
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
