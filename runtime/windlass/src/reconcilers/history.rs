//! The revisions that a reconciler can serve, and its rollback. Entry point: [`History`].
//!
//! Who says whether a rollback is in effect: the record, which outlives this process and which another process may write; and until the
//! record says it too, what an operator decided here.

mod choice;

use crate::config::record::{KnownRevision, Record, Rollback};
use windlass_fleet::Digest;
use windlass_registry::GuestPolicy;

/// A revision that this process has loaded, or that the record names.
#[derive(Debug, Clone)]
struct Known {
    revision: KnownRevision,
    /// The policy on guests that it was loaded under; none: this process has not loaded it.
    policy: Option<GuestPolicy>,
}

/// The revisions of a reconciler.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The revision that serves.
    serving: Option<Known>,
    /// The revision that served last, while none serves.
    last: Option<Known>,
    /// The revision that served before. If this process has loaded it, it is kept compiled for a rollback.
    previous: Option<Known>,
    /// The revision in the guest's file, as it was read last.
    file: Option<Digest>,
    /// The rollback that is in effect, or that cannot be.
    rollback: Option<Rollback>,
    record: Record,
    /// The object of the record; empty: it is no object's.
    uid: String,
    /// What an operator decided here; none: the record says it too.
    decision: Option<Option<Rollback>>,
    /// The rollback of the record when the file was last decided on.
    decided_on: Option<Rollback>,
}

impl Known {
    fn recorded(revision: Option<KnownRevision>) -> Option<Self> {
        Some(Self {
            revision: revision?,
            policy: None,
        })
    }
}

impl History {
    /// Of a reconciler that does not serve here yet.
    pub(super) fn new(uid: &str, record: Record) -> Self {
        Self {
            last: Known::recorded(record.revision.clone()),
            previous: Known::recorded(record.previous.clone()),
            uid: uid.to_owned(),
            record,
            ..Self::default()
        }
    }

    /// Notes what the object says now. Returns whether another process has begun a rollback, or ended one.
    pub(super) fn follow(&mut self, uid: &str, rollback: Option<Rollback>) -> bool {
        if self.uid != uid {
            self.uid = uid.to_owned();
            self.decision = None;
        }
        let before = self.asked();
        self.record.rollback = rollback;
        self.asked() != before
    }

    /// The rollback that is to be in effect, as far as the guest's file lets it.
    pub(super) fn asked(&self) -> Option<Rollback> {
        let decision = self.decision.clone();
        decision.unwrap_or_else(|| self.record.rollback.clone())
    }

    /// Notes that the guest's file was read, and is decided on.
    pub(super) fn set_file(&mut self, file: Option<Digest>) {
        self.file = file.or(self.file);
        self.decided_on = self.record.rollback.clone();
    }

    /// Notes the rollback that is in effect, or that cannot be.
    pub(super) fn set_rollback(&mut self, rollback: Option<Rollback>) {
        self.rollback = rollback;
    }

    /// Notes that an operator has decided so.
    pub(super) fn decide(&mut self) {
        self.decision = Some(self.rollback.clone());
    }

    /// Notes that a revision serves, which was loaded under this policy.
    pub(super) fn serve(&mut self, revision: KnownRevision, policy: GuestPolicy) {
        let digest = revision.digest;
        let new = Known {
            revision,
            policy: Some(policy),
        };
        let before = self.serving.replace(new).or(self.last.take());
        if let Some(before) = before.filter(|before| before.revision.digest != digest) {
            self.previous = Some(before);
        }
    }

    /// Notes that nothing serves any more.
    pub(super) fn stop(&mut self) {
        self.last = self.serving.take().or(self.last.take());
    }

    /// Whether a revision is kept compiled, and was loaded under this policy: it is not verified again for a rollback.
    pub(super) fn is_kept(&self, revision: Digest, policy: &GuestPolicy) -> bool {
        let mut kept = [&self.serving, &self.previous].into_iter().flatten();
        kept.any(|of| of.revision.digest == revision && of.policy.as_ref() == Some(policy))
    }

    /// The digest of the previous revision, which a rollback serves.
    pub(super) fn previous(&self) -> Option<&KnownRevision> {
        let last = self.last.as_ref().filter(|_| self.serving.is_none());
        let previous = last.or(self.previous.as_ref());
        previous.map(|known| &known.revision)
    }

    /// The image of the revision that serves.
    pub(super) fn image(&self) -> Option<&str> {
        self.serving.as_ref()?.revision.image.as_deref()
    }

    /// Whether another revision serves, or is to serve, than the one in the guest's file.
    pub(super) fn is_rolled_back(&self) -> bool {
        let rollback = self.rollback.as_ref();
        rollback.is_some_and(|rollback| self.file != Some(rollback.to.digest))
    }

    /// What the next process has to know.
    fn next_record(&self) -> Record {
        let serving = self.serving.as_ref().or(self.last.as_ref());
        Record {
            revision: serving.map(|known| known.revision.clone()),
            previous: self.previous.as_ref().map(|known| known.revision.clone()),
            rollback: self.rollback.clone(),
        }
    }

    /// The record to write, if the one that is there says something else. The status of an object has the revisions anyway.
    pub(super) fn to_write(&self) -> Option<Record> {
        // What another process has written meanwhile counts, once it is decided on.
        if self.decision.is_none() && self.decided_on != self.record.rollback {
            return None;
        }
        let next = self.next_record();
        let differs = if self.uid.is_empty() {
            next != self.record
        } else {
            next.rollback != self.record.rollback
        };
        differs.then_some(next)
    }

    /// Notes that a record was written.
    pub(super) fn written(&mut self, record: Record) {
        self.decision
            .take_if(|decision| *decision == record.rollback);
        self.decided_on.clone_from(&record.rollback);
        self.record = record;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> KnownRevision {
        KnownRevision {
            digest: Digest::of(text.as_bytes()),
            image: None,
        }
    }

    fn digest(text: &str) -> Option<Digest> {
        Some(known(text).digest)
    }

    fn rollback() -> Rollback {
        Rollback {
            to: known("good"),
            instead_of: digest("bad"),
        }
    }

    fn of(record: Record) -> History {
        History::new("uid", record)
    }

    fn serve(history: &mut History, text: &str) {
        history.serve(known(text), GuestPolicy::default());
    }

    #[test]
    fn the_revision_before_is_known_to_a_process_that_starts_later() {
        let record = || Record {
            revision: Some(known("b")),
            previous: Some(known("a")),
            rollback: None,
        };
        let previous = |history: &History| history.previous().cloned();
        // What served last can be rolled back to while nothing serves.
        assert_eq!(previous(&of(record())), Some(known("b")));
        let mut same = of(record());
        serve(&mut same, "b");
        assert_eq!(previous(&same), Some(known("a")));
        let policy = GuestPolicy::default();
        assert!(
            !same.is_kept(known("a").digest, &policy) && same.is_kept(known("b").digest, &policy)
        );
        let mut newer = of(record());
        serve(&mut newer, "c");
        assert_eq!(previous(&newer), Some(known("b")));
    }

    #[test]
    fn a_decision_counts_until_it_is_recorded_and_then_the_record_does() {
        let mut history = of(Record::default());
        serve(&mut history, "bad");
        history.set_file(digest("bad"));
        assert_eq!(history.to_write(), None);
        history.set_rollback(Some(rollback()));
        history.decide();
        // What the object says meanwhile is older.
        assert!(!history.follow("uid", None));
        assert_eq!(history.asked(), Some(rollback()));
        let record = history.to_write().unwrap();
        assert_eq!(record.rollback, Some(rollback()));
        history.written(record);
        assert_eq!(history.to_write(), None);
        // Another process ends it.
        assert!(history.follow("uid", None));
        assert_eq!(history.asked(), None);
        // Before this process has decided on that it does not write the old one again.
        assert_eq!(history.to_write(), None);
        history.set_file(digest("bad"));
        history.set_rollback(None);
        assert_eq!(history.to_write(), None);
    }

    #[test]
    fn a_rollback_that_has_ended_is_taken_from_the_object() {
        let mut history = of(Record {
            rollback: Some(rollback()),
            ..Record::default()
        });
        history.set_file(digest("next"));
        assert!(!rollback().holds(digest("next")));
        history.set_rollback(None);
        serve(&mut history, "next");
        assert_eq!(history.to_write().map(|record| record.rollback), Some(None));
    }

    #[test]
    fn another_object_of_the_name_has_no_decision() {
        let mut history = of(Record::default());
        history.set_rollback(Some(rollback()));
        history.decide();
        assert!(history.follow("other", None) || history.asked().is_none());
        assert_eq!(history.asked(), None);
    }
}
