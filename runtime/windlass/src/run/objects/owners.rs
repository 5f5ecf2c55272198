//! Whether another installation handles the objects of this class. Entry point: [`Owners::judge`].
//!
//! Each status names its owner: the Lease of the processes of which one wrote it, or the process, if that shares the work with no other.
//! Another owner is at work while its heartbeats change.
//!
//! * A process that starts waits for each other Lease that it finds. So one whose processes have gone is waited for too.
//! * It does not wait for a process that it finds: that is most often its own predecessor. It waits once that one writes again, which a process
//!   at work does within five minutes. A process that ends takes its name away, so that nobody waits for it.
//! * If two owners find each other at work, the first goes on: Leases before processes, by name, and processes by their start.
//!
//! Only time that this process has observed decides about silence, never a time that is written in a status.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How long an owner whose heartbeats do not change counts as at work. They change every five minutes.
const SILENCE: Duration = Duration::from_mins(6);

/// The owner of each object, and the heartbeat in its status, by the object's uid.
pub(super) type Heartbeats = BTreeMap<String, (Option<Owner>, String)>;

/// Who handles objects, as `status.owner` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner(String);

impl Owner {
    /// The Lease of an election, or of the assignment of shards.
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
    /// What was judged last; none: nothing yet.
    last: Option<Heartbeats>,
    /// When this process last saw another owner write.
    others: BTreeMap<Owner, Instant>,
    /// The owner that this process waits for; none: this process is at work.
    awaited: Option<Owner>,
    /// Whether this process has been at work.
    has_worked: bool,
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
            last: None,
            others: BTreeMap::new(),
            awaited: None,
            has_worked: false,
        }
    }

    /// Notes the heartbeats of all owners. Returns the owner that this process waits for.
    pub(super) fn judge(&mut self, heartbeats: Heartbeats, now: Instant) -> Option<&Owner> {
        let own = self.own.as_ref()?;
        let present = || heartbeats.values().filter_map(|(owner, _)| owner.as_ref());
        self.others
            .retain(|owner, _| present().any(|present| present == owner));
        for (uid, (owner, heartbeat)) in &heartbeats {
            let Some(owner) = owner.as_ref().filter(|owner| *owner != own) else {
                continue;
            };
            let writes = match &self.last {
                None => !owner.is_process(),
                // An object that is new here says nothing: the owner that it names may have gone long ago.
                Some(last) => last.get(uid).is_some_and(|(before, then)| {
                    before.as_ref() != Some(owner) || heartbeat > then
                }),
            };
            if writes {
                self.others.insert(owner.clone(), now);
            }
        }
        self.last = Some(heartbeats);
        let works = self.has_worked && self.awaited.is_none();
        let mut others = self.others.iter();
        let awaited = others
            .find(|(owner, at)| now.duration_since(**at) < SILENCE && (!works || *owner < own));
        self.awaited = awaited.map(|(owner, _)| owner.clone());
        self.has_worked |= self.awaited.is_none();
        self.awaited.as_ref()
    }

    /// When to judge again, although no object has changed.
    pub(super) fn due(&self) -> Option<Instant> {
        let last = self.others.get(self.awaited.as_ref()?)?;
        Some(*last + SILENCE)
    }

    /// Why this process does not handle the objects; none: it does.
    pub(super) fn problem(&self) -> Option<String> {
        let owner = self.awaited.as_ref()?;
        let remedy = "give one of both a class of its own (spec.class of its Manager and of its objects), or stop one";
        Some(if owner.is_process() {
            format!(
                "another process, which is in no election either ({owner}), handles the objects of this class, and this process waits until \
                 it has been silent for six minutes: {remedy}, or name one election for both (spec.leaderElection), or one sharding (spec.sharding)"
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

    /// Objects, each with its owner and the second of its heartbeat.
    fn of(objects: &[(&str, &Owner, u32)]) -> Heartbeats {
        let one = |(uid, owner, second): &(&str, &Owner, u32)| {
            let heartbeat = format!("2026-01-01T00:00:{second:02}Z");
            ((*uid).to_owned(), (Some((*owner).clone()), heartbeat))
        };
        objects.iter().map(one).collect()
    }

    /// One object that nobody has written.
    fn fresh() -> Heartbeats {
        [("x".to_owned(), (None, String::new()))].into()
    }

    fn at(start: Instant, minutes: u64) -> Instant {
        start + Duration::from_mins(minutes)
    }

    #[test]
    fn a_process_that_starts_waits_until_another_lease_is_silent() {
        let (start, other) = (Instant::now(), lease("b"));
        let beat = |second| of(&[("x", &other, second)]);
        // Its name would come first: who is at work goes on all the same.
        for own in [lease("a"), process(1)] {
            let mut owners = Owners::new(own);
            assert_eq!(owners.judge(beat(1), start), Some(&other));
            assert_eq!(owners.due(), Some(at(start, 6)));
            assert_eq!(owners.judge(beat(2), at(start, 5)), Some(&other));
            assert_eq!(owners.judge(beat(2), at(start, 10)), Some(&other));
            assert!(owners.problem().is_some_and(|text| text.contains("b/b")));
            assert_eq!(owners.judge(beat(2), at(start, 11)), None);
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
            assert_eq!(first.judge(fresh(), now), None);
            assert_eq!(second.judge(fresh(), now), None);
            assert_eq!(first.judge(of(&[("x", &two, 1)]), now), None);
            assert_eq!(second.judge(of(&[("x", &one, 1)]), now), Some(&one));
        }
    }

    #[test]
    fn a_process_waits_for_one_without_an_election_once_that_writes_again() {
        let (start, before) = (Instant::now(), process(1));
        let beat = |second| of(&[("x", &before, second)]);
        let mut owners = Owners::new(process(2));
        // Its predecessor, for all it knows.
        assert_eq!(owners.judge(beat(1), start), None);
        assert_eq!(owners.judge(beat(1), at(start, 5)), None);
        assert_eq!(owners.judge(beat(2), at(start, 5)), Some(&before));
        let problem = owners.problem().expect("it waits");
        assert!(
            problem.contains("process since 1970-01-01T00:00:01"),
            "{problem}"
        );
        assert_eq!(owners.judge(beat(2), at(start, 11)), None);
        // All statuses are this one's by now, and then the other's again.
        assert_eq!(
            owners.judge(of(&[("x", &process(2), 3)]), at(start, 12)),
            None
        );
        assert_eq!(owners.judge(beat(4), at(start, 12)), Some(&before));
        // It ends, and says so.
        assert_eq!(owners.judge(fresh(), at(start, 12)), None);
    }

    #[test]
    fn what_an_owner_that_has_gone_once_wrote_is_no_sign_of_it() {
        let now = Instant::now();
        for (gone, own) in [(process(1), process(2)), (lease("a"), lease("b"))] {
            let mut owners = Owners::new(own.clone());
            assert_eq!(owners.judge(of(&[("x", &own, 1)]), now), None);
            // Objects come into the class with an owner of another time, and this one writes over them, the newest first.
            let come = [("x", &own, 1), ("y", &gone, 9), ("z", &gone, 5)];
            assert_eq!(owners.judge(of(&come), now), None);
            let over = [("x", &own, 1), ("y", &own, 10), ("z", &gone, 5)];
            assert_eq!(owners.judge(of(&over), now), None);
        }
        // The same of a predecessor that is found at the start.
        let (gone, own) = (process(1), process(2));
        let mut owners = Owners::new(own.clone());
        let found = [("x", &gone, 9), ("y", &gone, 5)];
        assert_eq!(owners.judge(of(&found), now), None);
        assert_eq!(
            owners.judge(of(&[("x", &own, 10), ("y", &gone, 5)]), now),
            None
        );
    }

    #[test]
    fn processes_of_one_election_do_not_wait_for_each_other() {
        let (now, own) = (Instant::now(), lease("a"));
        let beat = || of(&[("x", &own, 1)]);
        assert_eq!(Owners::new(own.clone()).judge(beat(), now), None);
        assert_eq!(Owners::alone().judge(beat(), now), None);
        assert_eq!(Owner::read(""), None);
    }
}
