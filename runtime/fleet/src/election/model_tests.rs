//! Candidates against a server over a network that delays and loses, with processes that stop, go on, die and leave.
//!
//! The promise: a write lands while the lease at the server names its writer, whatever happens. And where nothing goes wrong any
//! more, somebody leads within bounds.

use super::machine::{Answer, Ask, Machine, Next, Standing};
use super::record::Lease;
use super::timing::Timing;
use crate::clock::Hand;
use crate::http::fence::{Fence, Pass};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// Time of the world since its beginning.
type Time = Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Debug)]
enum Event {
    /// The machine is asked what to do.
    Poll,
    /// A call reaches the server.
    Arrive { call: u64, start: Instant, ask: Ask },
    /// Its answer, or that there is none in time, reaches the candidate.
    Answer {
        call: u64,
        start: Instant,
        ask: Ask,
        answer: Answer,
    },
    /// A controller begins a write…
    Enter,
    /// …the connection takes its bytes…
    Send(Pass),
    /// …and the server does it.
    Land(Pass),
    /// The process dies; another one takes its place.
    Die,
    /// The process drains.
    Leave,
}

/// A process: its own clock, which goes a little wrong, and what of it survives a crash of the candidate: nothing.
struct Process {
    /// Tells it from the ones before it at its place.
    life: u32,
    name: Arc<str>,
    machine: Machine,
    fence: Arc<Fence>,
    hand: Hand,
    begin: (Time, Instant),
    rate: f64,
    /// What its wall clock is off by.
    wall: SignedDuration,
    stopped_until: Time,
    /// It cannot reach the server of the lease until then; its writes go elsewhere.
    cut_off_until: Time,
    /// The part of the longest way that its calls take at most.
    far: f64,
    /// The call that is awaited.
    awaited: Option<u64>,
    /// Writes that were let through and have not landed.
    under_way: u32,
    leaving: bool,
}

/// What goes wrong.
#[derive(Clone, Copy)]
struct Weather {
    /// Of a hundred calls, so many are lost on the way, and so many answers on the way back.
    lost: u8,
    /// Longest way of a call that is not lost.
    delay: Duration,
    /// Of a hundred polls, so many stop the process, for at most so long.
    stops: u8,
    stop: Duration,
    /// Of a hundred polls, so many cut the process off from the lease, for at most so long.
    cuts: u8,
    cut: Duration,
    /// Of a thousand polls, so many kill the process, and so many drain it.
    deaths: u16,
    leaves: u16,
}

const CALM: Weather = Weather {
    lost: 0,
    delay: Duration::from_millis(50),
    stops: 0,
    stop: Duration::ZERO,
    cuts: 0,
    cut: Duration::ZERO,
    deaths: 0,
    leaves: 0,
};
const STORM: Weather = Weather {
    lost: 15,
    delay: Duration::from_secs(12),
    stops: 3,
    stop: Duration::from_secs(60),
    cuts: 2,
    cut: Duration::from_secs(40),
    deaths: 5,
    leaves: 5,
};
const GUSTS: Weather = Weather {
    lost: 5,
    delay: Duration::from_secs(2),
    stops: 1,
    stop: Duration::from_secs(20),
    cuts: 5,
    cut: Duration::from_secs(30),
    deaths: 3,
    leaves: 3,
};

struct World {
    timing: Timing,
    weather: Weather,
    rng: Rng,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    payloads: BTreeMap<u64, (usize, u32, Event)>,
    serial: u64,
    /// The server's Lease, its version counting up.
    lease: Option<Lease>,
    version: u64,
    processes: Vec<Process>,
    landed: u64,
    refused: u64,
    takeovers: u64,
}

impl World {
    fn new(seed: u64, candidates: usize, timing: Timing, weather: Weather) -> Self {
        let mut world = Self {
            timing,
            weather,
            rng: Rng::with_seed(seed),
            now: Time::ZERO,
            events: BinaryHeap::new(),
            payloads: BTreeMap::new(),
            serial: 0,
            lease: None,
            version: 0,
            processes: Vec::new(),
            landed: 0,
            refused: 0,
            takeovers: 0,
        };
        for place in 0..candidates {
            let process = world.process(place, 0);
            world.processes.push(process);
            world.push(place, Time::ZERO, Event::Poll);
            world.push(place, Time::ZERO, Event::Enter);
        }
        world
    }

    fn process(&mut self, place: usize, life: u32) -> Process {
        let hand = Hand::new();
        let name: Arc<str> = format!("{place}-{life}").into();
        let rng = Rng::with_seed(self.rng.u64(..));
        Process {
            life,
            machine: Machine::new(name.clone(), self.timing, hand.now(), rng),
            name,
            fence: Fence::new(hand.clock(), self.timing.reach()),
            begin: (self.now, hand.now()),
            hand,
            rate: 1.0 + 0.02 * (self.rng.f64() * 2.0 - 1.0),
            wall: SignedDuration::from_secs(self.rng.i64(-3600..=3600)),
            stopped_until: Time::ZERO,
            cut_off_until: Time::ZERO,
            far: self.rng.f64().powi(3),
            awaited: None,
            under_way: 0,
            leaving: false,
        }
    }

    fn push(&mut self, place: usize, at: Time, event: Event) {
        let life = self.processes[place].life;
        self.serial += 1;
        self.events.push(Reverse((at, self.serial)));
        self.payloads.insert(self.serial, (place, life, event));
    }

    /// Runs for so long.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(&Reverse((at, serial))) = self.events.peek()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            let (place, life, event) = self.payloads.remove(&serial).unwrap();
            self.happen(place, life, event);
        }
        self.now = end;
    }

    fn happen(&mut self, place: usize, life: u32, event: Event) {
        match event {
            // What is on its way does not care for the process that sent it.
            Event::Arrive { call, start, ask } => {
                return self.arrive(place, life, call, start, ask);
            }
            Event::Land(pass) => return self.land(place, life, pass),
            _ => {}
        }
        let process = &self.processes[place];
        if process.life != life {
            return;
        }
        if self.now < process.stopped_until {
            let until = process.stopped_until;
            return self.push(place, until, event);
        }
        self.set_clock(place);
        match event {
            Event::Poll => self.poll(place),
            Event::Answer {
                call,
                start,
                ask,
                answer,
            } => self.answer(place, call, start, &ask, answer),
            Event::Enter => self.enter(place),
            Event::Send(pass) => self.send(place, pass),
            Event::Die => self.restart(place),
            Event::Leave => self.processes[place].leaving = true,
            Event::Arrive { .. } | Event::Land(_) => {}
        }
    }

    fn set_clock(&mut self, place: usize) {
        let process = &self.processes[place];
        let (since, instant) = process.begin;
        let local = instant + (self.now - since).mul_f64(process.rate);
        process
            .hand
            .advance(local.saturating_duration_since(process.hand.now()));
    }

    fn wall(&mut self, place: usize) -> Timestamp {
        // It jumps now and then.
        if self.rng.u8(..100) < 2 {
            self.processes[place].wall = SignedDuration::from_secs(self.rng.i64(-3600..=3600));
        }
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        epoch + SignedDuration::try_from(self.now).unwrap() + self.processes[place].wall
    }

    fn poll(&mut self, place: usize) {
        let (weather, roll) = (self.weather, self.rng.u16(..1000));
        if self.rng.u8(..100) < weather.stops {
            self.processes[place].stopped_until = self.now + weather.stop.mul_f64(self.rng.f64());
            return self.push(place, self.now, Event::Poll);
        }
        if self.rng.u8(..100) < weather.cuts {
            let process = &mut self.processes[place];
            process.cut_off_until = self.now + weather.cut.mul_f64(self.rng.f64());
            process.far = self.rng.f64().powi(3);
        }
        if roll < weather.deaths {
            self.push(place, self.now, Event::Die);
        } else if roll < weather.deaths + weather.leaves {
            self.push(place, self.now, Event::Leave);
        }
        let wall = self.wall(place);
        let process = &mut self.processes[place];
        let now = process.hand.now();
        if process.leaving && !matches!(process.machine.standing(), Standing::Leaving { .. }) {
            // As the manager does: first no new writes, then none under way, then the lease goes.
            process.fence.shut();
            if process.under_way == 0 {
                process.machine.leave_within(now, ms(5000));
            }
        }
        if process.awaited.is_some() {
            return;
        }
        match process.machine.next(now, wall) {
            Next::Wait(until) => {
                let local = until.saturating_duration_since(now);
                let wait = local.div_f64(process.rate) + ms(1);
                let wait = if process.leaving {
                    wait.min(ms(50))
                } else {
                    wait
                };
                self.push(place, self.now + wait, Event::Poll);
            }
            Next::Send(ask, limit) => self.call(place, ask, limit),
            Next::End => {
                process.fence.shut();
                self.push(place, self.now, Event::Die);
            }
        }
    }

    fn call(&mut self, place: usize, ask: Ask, limit: Duration) {
        let start = self.processes[place].hand.now();
        let until = self.now + limit.div_f64(self.processes[place].rate);
        let call = self.serial + 1;
        self.processes[place].awaited = Some(call);
        self.push(
            place,
            until,
            Event::Answer {
                call,
                start,
                ask: ask.clone(),
                answer: Answer::Failed,
            },
        );
        assert_eq!(call, self.serial);
        if !self.loses(place) {
            let way = self.way(place);
            self.push(place, self.now + way, Event::Arrive { call, start, ask });
        }
    }

    /// Whether what is sent now gets lost.
    fn loses(&mut self, place: usize) -> bool {
        self.now < self.processes[place].cut_off_until || self.rng.u8(..100) < self.weather.lost
    }

    fn way(&mut self, place: usize) -> Duration {
        let far = self.processes[place].far;
        self.weather.delay.mul_f64(far * self.rng.f64())
    }

    fn arrive(&mut self, place: usize, life: u32, call: u64, start: Instant, ask: Ask) {
        let before = self.lease.as_ref().map(|lease| lease.record.holder.clone());
        let answer = self.serve(&ask);
        let after = self.lease.as_ref().map(|lease| lease.record.holder.clone());
        self.takeovers += u64::from(before != after);
        if !self.loses(place) && self.processes[place].life == life {
            let way = self.way(place);
            self.push(
                place,
                self.now + way,
                Event::Answer {
                    call,
                    start,
                    ask,
                    answer,
                },
            );
        }
    }

    /// What an API server does, optimistic concurrency included.
    fn serve(&mut self, ask: &Ask) -> Answer {
        let written = match ask {
            Ask::Read => return self.lease.clone().map_or(Answer::Absent, Answer::Lease),
            Ask::Create(_) if self.lease.is_some() => return Answer::Conflict,
            Ask::Create(record) => record.object("ns", "name"),
            Ask::Update(read, record) => match &self.lease {
                None => return Answer::Absent,
                Some(there) if there.version() != read.version() => return Answer::Conflict,
                Some(_) => read.with(record),
            },
        };
        self.version += 1;
        let mut object: serde_json::Value = serde_json::from_slice(&written).unwrap();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Lease::parse(object.to_string().as_bytes());
        Answer::Lease(self.lease.clone().unwrap())
    }

    fn answer(&mut self, place: usize, call: u64, start: Instant, ask: &Ask, answer: Answer) {
        let process = &mut self.processes[place];
        if process.awaited != Some(call) {
            return;
        }
        process.awaited = None;
        let now = process.hand.now();
        process.machine.answered(start, now, ask, answer);
        match process.machine.standing() {
            Standing::Leader { since } => process.fence.renewed(since),
            Standing::Over => process.fence.shut(),
            Standing::Follower | Standing::Leaving { .. } => {}
        }
        self.push(place, self.now, Event::Poll);
    }

    /// A write may begin at any time: also on a follower, whose controllers do not run, to see that it is refused.
    fn enter(&mut self, place: usize) {
        match self.processes[place].fence.enter() {
            Ok(pass) => {
                self.processes[place].under_way += 1;
                let later = self.now + ms(self.rng.u64(..500));
                self.push(place, later, Event::Send(pass));
            }
            Err(_) => self.refused += 1,
        }
        let pause = ms(self.rng.u64(50..1500));
        self.push(place, self.now + pause, Event::Enter);
    }

    fn send(&mut self, place: usize, pass: Pass) {
        if pass.check().is_err() {
            self.refused += 1;
            self.processes[place].under_way -= 1;
            return;
        }
        let process = &self.processes[place];
        let limit = pass.time_left().min(WRITE_DEADLINE).div_f64(process.rate);
        let lands = self.now + limit.mul_f64(self.rng.f64());
        self.push(place, lands, Event::Land(pass));
    }

    fn land(&mut self, place: usize, life: u32, pass: Pass) {
        let writer = format!("{place}-{life}");
        let holder = self
            .lease
            .as_ref()
            .map(|lease| lease.record.holder.clone())
            .unwrap_or_default();
        assert_eq!(
            holder, writer,
            "at {:?} a write landed of one who does not hold the lease",
            self.now
        );
        self.landed += 1;
        if self.processes[place].life == life {
            self.processes[place].under_way -= 1;
        }
        drop(pass);
    }

    /// The place's process is gone; its writes and calls on the way are not. A new one comes up.
    fn restart(&mut self, place: usize) {
        let life = self.processes[place].life + 1;
        self.processes[place] = self.process(place, life);
        let later = self.now + ms(self.rng.u64(..3000));
        self.push(place, later, Event::Poll);
        self.push(place, later, Event::Enter);
    }

    /// Who may write.
    fn leader(&mut self) -> Option<Arc<str>> {
        let mut leaders = Vec::new();
        for place in 0..self.processes.len() {
            self.set_clock(place);
            let process = &self.processes[place];
            if process.fence.enter().is_ok() {
                leaders.push(process.name.clone());
            }
        }
        assert!(leaders.len() < 2, "{leaders:?} may write");
        leaders.pop()
    }

    /// Runs until somebody may write, and says how long that took.
    fn until_led(&mut self, limit: Duration) -> Duration {
        let begin = self.now;
        while self.leader().is_none() {
            assert!(self.now - begin < limit, "nobody leads after {limit:?}");
            self.run(ms(20));
        }
        self.now - begin
    }
}

/// Longest that a lease in calm weather stays without a leader once it is free: a look, a write and their ways.
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
fn after_every_storm_somebody_leads_within_a_lease_and_a_look() {
    for seed in 0..60 {
        let timing = Timing::default();
        let mut world = World::new(seed, 3, timing, STORM);
        world.run(ms(120_000));
        world.weather = CALM;
        // Calls that are still on their way, and processes that are still stopped, belong to the storm.
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
            let place = world
                .processes
                .iter()
                .position(|process| process.name == leader)
                .unwrap();
            world.push(place, world.now, Event::Leave);
            while world.leader().is_some_and(|now| now == leader) {
                world.run(ms(10));
            }
            // What was under way first ends, within its own deadline.
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
        let place = world
            .processes
            .iter()
            .position(|process| Some(&process.name) == leader.as_ref())
            .unwrap();
        // It does not come back soon enough to see its old lease end.
        world.restart(place);
        let took = world.until_led(ms(60_000));
        let least = timing.lease_duration - timing.retry_period.mul_f64(1.3) - ms(400);
        // Its last renewal may have been seen one look later.
        let most = timing.lease_duration.mul_f64(1.03) + soon(&timing);
        assert!(took > least && took < most, "seed {seed}: {took:?}");
    }
}
