//! Which members live, by what this process has observed. Entry point: [`Members::observe`].
//!
//! Invariants:
//! * A member is dead when a list that *began* at least its Lease's duration after the answer of the list that first showed its record shows
//!   that record still. So no renewal landed in between, and none that lands later is accepted by that member.
//! * An answer that is late kills nobody: the time from its beginning counts, and a record that it shows for the first time counts from it.
//! * A Lease that is missing while the assignment names its member protects that member as long as one that is not renewed.
//! * Times that are written in a Lease decide nothing.

use super::MAX_MEMBERS;
use super::record::{LeaseObject, Listing, Member, MemberState};
use crate::election::Timing;
use crate::election::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A member's Lease stays for so many of its durations after its last observed change.
const CORPSE: u32 = 5;

/// All members that this process has observed. At most [`MAX_MEMBERS`], and those that the assignment names.
#[derive(Debug, Default)]
pub(crate) struct Members {
    seen: BTreeMap<Arc<str>, Seen>,
    /// Whether a list had more members than are observed.
    crowded: bool,
}

/// What is known about a member.
#[derive(Debug)]
pub(crate) struct Seen {
    /// `None`: its Lease was never seen.
    pub(crate) state: Option<MemberState>,
    /// `None`: it has no Lease.
    pub(crate) lease: Option<Arc<LeaseObject>>,
    /// When this record, or its absence, was first observed.
    since: Instant,
    /// How long the record protects the member.
    lasts: Duration,
    /// Whether the last list showed the record that had been observed for its whole duration.
    pub(crate) dead: bool,
    /// Whether it has been dead for so long that the member that should have its shards may not know.
    pub(crate) overdue: bool,
    /// Whether its Lease may be removed.
    pub(crate) corpse: bool,
}

impl Seen {
    fn record(&self) -> Option<&Record> {
        self.lease.as_ref().map(|lease| &lease.record)
    }
}

impl Members {
    /// Records a list that began at `begun` and was answered at `now`. `named` are the incarnations in the assignment.
    pub(crate) fn observe(
        &mut self,
        listing: &Listing,
        named: &[Arc<str>],
        timing: &Timing,
        begun: Instant,
        now: Instant,
    ) {
        let listed = self.listed(listing);
        let absent = named.iter().filter(|name| !listed.contains_key(*name));
        let absent: Vec<_> = absent.cloned().collect();
        let mut before = std::mem::take(&mut self.seen);
        for (incarnation, member) in listed {
            let old = before.remove(&incarnation);
            let lasts = member.lease.record.duration(timing);
            let same = old.filter(|old| old.record() == Some(&member.lease.record));
            let seen = Seen {
                state: Some(member.state.clone()),
                lease: Some(member.lease.clone()),
                since: same.map_or(now, |same| same.since),
                lasts,
                dead: false,
                overdue: false,
                corpse: false,
            };
            self.seen.insert(incarnation, seen.judged(begun, timing));
        }
        for incarnation in absent {
            let old = before.remove(&incarnation);
            let lasts = old.as_ref().map_or(timing.lease_duration, |old| old.lasts);
            let same = old.as_ref().filter(|old| old.lease.is_none());
            let seen = Seen {
                since: same.map_or(now, |same| same.since),
                lasts: lasts.max(timing.lease_duration),
                state: old.and_then(|old| old.state),
                lease: None,
                dead: false,
                overdue: false,
                corpse: false,
            };
            self.seen.insert(incarnation, seen.judged(begun, timing));
        }
    }

    /// The members of a list that are observed. Those that are observed already come first.
    fn listed<'a>(&mut self, listing: &'a Listing) -> BTreeMap<Arc<str>, &'a Member> {
        let members = &listing.members;
        self.crowded = members.len() > MAX_MEMBERS;
        let (known, new): (Vec<&Member>, Vec<&Member>) = members
            .iter()
            .partition(|member| self.seen.contains_key(&member.incarnation));
        let first = known.into_iter().chain(new).take(MAX_MEMBERS);
        first
            .map(|member| (member.incarnation.clone(), member))
            .collect()
    }

    /// Whether a list had more members than are observed. Then nobody can know all holders.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Seen)> {
        self.seen.iter()
    }

    pub(crate) fn get(&self, incarnation: &str) -> Option<&Seen> {
        self.seen.get(incarnation)
    }

    /// Whether a member is known to be dead. One that was never observed is not.
    pub(crate) fn is_dead(&self, incarnation: &str) -> bool {
        self.get(incarnation).is_some_and(|seen| seen.dead)
    }

    /// When the first of the members that live will be dead, unless its record changes.
    pub(crate) fn next_death(&self) -> Option<Instant> {
        let living = self.seen.values().filter(|seen| !seen.dead);
        living.map(|seen| seen.since + seen.lasts).min()
    }
}

impl Seen {
    fn judged(self, begun: Instant, timing: &Timing) -> Self {
        let unchanged = begun.saturating_duration_since(self.since);
        Self {
            dead: unchanged >= self.lasts,
            overdue: unchanged >= self.lasts + timing.retry_period * 2,
            corpse: unchanged >= self.lasts * CORPSE,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LASTS: Duration = Duration::from_secs(15);

    fn lease(incarnation: &str, renewed: u32) -> serde_json::Value {
        json!({
            "metadata": {"name": format!("f-{incarnation}"), "uid": "u", "resourceVersion": "1"},
            "spec": {
                "holderIdentity": incarnation, "leaseDurationSeconds": 15,
                "renewTime": format!("2026-01-01T00:00:00.{renewed:06}Z"),
            },
        })
    }

    fn list(items: &[serde_json::Value]) -> Listing {
        let list = json!({"kind": "LeaseList", "items": items}).to_string();
        Listing::parse(list.as_bytes(), "f").unwrap()
    }

    fn see(members: &mut Members, listing: &Listing, named: &[&str], begun: Instant, now: Instant) {
        let named: Vec<Arc<str>> = named.iter().map(|name| (*name).into()).collect();
        members.observe(listing, &named, &Timing::default(), begun, now);
    }

    #[test]
    fn a_member_is_dead_when_a_list_that_began_after_its_lease_shows_it_unchanged() {
        let (mut members, now) = (Members::default(), Instant::now());
        let one = list(&[lease("a", 1)]);
        see(&mut members, &one, &[], now, now + LASTS / 5);
        let seen = now + LASTS / 5;
        assert_eq!(members.next_death(), Some(seen + LASTS));
        // Answered after the Lease's end, and begun before.
        see(
            &mut members,
            &one,
            &[],
            seen + LASTS - Duration::from_millis(1),
            seen + LASTS * 2,
        );
        assert!(!members.is_dead("a"));
        see(&mut members, &one, &[], seen + LASTS, seen + LASTS);
        assert!(members.is_dead("a") && !members.get("a").unwrap().corpse);
        see(
            &mut members,
            &one,
            &[],
            seen + LASTS * CORPSE,
            seen + LASTS * 6,
        );
        assert!(members.get("a").unwrap().corpse);
        assert_eq!(members.next_death(), None);
    }

    #[test]
    fn a_list_after_a_long_partition_kills_nobody_whose_lease_changed() {
        let (mut members, now) = (Members::default(), Instant::now());
        see(
            &mut members,
            &list(&[lease("a", 1), lease("b", 1)]),
            &[],
            now,
            now,
        );
        let later = now + LASTS * 9;
        see(
            &mut members,
            &list(&[lease("a", 2), lease("b", 1)]),
            &[],
            later,
            later,
        );
        assert!(!members.is_dead("a") && members.is_dead("b"));
        see(
            &mut members,
            &list(&[lease("a", 2), lease("b", 2)]),
            &[],
            later,
            later,
        );
        assert!(!members.is_dead("b"), "a change is a sign of life");
    }

    #[test]
    fn a_holder_without_a_lease_is_protected_as_long_as_one_that_does_not_renew() {
        let (mut members, now) = (Members::default(), Instant::now());
        see(&mut members, &list(&[lease("a", 1)]), &["a", "b"], now, now);
        let gone = now + LASTS - Duration::from_millis(1);
        see(&mut members, &list(&[]), &["a", "b"], gone, gone);
        let later = now + LASTS;
        see(&mut members, &list(&[]), &["a", "b"], later, later);
        assert!(!members.is_dead("a") && members.is_dead("b"));
        see(&mut members, &list(&[]), &["a"], gone + LASTS, gone + LASTS);
        assert!(members.is_dead("a") && members.get("b").is_none());
    }

    #[test]
    fn a_crowd_is_observed_in_part_and_said_to_be_one() {
        let (mut members, now) = (Members::default(), Instant::now());
        see(&mut members, &list(&[lease("z", 1)]), &[], now, now);
        let name = |index| lease(&format!("a{index}"), 1);
        let mut crowd: Vec<_> = (0..MAX_MEMBERS).map(name).collect();
        crowd.push(lease("z", 1));
        see(&mut members, &list(&crowd), &[], now, now);
        assert!(members.is_crowded() && members.get("z").is_some());
        assert_eq!(members.iter().count(), MAX_MEMBERS);
        see(&mut members, &list(&crowd[1..]), &[], now, now);
        assert!(!members.is_crowded());
    }
}
