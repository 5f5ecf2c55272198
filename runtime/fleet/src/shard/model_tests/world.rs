//! A simulated world: processes, a server with Leases, and a network. Entry point: [`World::run`].
//!
//! The network delays and loses calls. Processes stop and resume, die and drain, and their clocks differ. A process writes all the time for
//! shards that it believes it holds, and each write that lands is compared with the server's assignment.

mod process;
mod server;
mod weather;

use super::super::Sharding;
use super::super::call::{Call, Outcome, Request, Wire};
use super::super::machine::Next;
use super::super::set::ShardSet;
use crate::election::Timing;
use crate::http::fence::Pass;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
pub(super) use process::Process;
pub(in crate::shard) use server::{NAME, Server};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};
pub(super) use weather::{CALM, GUSTS, STORM, Weather};

/// Longest time of a write.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// Time of the world since its beginning.
pub(super) type Time = Duration;

pub(in crate::shard) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

enum Event {
    /// The machine is asked what to do.
    Poll(u64),
    /// The engine fills caches and ends runs.
    Work,
    /// A call reaches the server.
    Arrive(u64, Instant, Call, Wire),
    /// Its outcome reaches the process. One that was lost is `Failed` after the timeout.
    Answer(u64, Instant, Call, Outcome),
    /// A run begins a write.
    Enter,
    /// The connection takes the bytes of a write.
    Send(Pass, u16, Arc<str>),
    /// The server does a write.
    Land(Pass, u16, Arc<str>),
    Die,
    Leave,
}

pub(super) struct World {
    timing: Timing,
    shards: u16,
    pub(super) weather: Weather,
    pub(super) rng: Rng,
    pub(super) now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    payloads: BTreeMap<u64, (usize, u32, Event)>,
    serial: u64,
    pub(super) server: Server,
    /// Until then all calls about Leases are lost.
    pub(super) away_until: Time,
    pub(super) processes: Vec<Process>,
    /// Whether somebody has deleted the assignment, so that a writer may have no name there.
    pub(super) wiped: bool,
    pub(super) landed: u64,
    pub(super) refused: u64,
}

impl World {
    pub(super) fn new(seed: u64, shards: u16, timing: Timing, weather: Weather) -> Self {
        Self {
            timing,
            shards,
            weather,
            rng: Rng::with_seed(seed),
            now: Time::ZERO,
            events: BinaryHeap::new(),
            payloads: BTreeMap::new(),
            serial: 0,
            server: Server::default(),
            away_until: Time::ZERO,
            processes: Vec::new(),
            wiped: false,
            landed: 0,
            refused: 0,
        }
    }

    /// A world with so many members.
    pub(super) fn with(seed: u64, members: usize, timing: Timing, weather: Weather) -> Self {
        let mut world = Self::new(seed, 32, timing, weather);
        world.join_all(members);
        world
    }

    /// Starts so many processes of equal weight.
    pub(super) fn join_all(&mut self, members: usize) {
        for _ in 0..members {
            self.join(10);
        }
    }

    /// Starts a process in a slot of its own.
    pub(super) fn join(&mut self, weight: u8) -> usize {
        let slot = self.processes.len();
        let sharding = Sharding {
            namespace: "ns".to_owned(),
            name: NAME.to_owned(),
            member: format!("windlass-{slot}").into(),
            weight,
            shards: self.shards,
            timing: self.timing,
        };
        let process = Process::new(sharding, 0, self.now, &mut self.rng);
        self.processes.push(process);
        self.start(slot, self.now);
        slot
    }

    fn start(&mut self, slot: usize, at: Time) {
        self.poll_at(slot, at);
        self.push(slot, at, Event::Enter);
        self.push(slot, at, Event::Work);
    }

    /// Ends the slot's process and starts a new one. Messages of the old one stay on their way.
    pub(super) fn restart(&mut self, slot: usize) {
        self.kill(slot);
        self.processes[slot].running = true;
        let later = self.now + ms(self.rng.u64(..3000));
        self.start(slot, later);
    }

    /// Ends the slot's process, with options for the next.
    pub(super) fn kill(&mut self, slot: usize) {
        let (life, sharding) = (
            self.processes[slot].life + 1,
            self.processes[slot].sharding.clone(),
        );
        self.processes[slot] = Process::new(sharding, life, self.now, &mut self.rng);
        self.processes[slot].running = false;
    }

    /// Drains the slot's process within a time.
    pub(super) fn leave(&mut self, slot: usize, within: Duration) {
        self.processes[slot].set_clock(self.now);
        let process = &mut self.processes[slot];
        let now = process.hand.now();
        process.machine.leave(now, now + within);
        self.poll_at(slot, self.now);
    }

    fn poll_at(&mut self, slot: usize, at: Time) {
        let poll = self.serial + 1;
        self.processes[slot].poll = poll;
        self.push(slot, at, Event::Poll(poll));
    }

    fn push(&mut self, slot: usize, at: Time, event: Event) {
        let life = self.processes[slot].life;
        self.serial += 1;
        self.events.push(Reverse((at, self.serial)));
        self.payloads.insert(self.serial, (slot, life, event));
    }

    /// Runs for so long, and checks that no shard has two owners.
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
        self.owned();
    }

    fn happen(&mut self, slot: usize, life: u32, event: Event) {
        let event = match event {
            // These reach the server also if the process has ended meanwhile.
            Event::Arrive(id, start, call, wire) => {
                return self.arrive(slot, life, id, start, call, &wire);
            }
            Event::Land(pass, shard, writer) => return self.land(slot, life, pass, shard, &writer),
            event => event,
        };
        if self.processes[slot].life != life {
            return;
        }
        let until = self.processes[slot].stopped_until;
        if self.now < until {
            // Its order among the events that wait is the order in which they came.
            return self.push_again(slot, until, event);
        }
        self.processes[slot].set_clock(self.now);
        match event {
            Event::Poll(poll) => self.poll(slot, poll),
            Event::Work => self.work(slot),
            Event::Answer(id, start, call, outcome) => self.answer(slot, id, start, &call, outcome),
            Event::Enter => self.enter(slot),
            Event::Send(pass, shard, writer) => self.send(slot, pass, shard, writer),
            Event::Die => self.restart(slot),
            Event::Leave => {
                let within = ms(self.rng.u64(..60_000));
                self.leave(slot, within);
            }
            Event::Arrive(..) | Event::Land(..) => {}
        }
    }

    fn push_again(&mut self, slot: usize, at: Time, event: Event) {
        match event {
            Event::Poll(poll) if poll == self.processes[slot].poll => self.poll_at(slot, at),
            Event::Poll(_) => {}
            event => self.push(slot, at, event),
        }
    }

    fn wall(&mut self, slot: usize) -> Timestamp {
        // The wall clock jumps at times.
        if self.rng.u8(..100) < 2 {
            self.processes[slot].wall = SignedDuration::from_secs(self.rng.i64(-3600..=3600));
        }
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        epoch + SignedDuration::try_from(self.now).unwrap() + self.processes[slot].wall
    }

    /// What the weather does to a process that is about to act. True: it is stopped.
    fn blow(&mut self, slot: usize) -> bool {
        let (weather, roll) = (self.weather, self.rng.u16(..1000));
        if self.rng.u8(..100) < weather.stops {
            self.processes[slot].stopped_until = self.now + weather.stop.mul_f64(self.rng.f64());
            self.poll_at(slot, self.now);
            return true;
        }
        if self.rng.u8(..100) < weather.cuts {
            let process = &mut self.processes[slot];
            process.cut_off_until = self.now + weather.cut.mul_f64(self.rng.f64());
            process.far = self.rng.f64().powi(3);
        }
        if self.rng.u16(..10_000) < weather.outages {
            self.away_until = self.now + ms(60_000);
        }
        let (leaves, wipes) = (
            weather.deaths + weather.leaves,
            weather.deaths + weather.leaves + weather.wipes,
        );
        if roll < weather.deaths {
            self.push(slot, self.now, Event::Die);
        } else if roll < leaves {
            self.push(slot, self.now, Event::Leave);
        } else if roll < wipes {
            self.wiped = true;
            self.server.delete(NAME);
        }
        false
    }

    fn poll(&mut self, slot: usize, poll: u64) {
        if self.processes[slot].poll != poll
            || self.processes[slot].awaited.is_some()
            || self.blow(slot)
        {
            return;
        }
        let wall = self.wall(slot);
        let process = &mut self.processes[slot];
        let now = process.hand.now();
        let next = process.machine.next(now, wall);
        process.guard();
        match next {
            Next::Wait(until) => {
                let wait = until.saturating_duration_since(now).div_f64(process.rate) + ms(1);
                self.poll_at(slot, self.now + wait);
            }
            Next::Send(call, limit) => self.call(slot, call, limit),
            Next::End => {
                process.fence().shut();
                process.running = false;
                if self.weather.leaves > 0 {
                    self.push(slot, self.now, Event::Die);
                }
            }
        }
    }

    fn work(&mut self, slot: usize) {
        let tick = ms(self.rng.u64(50..350));
        let news = self.processes[slot].work(tick, &mut self.rng);
        self.push(slot, self.now + tick, Event::Work);
        if news && self.processes[slot].running && self.processes[slot].awaited.is_none() {
            self.poll_at(slot, self.now);
        }
    }

    fn call(&mut self, slot: usize, call: Call, limit: Duration) {
        let now = self.now;
        let process = &mut self.processes[slot];
        process.count(now);
        let wire = call.wire(&process.sharding);
        let (start, until) = (process.hand.now(), now + limit.div_f64(process.rate));
        let id = self.serial + 1;
        process.awaited = Some(id);
        self.push(
            slot,
            until,
            Event::Answer(id, start, call.clone(), Outcome::Failed),
        );
        if !self.loses(slot) {
            let later = now + self.delay(slot);
            self.push(slot, later, Event::Arrive(id, start, call, wire));
        }
    }

    /// Whether a message that is sent now is lost.
    fn loses(&mut self, slot: usize) -> bool {
        self.now < self.processes[slot].cut_off_until.max(self.away_until)
            || self.rng.u8(..100) < self.weather.lost
    }

    fn delay(&mut self, slot: usize) -> Duration {
        let far = self.processes[slot].far;
        self.weather.delay.mul_f64(far * self.rng.f64())
    }

    fn arrive(&mut self, slot: usize, life: u32, id: u64, start: Instant, call: Call, wire: &Wire) {
        let outcome = self.server.serve(wire);
        if matches!(call.request, Request::Assign { .. }) {
            self.owned();
        }
        if !self.loses(slot) && self.processes[slot].life == life {
            let later = self.now + self.delay(slot);
            self.push(slot, later, Event::Answer(id, start, call, outcome));
        }
    }

    fn answer(&mut self, slot: usize, id: u64, start: Instant, call: &Call, outcome: Outcome) {
        let process = &mut self.processes[slot];
        if process.awaited != Some(id) {
            return;
        }
        process.awaited = None;
        process
            .machine
            .answered(call, outcome, start, process.hand.now());
        process.guard();
        self.poll_at(slot, self.now);
    }

    /// Begins a write.
    fn enter(&mut self, slot: usize) {
        let pause = ms(self.rng.u64(20..700));
        self.push(slot, self.now + pause, Event::Enter);
        let process = &mut self.processes[slot];
        let holds: Vec<u16> = process.machine.holds().iter().collect();
        let Some(shard) = self.rng.choice(holds) else {
            return;
        };
        let Ok(pass) = process.fence().enter() else {
            self.refused += 1;
            return;
        };
        process.in_flight[usize::from(shard)] += 1;
        let writer = process.incarnation().clone();
        let later = self.now + ms(self.rng.u64(..500));
        self.push(slot, later, Event::Send(pass, shard, writer));
    }

    fn send(&mut self, slot: usize, pass: Pass, shard: u16, writer: Arc<str>) {
        if pass.check().is_err() {
            self.refused += 1;
            self.processes[slot].in_flight[usize::from(shard)] -= 1;
            return;
        }
        let rate = self.processes[slot].rate;
        let limit = pass.time_left().min(WRITE_DEADLINE).div_f64(rate);
        let lands = self.now + limit.mul_f64(self.rng.f64().powi(2));
        self.push(slot, lands, Event::Land(pass, shard, writer));
    }

    fn land(&mut self, slot: usize, life: u32, pass: Pass, shard: u16, writer: &Arc<str>) {
        let holder = self.server.holder(shard);
        let wiped = self.wiped && holder.is_none();
        assert!(
            wiped || holder.as_ref() == Some(writer),
            "at {:?} a write of {writer} in slot {slot} landed for shard {shard}, which {holder:?} holds",
            self.now
        );
        self.landed += 1;
        if self.processes[slot].life == life {
            self.processes[slot].in_flight[usize::from(shard)] -= 1;
        }
        drop(pass);
    }

    /// The shards for which a process may begin a write. Two processes for one shard fail the test.
    pub(super) fn owned(&mut self) -> ShardSet {
        let mut owned = ShardSet::EMPTY;
        for (slot, process) in self.processes.iter_mut().enumerate() {
            process.set_clock(self.now);
            let runs = process.runs();
            let twice = owned & runs;
            assert!(
                twice.is_empty(),
                "at {:?} slot {slot} and another process run {twice}",
                self.now
            );
            owned |= runs;
        }
        owned
    }

    pub(super) fn all(&self) -> ShardSet {
        ShardSet::first(self.shards)
    }

    /// Runs until every shard has an owner, and returns how long that took.
    pub(super) fn until_owned(&mut self, limit: Duration) -> Duration {
        self.until(limit, "shards have no owner", |world| {
            world.owned() == world.all()
        })
    }

    /// Runs until every shard is at the member where placement puts it, as each process that runs knows.
    pub(super) fn until_placed(&mut self, limit: Duration) -> Duration {
        self.until(limit, "shards are not where they should be", |world| {
            let placed = |process: &Process| {
                process.machine.joins().is_empty() && process.machine.leaves().is_empty()
            };
            let processes = world.processes.iter().filter(|process| process.running);
            processes.clone().all(placed) && world.owned() == world.all()
        })
    }

    pub(super) fn until(
        &mut self,
        limit: Duration,
        lacks: &str,
        done: impl Fn(&mut Self) -> bool,
    ) -> Duration {
        let begin = self.now;
        while !done(self) {
            assert!(
                self.now - begin < limit,
                "{lacks} after {limit:?}: {}",
                self.describe()
            );
            self.run(ms(20));
        }
        self.now - begin
    }

    /// What each process holds, for messages.
    fn describe(&mut self) -> String {
        let text = self.server.assignment().map(|assignment| assignment.text());
        let mut lines = vec![format!("assignment {text:?}")];
        for process in &self.processes {
            let machine = &process.machine;
            lines.push(format!(
                "{} {} running {} holds {} leaves {} joins {} {:?}",
                process.sharding.member,
                machine.incarnation(),
                process.running,
                machine.holds(),
                machine.leaves(),
                machine.joins(),
                machine.status().problem,
            ));
        }
        lines.join("\n")
    }

    /// The shards that each process runs, by slot.
    pub(super) fn parts(&self) -> Vec<ShardSet> {
        self.processes.iter().map(Process::runs).collect()
    }
}
