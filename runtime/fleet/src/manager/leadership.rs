//! Which of this process's keys may run, where several processes share the work: those of a leader, or those of its shards. Entry point:
//! [`Leadership::stand`].
//!
//! Providers engage in every process alike. The keys of controllers that need the lease are held until this process leads, or owns their
//! cluster. Processes that wait to lead have the watches of the leader, so that caches and the queue are filled at a takeover. Of shards, a
//! process watches the clusters of those that it holds and of those that it is about to hold.

use super::options::END_TIMEOUT;
use crate::cluster::Fleet;
use crate::controller::Controller;
use crate::election::{Election, ElectionStatus, Phase};
use crate::http::fence::Fence;
use crate::name::ClusterName;
use crate::shard::{Membership, ShardSet, ShardStatus, Stay};
use crate::task;
use parking_lot::Mutex;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How several processes share the work.
pub(super) enum Sharing {
    /// There is one process, or each does all of it.
    None,
    /// One of them leads.
    Election(Arc<Election>),
    /// Each has its shards.
    Shards(Arc<Membership>),
}

/// This process's part of the work.
pub(super) struct Leadership {
    sharing: Sharing,
    in_effect: Mutex<InEffect>,
    /// Cancelled when this process led and could not keep the lease.
    lost: CancellationToken,
    /// Cancelled when the manager has ended: the lease is not renewed any more.
    ended: CancellationToken,
}

/// What the manager has put into effect of this process's shards.
///
/// Invariant: it changes only while the clusters are frozen, and what follows from it is in effect when they are not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct InEffect {
    /// Those whose keys may run.
    pub(super) held: ShardSet,
    /// Those whose clusters are watched: the held ones are among them.
    pub(super) watched: ShardSet,
}

/// A key that another process runs, or none does.
#[derive(Debug)]
pub(super) struct Elsewhere;

impl Leadership {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self {
            sharing,
            in_effect: Mutex::default(),
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    fn election(&self) -> Option<&Arc<Election>> {
        match &self.sharing {
            Sharing::Election(election) => Some(election),
            Sharing::None | Sharing::Shards(_) => None,
        }
    }

    pub(super) fn membership(&self) -> Option<&Arc<Membership>> {
        match &self.sharing {
            Sharing::Shards(membership) => Some(membership),
            Sharing::None | Sharing::Election(_) => None,
        }
    }

    pub(super) fn status(&self) -> Option<ElectionStatus> {
        self.election().map(|election| election.status())
    }

    pub(super) fn shards(&self) -> Option<ShardStatus> {
        self.membership().map(|membership| membership.status())
    }

    /// The process that works on a cluster, as far as this one knows: it leads, or owns the cluster's shard.
    pub(super) fn worker(&self, cluster: &ClusterName) -> Option<Arc<str>> {
        match &self.sharing {
            Sharing::None => None,
            Sharing::Election(election) => {
                let holder = election.status().holder;
                (!holder.is_empty()).then(|| holder.into())
            }
            Sharing::Shards(membership) => membership.owner(cluster),
        }
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Begins a run of a key, if this process may run it. A controller that needs no lease runs everywhere.
    ///
    /// # Errors
    /// [`Elsewhere`].
    pub(super) fn enter(
        &self,
        controller: &Controller,
        cluster: &ClusterName,
    ) -> Result<Option<Stay>, Elsewhere> {
        match self.membership().filter(|_| controller.needs_lease) {
            Some(membership) => membership.enter(cluster).map(Some).ok_or(Elsewhere),
            None => Ok(None),
        }
    }

    /// The fence that a controller's writes for a cluster must pass, if the controller needs the lease.
    ///
    /// # Errors
    /// [`Elsewhere`].
    pub(super) fn fence(
        &self,
        controller: &Controller,
        cluster: &ClusterName,
    ) -> Result<Option<Arc<Fence>>, Elsewhere> {
        match &self.sharing {
            _ if !controller.needs_lease => Ok(None),
            Sharing::None => Ok(None),
            Sharing::Election(election) => Ok(Some(election.fence().clone())),
            Sharing::Shards(membership) => membership.fence(cluster).map(Some).ok_or(Elsewhere),
        }
    }

    /// The fence for this program's own writes for a cluster, if they are this process's to do; `Some(None)`: there is no other process.
    pub(super) fn leading_fence(&self, cluster: &ClusterName) -> Option<Option<Arc<Fence>>> {
        match &self.sharing {
            Sharing::None => Some(None),
            Sharing::Election(election) => leads(election).then(|| Some(election.fence().clone())),
            Sharing::Shards(membership) => membership.fence(cluster).map(Some),
        }
    }

    /// Whether a controller's keys wait for this process to lead.
    pub(super) fn holds(&self, controller: &Controller) -> bool {
        controller.needs_lease && self.election().is_some_and(|election| !leads(election))
    }

    /// Whether a controller's keys of a cluster wait for this process to own it.
    pub(super) fn holds_in(&self, controller: &Controller, cluster: &ClusterName) -> bool {
        let membership = self.membership().filter(|_| controller.needs_lease);
        membership.is_some_and(|membership| !membership.owns(cluster))
    }

    /// Whether this process watches a cluster for controllers that need the lease. Without shards it watches all.
    pub(super) fn watches(&self, cluster: &ClusterName) -> bool {
        self.membership().is_none_or(|membership| {
            let shard = membership.shard_of(cluster);
            self.in_effect.lock().watched.contains(shard)
        })
    }

    /// Replaces what is in effect, and returns what was.
    pub(super) fn put_into_effect(&self, now: InEffect) -> InEffect {
        std::mem::replace(&mut self.in_effect.lock(), now)
    }

    /// Waits until a controller must not run any more because the lease was lost.
    pub(super) async fn lost_for(&self, controller: &Controller) {
        if controller.needs_lease {
            self.lost.cancelled().await;
        } else {
            pending().await
        }
    }

    /// Stands for election, if there is one. Calls `phase_changed` after every change of [`Self::holds`].
    pub(super) fn stand(
        &self,
        fleet: Fleet,
        host: &Handle,
        tasks: &TaskTracker,
        phase_changed: impl Fn() + Send + Sync + 'static,
    ) {
        let Some(election) = self.election().cloned() else {
            return;
        };
        let (lost, ended) = (self.lost.clone(), self.ended.clone());
        let run = election.clone().run(fleet);
        task::spawn(tasks, host, ended, run);
        let follow = async move {
            let mut phases = election.phase();
            while phases.changed().await.is_ok() {
                let phase = *phases.borrow_and_update();
                phase_changed();
                if phase == Phase::Lost {
                    lost.cancel();
                }
            }
        };
        task::spawn(tasks, host, self.ended.clone(), follow);
    }

    /// Runs a task until the manager has ended.
    pub(super) fn spawn(
        &self,
        host: &Handle,
        tasks: &TaskTracker,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        task::spawn(tasks, host, self.ended.clone(), task);
    }

    /// Gives shards to other members for so long. Runs begin meanwhile in those that are left.
    pub(super) async fn hand_over(&self, time: Duration) {
        if let Some(membership) = self.membership() {
            let left = membership.leave(time);
            let _ = tokio::time::timeout(time + END_TIMEOUT, left).await;
        }
    }

    /// Ends this process's part. Gives the lease back if `idle` says that no reconcile runs under it any more.
    pub(super) async fn resign(&self, idle: bool) {
        if let Some(election) = self.election() {
            if idle {
                let mut phase = election.phase();
                let ended = async {
                    election.leave().await;
                    let over = |phase: &Phase| matches!(phase, Phase::Ended | Phase::Lost);
                    let _ = phase.wait_for(over).await;
                };
                let _ = tokio::time::timeout(END_TIMEOUT, ended).await;
            } else {
                tracing::warn!("reconciles still run: the lease is not given back and expires");
            }
            election.fence().shut();
        }
        self.ended.cancel();
    }
}

fn leads(election: &Election) -> bool {
    *election.phase().borrow() == Phase::Leader
}
