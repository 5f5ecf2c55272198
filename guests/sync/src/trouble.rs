//! Why an object is not in sync, and what a consumer reads of it. Entry points: [`Trouble`] and [`Condition`].

use std::time::Duration;
use windlass_sdk::prelude::*;

/// An annotation of a consumer's object that is being deleted: with the value `true` the copy is not waited for.
pub(crate) const ABANDON: &str = "sync.windlass.dev/abandon";
/// That a consumer accepts a claim, or that a name becomes free, causes no event of an object.
const AGAIN: Duration = Duration::from_secs(30);

/// What the consumer reads.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What is in the way.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The consumer has to act; that is an event.
    Consumer {
        reason: &'static str,
        message: String,
    },
    /// Something else has the name. The consumer has to act, and that may be no event.
    Taken {
        reason: &'static str,
        message: String,
    },
    /// The consumer does not let the service use objects of this resource.
    Claim(&'static str),
    /// The compute cluster does not answer.
    Away(Error),
    /// The people who run the service have to act.
    Provider(Error),
    /// Something changed meanwhile, or the workspace does not answer: it is tried again without a word.
    Again(Error),
    /// The copy is being deleted by somebody, and is made again when it is gone.
    Replacing,
    /// The object leaves, and its copy is not gone. With the reason why not, if there is one.
    Ending(Option<Error>),
}

impl Condition {
    /// All is well.
    pub(crate) fn synced() -> Self {
        Self {
            status: "True",
            reason: "Synced",
            message: "the service has what this object asks for".to_owned(),
        }
    }
}

impl Trouble {
    pub(crate) fn consumer(reason: &'static str, message: String) -> Self {
        Self::Consumer { reason, message }
    }

    /// Of a call to the compute cluster.
    pub(crate) fn compute(error: ApiError) -> Self {
        match error.code {
            ApiCode::Invalid => {
                let message = format!("the service does not take this: {}", error.message);
                Self::consumer("SpecInvalid", message)
            }
            ApiCode::Unavailable | ApiCode::Timeout | ApiCode::ClusterGone => {
                Self::Away(error.into())
            }
            // A namespace that is being deleted refuses new objects.
            ApiCode::Forbidden if error.message.contains("being terminated") => {
                Self::Again(error.into())
            }
            ApiCode::Denied | ApiCode::Unauthorized | ApiCode::UnknownKind | ApiCode::Forbidden => {
                Self::Provider(error.into())
            }
            _ => Self::Again(error.into()),
        }
    }

    /// Of a call to the workspace about objects of a claimed resource.
    pub(crate) fn workspace(error: ApiError, resource: &'static str) -> Self {
        match error.code {
            ApiCode::Denied | ApiCode::Forbidden => Self::Claim(resource),
            _ => Self::Again(error.into()),
        }
    }

    /// The same for an object that leaves.
    pub(crate) fn while_ending(self) -> Self {
        match self {
            Self::Away(error) | Self::Provider(error) => Self::Ending(Some(error)),
            other => other,
        }
    }

    /// What to do next.
    pub(crate) fn next(self) -> Result<Action> {
        match self {
            Self::Consumer { .. } | Self::Ending(None) | Self::Replacing => Ok(Action::Done),
            Self::Claim(_) | Self::Taken { .. } => Ok(Action::requeue_after(AGAIN)),
            Self::Away(error)
            | Self::Provider(error)
            | Self::Again(error)
            | Self::Ending(Some(error)) => Err(error),
        }
    }

    /// What the consumer reads; `None`: nothing new.
    pub(crate) fn condition(&self) -> Option<Condition> {
        let (status, reason, message) = match self {
            Self::Consumer { reason, message } | Self::Taken { reason, message } => {
                ("False", *reason, message.clone())
            }
            Self::Claim(resource) => (
                "False",
                "ClaimNotAccepted",
                format!("the service may not use your {resource}: accept its claim on {resource} in your APIBinding"),
            ),
            Self::Away(_) => (
                "Unknown",
                "ServiceUnreachable",
                "the service cannot be reached: what runs goes on, changes wait until it is back, and there is nothing to do".to_owned(),
            ),
            Self::Provider(_) => (
                "False",
                "ServiceBroken",
                "the service has a problem that those who run it have to solve: changes wait, tell them if it lasts".to_owned(),
            ),
            Self::Again(_) => return None,
            Self::Replacing => (
                "False",
                "Replacing",
                "what the service made of this object is being deleted, and is made again when it is gone".to_owned(),
            ),
            Self::Ending(None) => (
                "False",
                "Deleting",
                "the service deletes what it made of this object: the object is let go when that is gone".to_owned(),
            ),
            Self::Ending(Some(_)) => (
                "False",
                "DeletionWaits",
                format!(
                    "the service cannot delete what it made of this object now, and does so when it can: to let the object go without waiting, annotate it with {ABANDON}=true"
                ),
            ),
        };
        Some(Condition {
            status,
            reason,
            message,
        })
    }
}
