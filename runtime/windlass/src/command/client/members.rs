//! The members of a sharding, each a pod. Entry points: [`Members::living`] and [`Members::owner`].
//!
//! Any of them knows which live, and which works on a cluster.

use super::pod::Pod;
use super::{Failure, ask};
use crate::status::view::{MemberView, ShardsView};
use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use std::time::Duration;
use windlass_fleet::ClusterName;

/// All members that have a Lease, dead ones among them.
#[derive(Clone)]
pub(super) struct Members {
    pods: Vec<Pod>,
}

impl Members {
    /// At least one.
    pub(super) fn new(pods: Vec<Pod>) -> Self {
        Self { pods }
    }

    /// One of them, for what is the same from any.
    pub(super) fn first(&self) -> Option<&Pod> {
        self.pods.first()
    }

    /// The answer of the first that answers.
    ///
    /// # Errors
    /// When that one refuses, or none answers.
    pub(super) async fn any(
        &self,
        path: &str,
        body: Option<Bytes>,
        time: Duration,
    ) -> Result<Bytes> {
        let mut silent = Vec::new();
        for pod in &self.pods {
            match ask(pod, path, body.clone(), time).await {
                Ok(body) => return Ok(body),
                Err(refused @ Failure::Refused(_)) => return Err(refused.into()),
                Err(Failure::Silent(error)) => silent.push(format!("{error:#}")),
            }
        }
        Err(anyhow!(silent.join("\n")))
    }

    /// Those that live, as one of them sees it.
    ///
    /// # Errors
    /// When none answers.
    pub(super) async fn living(&self) -> Result<Vec<Pod>> {
        let shards = self.shards("/api/v1/shards").await?;
        let lives = |pod: &&Pod| {
            let mut members = shards.items.iter();
            members.any(|member| member.name == pod.name() && member.state != MemberView::DEAD)
        };
        Ok(self.pods.iter().filter(lives).cloned().collect())
    }

    /// The one that works on a cluster.
    ///
    /// # Errors
    /// When none does, or none answers.
    pub(super) async fn owner(&self, cluster: &ClusterName) -> Result<Pod> {
        let asked = super::query([("cluster", Some(cluster.to_string()))]);
        let shards = self.shards(&format!("/api/v1/shards{asked}")).await?;
        let name = cluster.as_str();
        let Some(owner) = shards.owner else {
            bail!("no process works on the cluster {name:?} now: see windlass get shards");
        };
        let pod = self.pods.iter().find(|pod| pod.name() == owner);
        pod.cloned().ok_or_else(|| {
            anyhow!("the process {owner} works on the cluster {name:?}, and it has just begun: try again")
        })
    }

    async fn shards(&self, path: &str) -> Result<ShardsView> {
        let answer = self.any(path, None, super::DEADLINE).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}
