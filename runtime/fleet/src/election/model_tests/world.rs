//! A simulated world: candidates, a server with one Lease, and a network. Entry point: [`World::run`].
//!
//! The network delays and loses calls. Processes stop and resume, die and drain, and their clocks differ. Every slot has a process at any time:
//! a new one follows one that died.

use crate::clock::Hand;
use crate::election::machine::{LeaseCall, Machine, Next, Outcome, Role};
use crate::election::record::Lease;
use crate::election::timing::Timing;
use crate::http::fence::{Fence, Pass};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// Time of the world since its beginning.
pub(super) type Time = Duration;

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Debug)]
pub(super) enum Event {
    /// The machine is asked what to do.
    Poll,
    /// A call reaches the server.
    Arrive {
        call: u64,
        start: Instant,
        request: LeaseCall,
    },
    /// Its outcome reaches the candidate. One that was lost is `Failed` after the timeout.
    Outcome {
        call: u64,
        start: Instant,
        request: LeaseCall,
        outcome: Outcome,
    },
    /// A controller begins a write.
    Enter,
    /// The connection takes the bytes of a write.
    Send(Pass),
    /// The server does a write.
    Land(Pass),
    /// The process dies; another one takes its slot.
    Die,
    /// The process drains.
    Leave,
}

/// A process with its own clock, which is a little fast or slow.
pub(super) struct Process {
    /// Counts the processes of this slot.
    life: u32,
    pub(super) name: Arc<str>,
    machine: Machine,
    fence: Arc<Fence>,
    hand: Hand,
    begin: (Time, Instant),
    rate: f64,
    /// The error of its wall clock.
    wall: SignedDuration,
    stopped_until: Time,
    /// Until then its calls about the Lease are lost, but not its writes.
    cut_off_until: Time,
    /// Longest delay of its calls, as a part of the weather's.
    far: f64,
    /// The call that is awaited.
    awaited: Option<u64>,
    /// Writes that have entered and not landed.
    in_flight: u32,
    leaving: bool,
}

/// What goes wrong.
#[derive(Clone, Copy)]
pub(super) struct Weather {
    /// Of a hundred calls, so many are lost on the way, and so many answers on the way back.
    lost: u8,
    /// Longest delay of a call that is not lost.
    pub(super) delay: Duration,
    /// Of a hundred polls, so many stop the process, for at most so long.
    stops: u8,
    pub(super) stop: Duration,
    /// Of a hundred polls, so many cut the process off from the lease, for at most so long.
    cuts: u8,
    cut: Duration,
    /// Of a thousand polls, so many kill the process, and so many drain it.
    deaths: u16,
    leaves: u16,
}

pub(super) const CALM: Weather = Weather {
    lost: 0,
    delay: Duration::from_millis(50),
    stops: 0,
    stop: Duration::ZERO,
    cuts: 0,
    cut: Duration::ZERO,
    deaths: 0,
    leaves: 0,
};
pub(super) const STORM: Weather = Weather {
    lost: 15,
    delay: Duration::from_secs(12),
    stops: 3,
    stop: Duration::from_secs(60),
    cuts: 2,
    cut: Duration::from_secs(40),
    deaths: 5,
    leaves: 5,
};
pub(super) const GUSTS: Weather = Weather {
    lost: 5,
    delay: Duration::from_secs(2),
    stops: 1,
    stop: Duration::from_secs(20),
    cuts: 5,
    cut: Duration::from_secs(30),
    deaths: 3,
    leaves: 3,
};

pub(super) struct World {
    timing: Timing,
    pub(super) weather: Weather,
    rng: Rng,
    pub(super) now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    payloads: BTreeMap<u64, (usize, u32, Event)>,
    serial: u64,
    /// The server's Lease, its version counting up.
    lease: Option<Lease>,
    version: u64,
    pub(super) processes: Vec<Process>,
    pub(super) landed: u64,
    pub(super) refused: u64,
    pub(super) takeovers: u64,
}

impl World {
    pub(super) fn new(seed: u64, candidates: usize, timing: Timing, weather: Weather) -> Self {
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
        for slot in 0..candidates {
            let process = world.process(slot, 0);
            world.processes.push(process);
            world.push(slot, Time::ZERO, Event::Poll);
            world.push(slot, Time::ZERO, Event::Enter);
        }
        world
    }

    fn process(&mut self, slot: usize, life: u32) -> Process {
        let hand = Hand::new();
        let name: Arc<str> = format!("{slot}-{life}").into();
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
            in_flight: 0,
            leaving: false,
        }
    }

    pub(super) fn push(&mut self, slot: usize, at: Time, event: Event) {
        let life = self.processes[slot].life;
        self.serial += 1;
        self.events.push(Reverse((at, self.serial)));
        self.payloads.insert(self.serial, (slot, life, event));
    }

    /// Runs for so long.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(&Reverse((at, serial))) = self.events.peek()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            let (slot, life, event) = self.payloads.remove(&serial).unwrap();
            self.happen(slot, life, event);
        }
        self.now = end;
    }

    fn happen(&mut self, slot: usize, life: u32, event: Event) {
        match event {
            // These reach the server also if the process has ended meanwhile.
            Event::Arrive {
                call,
                start,
                request,
            } => {
                return self.arrive(slot, life, call, start, request);
            }
            Event::Land(pass) => return self.land(slot, life, pass),
            _ => {}
        }
        let process = &self.processes[slot];
        if process.life != life {
            return;
        }
        if self.now < process.stopped_until {
            let until = process.stopped_until;
            return self.push(slot, until, event);
        }
        self.set_clock(slot);
        match event {
            Event::Poll => self.poll(slot),
            Event::Outcome {
                call,
                start,
                request,
                outcome,
            } => self.answer(slot, call, start, &request, outcome),
            Event::Enter => self.enter(slot),
            Event::Send(pass) => self.send(slot, pass),
            Event::Die => self.restart(slot),
            Event::Leave => self.processes[slot].leaving = true,
            Event::Arrive { .. } | Event::Land(_) => {}
        }
    }

    fn set_clock(&mut self, slot: usize) {
        let process = &self.processes[slot];
        let (since, instant) = process.begin;
        let local = instant + (self.now - since).mul_f64(process.rate);
        process
            .hand
            .advance(local.saturating_duration_since(process.hand.now()));
    }

    fn wall(&mut self, slot: usize) -> Timestamp {
        // The wall clock jumps at times.
        if self.rng.u8(..100) < 2 {
            self.processes[slot].wall = SignedDuration::from_secs(self.rng.i64(-3600..=3600));
        }
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        epoch + SignedDuration::try_from(self.now).unwrap() + self.processes[slot].wall
    }

    fn poll(&mut self, slot: usize) {
        let (weather, roll) = (self.weather, self.rng.u16(..1000));
        if self.rng.u8(..100) < weather.stops {
            self.processes[slot].stopped_until = self.now + weather.stop.mul_f64(self.rng.f64());
            return self.push(slot, self.now, Event::Poll);
        }
        if self.rng.u8(..100) < weather.cuts {
            let process = &mut self.processes[slot];
            process.cut_off_until = self.now + weather.cut.mul_f64(self.rng.f64());
            process.far = self.rng.f64().powi(3);
        }
        if roll < weather.deaths {
            self.push(slot, self.now, Event::Die);
        } else if roll < weather.deaths + weather.leaves {
            self.push(slot, self.now, Event::Leave);
        }
        let wall = self.wall(slot);
        let process = &mut self.processes[slot];
        let now = process.hand.now();
        if process.leaving && !matches!(process.machine.role(), Role::Leaving { .. }) {
            // As the manager does: no new writes, then no writes in flight, then the release.
            process.fence.shut();
            if process.in_flight == 0 {
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
                self.push(slot, self.now + wait, Event::Poll);
            }
            Next::Send(request, limit) => self.call(slot, request, limit),
            Next::End => {
                process.fence.shut();
                self.push(slot, self.now, Event::Die);
            }
        }
    }

    fn call(&mut self, slot: usize, request: LeaseCall, limit: Duration) {
        let start = self.processes[slot].hand.now();
        let until = self.now + limit.div_f64(self.processes[slot].rate);
        let call = self.serial + 1;
        self.processes[slot].awaited = Some(call);
        self.push(
            slot,
            until,
            Event::Outcome {
                call,
                start,
                request: request.clone(),
                outcome: Outcome::Failed,
            },
        );
        assert_eq!(call, self.serial);
        if !self.loses(slot) {
            let delay = self.delay(slot);
            self.push(
                slot,
                self.now + delay,
                Event::Arrive {
                    call,
                    start,
                    request,
                },
            );
        }
    }

    /// Whether a message that is sent now is lost.
    fn loses(&mut self, slot: usize) -> bool {
        self.now < self.processes[slot].cut_off_until || self.rng.u8(..100) < self.weather.lost
    }

    fn delay(&mut self, slot: usize) -> Duration {
        let far = self.processes[slot].far;
        self.weather.delay.mul_f64(far * self.rng.f64())
    }

    fn arrive(&mut self, slot: usize, life: u32, call: u64, start: Instant, request: LeaseCall) {
        let before = self.lease.as_ref().map(|lease| lease.record.holder.clone());
        let outcome = self.serve(&request);
        let after = self.lease.as_ref().map(|lease| lease.record.holder.clone());
        self.takeovers += u64::from(before != after);
        if !self.loses(slot) && self.processes[slot].life == life {
            let delay = self.delay(slot);
            self.push(
                slot,
                self.now + delay,
                Event::Outcome {
                    call,
                    start,
                    request,
                    outcome,
                },
            );
        }
    }

    /// What an API server does, optimistic concurrency included.
    fn serve(&mut self, request: &LeaseCall) -> Outcome {
        let written = match request {
            LeaseCall::Read => return self.lease.clone().map_or(Outcome::Absent, Outcome::Lease),
            LeaseCall::Create(_) if self.lease.is_some() => return Outcome::Conflict,
            LeaseCall::Create(record) => record.object("ns", "name"),
            LeaseCall::Update(read, record) => match &self.lease {
                None => return Outcome::Absent,
                Some(there) if there.version() != read.version() => return Outcome::Conflict,
                Some(_) => read.with(record),
            },
        };
        self.version += 1;
        let mut object: serde_json::Value = serde_json::from_slice(&written).unwrap();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Lease::parse(object.to_string().as_bytes());
        Outcome::Lease(self.lease.clone().unwrap())
    }

    fn answer(
        &mut self,
        slot: usize,
        call: u64,
        start: Instant,
        request: &LeaseCall,
        outcome: Outcome,
    ) {
        let process = &mut self.processes[slot];
        if process.awaited != Some(call) {
            return;
        }
        process.awaited = None;
        let now = process.hand.now();
        process.machine.answered(start, now, request, outcome);
        match process.machine.role() {
            Role::Leader { since } => process.fence.renewed(since),
            Role::Over => process.fence.shut(),
            Role::Follower | Role::Leaving { .. } => {}
        }
        self.push(slot, self.now, Event::Poll);
    }

    /// Begins a write, also on a follower, which must refuse it.
    fn enter(&mut self, slot: usize) {
        match self.processes[slot].fence.enter() {
            Ok(pass) => {
                self.processes[slot].in_flight += 1;
                let later = self.now + ms(self.rng.u64(..500));
                self.push(slot, later, Event::Send(pass));
            }
            Err(_) => self.refused += 1,
        }
        let pause = ms(self.rng.u64(50..1500));
        self.push(slot, self.now + pause, Event::Enter);
    }

    fn send(&mut self, slot: usize, pass: Pass) {
        if pass.check().is_err() {
            self.refused += 1;
            self.processes[slot].in_flight -= 1;
            return;
        }
        let process = &self.processes[slot];
        let limit = pass.time_left().min(WRITE_DEADLINE).div_f64(process.rate);
        let lands = self.now + limit.mul_f64(self.rng.f64());
        self.push(slot, lands, Event::Land(pass));
    }

    fn land(&mut self, slot: usize, life: u32, pass: Pass) {
        let writer = format!("{slot}-{life}");
        let holder = self
            .lease
            .as_ref()
            .map(|lease| lease.record.holder.clone())
            .unwrap_or_default();
        assert_eq!(
            holder, writer,
            "at {:?} a write landed whose writer does not hold the lease",
            self.now
        );
        self.landed += 1;
        if self.processes[slot].life == life {
            self.processes[slot].in_flight -= 1;
        }
        drop(pass);
    }

    /// Ends the slot's process and starts a new one. Messages of the old one stay on their way.
    pub(super) fn restart(&mut self, slot: usize) {
        let life = self.processes[slot].life + 1;
        self.processes[slot] = self.process(slot, life);
        let later = self.now + ms(self.rng.u64(..3000));
        self.push(slot, later, Event::Poll);
        self.push(slot, later, Event::Enter);
    }

    /// The candidate that may write, if there is one. Two at once fail the test.
    pub(super) fn leader(&mut self) -> Option<Arc<str>> {
        let mut leaders = Vec::new();
        for slot in 0..self.processes.len() {
            self.set_clock(slot);
            let process = &self.processes[slot];
            if process.fence.enter().is_ok() {
                leaders.push(process.name.clone());
            }
        }
        assert!(leaders.len() < 2, "{leaders:?} may write");
        leaders.pop()
    }

    /// Runs until a candidate may write, and returns how long that took.
    pub(super) fn until_led(&mut self, limit: Duration) -> Duration {
        let begin = self.now;
        while self.leader().is_none() {
            assert!(self.now - begin < limit, "nobody leads after {limit:?}");
            self.run(ms(20));
        }
        self.now - begin
    }
}
