//! What runs only while this process leads. Entry point: [`Core::stand`].
//!
//! Nothing above or below knows of it: providers engage and sources enqueue on followers as on the leader, so that caches and the
//! queue are warm; only the keys of controllers that need the lease are held in the queue.

use super::core::{Core, END};
use crate::controller::Controller;
use crate::election::{Election, ElectionStatus, Phase};
use crate::http::fence::Fence;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// This process's part in an election, if there is one.
pub(super) struct Leadership {
    election: Option<Arc<Election>>,
    /// Cancelled when this process led and could not keep the lease.
    lost: CancellationToken,
    /// Cancelled when the manager has ended: nobody renews for it any more.
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

    /// What a controller's writes must pass.
    pub(super) fn fence(&self, controller: &Controller) -> Option<Arc<Fence>> {
        let election = self.election.as_ref().filter(|_| controller.needs_lease)?;
        Some(election.fence().clone())
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

    /// Waits until this process must not run what needs the lease any more.
    pub(super) async fn lost_for(&self, controller: &Controller) {
        if controller.needs_lease {
            self.lost.cancelled().await;
        } else {
            std::future::pending().await
        }
    }

    /// Gives the lease back once nothing works under it any more, and ends the election.
    async fn resign(&self, idle: bool) {
        if let Some(election) = &self.election {
            if idle {
                let mut phase = election.phase();
                let ended = async {
                    election.leave().await;
                    let over = |phase: &Phase| matches!(phase, Phase::Ended | Phase::Lost);
                    let _ = phase.wait_for(over).await;
                };
                let _ = tokio::time::timeout(END, ended).await;
            } else {
                tracing::warn!("something still runs: the lease is left to end by itself");
            }
            election.fence().shut();
        }
        self.ended.cancel();
    }
}

impl Core {
    /// Begins to stand for election, if there is one, and lets go what needs the lease once it is won.
    pub(super) fn stand(self: &Arc<Self>) {
        let Some(election) = self.leadership.election.clone() else {
            return;
        };
        let ended = self.leadership.ended.clone();
        let run = election.clone().run(self.fleet.clone());
        self.tasks.spawn_on(
            async move { ended.run_until_cancelled(run).await },
            &self.host,
        );
        let (core, ended) = (self.clone(), self.leadership.ended.clone());
        let follow = async move {
            let mut phases = election.phase();
            while phases.changed().await.is_ok() {
                let phase = *phases.borrow_and_update();
                core.hold_or_let_go();
                if phase == Phase::Lost {
                    core.leadership.lost.cancel();
                }
            }
        };
        self.tasks.spawn_on(
            async move { ended.run_until_cancelled(follow).await },
            &self.host,
        );
    }

    fn hold_or_let_go(&self) {
        // As in putting a controller: what is put meanwhile is held or not by what it finds, or by this.
        let engaged = self.engaged.lock();
        let registered: Vec<_> = self.controllers.read().by_name.values().cloned().collect();
        let mut queue = self.queue.lock();
        for registered in registered {
            let held = self.leadership.holds(&registered.controller());
            queue.hold_controller(registered.id, held);
        }
        drop(queue);
        drop(engaged);
        self.wake.notify_one();
    }

    /// After everything that ran has ended, or had its time to: gives the lease back.
    pub(super) async fn resign(&self) {
        self.leadership.resign(self.attempts.is_empty()).await;
    }
}
