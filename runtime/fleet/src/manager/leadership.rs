//! Whether this process leads, where several processes are candidates in an election. Entry point: [`Leadership::stand`].
//!
//! Only the queue depends on it: providers engage and watches enqueue on followers as on the leader, so that caches and the queue
//! are filled at a takeover. The keys of controllers that need the lease are held until this process leads.

use super::options::END_TIMEOUT;
use crate::cluster::Fleet;
use crate::controller::Controller;
use crate::election::{Election, ElectionStatus, Phase};
use crate::http::fence::Fence;
use crate::task;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// This process's part in an election, if there is one.
pub(super) struct Leadership {
    election: Option<Arc<Election>>,
    /// Cancelled when this process led and could not keep the lease.
    lost: CancellationToken,
    /// Cancelled when the manager has ended: the lease is not renewed any more.
    ended: CancellationToken,
}

impl Leadership {
    pub(super) fn new(election: Option<Arc<Election>>) -> Self {
        Self {
            election,
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn status(&self) -> Option<ElectionStatus> {
        self.election.as_ref().map(|election| election.status())
    }

    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// The fence that a controller's writes must pass, if the controller needs the lease.
    pub(super) fn fence(&self, controller: &Controller) -> Option<Arc<Fence>> {
        let election = self.election.as_ref().filter(|_| controller.needs_lease)?;
        Some(election.fence().clone())
    }

    /// The fence of this process, if it leads; `Some(None)`: there is no election.
    pub(super) fn leading_fence(&self) -> Option<Option<Arc<Fence>>> {
        let Some(election) = &self.election else {
            return Some(None);
        };
        let leads = *election.phase().borrow() == Phase::Leader;
        leads.then(|| Some(election.fence().clone()))
    }

    /// Whether a controller's keys wait for this process to lead.
    pub(super) fn holds(&self, controller: &Controller) -> bool {
        let leads = |election: &Arc<Election>| *election.phase().borrow() == Phase::Leader;
        controller.needs_lease
            && self
                .election
                .as_ref()
                .is_some_and(|election| !leads(election))
    }

    /// Waits until a controller must not run any more because the lease was lost.
    pub(super) async fn lost_for(&self, controller: &Controller) {
        if controller.needs_lease {
            self.lost.cancelled().await;
        } else {
            std::future::pending().await
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
        let Some(election) = self.election.clone() else {
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

    /// Ends the election. Gives the lease back if `idle` says that no reconcile runs under it any more.
    pub(super) async fn resign(&self, idle: bool) {
        if let Some(election) = &self.election {
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
