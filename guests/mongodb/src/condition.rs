//! What a consumer reads: the condition `Ready`, of how far it went, [`Progress`], or of what is in the way, [`Trouble`].

use crate::ABANDON;
use crate::kinds::Database;
use std::time::Duration;
use windlass_sdk::prelude::*;

/// That a consumer accepts a claim causes no event of an object.
const AGAIN: Duration = Duration::from_secs(30);

/// How far a database is.
pub(crate) struct Progress {
    /// The copy.
    pub(crate) copy: Database,
    /// Secrets with connection strings that the operator has not made yet.
    pub(crate) missing: Vec<String>,
}

/// Why nothing could be done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The consumer has to act; that is an event.
    Consumer {
        reason: &'static str,
        message: String,
    },
    /// The consumer does not let the service read or write Secrets.
    Claim,
    /// The compute cluster does not answer.
    Away(Error),
    /// The people who run the service have to act.
    Provider(Error),
    /// Something changed meanwhile, or the workspace does not answer: it is tried again without a word.
    Again(Error),
    /// The object is being deleted, and its copy is not gone. With the reason why not, if there is one.
    Ending(Option<Error>),
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
            ApiCode::Denied | ApiCode::Unauthorized | ApiCode::UnknownKind => {
                Self::Provider(error.into())
            }
            // A namespace that is being deleted refuses new objects.
            ApiCode::Forbidden if error.message.contains("being terminated") => {
                Self::Again(error.into())
            }
            ApiCode::Forbidden => Self::Provider(error.into()),
            _ => Self::Again(error.into()),
        }
    }

    /// Of a call to the workspace about Secrets.
    pub(crate) fn workspace(error: ApiError) -> Self {
        match error.code {
            ApiCode::Denied | ApiCode::Forbidden => Self::Claim,
            _ => Self::Again(error.into()),
        }
    }

    /// The same for an object that is being deleted.
    pub(crate) fn while_ending(self) -> Self {
        match self {
            Self::Away(error) | Self::Provider(error) => Self::Ending(Some(error)),
            other => other,
        }
    }

    /// What to do next.
    pub(crate) fn next(self) -> Result<Action> {
        match self {
            Self::Consumer { .. } | Self::Ending(None) => Ok(Action::Done),
            Self::Claim => Ok(Action::requeue_after(AGAIN)),
            other => Err(other.into()),
        }
    }

    /// What the consumer reads; `None`: nothing new.
    pub(crate) fn condition(&self) -> Option<Condition> {
        let (status, reason, message) = match self {
            Self::Consumer { reason, message } => ("False", *reason, message.clone()),
            Self::Claim => (
                "False",
                "ClaimNotAccepted",
                "the service reads passwords from Secrets and puts connection strings into Secrets: accept its claim on secrets in your APIBinding"
                    .to_owned(),
            ),
            Self::Away(_) => (
                "Unknown",
                "ServiceUnreachable",
                "the service cannot be reached: a database that runs goes on, changes wait until it is back, and there is nothing to do"
                    .to_owned(),
            ),
            Self::Provider(_) => (
                "False",
                "ServiceBroken",
                "the service has a problem that those who run it have to solve: changes wait, tell them if it lasts".to_owned(),
            ),
            Self::Again(_) => return None,
            Self::Ending(None) => (
                "False",
                "Deleting",
                "the database is being deleted: this object goes when the database is gone".to_owned(),
            ),
            Self::Ending(Some(_)) => (
                "False",
                "DeletionWaits",
                format!(
                    "the service cannot delete the database now, and does so when it can: to let this object go without waiting, annotate it with {ABANDON}=true"
                ),
            ),
        };
        Some(ready(status, reason, message))
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(error)
            | Trouble::Provider(error)
            | Trouble::Again(error)
            | Trouble::Ending(Some(error)) => error,
            Trouble::Consumer { message, .. } => Self::terminal(message),
            Trouble::Claim => Self::retry("the claim on secrets is not accepted"),
            Trouble::Ending(None) => Self::retry("the copy is not gone yet"),
        }
    }
}

/// The condition `Ready`.
fn ready(status: &str, reason: &str, message: String) -> Condition {
    Condition::new("Ready", status, reason).message(message)
}

impl Progress {
    pub(crate) fn condition(&self) -> Condition {
        let status = &self.copy.status;
        let said = status["message"].as_str().unwrap_or_default();
        let (status, reason, message) = match status["phase"].as_str() {
            Some("Running") if self.missing.is_empty() => {
                let message =
                    "the database runs: its connection strings are in the Secrets that users name";
                ("True", "Running", message.to_owned())
            }
            Some("Running") => {
                let message = format!(
                    "the database runs: the Secret {} comes in a moment",
                    self.missing.join(", ")
                );
                ("False", "Provisioning", message)
            }
            Some("Failed") => (
                "False",
                "Failed",
                format!("the operator cannot run the database: {said}"),
            ),
            _ if said.is_empty() => (
                "False",
                "Provisioning",
                "the database is being made".to_owned(),
            ),
            _ => (
                "False",
                "Provisioning",
                format!("the database is being made: {said}"),
            ),
        };
        ready(status, reason, message)
    }
}
