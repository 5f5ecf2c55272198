//! Processes in a simulated world where calls are lost and processes stop, die, leave and join.
//!
//! The promise: whatever happens, a write lands only while the assignment at the server names its writer as the shard's holder. Once nothing goes
//! wrong any more, every shard has a living owner within a limited time, and soon the one that it should have.

pub(super) mod world;

use super::set::ShardSet;
use crate::election::Timing;
use std::time::Duration;
use world::{CALM, GUSTS, NAME, STORM, Weather, World, ms};

fn quick() -> Timing {
    Timing {
        lease_duration: ms(4000),
        renew_deadline: ms(3000),
        retry_period: ms(100),
    }
}

/// How long a shard may stay without an owner after a death.
fn takeover() -> Duration {
    Timing::default().lease_duration.mul_f64(1.05) + ms(5000)
}

/// Longest time of a write, of a run's end, and of the calls that pass a shard on.
const HANDOVER: Duration = Duration::from_secs(14);

/// The most calls of a member within a retry period.
const MOST_CALLS: usize = 24;

#[test]
fn a_write_lands_only_while_the_assignment_names_its_writer() {
    let (mut landed, mut refused, mut moved) = (0, 0, 0);
    for seed in 0..40 {
        let timing = if seed % 3 == 0 {
            quick()
        } else {
            Timing::default()
        };
        let weather = if seed % 4 < 2 { STORM } else { GUSTS };
        let mut world = World::new(seed, 16, timing, weather);
        for member in 0..2 + seed % 4 {
            world.join(1 + (member as u8 * 7) % 10);
        }
        world.run(ms(240_000));
        landed += world.landed;
        refused += world.refused;
        moved += world.server.moved;
        let most = world.processes.iter().map(|process| process.most).max();
        assert!(most <= Some(MOST_CALLS), "seed {seed}: {most:?}");
    }
    assert!(
        landed > 8000 && refused > 100 && moved > 1500,
        "{landed} landed, {refused} refused, {moved} moved"
    );
}

#[test]
fn a_deleted_assignment_gives_no_shard_to_two_processes() {
    let (mut landed, mut moved, mut wiped) = (0, 0, 0);
    for seed in 0..20 {
        let weather = Weather {
            wipes: 10,
            outages: 0,
            ..if seed % 2 == 0 { GUSTS } else { STORM }
        };
        let mut world = World::with(seed, 3, Timing::default(), weather);
        world.run(ms(200_000));
        landed += world.landed;
        moved += world.server.moved;
        wiped += u32::from(world.wiped);
    }
    assert!(
        landed > 2000 && moved > 1000 && wiped > 15,
        "{landed} landed, {moved} moved, {wiped} wiped"
    );
}

#[test]
fn after_every_storm_each_shard_has_an_owner_and_soon_the_right_one() {
    for seed in 0..24 {
        let mut world = World::with(seed, 2 + seed as usize % 3, Timing::default(), STORM);
        world.run(ms(100_000));
        world.weather = CALM;
        world.away_until = ms(0);
        // The storm ends when its last calls have arrived and its last stopped processes have resumed.
        let mut end = world.now + STORM.delay;
        for process in &mut world.processes {
            process.cut_off_until = ms(0);
            end = end.max(process.stopped_until);
        }
        world.run(end - world.now);
        let mut running = world.processes.iter().filter(|process| process.running);
        if running.next().is_none() {
            world.join(10);
        }
        world.until_owned(takeover());
        world.until_placed(takeover() + HANDOVER * 2);
        world.run(ms(100_000));
        let (assigned, owned) = (world.server.assigned, world.parts());
        world.run(ms(60_000));
        assert_eq!(
            (world.server.assigned, world.parts()),
            (assigned, owned),
            "seed {seed}"
        );
    }
}

#[test]
fn the_shards_of_a_dead_process_pass_on_when_its_lease_ends_and_no_other_moves() {
    for seed in 0..24 {
        let timing = Timing::default();
        let mut world = World::with(seed, 4, timing, CALM);
        world.until_placed(ms(40_000));
        world.run(ms(30_000));
        let before = world.parts();
        world.kill(1);
        assert_eq!(world.owned(), world.all() - before[1]);
        let took = world.until_owned(takeover());
        assert!(
            took > timing.lease_duration - ms(3000),
            "seed {seed}: {took:?}"
        );
        for (slot, part) in world.parts().iter().enumerate() {
            let gained = *part - before[slot];
            assert_eq!(
                *part - before[1],
                if slot == 1 {
                    ShardSet::EMPTY
                } else {
                    before[slot]
                }
            );
            assert_eq!(gained - before[1], ShardSet::EMPTY);
        }
    }
}

#[test]
fn a_process_that_joins_takes_its_part_and_one_that_leaves_gives_it_back() {
    for seed in 0..10 {
        let mut world = World::new(seed, 256, Timing::default(), CALM);
        world.join_all(3);
        world.until_placed(ms(60_000));
        let (before, moved) = (world.parts(), world.server.moved);
        let joined = world.join(10);
        world.run(ms(5000));
        world.until_placed(HANDOVER * 2);
        let part = world.parts()[joined];
        assert!((40..90).contains(&part.len()), "seed {seed}: {part}");
        assert_eq!(world.server.moved - moved, u64::from(part.len()));
        for (slot, before) in before.iter().enumerate() {
            assert_eq!(world.parts()[slot], *before - part, "seed {seed}");
        }
        world.leave(joined, ms(60_000));
        world.until(ms(60_000), "it leaves", |world| {
            !world.processes[joined].running
        });
        world.until_owned(ms(3000));
        assert_eq!(world.parts()[..3], before[..3]);
        assert_eq!(world.server.moved - moved, 2 * u64::from(part.len()));
        assert_eq!(world.server.members(), 3);
    }
}

/// Runs for so long, and returns the longest time that a shard had no owner.
fn longest_gap(world: &mut World, time: Duration) -> Duration {
    let (mut gaps, end) = ([0; 256], world.now + time);
    let mut most = 0;
    while world.now < end {
        world.run(ms(20));
        let lacks = world.all() - world.owned();
        for shard in world.all().iter() {
            let gap = &mut gaps[usize::from(shard)];
            *gap = if lacks.contains(shard) { *gap + 20 } else { 0 };
            most = most.max(*gap);
        }
    }
    ms(most)
}

#[test]
fn a_drain_leaves_no_shard_without_an_owner_for_longer_than_its_runs_and_a_few_calls() {
    for seed in 0..10 {
        let mut world = World::with(seed, 3, Timing::default(), CALM);
        world
            .processes
            .iter_mut()
            .for_each(|process| process.slow = ms(300));
        world.until_placed(ms(40_000));
        world.run(ms(20_000));
        world.leave(1, ms(60_000));
        // A write may last for ten seconds; ending runs takes a second, and the new owner reads four times a period.
        let gap = longest_gap(&mut world, ms(60_000));
        assert!(gap <= ms(10_000 + 1500 + 700), "seed {seed}: {gap:?}");
        assert!(!world.processes[1].running);
        assert_eq!(world.owned(), world.all());
    }
}

#[test]
fn a_drain_without_other_members_ends_and_leaves_nothing_behind() {
    for seed in 0..10 {
        let mut world = World::with(seed, 2, Timing::default(), CALM);
        world.until_placed(ms(40_000));
        world.leave(0, ms(30_000));
        world.leave(1, ms(30_000));
        world.until(ms(25_000), "they leave", |world| {
            world.processes.iter().all(|process| !process.running)
        });
        assert_eq!(world.server.members(), 0, "seed {seed}");
        assert!(world.server.assignment().unwrap().held().is_empty());
        world.join(1);
        world.until_owned(ms(8000));
    }
}

#[test]
fn a_drain_whose_successors_are_never_warm_ends_at_its_deadline() {
    for seed in 0..6 {
        let mut world = World::with(seed, 2, Timing::default(), CALM);
        world.until_placed(ms(40_000));
        world.processes[0].slow = ms(300);
        world.processes[1].slow = ms(1_000_000_000);
        world.leave(0, ms(8000));
        world.until(ms(8000 + 15_000), "it leaves", |world| {
            !world.processes[0].running
        });
        world.until_owned(ms(4000));
    }
}

#[test]
fn an_idle_fleet_calls_twice_a_period_and_never_writes_the_assignment() {
    for shards in [8, 1024] {
        let mut world = World::new(1, shards, Timing::default(), CALM);
        world.join_all(5);
        world.until_placed(ms(60_000));
        world.run(ms(20_000));
        let assigned = world.server.assigned;
        let before: Vec<_> = world
            .processes
            .iter()
            .map(|process| process.called)
            .collect();
        world.run(ms(200_000));
        assert_eq!(world.server.assigned, assigned);
        for (process, before) in world.processes.iter().zip(before) {
            let calls = process.called - before;
            assert!((170..=204).contains(&calls), "{calls} calls in 100 periods");
        }
    }
}

#[test]
fn a_server_that_was_away_for_a_minute_finds_every_shard_at_the_member_of_before() {
    for seed in 0..10 {
        let mut world = World::with(seed, 3, Timing::default(), CALM);
        world.until_placed(ms(40_000));
        world.run(ms(10_000));
        let before = world.parts();
        world.away_until = world.now + ms(60_000);
        world.run(ms(30_000));
        assert!(world.owned().is_empty(), "seed {seed}");
        world.run(ms(30_000));
        world.until_owned(ms(9000));
        assert_eq!(world.parts(), before, "seed {seed}");
        // Those of the incarnations that are over are removed.
        world.run(ms(10_000));
        assert_eq!(world.server.members(), 3);
    }
}

#[test]
fn a_server_that_is_away_for_seconds_changes_nothing() {
    for seed in 0..10 {
        let mut world = World::with(seed, 3, Timing::default(), CALM);
        world.until_placed(ms(40_000));
        world.run(ms(10_000));
        let (before, assigned) = (world.parts(), world.server.assigned);
        world.away_until = world.now + ms(2500);
        for _ in 0..1000 {
            world.run(ms(20));
            assert_eq!(world.parts(), before, "seed {seed}");
        }
        assert_eq!(world.server.assigned, assigned);
    }
}

#[test]
fn the_leases_of_dead_processes_are_removed() {
    let mut world = World::with(3, 3, Timing::default(), CALM);
    for _ in 0..10 {
        world.run(ms(5000));
        world.restart(0);
    }
    world.until_placed(ms(90_000));
    world.run(ms(120_000));
    assert_eq!(world.server.members(), 3);
    let assignment = world.server.assignment().unwrap();
    assert_eq!(assignment.shares().count(), 3);
}

#[test]
fn a_process_with_another_number_of_shards_takes_none_and_says_so() {
    use crate::shard::problem::Problem;
    let mut world = World::with(1, 2, Timing::default(), CALM);
    world.until_placed(ms(40_000));
    let before = world.parts();
    let other = world.join(10);
    world.processes[other].sharding.shards = 64;
    world.restart(other);
    world.run(ms(60_000));
    assert_eq!(world.parts()[..2], before[..2]);
    let status = world.processes[other].machine.status();
    let (ours, theirs) = (64, 32);
    assert_eq!(status.problem, Some(Problem::Shards { ours, theirs }));
}

#[test]
fn a_damaged_assignment_stops_nothing_and_moves_nothing() {
    use crate::shard::problem::Problem;
    let mut world = World::with(1, 3, Timing::default(), CALM);
    world.until_placed(ms(40_000));
    let before = world.parts();
    let good = world.server.assignment().unwrap().text();
    world.server.damage("{\"shards\":32,\"members\":");
    // Land checks compare with the assignment, which nobody can read now.
    world.wiped = true;
    world.join(10);
    world.run(ms(30_000));
    assert_eq!(world.parts()[..3], before[..]);
    for process in &world.processes {
        let problem = process.machine.status().problem;
        assert!(matches!(problem, Some(Problem::Damaged(_))), "{problem:?}");
    }
    world.server.damage(&good);
    world.run(ms(5000));
    world.until_placed(HANDOVER * 2);
    world.server.delete(NAME);
    world.run(ms(5000));
    world.until_placed(takeover() + HANDOVER);
}
