//! The machine, one step at a time.

use super::machine::{Answer, Ask, Machine, Next, Standing};
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

/// The lease of another, last renewed when its own clock said so.
fn of_other(renewed: &str) -> Lease {
    let record = Record {
        holder: "other".to_owned(),
        seconds: Some(15),
        renewed: renewed.to_owned(),
        ..Record::default()
    };
    Lease::parse(&record.object("ns", "name")).unwrap()
}

fn mine(ask: &Ask) -> Answer {
    let record = match ask {
        Ask::Create(record) | Ask::Update(_, record) => record,
        Ask::Read => panic!("not a write"),
    };
    Answer::Lease(Lease::parse(&record.object("ns", "name")).unwrap())
}

fn asked(next: Next) -> Ask {
    match next {
        Next::Send(ask, _) => ask,
        other => panic!("{other:?}"),
    }
}

/// A leader by a renewal that began at `start` and was answered at once.
fn leader(start: Instant) -> Machine {
    let mut machine = machine(start);
    assert_eq!(asked(machine.next(start, wall())), Ask::Read);
    machine.answered(start, start, &Ask::Read, Answer::Absent);
    let create = asked(machine.next(start, wall()));
    machine.answered(start, start, &create, mine(&create));
    assert_eq!(machine.standing(), Standing::Leader { since: start });
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
    assert_eq!(machine.standing(), Standing::Leader { since });
    assert!(
        matches!(machine.next(start + 12 * SECOND, wall()), Next::Send(_, limit) if limit <= SECOND)
    );
    assert_eq!(machine.next(start + 13 * SECOND, wall()), Next::End);
}

#[test]
fn an_answer_that_took_longer_than_a_leader_may_be_silent_makes_nobody_a_leader() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(start, start, &Ask::Read, Answer::Absent);
    let create = asked(machine.next(start, wall()));
    let late = start + 60 * SECOND;
    machine.answered(start, late, &create, mine(&create));
    assert_eq!(machine.standing(), Standing::Follower);
    // The lease is its own all the same, so it asks for it again at once.
    assert!(matches!(asked(machine.next(late, wall())), Ask::Update(..)));
}

#[test]
fn a_lease_is_taken_when_it_was_not_seen_to_change_for_its_duration_whatever_clocks_wrote_into_it()
{
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
            if let Next::Send(ask, _) = machine.next(now, wall()) {
                assert_eq!(ask, Ask::Read, "{renewed}");
                machine.answered(now, now, &ask, Answer::Lease(of_other(renewed)));
            }
            now += SECOND / 10;
        }
        let free = start + 15 * SECOND;
        assert!(
            matches!(asked(machine.next(free, wall())), Ask::Update(_, record) if record.holder == "me" && record.transitions == 1)
        );
    }
}

#[test]
fn a_renewal_of_the_holder_starts_the_wait_anew() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(start, start, &Ask::Read, Answer::Lease(of_other("a")));
    let later = start + 14 * SECOND;
    machine.answered(later, later, &Ask::Read, Answer::Lease(of_other("b")));
    assert_eq!(asked(machine.next(start + 20 * SECOND, wall())), Ask::Read);
}

#[test]
fn a_lease_that_somebody_deletes_protects_its_last_holder_until_it_would_have_ended() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(start, start, &Ask::Read, Answer::Lease(of_other("a")));
    let deleted = start + 5 * SECOND;
    machine.answered(deleted, deleted, &Ask::Read, Answer::Absent);
    assert!(matches!(machine.next(deleted, wall()), Next::Wait(_)));
    machine.answered(
        start + 14 * SECOND,
        start + 14 * SECOND,
        &Ask::Read,
        Answer::Absent,
    );
    assert_eq!(
        machine.next(start + 14 * SECOND, wall()),
        Next::Wait(start + 15 * SECOND)
    );
    assert!(matches!(
        asked(machine.next(start + 15 * SECOND, wall())),
        Ask::Create(_)
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
        machine.answered(now, now, &renewal, Answer::Conflict);
        let again = now + 2 * SECOND;
        assert_eq!(asked(machine.next(again, wall())), Ask::Read);
        machine.answered(again, again, &Ask::Read, Answer::Lease(holder));
        assert_eq!(machine.next(again, wall()), Next::End);
    }
}

#[test]
fn a_leader_that_leaves_clears_the_holder_and_a_follower_leaves_the_lease_alone() {
    let start = Instant::now();
    let mut leader = leader(start);
    leader.leave_within(start, 5 * SECOND);
    let release = asked(leader.next(start, wall()));
    assert!(
        matches!(&release, Ask::Update(_, record) if record.holder.is_empty() && record.seconds == Some(1))
    );
    leader.answered(start, start, &release, Answer::Failed);
    // Whether it happened is looked at, but not for ever.
    assert_eq!(asked(leader.next(start + 2 * SECOND, wall())), Ask::Read);
    assert_eq!(leader.next(start + 5 * SECOND, wall()), Next::End);

    let mut follower = machine(start);
    follower.answered(start, start, &Ask::Read, Answer::Lease(of_other("a")));
    follower.leave_within(start, 5 * SECOND);
    assert_eq!(follower.next(start, wall()), Next::End);
}

#[test]
fn a_candidate_that_leaves_gives_back_what_it_may_have_won_unseen() {
    let start = Instant::now();
    let mut machine = machine(start);
    machine.answered(start, start, &Ask::Read, Answer::Absent);
    let create = asked(machine.next(start, wall()));
    machine.answered(start, start + SECOND, &create, Answer::Failed);
    machine.leave_within(start + SECOND, 5 * SECOND);
    assert_eq!(asked(machine.next(start + SECOND, wall())), Ask::Read);
    machine.answered(start + SECOND, start + SECOND, &Ask::Read, mine(&create));
    assert!(
        matches!(asked(machine.next(start + SECOND, wall())), Ask::Update(_, record) if record.holder.is_empty())
    );
}
