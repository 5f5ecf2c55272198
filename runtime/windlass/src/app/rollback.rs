//! Carries rollbacks from the admin endpoints to the reconcilers. Entry point: [`channel`].

use crate::status::view::{RollbackReply, RollbackRequest};
use tokio::sync::{mpsc, oneshot};

/// Rollbacks that may wait for the reconcilers, which take each one at once.
const BACKLOG: usize = 16;

/// Why a rollback was refused. What served keeps serving. The messages are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such reconciler.
    Unknown(String),
    /// The revision cannot serve.
    Impossible(String),
    /// The process starts or ends, or another rollback is under way.
    Busy(String),
}

/// A rollback and the caller that waits for it.
pub(crate) struct RollbackCall {
    request: RollbackRequest,
    reply: oneshot::Sender<Result<RollbackReply, Refusal>>,
}

impl RollbackCall {
    /// The request; none: the caller has gone, and nothing needs to be done.
    pub(crate) fn request(&self) -> Option<&RollbackRequest> {
        (!self.reply.is_closed()).then_some(&self.request)
    }

    /// Answers the caller.
    pub(crate) fn answer(self, answer: Result<RollbackReply, Refusal>) {
        // The caller may have gone meanwhile.
        let _ = self.reply.send(answer);
    }
}

/// Sends rollbacks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Rollbacks(mpsc::Sender<RollbackCall>);

/// The two ends.
pub(crate) fn channel() -> (Rollbacks, mpsc::Receiver<RollbackCall>) {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    (Rollbacks(sender), receiver)
}

impl Rollbacks {
    /// Asks for a rollback, and waits until it is in effect.
    ///
    /// # Errors
    /// [`Refusal`]
    ///
    /// # Cancellation
    /// Dropping the future withdraws a rollback that has not started yet.
    pub(crate) async fn ask(&self, request: RollbackRequest) -> Result<RollbackReply, Refusal> {
        let (reply, answer) = oneshot::channel();
        let busy = || Refusal::Busy("rollbacks are not accepted now: try again".to_owned());
        self.0
            .try_send(RollbackCall { request, reply })
            .map_err(|_| busy())?;
        answer.await.unwrap_or_else(|_| Err(busy()))
    }
}
