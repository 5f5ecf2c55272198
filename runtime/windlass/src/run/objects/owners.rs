//! Whether the processes of another election handle the objects of this class. Entry point: [`Owners::judge`].
//!
//! Each status names its owner: the Lease of the election under which it was written. Another owner is at work while its heartbeats change.
//! A process that starts waits for it. If two owners find each other at work, because they started at once, the one whose name comes first
//! goes on.
//!
//! Only time that this process has observed decides, never a time that is written in a status. So an owner that has gone is waited for too.
//!
//! Not guaranteed: processes without an election name no owner. They wait for others, and nobody waits for them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an owner whose heartbeats do not change counts as at work. They change every five minutes.
const SILENCE: Duration = Duration::from_mins(6);

/// The last heartbeats, by owner.
pub(super) type Heartbeats = BTreeMap<String, String>;

/// The owners of the objects.
pub(super) struct Owners {
    /// Empty: this process is in no election.
    own: String,
    others: BTreeMap<String, Observed>,
    /// The owner that this process waits for; none: this process is at work.
    awaited: Option<String>,
    /// Whether this process has been at work.
    has_worked: bool,
    /// Whether it waits for nobody: nobody sees what it does.
    is_alone: bool,
}

/// The last heartbeat of an owner.
struct Observed {
    heartbeat: String,
    /// When this process first saw it.
    since: Instant,
}

impl Owners {
    /// Before any status was read.
    pub(super) fn new(own: String) -> Self {
        Self {
            own,
            others: BTreeMap::new(),
            awaited: None,
            has_worked: false,
            is_alone: false,
        }
    }

    /// Of a process in a world of its own.
    pub(super) fn alone() -> Self {
        Self {
            is_alone: true,
            ..Self::new(String::new())
        }
    }

    /// Notes the heartbeats of all owners. Returns the owner that this process waits for.
    pub(super) fn judge(&mut self, heartbeats: &Heartbeats, now: Instant) -> Option<&str> {
        if self.is_alone {
            return None;
        }
        self.others
            .retain(|owner, _| heartbeats.contains_key(owner));
        for (owner, heartbeat) in heartbeats {
            let is_other = !owner.is_empty() && *owner != self.own;
            let known = self.others.get(owner).map(|known| &known.heartbeat);
            if is_other && known != Some(heartbeat) {
                let observed = Observed {
                    heartbeat: heartbeat.clone(),
                    since: now,
                };
                self.others.insert(owner.clone(), observed);
            }
        }
        let works = self.has_worked && self.awaited.is_none();
        let mut awaited = self.others.iter().filter(|(owner, of)| {
            now.duration_since(of.since) < SILENCE && (!works || **owner < self.own)
        });
        self.awaited = awaited.next().map(|(owner, _)| owner.clone());
        self.has_worked |= self.awaited.is_none();
        self.awaited.as_deref()
    }

    /// When to judge again, although no object has changed.
    pub(super) fn due(&self) -> Option<Instant> {
        let awaited = self.others.get(self.awaited.as_ref()?)?;
        Some(awaited.since + SILENCE)
    }

    /// Why this process does not handle the objects; none: it does.
    pub(super) fn problem(&self) -> Option<String> {
        let owner = self.awaited.as_ref()?;
        Some(format!(
            "the processes of the Lease {owner} handle the objects of this class, and this process waits until they have been silent for six \
             minutes: give one of both a class of its own (spec.class of its Manager and of its objects), or stop one"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(owner: &str, heartbeat: u32) -> Heartbeats {
        [(owner.to_owned(), heartbeat.to_string())].into()
    }

    #[test]
    fn a_process_that_starts_waits_until_another_owner_is_silent() {
        let start = Instant::now();
        let at = |minutes| start + Duration::from_mins(minutes);
        let mut owners = Owners::new("a/a".to_owned());
        // Its name would come first: who is at work goes on all the same.
        assert_eq!(owners.judge(&beat("b/b", 1), at(0)), Some("b/b"));
        assert_eq!(owners.due(), Some(at(6)));
        assert_eq!(owners.judge(&beat("b/b", 2), at(5)), Some("b/b"));
        assert_eq!(owners.judge(&beat("b/b", 2), at(10)), Some("b/b"));
        assert!(owners.problem().is_some_and(|text| text.contains("b/b")));
        assert_eq!(owners.judge(&beat("b/b", 2), at(11)), None);
        assert_eq!((owners.due(), owners.problem()), (None, None));
    }

    #[test]
    fn of_two_that_started_at_once_the_first_by_name_goes_on() {
        let now = Instant::now();
        let [mut first, mut second] = ["a/a", "b/b"].map(|own| Owners::new(own.to_owned()));
        let none = Heartbeats::new();
        assert_eq!(
            (first.judge(&none, now), second.judge(&none, now)),
            (None, None)
        );
        assert_eq!(first.judge(&beat("b/b", 1), now), None);
        assert_eq!(second.judge(&beat("a/a", 1), now), Some("a/a"));
    }

    #[test]
    fn processes_of_one_election_and_those_without_do_not_wait_for_each_other() {
        let now = Instant::now();
        assert_eq!(
            Owners::new("a/a".to_owned()).judge(&beat("a/a", 1), now),
            None
        );
        let mut nameless = Owners::new(String::new());
        assert_eq!(nameless.judge(&beat("", 1), now), None);
        let mut starting = Owners::new(String::new());
        assert_eq!(starting.judge(&beat("a/a", 1), now), Some("a/a"));
    }
}
