//! The machine, step by step.

use super::machine::{LeaseCall, Machine, Next, Outcome, Role};
use super::record::{Lease, Record};
use super::timing::Timing;
use fastrand::Rng;
use jiff::Timestamp;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn wall() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn machine(now: Instant) -> Machine {
    Machine::new("me".into(), Timing::default(), now, Rng::with_seed(1))
}

/// The Lease of another candidate, last renewed at this time by that candidate's clock.
fn of_other(renewed: &str) -> Lease {
    let record = Record {
        holder: "other".to_owned(),
        seconds: Some(15),
        renewed: renewed.to_owned(),
        ..Record::default()
    };
    Lease::parse(&record.object("ns", "name")).unwrap()
}

fn mine(call: &LeaseCall) -> Outcome {
    let record = match call {
        LeaseCall::Create(record) | LeaseCall::Update(_, record) => record,
        LeaseCall::Read => panic!("not a write"),
    };
    Outcome::Lease(Lease::parse(&record.object("ns", "name")).unwrap())
}

fn asked(next: Next) -> LeaseCall {
    match next {
        Next::Send(call, _) => call,
        other => panic!("{other:?}"),
    }
}

/// A leader by a renewal that began at `start` and was answered at once.
fn leader(start: Instant) -> Machine {
    let mut machine = machine(start);
    assert_eq!(asked(machine.next(start, wall())), LeaseCall::Read);
    machine.answered(start, start, &LeaseCall::Read, Outcome::Absent);
    let create = asked(machine.next(start, wall()));
    machine.answered(start, start, &create, mine(&create));
    assert_eq!(machine.role(), Role::Leader { since: start });
    machine
}

#[test]
fn leadership_counts_from_the_beginning_of_the_call_that_won_it() {
    let start = Instant::now();
    let mut machine = leader(start);
    let renewal = asked(machine.next(start + 3 * SECOND, wall()));
    machine.answered(
        start + 3 * SECOND,
        start + 7 * SECOND,
        &renewal,
        mine(&renewal),
    );
    let since = start + 3 * SECOND;
    assert_eq!(machine.role(), Role::Leader { since });
    assert!(
        matches!(machine.next(start + 12 * SECOND, wall()), Next::Send(_, limit) if limit <= SECOND)
    );
    assert_eq!(machine.next(start + 13 * SECOND, wall()), Next::End);
}

#[test]
fn an_answer_after_the_renew_deadline_makes_no_leader() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(start, start, &LeaseCall::Read, Outcome::Absent);
    let create = asked(machine.next(start, wall()));
    let late = start + 60 * SECOND;
    machine.answered(start, late, &create, mine(&create));
    assert_eq!(machine.role(), Role::Follower);
    // The Lease names this candidate, so it renews at once.
    assert!(matches!(
        asked(machine.next(late, wall())),
        LeaseCall::Update(..)
    ));
}

#[test]
fn a_lease_is_taken_after_its_duration_without_an_observed_change_whatever_times_it_has() {
    for renewed in [
        "1970-01-01T00:00:00.000000Z",
        "2199-01-01T00:00:00.000000Z",
        "nonsense",
        "",
    ] {
        let start = Instant::now();
        let mut machine = machine(start);
        let mut now = start;
        while now < start + 14 * SECOND {
            if let Next::Send(call, _) = machine.next(now, wall()) {
                assert_eq!(call, LeaseCall::Read, "{renewed}");
                machine.answered(now, now, &call, Outcome::Lease(of_other(renewed)));
            }
            now += SECOND / 10;
        }
        let free = start + 15 * SECOND;
        assert!(
            matches!(asked(machine.next(free, wall())), LeaseCall::Update(_, record) if record.holder == "me" && record.transitions == 1)
        );
    }
}

#[test]
fn a_renewal_of_the_holder_starts_the_wait_anew() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(
        start,
        start,
        &LeaseCall::Read,
        Outcome::Lease(of_other("a")),
    );
    let later = start + 14 * SECOND;
    machine.answered(
        later,
        later,
        &LeaseCall::Read,
        Outcome::Lease(of_other("b")),
    );
    assert_eq!(
        asked(machine.next(start + 20 * SECOND, wall())),
        LeaseCall::Read
    );
}

#[test]
fn a_lease_that_somebody_deletes_protects_its_last_holder_until_it_would_have_ended() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(
        start,
        start,
        &LeaseCall::Read,
        Outcome::Lease(of_other("a")),
    );
    let deleted = start + 5 * SECOND;
    machine.answered(deleted, deleted, &LeaseCall::Read, Outcome::Absent);
    assert!(matches!(machine.next(deleted, wall()), Next::Wait(_)));
    machine.answered(
        start + 14 * SECOND,
        start + 14 * SECOND,
        &LeaseCall::Read,
        Outcome::Absent,
    );
    assert_eq!(
        machine.next(start + 14 * SECOND, wall()),
        Next::Wait(start + 15 * SECOND)
    );
    assert!(matches!(
        asked(machine.next(start + 15 * SECOND, wall())),
        LeaseCall::Create(_)
    ));
}

#[test]
fn a_leader_whose_lease_names_another_or_nobody_has_lost() {
    for holder in [
        of_other("a"),
        Lease::parse(br#"{"kind":"Lease","spec":{}}"#).unwrap(),
    ] {
        let start = Instant::now();
        let mut machine = leader(start);
        let now = start + 3 * SECOND;
        let renewal = asked(machine.next(now, wall()));
        machine.answered(now, now, &renewal, Outcome::Conflict);
        let again = now + 2 * SECOND;
        assert_eq!(asked(machine.next(again, wall())), LeaseCall::Read);
        machine.answered(again, again, &LeaseCall::Read, Outcome::Lease(holder));
        assert_eq!(machine.next(again, wall()), Next::End);
    }
}

#[test]
fn a_leader_that_leaves_clears_the_holder_and_a_follower_does_not() {
    let start = Instant::now();
    let mut leader = leader(start);
    leader.leave_within(start, 5 * SECOND);
    let release = asked(leader.next(start, wall()));
    assert!(
        matches!(&release, LeaseCall::Update(_, record) if record.holder.is_empty() && record.seconds == Some(1))
    );
    leader.answered(start, start, &release, Outcome::Failed);
    // It reads whether the release happened, until the deadline.
    assert_eq!(
        asked(leader.next(start + 2 * SECOND, wall())),
        LeaseCall::Read
    );
    assert_eq!(leader.next(start + 5 * SECOND, wall()), Next::End);

    let mut follower = machine(start);
    follower.answered(
        start,
        start,
        &LeaseCall::Read,
        Outcome::Lease(of_other("a")),
    );
    follower.leave_within(start, 5 * SECOND);
    assert_eq!(follower.next(start, wall()), Next::End);
}

#[test]
fn a_candidate_that_leaves_releases_a_lease_that_it_may_have_won_unseen() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(start, start, &LeaseCall::Read, Outcome::Absent);
    let create = asked(machine.next(start, wall()));
    machine.answered(start, start + SECOND, &create, Outcome::Failed);
    machine.leave_within(start + SECOND, 5 * SECOND);
    assert_eq!(asked(machine.next(start + SECOND, wall())), LeaseCall::Read);
    machine.answered(
        start + SECOND,
        start + SECOND,
        &LeaseCall::Read,
        mine(&create),
    );
    assert!(
        matches!(asked(machine.next(start + SECOND, wall())), LeaseCall::Update(_, record) if record.holder.is_empty())
    );
}
