//! The machine, step by step.

use super::*;
use crate::clock::Hand;
use crate::election::Timing;
use crate::shard::call::Outcome;
use crate::shard::membership::Membership;
use crate::shard::model_tests::world::{NAME, Server, ms};

/// Some machines with one clock, whose calls are answered at once.
struct Fleet {
    hand: Hand,
    server: Server,
    machines: Vec<Machine>,
    /// Whether runs do not end.
    stuck: bool,
}

impl Fleet {
    fn new(members: usize) -> Self {
        let hand = Hand::new();
        let machine = |member| {
            let sharding = Sharding {
                namespace: "ns".to_owned(),
                name: NAME.to_owned(),
                member: format!("w-{member}").into(),
                weight: 1,
                shards: 16,
                timing: Timing::default(),
            };
            Machine::new(sharding, hand.now(), Rng::with_seed(member as u64))
        };
        Self {
            machines: (0..members).map(machine).collect(),
            server: Server::default(),
            stuck: false,
            hand,
        }
    }

    /// The next call of a machine; `None`: it waits.
    fn next(&mut self, member: usize) -> Option<Call> {
        let machine = &mut self.machines[member];
        let joins = *machine.joins();
        machine.warmed(&joins);
        if !self.stuck {
            let leaves = *machine.leaves();
            machine.drained(&leaves, self.hand.now());
        }
        let wall = "2026-01-01T00:00:00Z".parse().unwrap();
        match machine.next(self.hand.now(), wall) {
            Next::Send(call, _) => Some(call),
            Next::Wait(_) | Next::End => None,
        }
    }

    fn serve(&mut self, member: usize, call: &Call) -> Outcome {
        self.server
            .serve(&call.wire(&self.machines[member].sharding))
    }

    fn answer(&mut self, member: usize, call: &Call, outcome: Outcome) {
        let now = self.hand.now();
        self.machines[member].answered(call, outcome, now, now);
    }

    /// Runs these members for so long.
    fn run(&mut self, members: &[usize], time: Duration) {
        self.run_until(members, time, |_, _| false);
    }

    /// Runs these members until one sends such a call, which is returned in place of being sent.
    fn run_until(
        &mut self,
        members: &[usize],
        time: Duration,
        holds: impl Fn(usize, &Call) -> bool,
    ) -> Option<Call> {
        let end = self.hand.now() + time;
        while self.hand.now() < end {
            for member in members {
                while let Some(call) = self.next(*member) {
                    if holds(*member, &call) {
                        return Some(call);
                    }
                    let outcome = self.serve(*member, &call);
                    self.answer(*member, &call, outcome);
                }
            }
            self.hand.advance(ms(50));
        }
        None
    }

    fn holds(&self, member: usize) -> ShardSet {
        *self.machines[member].holds()
    }
}

fn moves(call: &Call) -> Option<Moves> {
    match &call.request {
        Request::Assign { moves, .. } => Some(*moves),
        _ => None,
    }
}

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_claim_with_an_unknown_outcome_gives_nothing_until_a_list_shows_it() {
    let mut fleet = Fleet::new(1);
    let claims = |_, call: &Call| moves(call).is_some_and(|moves| moves.free > 0);
    let claim = fleet.run_until(&[0], SOON, claims).unwrap();
    fleet.serve(0, &claim);
    fleet.answer(0, &claim, Outcome::Failed);
    assert!(fleet.holds(0).is_empty());
    fleet.run_until(&[0], SOON, |_, call| matches!(call.request, Request::List));
    assert!(fleet.holds(0).is_empty());
    fleet.run(&[0], ms(3000));
    assert_eq!(fleet.holds(0), ShardSet::first(16));
    let status = fleet.machines[0].status();
    assert_eq!(status.holder(3).map(|holder| &*holder.name), Some("w-0"));
    assert!(status.ownerless.is_empty() && status.problem.is_none());
}

#[test]
fn a_shard_that_was_given_by_a_lost_call_is_not_run_while_that_call_may_land() {
    let mut fleet = Fleet::new(2);
    fleet.run(&[0], SOON);
    let gives = |member: usize, call: &Call| {
        member == 0 && moves(call).is_some_and(|moves| moves.given > 0)
    };
    let lost = fleet.run_until(&[0, 1], SOON, gives).unwrap();
    fleet.answer(0, &lost, Outcome::Failed);
    let kept = fleet.holds(0);
    assert!(!kept.is_empty() && kept != ShardSet::first(16));
    // The other member dies. Nothing changes the assignment until this one recalls its call.
    let recalls = |_, call: &Call| moves(call).is_some();
    let recall = fleet.run_until(&[0], SOON, recalls);
    // It repeats the call as long as the other one seems to live.
    let repeat = recall.unwrap();
    assert_eq!(moves(&repeat), moves(&lost));
    fleet.answer(0, &repeat, Outcome::Failed);
    for _ in 0..200 {
        let Some(call) = fleet.run_until(&[0], ms(100), recalls) else {
            continue;
        };
        assert_eq!(fleet.holds(0), kept);
        if moves(&call) == Some(Moves::default()) {
            let outcome = fleet.serve(0, &call);
            fleet.answer(0, &call, outcome);
            break;
        }
        fleet.answer(0, &call, Outcome::Failed);
    }
    assert_eq!(fleet.holds(0), ShardSet::first(16));
    assert!(matches!(fleet.serve(0, &lost), Outcome::Conflict));
}

#[test]
fn an_incarnation_that_is_over_holds_nothing_and_its_late_answer_changes_nothing() {
    let mut fleet = Fleet::new(1);
    fleet.run(&[0], SOON);
    let first = fleet.machines[0].incarnation().clone();
    let late = fleet.run_until(&[0], SOON, |_, call| {
        matches!(call.request, Request::Renew { .. })
    });
    let late = late.unwrap();
    let outcome = fleet.serve(0, &late);
    fleet.hand.advance(ms(10_000));
    fleet.answer(0, &late, outcome);
    assert!(fleet.holds(0).is_empty() && fleet.machines[0].renewed().is_none());
    assert_ne!(*fleet.machines[0].incarnation(), first);
    assert_eq!(*fleet.machines[0].leaves(), ShardSet::first(16));
    assert_eq!(fleet.machines[0].keeps(), ShardSet::first(16));
    // It claims the shards of its own former incarnation at once, and removes its Lease.
    fleet.run(&[0], ms(500));
    assert_eq!(fleet.holds(0), ShardSet::first(16));
    assert_eq!(fleet.machines[0].status().moves.own, 16);
    fleet.run(&[0], ms(3000));
    assert_eq!(fleet.server.members(), 1);
}

#[test]
fn a_member_that_renews_and_cannot_list_keeps_its_shards_and_says_that_it_is_blind() {
    let mut fleet = Fleet::new(2);
    fleet.run(&[0, 1], SOON);
    let before = fleet.holds(0);
    let lists = |_, call: &Call| matches!(call.request, Request::List);
    for _ in 0..400 {
        if let Some(call) = fleet.run_until(&[0], ms(50), lists) {
            fleet.answer(0, &call, Outcome::Failed);
        }
        fleet.run(&[1], ms(50));
    }
    let status = fleet.machines[1].status();
    let blind = status
        .members
        .iter()
        .find(|member| *member.name == *"w-0")
        .unwrap();
    assert!(blind.blind && blind.alive && blind.holds == before);
    assert_eq!(fleet.holds(0), before);
    // The other one would take them, and is ready.
    assert_eq!(*fleet.machines[1].joins(), before);
    fleet.run(&[0, 1], ms(10_000));
    assert_eq!(fleet.holds(0), before);
}

#[test]
fn shards_without_a_holder_wait_for_a_member_that_may_run_them_by_a_deleted_assignment() {
    let mut fleet = Fleet::new(2);
    fleet.run(&[0], SOON);
    let first = fleet.holds(0);
    assert_eq!(first, ShardSet::first(16));
    fleet.server.delete(NAME);
    let lists = |member: usize, call: &Call| member == 0 && matches!(call.request, Request::List);
    // The first member renews and cannot list.
    for _ in 0..100 {
        if let Some(call) = fleet.run_until(&[0], ms(50), lists) {
            fleet.answer(0, &call, Outcome::Failed);
        }
        fleet.run(&[1], ms(50));
    }
    assert_eq!(fleet.holds(0), first);
    assert!(fleet.holds(1).is_empty());
    let problem = fleet.machines[1].status().problem;
    assert_eq!(
        problem,
        Some(Problem::Elsewhere(fleet.machines[0].incarnation().clone()))
    );
    fleet.run(&[0, 1], SOON);
    assert!((fleet.holds(0) & fleet.holds(1)).is_empty());
    assert_eq!(fleet.holds(0) | fleet.holds(1), first);
    assert!(!fleet.holds(1).is_empty());
}

#[test]
fn a_member_whose_lease_was_deleted_stops_and_comes_back_as_another_incarnation() {
    let mut fleet = Fleet::new(2);
    fleet.run(&[0, 1], SOON);
    let before = (fleet.holds(0), fleet.holds(1));
    let first = fleet.machines[0].incarnation().clone();
    fleet.server.delete(&format!("{NAME}-{first}"));
    fleet.run(&[0, 1], ms(4000));
    assert_ne!(*fleet.machines[0].incarnation(), first);
    assert_eq!((fleet.holds(0), fleet.holds(1)), before);
}

#[test]
fn shards_that_went_and_came_back_unseen_are_told_as_having_come() {
    let mut fleet = Fleet::new(1);
    let membership = Membership::new(fleet.machines[0].sharding.clone());
    fleet.run(&[0], SOON);
    membership.publish(&fleet.machines[0]);
    let all = ShardSet::first(16);
    assert_eq!(membership.take_shards(), (all, all, all));
    membership.publish(&fleet.machines[0]);
    assert_eq!(membership.take_shards(), (all, all, ShardSet::EMPTY));
    // Nobody looks while they are away.
    fleet.hand.advance(SOON);
    fleet.next(0);
    membership.publish(&fleet.machines[0]);
    assert!(fleet.holds(0).is_empty());
    fleet.run(&[0], SOON);
    membership.publish(&fleet.machines[0]);
    assert_eq!(membership.take_shards(), (all, all, all));
}

#[test]
fn an_assignment_without_its_label_is_reported() {
    let mut fleet = Fleet::new(1);
    let created = |fleet: &mut Fleet| {
        let created = fleet.run_until(&[0], SOON, |_, call| moves(call).is_some());
        created.unwrap()
    };
    let call = created(&mut fleet);
    fleet.answer(0, &call, Outcome::Conflict);
    // Another process may have been faster, until a list does not show it.
    assert_eq!(fleet.machines[0].status().problem, None);
    created(&mut fleet);
    assert_eq!(
        fleet.machines[0].status().problem,
        Some(Problem::Unlabelled)
    );
    fleet.run(&[0], SOON);
    assert_eq!(fleet.machines[0].status().problem, None);
}

#[test]
fn a_missing_namespace_is_asked_for_no_faster_than_a_renewal_is_repeated() {
    let mut fleet = Fleet::new(1);
    let mut calls = 0;
    for _ in 0..200 {
        while let Some(call) = fleet.next(0) {
            fleet.answer(0, &call, Outcome::Absent);
            calls += 1;
        }
        fleet.hand.advance(ms(50));
    }
    assert!((4..=24).contains(&calls), "{calls} calls in ten seconds");
}

#[test]
fn a_member_claims_nothing_before_its_lease_says_which_assignment_it_follows() {
    let mut fleet = Fleet::new(1);
    let follows = |call: &Call| match &call.request {
        Request::Renew { state, .. } => state.follows.is_some(),
        _ => false,
    };
    for _ in 0..80 {
        let sent =
            |_, call: &Call| follows(call) || moves(call).is_some_and(|moves| moves.free > 0);
        if let Some(call) = fleet.run_until(&[0], ms(100), sent) {
            assert!(follows(&call), "{call:?}");
            fleet.answer(0, &call, Outcome::Failed);
        }
    }
    assert!(fleet.server.assignment().is_some() && fleet.holds(0).is_empty());
    fleet.run(&[0], ms(10_000));
    assert_eq!(fleet.holds(0), ShardSet::first(16));
}

#[test]
fn the_lease_of_a_former_incarnation_stays_while_its_runs_go_on() {
    let mut fleet = Fleet::new(1);
    fleet.run(&[0], SOON);
    fleet.hand.advance(ms(10_000));
    fleet.stuck = true;
    fleet.server.delete(NAME);
    fleet.run(&[0], ms(12_000));
    assert_eq!(*fleet.machines[0].leaves(), ShardSet::first(16));
    assert!(fleet.holds(0).is_empty());
    assert_eq!(fleet.server.members(), 2);
    fleet.stuck = false;
    fleet.run(&[0], ms(8000));
    assert_eq!(fleet.holds(0), ShardSet::first(16));
    assert_eq!(fleet.server.members(), 1);
}

#[test]
fn the_shards_of_a_dead_member_go_to_one_that_has_yet_to_see_it_die() {
    let mut fleet = Fleet::new(3);
    fleet.run(&[0, 1], SOON);
    let dead = fleet.holds(1);
    // The third starts when the second one is almost dead.
    fleet.run(&[0], ms(13_000));
    fleet.run(&[0, 2], ms(9000));
    assert!(!(dead & fleet.holds(2)).is_empty());
    assert_eq!(fleet.holds(0) | fleet.holds(2), ShardSet::first(16));
    assert_eq!(fleet.machines[2].status().moves.dead, 0);
}

#[test]
fn a_member_that_drains_gives_its_shards_and_stays_a_member() {
    let mut fleet = Fleet::new(2);
    fleet.run(&[0], SOON);
    let now = fleet.hand.now();
    fleet.machines[0].drain(now);
    // Nobody else is there to take them.
    fleet.run(&[0], SOON);
    assert_eq!(fleet.holds(0), ShardSet::first(16));
    fleet.run(&[0, 1], SOON);
    assert_eq!(fleet.holds(1), ShardSet::first(16));
    let status = fleet.machines[0].status();
    let own = |status: &Status| {
        let mut members = status.members.iter();
        members.find(|member| *member.name == *"w-0").cloned()
    };
    assert!(own(&status).is_some_and(|own| own.alive && own.draining && own.holds.is_empty()));
    assert_eq!(status.owner(3).map(|owner| &**owner), Some("w-1"));
    // Its next life takes none either.
    fleet.run(&[1], SOON);
    fleet.run(&[0, 1], SOON);
    assert_eq!(fleet.holds(1), ShardSet::first(16));
    assert!(own(&fleet.machines[1].status()).is_some_and(|own| own.alive && own.draining));
    let now = fleet.hand.now();
    fleet.machines[0].leave(now, now + ms(1000));
    fleet.run(&[0, 1], ms(3000));
    assert_eq!(fleet.server.members(), 1);
}
