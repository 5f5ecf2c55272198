//! Whether another installation handles the objects of this class. Entry point: [`Owners::judge`].
//!
//! Each status names its owner: the Lease of the election under which it was written, or the process, if that is in no election.
//! Another owner is at work while its heartbeats change.
//!
//! * A process that starts waits for each other Lease that it finds. So one whose processes have gone is waited for too.
//! * It does not wait for a process that it finds: that is most often its own predecessor. It waits once that one writes again, which a process
//!   at work does within five minutes.
//! * If two owners find each other at work, the first goes on: Leases before processes, by name, and processes by their start.
//!
//! Only time that this process has observed decides about silence, never a time that is written in a status.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How long an owner whose heartbeats do not change counts as at work. They change every five minutes.
const SILENCE: Duration = Duration::from_mins(6);

/// The last heartbeats, by owner.
pub(super) type Heartbeats = BTreeMap<Owner, String>;

/// Who handles objects, as `status.owner` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner(String);

impl Owner {
    /// The Lease of an election.
    pub(super) fn lease(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}"))
    }

    /// One process, by the time of its start.
    pub(super) fn process(since: jiff::Timestamp, machine: &str) -> Self {
        Self(format!("process since {since:.6} on {machine}"))
    }

    /// As a status names it. `None`: it names none.
    pub(super) fn read(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Names of Leases and namespaces have no spaces.
    fn is_process(&self) -> bool {
        self.0.contains(' ')
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for Owner {
    /// Who goes on comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |owner: &Self| owner.is_process();
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Owner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The owners of the objects.
pub(super) struct Owners {
    /// `None`: this process waits for nobody, as nobody sees what it does.
    own: Option<Owner>,
    others: BTreeMap<Owner, Observed>,
    /// The owner that this process waits for; none: this process is at work.
    awaited: Option<Owner>,
    has_judged: bool,
    /// Whether this process has been at work.
    has_worked: bool,
}

/// The last heartbeat of an owner.
struct Observed {
    heartbeat: String,
    /// When this process first saw it. `None`: before this process was there, so that it says nothing.
    since: Option<Instant>,
}

impl Observed {
    fn is_at_work(&self, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now.duration_since(since) < SILENCE)
    }
}

impl Owners {
    /// Before any status was read.
    pub(super) fn new(own: Owner) -> Self {
        Self {
            own: Some(own),
            ..Self::alone()
        }
    }

    /// Of a process in a world of its own.
    pub(super) fn alone() -> Self {
        Self {
            own: None,
            others: BTreeMap::new(),
            awaited: None,
            has_judged: false,
            has_worked: false,
        }
    }

    /// Notes the heartbeats of all owners. Returns the owner that this process waits for.
    pub(super) fn judge(&mut self, heartbeats: &Heartbeats, now: Instant) -> Option<&Owner> {
        let own = self.own.as_ref()?;
        self.others
            .retain(|owner, _| heartbeats.contains_key(owner));
        for (owner, heartbeat) in heartbeats.iter().filter(|(owner, _)| *owner != own) {
            let known = self.others.get(owner).map(|known| &known.heartbeat);
            if known != Some(heartbeat) {
                let says = self.has_judged || !owner.is_process();
                let observed = Observed {
                    heartbeat: heartbeat.clone(),
                    since: says.then_some(now),
                };
                self.others.insert(owner.clone(), observed);
            }
        }
        self.has_judged = true;
        let works = self.has_worked && self.awaited.is_none();
        let mut others = self.others.iter();
        let awaited = others.find(|(owner, of)| of.is_at_work(now) && (!works || *owner < own));
        self.awaited = awaited.map(|(owner, _)| owner.clone());
        self.has_worked |= self.awaited.is_none();
        self.awaited.as_ref()
    }

    /// When to judge again, although no object has changed.
    pub(super) fn due(&self) -> Option<Instant> {
        let awaited = self.others.get(self.awaited.as_ref()?)?;
        Some(awaited.since? + SILENCE)
    }

    /// Why this process does not handle the objects; none: it does.
    pub(super) fn problem(&self) -> Option<String> {
        let owner = self.awaited.as_ref()?;
        let remedy = "give one of both a class of its own (spec.class of its Manager and of its objects), or stop one";
        Some(if owner.is_process() {
            format!(
                "another process, which is in no election either ({owner}), handles the objects of this class, and this process waits until \
                 it has been silent for six minutes: {remedy}, or name one election for both (spec.leaderElection)"
            )
        } else {
            format!(
                "the processes of the Lease {owner} handle the objects of this class, and this process waits until they have been silent \
                 for six minutes: {remedy}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str) -> Owner {
        Owner::lease(name, name)
    }

    fn process(second: i64) -> Owner {
        let since = jiff::Timestamp::from_second(second).expect("a time");
        Owner::process(since, "pod-1")
    }

    fn beat(owner: &Owner, heartbeat: u32) -> Heartbeats {
        [(owner.clone(), heartbeat.to_string())].into()
    }

    fn at(start: Instant, minutes: u64) -> Instant {
        start + Duration::from_mins(minutes)
    }

    #[test]
    fn a_process_that_starts_waits_until_another_lease_is_silent() {
        let (start, other) = (Instant::now(), lease("b"));
        // Its name would come first: who is at work goes on all the same.
        for own in [lease("a"), process(1)] {
            let mut owners = Owners::new(own);
            assert_eq!(owners.judge(&beat(&other, 1), start), Some(&other));
            assert_eq!(owners.due(), Some(at(start, 6)));
            assert_eq!(owners.judge(&beat(&other, 2), at(start, 5)), Some(&other));
            assert_eq!(owners.judge(&beat(&other, 2), at(start, 10)), Some(&other));
            assert!(owners.problem().is_some_and(|text| text.contains("b/b")));
            assert_eq!(owners.judge(&beat(&other, 2), at(start, 11)), None);
            assert_eq!((owners.due(), owners.problem()), (None, None));
        }
    }

    #[test]
    fn of_two_that_started_at_once_the_first_goes_on() {
        let now = Instant::now();
        let pairs = [
            (lease("a"), lease("b")),
            (lease("z"), process(1)),
            (process(1), process(2)),
        ];
        for (one, two) in pairs {
            let [mut first, mut second] = [&one, &two].map(|own| Owners::new(own.clone()));
            let none = Heartbeats::new();
            assert_eq!(first.judge(&none, now), None);
            assert_eq!(second.judge(&none, now), None);
            assert_eq!(first.judge(&beat(&two, 1), now), None);
            assert_eq!(second.judge(&beat(&one, 1), now), Some(&one));
        }
    }

    #[test]
    fn a_process_waits_for_one_without_an_election_once_that_writes_again() {
        let (start, before) = (Instant::now(), process(1));
        let mut owners = Owners::new(process(2));
        // Its predecessor, for all it knows.
        assert_eq!(owners.judge(&beat(&before, 1), start), None);
        assert_eq!(owners.judge(&beat(&before, 1), at(start, 5)), None);
        assert_eq!(owners.judge(&beat(&before, 2), at(start, 5)), Some(&before));
        let problem = owners.problem().expect("it waits");
        assert!(
            problem.contains("process since 1970-01-01T00:00:01"),
            "{problem}"
        );
        assert_eq!(owners.judge(&beat(&before, 2), at(start, 11)), None);
        // All statuses are this one's by now, and then the other's again.
        assert_eq!(owners.judge(&Heartbeats::new(), at(start, 12)), None);
        assert_eq!(
            owners.judge(&beat(&before, 3), at(start, 12)),
            Some(&before)
        );
    }

    #[test]
    fn processes_of_one_election_do_not_wait_for_each_other() {
        let (now, own) = (Instant::now(), lease("a"));
        assert_eq!(Owners::new(own.clone()).judge(&beat(&own, 1), now), None);
        assert_eq!(Owners::alone().judge(&beat(&own, 1), now), None);
        assert_eq!(Owner::read(""), None);
    }
}
