//! A rollback: a reconciler serves another revision than the one in its file. Entry points: [`Reconcilers::roll_back`] and
//! [`RollbackChoice::take`].

use super::Reconcilers;
use crate::app::rollback::{Refusal, RollbackCall};
use crate::config::kinds::Origin;
use crate::config::record::{KnownRevision, Rollback};
use crate::status::view::RollbackRequest;
use windlass_sandbox::Digest;

/// The revisions that a reconciler can serve.
pub(super) struct RollbackChoice {
    /// The revision that serves; none: nothing does.
    pub(super) serving: Option<KnownRevision>,
    /// The revision that served before.
    pub(super) previous: Option<KnownRevision>,
    /// The revision in the guest's file.
    pub(super) file: Option<Digest>,
    /// The rollback that is in effect.
    pub(super) rollback: Option<Rollback>,
}

impl RollbackChoice {
    /// The rollback that a request asks for; none: the file decides again.
    ///
    /// # Errors
    /// [`RollbackChoiceError`]
    pub(super) fn take(
        &self,
        request: &RollbackRequest,
    ) -> Result<Option<Rollback>, RollbackChoiceError> {
        if request.undo {
            return match self.rollback {
                Some(_) => Ok(None),
                None => Err(RollbackChoiceError::NothingToUndo),
            };
        }
        let to = match &request.to {
            Some(wanted) => self.find(wanted)?,
            None => self.before()?,
        };
        let serving = self.serving.as_ref().map(|serving| serving.digest);
        if serving == Some(to.digest) {
            return Err(RollbackChoiceError::Serves(to.digest.short()));
        }
        let instead_of = self.file;
        let differs = instead_of != Some(to.digest);
        Ok(differs.then_some(Rollback { to, instead_of }))
    }

    /// The previous revision, unless a rollback is in effect: the same command twice must not switch back and forth.
    fn before(&self) -> Result<KnownRevision, RollbackChoiceError> {
        if let Some(rollback) = &self.rollback {
            let to = rollback.to.digest.short();
            return Err(RollbackChoiceError::RolledBack(to));
        }
        self.previous.clone().ok_or(RollbackChoiceError::NoPrevious)
    }

    fn find(&self, wanted: &str) -> Result<KnownRevision, RollbackChoiceError> {
        let wanted = wanted.strip_prefix("sha256:").unwrap_or(wanted);
        let kept = [&self.serving, &self.previous].into_iter().flatten();
        let named: Vec<&KnownRevision> = kept
            .clone()
            .filter(|known| !wanted.is_empty() && known.digest.to_string().starts_with(wanted))
            .collect();
        if let [known] = named[..] {
            return Ok(known.clone());
        }
        let kept: Vec<String> = kept.map(|known| known.digest.short()).collect();
        Err(RollbackChoiceError::NotKept {
            wanted: wanted.to_owned(),
            kept: match kept.is_empty() {
                true => "none".to_owned(),
                false => kept.join(" and "),
            },
        })
    }
}

/// Why a reconciler cannot be rolled back as asked. The messages follow the reconciler's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RollbackChoiceError {
    /// No rollback is in effect.
    #[error("is not rolled back: there is nothing to undo")]
    NothingToUndo,
    /// The revision serves already.
    #[error("serves {0} already")]
    Serves(String),
    /// A rollback is in effect.
    #[error("is rolled back to {0} already: --undo serves the revision of its file again")]
    RolledBack(String),
    /// No revision served before.
    #[error("has no previous revision: no other has served")]
    NoPrevious,
    /// The digest names no revision, or more than one.
    #[error("knows no revision {wanted:?}, or more than one: it knows {kept}")]
    NotKept {
        /// The digest that was asked for.
        wanted: String,
        /// The revisions that are kept.
        kept: String,
    },
}

impl Reconcilers {
    /// Starts to roll a reconciler back, or to undo that, under the current documents. [`Self::next`] and [`Self::report`] answer the call.
    pub(crate) fn roll_back(&mut self, call: RollbackCall) {
        let Some(request) = call.request() else {
            return;
        };
        let name = request.reconciler.clone();
        let Some(reconciler) = self.by_name.get_mut(&name) else {
            let message = format!("there is no reconciler {name:?}: see windlass get reconcilers");
            return call.answer(Err(Refusal::Unknown(message)));
        };
        // Only the process that leads writes it on the object, from which the others have it.
        let is_object = reconciler.desired.document.origin == Origin::Cluster;
        if is_object && !self.environment.sources.records.leads() {
            let message = "another process leads: ask that one".to_owned();
            return call.answer(Err(Refusal::Busy(message)));
        }
        match reconciler.accept(call) {
            Ok(()) => reconciler.read(&mut self.environment),
            Err(call) => {
                let message = format!("reconciler {name} is being rolled back already: try again");
                call.answer(Err(Refusal::Busy(message)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn known(text: &str) -> KnownRevision {
        KnownRevision {
            digest: digest(text),
            image: None,
        }
    }

    /// A served before, B serves.
    fn choice() -> RollbackChoice {
        RollbackChoice {
            serving: Some(known("b")),
            previous: Some(known("a")),
            file: Some(digest("b")),
            rollback: None,
        }
    }

    fn request(to: Option<&str>, undo: bool) -> RollbackRequest {
        RollbackRequest {
            reconciler: "x".to_owned(),
            to: to.map(str::to_owned),
            undo,
        }
    }

    #[test]
    fn it_goes_back_to_the_revision_before_until_the_file_changes() {
        let rollback = choice().take(&request(None, false)).unwrap().unwrap();
        assert_eq!(
            (rollback.to, rollback.instead_of),
            (known("a"), Some(digest("b")))
        );
    }

    #[test]
    fn a_revision_is_named_by_the_beginning_of_its_digest() {
        let a = digest("a").to_string();
        for name in [a.as_str(), &a[..12], &format!("sha256:{a}")] {
            let rollback = choice().take(&request(Some(name), false)).unwrap();
            assert_eq!(
                rollback.map(|rollback| rollback.to),
                Some(known("a")),
                "{name}"
            );
        }
        for name in ["", "zz", &digest("c").to_string()] {
            let error = choice()
                .take(&request(Some(name), false))
                .unwrap_err()
                .to_string();
            assert!(error.contains(&digest("a").short()), "{error}");
        }
        let b = digest("b").to_string();
        let error = choice()
            .take(&request(Some(&b), false))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("already"), "{error}");
    }

    #[test]
    fn what_is_rolled_back_goes_forward_by_undoing_alone() {
        let back = RollbackChoice {
            serving: Some(known("a")),
            previous: Some(known("b")),
            file: Some(digest("b")),
            rollback: Some(Rollback {
                to: known("a"),
                instead_of: Some(digest("b")),
            }),
        };
        assert!(matches!(
            back.take(&request(None, false)),
            Err(RollbackChoiceError::RolledBack(_))
        ));
        assert_eq!(back.take(&request(None, true)), Ok(None));
        // To name the revision in the file is no rollback.
        let b = digest("b").to_string();
        assert_eq!(back.take(&request(Some(&b), false)), Ok(None));
        assert!(choice().take(&request(None, true)).is_err());
    }

    #[test]
    fn without_a_revision_before_there_is_nothing_to_go_back_to() {
        let first = RollbackChoice {
            previous: None,
            ..choice()
        };
        assert!(first.take(&request(None, false)).is_err());
    }

    #[test]
    fn a_file_that_is_gone_is_no_hindrance() {
        let gone = RollbackChoice {
            file: None,
            ..choice()
        };
        let rollback = gone.take(&request(None, false)).unwrap();
        assert_eq!(
            rollback,
            Some(Rollback {
                to: known("a"),
                instead_of: None
            })
        );
    }
}
