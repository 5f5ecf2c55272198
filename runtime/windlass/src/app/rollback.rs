//! Roll backs on their way from the admin endpoints to who changes reconcilers. Entry point: [`channel`].

use crate::status::view::{RollbackReply, RollbackRequest};
use tokio::sync::{mpsc, oneshot};

/// Roll backs that may wait to be begun, which takes no time.
const WAITING: usize = 16;

/// Why nothing was rolled back. The messages are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such reconciler.
    Unknown(String),
    /// It cannot be done, and what served goes on.
    Impossible(String),
    /// Nobody takes roll backs now: the process is starting, ending, or asked for too much at once.
    Busy(String),
}

/// A roll back that somebody waits for.
pub(crate) struct Asked {
    request: RollbackRequest,
    reply: oneshot::Sender<Result<RollbackReply, Refusal>>,
}

impl Asked {
    /// What is asked for; none when nobody waits any more, and then nothing is to be done.
    pub(crate) fn request(&self) -> Option<&RollbackRequest> {
        (!self.reply.is_closed()).then_some(&self.request)
    }

    /// Answers.
    pub(crate) fn answer(self, answer: Result<RollbackReply, Refusal>) {
        // Whoever asked may have gone meanwhile.
        let _ = self.reply.send(answer);
    }
}

/// Where roll backs are asked for. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Rollbacks(mpsc::Sender<Asked>);

/// The two ends.
pub(crate) fn channel() -> (Rollbacks, mpsc::Receiver<Asked>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Rollbacks(sender), receiver)
}

impl Rollbacks {
    /// Asks, and waits until it is done.
    ///
    /// # Errors
    /// [`Refusal`]: what served goes on.
    ///
    /// # Cancellation
    /// Dropping the future takes back what has not been begun.
    pub(crate) async fn ask(&self, request: RollbackRequest) -> Result<RollbackReply, Refusal> {
        let (reply, answer) = oneshot::channel();
        let busy = || Refusal::Busy("no roll back is taken now: try again".to_owned());
        self.0
            .try_send(Asked { request, reply })
            .map_err(|_| busy())?;
        answer.await.unwrap_or_else(|_| Err(busy()))
    }
}
