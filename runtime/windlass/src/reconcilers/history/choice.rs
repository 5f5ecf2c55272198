//! What an operator can choose: a revision that a reconciler serves in place of the one in its file. Entry point: [`History::choose`].

use super::History;
use crate::config::record::{KnownRevision, Rollback};
use crate::status::view::RollbackRequest;
use windlass_fleet::Digest;

impl History {
    /// The rollback that a request asks for, with this revision in the guest's file; none: the file decides again.
    ///
    /// # Errors
    /// [`RollbackChoiceError`]
    pub(in crate::reconcilers) fn choose(
        &self,
        request: &RollbackRequest,
        file: Option<Digest>,
    ) -> Result<Option<Rollback>, RollbackChoiceError> {
        if request.undo {
            let undone = self.is_rolled_back().then_some(None);
            return undone.ok_or(RollbackChoiceError::NothingToUndo);
        }
        let to = match &request.to {
            Some(wanted) => self.find(wanted)?,
            None => self.before()?,
        };
        if self
            .serving_revision()
            .is_some_and(|serving| serving.digest == to.digest)
        {
            return Err(RollbackChoiceError::Serves(to.digest.short()));
        }
        let differs = file != Some(to.digest);
        Ok(differs.then_some(Rollback {
            to,
            instead_of: file,
        }))
    }

    /// The previous revision, unless a rollback is in effect: the same command twice must not switch back and forth.
    fn before(&self) -> Result<KnownRevision, RollbackChoiceError> {
        if let Some(rollback) = self.rollback.as_ref().filter(|_| self.is_rolled_back()) {
            let to = rollback.to.digest.short();
            return Err(RollbackChoiceError::RolledBack(to));
        }
        let previous = self.previous().cloned();
        previous.ok_or(RollbackChoiceError::NoPrevious)
    }

    fn find(&self, wanted: &str) -> Result<KnownRevision, RollbackChoiceError> {
        let wanted = wanted.strip_prefix("sha256:").unwrap_or(wanted);
        let kept = [self.serving_revision(), self.previous()];
        let kept = kept.into_iter().flatten();
        let named: Vec<&KnownRevision> = kept
            .clone()
            .filter(|known| !wanted.is_empty() && known.digest.to_string().starts_with(wanted))
            .collect();
        if let [known] = named[..] {
            return Ok(known.clone());
        }
        let kept: Vec<String> = kept.map(|known| known.digest.short()).collect();
        let none = || "none".to_owned();
        Err(RollbackChoiceError::NotKept {
            wanted: wanted.to_owned(),
            kept: kept
                .into_iter()
                .reduce(|one, other| format!("{one} and {other}"))
                .unwrap_or_else(none),
        })
    }

    fn serving_revision(&self) -> Option<&KnownRevision> {
        self.serving.as_ref().map(|known| &known.revision)
    }
}

/// Why a reconciler cannot be rolled back as asked. The messages follow the reconciler's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::reconcilers) enum RollbackChoiceError {
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

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_registry::GuestPolicy;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn known(text: &str) -> KnownRevision {
        KnownRevision {
            digest: digest(text),
            image: None,
        }
    }

    /// These have served, one after the other, and B is in the file.
    fn history(served: &[&str]) -> History {
        let mut history = History::default();
        for revision in served {
            history.serve(known(revision), GuestPolicy::default());
        }
        history.set_file(Some(digest("b")));
        history
    }

    fn choose(
        history: &History,
        to: Option<&str>,
        undo: bool,
    ) -> Result<Option<Rollback>, RollbackChoiceError> {
        let request = RollbackRequest {
            reconciler: "x".to_owned(),
            to: to.map(str::to_owned),
            undo,
        };
        history.choose(&request, Some(digest("b")))
    }

    #[test]
    fn it_goes_back_to_the_revision_before_until_the_file_changes() {
        let rollback = choose(&history(&["a", "b"]), None, false).unwrap().unwrap();
        assert_eq!(
            (rollback.to, rollback.instead_of),
            (known("a"), Some(digest("b")))
        );
    }

    #[test]
    fn a_revision_is_named_by_the_beginning_of_its_digest() {
        let history = history(&["a", "b"]);
        let a = digest("a").to_string();
        for name in [a.as_str(), &a[..12], &format!("sha256:{a}")] {
            let rollback = choose(&history, Some(name), false).unwrap();
            let to = rollback.map(|rollback| rollback.to);
            assert_eq!(to, Some(known("a")), "{name}");
        }
        for name in ["", "zz", &digest("c").to_string()] {
            let error = choose(&history, Some(name), false).unwrap_err().to_string();
            assert!(error.contains(&digest("a").short()), "{error}");
        }
        let b = digest("b").to_string();
        let error = choose(&history, Some(&b), false).unwrap_err().to_string();
        assert!(error.ends_with("already"), "{error}");
    }

    #[test]
    fn what_is_rolled_back_goes_forward_by_undoing_alone() {
        let mut back = history(&["b", "a"]);
        back.set_rollback(Some(Rollback {
            to: known("a"),
            instead_of: Some(digest("b")),
        }));
        assert!(matches!(
            choose(&back, None, false),
            Err(RollbackChoiceError::RolledBack(_))
        ));
        assert_eq!(choose(&back, None, true), Ok(None));
        // To name the revision in the file is no rollback.
        let b = digest("b").to_string();
        assert_eq!(choose(&back, Some(&b), false), Ok(None));
        assert!(choose(&history(&["a", "b"]), None, true).is_err());
    }

    #[test]
    fn without_a_revision_before_there_is_nothing_to_go_back_to() {
        assert!(choose(&history(&["b"]), None, false).is_err());
    }

    #[test]
    fn a_file_that_is_gone_is_no_hindrance() {
        let request = RollbackRequest {
            reconciler: "x".to_owned(),
            to: None,
            undo: false,
        };
        let rollback = history(&["a", "b"]).choose(&request, None).unwrap();
        assert_eq!(
            rollback,
            Some(Rollback {
                to: known("a"),
                instead_of: None
            })
        );
    }
}
