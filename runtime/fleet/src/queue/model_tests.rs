//! Random operations on the queue and on a naive one that looks at every key every time. Both must agree on what may run, on what
//! each key does, and on what is counted.

mod compare;
mod limits;
mod waking;

use super::*;
use crate::backoff::Backoff;
use crate::outcome::{Blame, Failure};
use std::collections::{BTreeMap, BTreeSet};

const MILLI: Duration = Duration::from_millis(1);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(300));
const SECOND: Duration = Duration::from_secs(1);
const SHARE: usize = 25;
const HOT_KEY: HotKeyLimit = HotKeyLimit {
    per_second: 100,
    burst: 30,
};

/// Why a key waits for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Delayed,
    Backoff,
    Throttled,
    Paused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Ready,
    Alarm {
        due: Instant,
        why: Why,
    },
    Running {
        started: Instant,
        token: Token,
        gone: bool,
        again: Option<(Instant, i32)>,
    },
    Terminal,
}

#[derive(Debug, Clone)]
struct Key {
    doing: Doing,
    priority: i32,
    attempts: u32,
    /// Whether its last failure was the reconciler's.
    guests_fault: bool,
}

/// A key's controller, by its number in the model, and its request.
type Id = (usize, Request);

struct Controller {
    id: ControllerId,
    tenant: usize,
    alive: bool,
    options: QueueOptions,
    refused: bool,
}

/// The naive queue: a map, and limits that are counted anew each time.
struct Model {
    queue: Queue,
    rng: Rng,
    now: Instant,
    limits: Limits,
    tenants: Vec<TenantOptions>,
    controllers: Vec<Controller>,
    clusters: BTreeMap<ClusterName, ClusterMode>,
    /// Controllers whose keys of a cluster are held.
    held: BTreeSet<(usize, ClusterName)>,
    /// Clusters that are slow for a tenant.
    slow: BTreeSet<(usize, ClusterName)>,
    /// When a tenant's last run in a cluster ended.
    ended: BTreeMap<(usize, ClusterName), Instant>,
    /// Keys that waited only because their clusters were slow, and only because those had not answered.
    denied: [usize; 2],
    /// Keys may wait at a gate for slow clusters, or have done so lately: as long as that goes on, turns come before priority.
    parked: bool,
    /// Runs of a controller, and of a flow, since one went to a lower priority than was ready.
    in_order: BTreeMap<(usize, Option<ClusterName>), u8>,
    /// How many runs of flows went to a lower priority than was ready.
    out_of_order: usize,
    /// How many keys in backoff were brought forward.
    woken: usize,
    keys: BTreeMap<Id, Key>,
    /// When what was counted of a key's runs will have faded.
    faded: BTreeMap<Id, Instant>,
    /// Whether some limit of clusters may bind: who goes first at a cluster's gate is a matter of turns, not of priority.
    gated: bool,
    /// When who hands out keys looks again by themselves.
    last_wake: Option<Instant>,
}

fn tenant(at: usize) -> TenantName {
    TenantName::new(format!("t{at}")).unwrap()
}

fn cluster(at: u32) -> ClusterName {
    ClusterName::new(format!("k{at}")).unwrap()
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = Instant::now();
        let gated = rng.bool();
        let limits = Limits {
            global: rng.usize(1..12),
            keys_per_controller: SHARE,
            hot_key: HOT_KEY,
            ..Limits::default()
        };
        let queue = Queue::with_rng(now, limits, rng.fork());
        let mut model = Self {
            queue,
            rng,
            now,
            limits,
            tenants: Vec::new(),
            controllers: Vec::new(),
            clusters: BTreeMap::new(),
            held: BTreeSet::new(),
            slow: BTreeSet::new(),
            ended: BTreeMap::new(),
            denied: [0; 2],
            parked: false,
            in_order: BTreeMap::new(),
            out_of_order: 0,
            woken: 0,
            keys: BTreeMap::new(),
            faded: BTreeMap::new(),
            gated,
            last_wake: None,
        };
        for at in 0..3 {
            model.tenants.push(TenantOptions::default());
            model.set_tenant(at);
            model.add_controller(at);
        }
        model.set_limits();
        model
    }

    fn set_limits(&mut self) {
        self.limits.global = self.rng.usize(1..12);
        self.limits.per_cluster = if self.gated && self.rng.bool() {
            self.rng.usize(1..5)
        } else {
            1000
        };
        self.queue.set_limits(self.limits);
    }

    fn set_tenant(&mut self, at: usize) {
        self.tenants[at] = TenantOptions {
            weight: self.rng.u32(0..5),
            concurrency: self.rng.bool().then(|| self.rng.usize(1..8)),
        };
        self.queue.set_tenant(&tenant(at), self.tenants[at]);
    }

    fn add_controller(&mut self, at: usize) {
        let options = self.controller_options();
        let name = ControllerName::new("c").unwrap();
        let id = self.queue.add_controller(&tenant(at), name, options);
        self.controllers.push(Controller {
            id,
            tenant: at,
            alive: true,
            options,
            refused: false,
        });
    }

    fn controller_options(&mut self) -> QueueOptions {
        QueueOptions {
            concurrency: self.rng.bool().then(|| self.rng.usize(1..6)),
            per_cluster: self.rng.usize(1..5),
            backoff: BACKOFF,
        }
    }

    fn set_controller(&mut self) {
        let at = self.rng.usize(0..self.controllers.len());
        self.controllers[at].options = self.controller_options();
        let Controller { id, options, .. } = self.controllers[at];
        self.queue.set_controller(id, options);
    }

    fn request(&mut self) -> Request {
        let cluster = cluster(self.rng.u32(0..4));
        Request::new(
            cluster,
            ObjectKey::namespaced("ns", &self.rng.u32(0..15).to_string()),
        )
    }

    fn held(&self, controller: usize) -> usize {
        self.keys
            .iter()
            .filter(|((of, _), key)| *of == controller && key.doing != Doing::Terminal)
            .count()
    }

    fn count_runs(&mut self, id: &Id, runs: u32) {
        let faded = self.faded.get(id).map_or(self.now, |at| self.now.max(*at));
        self.faded.insert(id.clone(), faded + runs * 10 * MILLI);
    }

    /// When a key that has run too often may run again.
    fn held_back(&self, id: &Id) -> Option<Instant> {
        let free = self.faded.get(id)?.checked_sub(HOT_KEY.burst * 10 * MILLI);
        free.filter(|free| *free > self.now)
    }

    fn add(&mut self) {
        let at = self.rng.usize(0..self.controllers.len());
        let request = self.request();
        let priority = *self.rng.choice(&[0, 0, 0, -100, 5, 9]).unwrap();
        let after = (self.rng.u32(0..4) == 0).then(|| self.rng.u32(0..200) * MILLI);
        let cause = match self.rng.u32(0..20) {
            0 => Cause::Operator,
            _ => Cause::Update,
        };
        let added = self.queue.add(
            self.now,
            self.controllers[at].id,
            &request,
            Add {
                priority,
                after,
                cause,
                ..Add::default()
            },
        );
        let due = self.now + after.unwrap_or_default();
        let full = self.held(at) >= SHARE;
        assert_eq!(
            added,
            self.expected((at, request), priority, due, cause, full)
        );
        self.controllers[at].refused |= added == Added::Full;
    }

    /// Adds to the model and tells what the queue must have answered.
    fn expected(&mut self, id: Id, priority: i32, due: Instant, cause: Cause, full: bool) -> Added {
        if !self.controllers[id.0].alive {
            return Added::Gone;
        }
        let held = self.held_back(&id).filter(|_| cause != Cause::Operator);
        let (asked, due, why) = match held {
            Some(held) if held > due => (due, held, Why::Throttled),
            _ => (due, due, Why::Delayed),
        };
        let doing = if due > self.now {
            Doing::Alarm { due, why }
        } else {
            Doing::Ready
        };
        let Some(key) = self.keys.get_mut(&id) else {
            if full {
                return Added::Full;
            }
            self.keys.insert(
                id,
                Key {
                    doing,
                    priority,
                    attempts: 0,
                    guests_fault: false,
                },
            );
            return Added::New;
        };
        match &mut key.doing {
            Doing::Running { again, .. } => {
                let (earlier, higher) = again.unwrap_or((asked, priority));
                *again = Some((earlier.min(asked), higher.max(priority)));
                return Added::MarkedDirty;
            }
            Doing::Terminal if full => return Added::Full,
            Doing::Terminal => {
                (key.doing, key.priority) = (doing, priority);
                return Added::New;
            }
            Doing::Ready => {}
            Doing::Alarm { due: waits, .. } if due >= *waits => {}
            Doing::Alarm { .. } => key.doing = doing,
        }
        key.priority = key.priority.max(priority);
        Added::Merged
    }

    fn look_for_room(&mut self) {
        let at = self.rng.usize(0..self.controllers.len());
        let room = self.queue.has_room(self.controllers[at].id);
        assert_eq!(
            room,
            !self.controllers[at].alive || self.held(at) < SHARE,
            "has_room"
        );
        self.controllers[at].refused |= !room;
    }

    fn running(&self, is: impl Fn(&Id) -> bool) -> usize {
        self.keys
            .iter()
            .filter(|(id, key)| matches!(key.doing, Doing::Running { .. }) && is(id))
            .count()
    }

    /// What is due is ready, as soon as the queue looks for it.
    fn promote(&mut self) {
        for key in self.keys.values_mut() {
            if matches!(key.doing, Doing::Alarm { due, .. } if due <= self.now) {
                key.doing = Doing::Ready;
            }
        }
    }

    fn get(&mut self) {
        self.promote();
        self.find_slow();
        self.count_denied();
        let allowed: Vec<Id> = self
            .keys
            .iter()
            .filter(|(id, key)| key.doing == Doing::Ready && self.may_run(id))
            .map(|(id, _)| id.clone())
            .collect();
        let news = self.queue.has_news(self.now);
        let run = self.queue.get(self.now);
        assert!(news || run.is_none(), "no news, but {run:?} may run");
        let Some(run) = run else {
            assert_eq!(allowed, [], "the queue keeps slots idle");
            return;
        };
        let at = self
            .controllers
            .iter()
            .position(|controller| controller.id == run.controller)
            .unwrap();
        let id = (at, run.request.clone());
        assert!(
            allowed.contains(&id),
            "{id:?} may not run: {:?}",
            self.keys.get(&id)
        );
        let in_controller = allowed.iter().filter(|other| other.0 == at);
        let in_flow = in_controller
            .clone()
            .filter(|other| other.1.cluster == id.1.cluster);
        let of_flow = in_flow.map(|other| self.keys[other].priority).max();
        let of_controller = in_controller.map(|other| self.keys[other].priority).max();
        let key = self.keys.get_mut(&id).unwrap();
        assert_eq!(
            (run.priority, run.attempt),
            (key.priority, key.attempts + 1)
        );
        let flow = (at, Some(id.1.cluster.clone()));
        self.check_order(flow, Some(run.priority) < of_flow);
        // At a gate turns come before priority.
        let is_limited = self.gated
            || self.parked
            || self
                .clusters
                .values()
                .any(|state| *state == ClusterMode::Probing);
        self.check_order((at, None), !is_limited && of_flow < of_controller);
        let key = self.keys.get_mut(&id).unwrap();
        key.doing = Doing::Running {
            started: self.now,
            token: run.token,
            gone: false,
            again: None,
        };
        self.count_runs(&id, hot_key::RUN);
    }

    /// Priority comes first in a controller, and in a flow, but for one run of four.
    fn check_order(&mut self, class: (usize, Option<ClusterName>), out_of_order: bool) {
        let of_flow = class.1.is_some();
        let before = self.in_order.entry(class).or_insert(key::SHARE);
        if out_of_order {
            assert!(*before >= key::SHARE - 1, "priority comes first");
            *before = 0;
            self.out_of_order += usize::from(of_flow);
        } else {
            *before = before.saturating_add(1);
        }
    }

    fn done(&mut self) {
        let running: Vec<Id> = self
            .keys
            .iter()
            .filter(|(_, key)| matches!(key.doing, Doing::Running { .. }))
            .map(|(id, _)| id.clone())
            .collect();
        let Some(id) = self.rng.choice(&running).cloned() else {
            return;
        };
        let outcome = match self.rng.u32(0..8) {
            0 | 1 => Outcome::Done,
            2 => Outcome::RequeueAfter(self.rng.u32(0..3) * 70 * MILLI),
            3 | 4 => Outcome::Failed {
                failure: Failure::retry("r")
                    .blame(*self.rng.choice(&[Blame::Guest, Blame::Api]).unwrap()),
                not_before: self.rng.bool().then_some(40 * MILLI),
            },
            5 => Failure::terminal("t").into(),
            6 => Outcome::Paused {
                after: self.rng.u32(0..3) * 70 * MILLI,
                by_object: self.rng.bool(),
            },
            _ => Outcome::Gone,
        };
        let Some(Doing::Running {
            started,
            token,
            gone,
            again,
            ..
        }) = self.keys.get(&id).map(|key| key.doing)
        else {
            return;
        };
        self.find_slow();
        assert!(self.queue.done(self.now, token, outcome.clone()));
        assert!(!self.queue.done(self.now, token, outcome.clone()));
        let mut key = self.keys.remove(&id).unwrap();
        self.end_in_cluster(&id, self.now < started + SECOND || gone, gone);
        if !self.controllers[id.0].alive {
            return;
        }
        let asked = again;
        if asked.is_some_and(|(due, _)| due <= self.now) {
            self.count_runs(&id, hot_key::RERUN);
        }
        if let Outcome::RequeueAfter(after) = outcome
            && !gone
            && self.now + after < started + 100 * MILLI
        {
            self.count_runs(&id, hot_key::TOO_SOON);
        }
        let held = self.held_back(&id).unwrap_or(self.now);
        let again = again.map(|(due, priority)| (due.max(held), priority));
        let next = match outcome.clone() {
            _ if gone => None,
            Outcome::Done | Outcome::Gone => None,
            Outcome::RequeueAfter(after) => Some(Doing::Alarm {
                due: (self.now + after).max(started + 100 * MILLI).max(held),
                why: Why::Delayed,
            }),
            Outcome::Paused { after, .. } => Some(Doing::Alarm {
                due: (self.now + after).max(held),
                why: Why::Paused,
            }),
            Outcome::Failed { failure, .. } if failure == Failure::terminal("t") => {
                Some(Doing::Terminal)
            }
            Outcome::Failed { not_before, .. } => Some(Doing::Alarm {
                due: self.backoff_due(&id, key.attempts, not_before, again, held),
                why: Why::Backoff,
            }),
        };
        match next {
            Some(Doing::Alarm {
                why: Why::Backoff, ..
            }) => key.attempts += 1,
            Some(
                Doing::Terminal
                | Doing::Alarm {
                    why: Why::Paused, ..
                },
            ) => {}
            _ => key.attempts = 0,
        }
        if let Outcome::Failed { failure, .. } = &outcome {
            key.guests_fault = failure.blame == Blame::Guest;
        }
        let Some((again, priority)) = again else {
            key.doing = match next {
                None => return,
                Some(Doing::Alarm { due, .. }) if due <= self.now => Doing::Ready,
                Some(next) => next,
            };
            self.keys.insert(id, key);
            return;
        };
        let asked = if again <= self.now {
            Doing::Ready
        } else {
            let put_off = asked.is_some_and(|(due, _)| due < again);
            Doing::Alarm {
                due: again,
                why: if put_off {
                    Why::Throttled
                } else {
                    Why::Delayed
                },
            }
        };
        key.doing = match next {
            Some(Doing::Alarm { due, .. }) if due < again => next.unwrap(),
            _ => asked,
        };
        if matches!(key.doing, Doing::Alarm { due, .. } if due <= self.now) {
            key.doing = Doing::Ready;
        }
        key.priority = if next.is_none() {
            priority
        } else {
            key.priority.max(priority)
        };
        self.keys.insert(id, key);
    }

    /// The delay is drawn at random: the model checks its bounds, and believes it.
    fn backoff_due(
        &self,
        id: &Id,
        attempts: u32,
        not_before: Option<Duration>,
        again: Option<(Instant, i32)>,
        held: Instant,
    ) -> Instant {
        let status = self
            .queue
            .key(self.controllers[id.0].id, &id.1)
            .expect("a failed key stays");
        let KeyState::Backoff(due) = status.state else {
            assert!(again.is_some(), "{status:?}");
            return self.now + Duration::from_secs(3600);
        };
        let step = (5 * MILLI * 2u32.pow(attempts.min(20))).min(300 * MILLI);
        let gap = due - self.now;
        let floor = not_before.unwrap_or_default().max(held - self.now);
        assert!(
            gap >= (step / 2).max(floor) && gap <= step.max(floor),
            "{gap:?} after {attempts} attempts"
        );
        due
    }

    fn set_cluster(&mut self) {
        let name = self.request().cluster;
        let state = *self
            .rng
            .choice(&[
                ClusterMode::Ready,
                ClusterMode::Ready,
                ClusterMode::Probing,
                ClusterMode::Held,
            ])
            .unwrap();
        self.put_cluster(name, state);
    }

    fn put_cluster(&mut self, name: ClusterName, state: ClusterMode) {
        self.queue.set_cluster(&name, state);
        let before = self.clusters.insert(name.clone(), state);
        if state == ClusterMode::Ready && before.unwrap_or_default() != state {
            self.forgive(&name);
        }
    }

    fn hold_in_cluster(&mut self) {
        let at = self.rng.usize(0..self.controllers.len());
        let name = self.request().cluster;
        let held = self.rng.bool() && self.controllers[at].alive;
        let id = self.controllers[at].id;
        self.queue.hold_in_cluster(id, &name, held);
        if held {
            self.held.insert((at, name));
        } else if self.controllers[at].alive {
            self.held.remove(&(at, name));
        }
    }

    fn remove_cluster(&mut self) {
        let name = self.request().cluster;
        self.held.retain(|(_, of)| *of != name);
        let tokens = self.queue.remove_cluster(self.now, &name).len();
        self.clusters.remove(&name);
        assert_eq!(tokens, self.running(|id| id.1.cluster == name));
        self.keys
            .retain(|id, key| id.1.cluster != name || matches!(key.doing, Doing::Running { .. }));
        for (id, key) in &mut self.keys {
            if let Doing::Running { gone, again, .. } = &mut key.doing
                && id.1.cluster == name
            {
                (*gone, *again) = (true, None);
            }
        }
        self.forgive(&name);
    }

    fn replace_controller(&mut self) {
        let at = self.rng.usize(0..self.controllers.len());
        if !self.controllers[at].alive {
            return;
        }
        let tokens = self
            .queue
            .remove_controller(self.now, self.controllers[at].id)
            .len();
        assert_eq!(tokens, self.running(|id| id.0 == at));
        self.keys
            .retain(|id, key| id.0 != at || matches!(key.doing, Doing::Running { .. }));
        let runs = tokens > 0;
        if self.rng.bool() {
            assert_eq!(
                self.queue.revive_controller(self.controllers[at].id),
                runs,
                "as long as a run has not ended"
            );
            if runs {
                return;
            }
        }
        self.controllers[at].alive = false;
        // From time to time a tenant leaves, so that another is alone, or comes back.
        let tenant = self.rng.usize(0..self.tenants.len());
        self.add_controller(tenant);
    }

    fn step(&mut self) {
        match self.rng.u32(0..1000) {
            0..340 => self.add(),
            340..345 => self.look_for_room(),
            345..348 => self.wake(Why::Backoff),
            348..350 => self.wake(Why::Paused),
            350..650 => self.get(),
            650..890 => self.done(),
            890..900 => {
                // So long that runs become old.
                self.now += self.rng.u32(300..1200) * MILLI;
                self.get();
            }
            900..955 => {
                // Alarms take effect with the next get: with one right away both agree on what is ready.
                self.now += self.rng.u32(0..40) * MILLI;
                self.get();
            }
            955..960 => self.set_controller(),
            960..970 => self.set_cluster(),
            970..980 => self.hold_in_cluster(),
            980..988 => self.remove_cluster(),
            988..991 => self.replace_controller(),
            991..996 => {
                let at = self.rng.usize(0..self.tenants.len());
                self.set_tenant(at);
            }
            _ => self.set_limits(),
        }
        while let Some(id) = self.queue.drained() {
            let at = self
                .controllers
                .iter()
                .position(|controller| controller.id == id)
                .unwrap();
            let held = self.held(at);
            let controller = &mut self.controllers[at];
            assert!(
                controller.alive
                    && std::mem::take(&mut controller.refused)
                    && held <= SHARE / 10 * 9
            );
        }
    }

    /// Lets everything run that can, and checks that nothing stays behind.
    fn drain(&mut self) {
        for name in self.clusters.clone().into_keys() {
            self.put_cluster(name, ClusterMode::Ready);
        }
        for (at, name) in std::mem::take(&mut self.held) {
            self.queue
                .hold_in_cluster(self.controllers[at].id, &name, false);
        }
        let mut idle = 0;
        while idle < 3 {
            idle += 1;
            let running: Vec<(Id, Token)> = self
                .keys
                .iter()
                .filter_map(|(id, key)| {
                    if let Doing::Running { token, .. } = key.doing {
                        Some((id.clone(), token))
                    } else {
                        None
                    }
                })
                .collect();
            for (id, token) in running {
                idle = 0;
                assert!(self.queue.done(self.now, token, Outcome::Done));
                let key = self.keys.get_mut(&id).unwrap();
                match key.doing {
                    Doing::Running {
                        again: Some((_, priority)),
                        ..
                    } if self.controllers[id.0].alive => {
                        *key = Key {
                            doing: Doing::Ready,
                            priority,
                            attempts: 0,
                            guests_fault: false,
                        };
                    }
                    _ => drop(self.keys.remove(&id)),
                }
            }
            self.now += Duration::from_secs(7200);
            let before = self.queue.total_counts();
            self.get();
            if self.queue.total_counts() != before {
                idle = 0;
            }
        }
        self.keys.retain(|_, key| key.doing != Doing::Terminal);
        assert!(self.keys.is_empty(), "left behind: {:?}", self.keys);
        assert_eq!(self.queue.len(), self.queue.total_counts().terminal);
    }
}

#[test]
fn the_queue_does_what_a_naive_one_does() {
    let (mut throttled, mut denied, mut out_of_order, mut woken) = (0, [0; 2], 0, 0);
    for seed in 0..25 {
        let result = std::panic::catch_unwind(|| {
            let mut model = Model::new(seed);
            for step in 0..3_000 {
                model.step();
                match step % 10 {
                    0 => model.compare(),
                    5 => model.compare_news(),
                    _ => {}
                }
            }
            let totals = |controller: &Controller| model.queue.totals(controller.id).throttled;
            let throttled: u64 = model.controllers.iter().map(totals).sum();
            model.drain();
            (throttled, model.denied, model.out_of_order, model.woken)
        });
        let (delayed, refused, early, brought) = result.unwrap_or_else(|panic| {
            eprintln!("the model and the queue differ with seed {seed}");
            std::panic::resume_unwind(panic)
        });
        throttled += delayed;
        denied = [denied[0] + refused[0], denied[1] + refused[1]];
        out_of_order += early;
        woken += brought;
    }
    assert!(
        denied.iter().all(|keys| *keys > 100),
        "clusters that do not answer were hardly ever held up: {denied:?}"
    );
    assert!(
        out_of_order > 100,
        "low priorities hardly ever had their share: {out_of_order}"
    );
    assert!(woken > 100, "keys were hardly ever woken: {woken}");
    assert!(
        throttled > 100,
        "keys were hardly ever throttled: {throttled}"
    );
}
