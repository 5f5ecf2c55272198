//! Candidates in a simulated world where calls are lost and processes stop, die and leave.
//!
//! The promise: whatever happens, a write lands only while the Lease at the server names its writer. Once nothing goes wrong any more, a
//! candidate leads within a limited time.

mod world;

use super::timing::Timing;
use std::time::Duration;
use world::{CALM, Event, GUSTS, STORM, WRITE_DEADLINE, World, ms};

/// How long a free Lease stays without a leader in calm weather: a read, a write and their delays.
fn soon(timing: &Timing) -> Duration {
    timing.retry_period.mul_f64(1.25) + ms(400)
}

fn quick() -> Timing {
    Timing {
        lease_duration: ms(4000),
        renew_deadline: ms(3000),
        retry_period: ms(100),
    }
}

#[test]
fn a_write_lands_only_while_the_lease_names_its_writer() {
    let (mut landed, mut refused, mut takeovers) = (0, 0, 0);
    for seed in 0..120 {
        let candidates = 2 + (seed as usize % 2);
        let timing = if seed % 3 == 0 {
            quick()
        } else {
            Timing::default()
        };
        let weather = if seed % 4 < 2 { STORM } else { GUSTS };
        let mut world = World::new(seed, candidates, timing, weather);
        for _ in 0..60 {
            world.run(ms(5000));
            world.leader();
        }
        landed += world.landed;
        refused += world.refused;
        takeovers += world.takeovers;
    }
    assert!(
        landed > 3000 && refused > 3000 && takeovers > 300,
        "{landed} landed, {refused} refused, {takeovers} takeovers"
    );
}

#[test]
fn after_every_storm_a_candidate_leads_within_a_lease_and_a_read() {
    for seed in 0..60 {
        let timing = Timing::default();
        let mut world = World::new(seed, 3, timing, STORM);
        world.run(ms(120_000));
        world.weather = CALM;
        // The storm ends when its last calls have arrived and its last stopped processes have resumed.
        world.run(STORM.stop + STORM.delay);
        world.until_led(timing.lease_duration.mul_f64(1.05) + soon(&timing));
    }
}

#[test]
fn a_fresh_lease_is_taken_at_once_and_a_released_one_soon() {
    for seed in 0..40 {
        let timing = Timing::default();
        let mut world = World::new(seed, 3, timing, CALM);
        assert!(world.until_led(ms(1000)) < ms(400), "seed {seed}");
        for _ in 0..5 {
            world.run(ms(20_000));
            let leader = world.leader().expect("nothing goes wrong");
            let slot = world
                .processes
                .iter()
                .position(|process| process.name == leader)
                .unwrap();
            world.push(slot, world.now, Event::Leave);
            while world.leader().is_some_and(|now| now == leader) {
                world.run(ms(10));
            }
            // The writes in flight end first, by their deadline.
            world.until_led(WRITE_DEADLINE + soon(&timing));
        }
    }
}

#[test]
fn in_calm_weather_a_leader_stays_and_a_dead_ones_lease_passes_on_when_it_ends() {
    for seed in 0..40 {
        let timing = Timing::default();
        let mut world = World::new(seed, 2, timing, CALM);
        world.until_led(ms(1000));
        let leader = world.leader();
        world.run(ms(300_000));
        assert_eq!(world.leader(), leader, "seed {seed}");
        assert_eq!(world.takeovers, 1);
        let slot = world
            .processes
            .iter()
            .position(|process| Some(&process.name) == leader.as_ref())
            .unwrap();
        // The new process of this slot is no faster than the other candidate.
        world.restart(slot);
        let took = world.until_led(ms(60_000));
        let least = timing.lease_duration - timing.retry_period.mul_f64(1.3) - ms(400);
        // The other candidate may have observed the last renewal one read later.
        let most = timing.lease_duration.mul_f64(1.03) + soon(&timing);
        assert!(took > least && took < most, "seed {seed}: {took:?}");
    }
}
