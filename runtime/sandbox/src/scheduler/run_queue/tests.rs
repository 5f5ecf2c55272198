//! Shares as they come out over time, and what holds after every operation of random ones.

use super::bucket::PERIOD;
use super::*;

const SLICE: Duration = Duration::from_millis(1);

fn name(of: &str) -> TenantName {
    TenantName::new(of).unwrap()
}

/// A task that wants slices.
struct Task {
    tenant: TenantName,
    weight: u32,
    cap: Option<u32>,
    /// Length of its slices.
    slice: Duration,
    /// Whether it is ready again after each slice.
    busy: bool,
    state: State,
}

enum State {
    /// Wants nothing.
    Idle,
    Ready(Ticket),
    Running(Slice),
}

/// Processors that run tasks, which the queue knows by their index.
struct Machine {
    queue: RunQueue<usize>,
    width: usize,
    now: Instant,
    tasks: Vec<Task>,
    used: HashMap<TenantName, Duration>,
}

impl Machine {
    fn new(width: usize) -> Self {
        Self {
            queue: RunQueue::new(SLICE),
            width,
            now: Instant::now(),
            tasks: Vec::new(),
            used: HashMap::new(),
        }
    }

    fn tasks(&mut self, tenant: &str, weight: u32, cap: Option<u32>, count: usize) {
        for _ in 0..count {
            self.tasks.push(Task {
                tenant: name(tenant),
                weight,
                cap,
                slice: SLICE,
                busy: true,
                state: State::Idle,
            });
        }
    }

    fn push(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        let owner = Owner {
            tenant: &task.tenant,
            weight: task.weight,
            cap: task.cap,
            first: false,
        };
        task.state = State::Ready(self.queue.push(&owner, at, self.now));
    }

    /// Begins the next slice; tells whose.
    fn pop(&mut self) -> Option<usize> {
        let (at, slice) = self.queue.pop(self.now)?;
        let before = std::mem::replace(&mut self.tasks[at].state, State::Running(slice));
        assert!(matches!(before, State::Ready(_)), "task {at} was not ready");
        Some(at)
    }

    fn end(&mut self, at: usize, used: Duration) {
        let task = &mut self.tasks[at];
        let State::Running(slice) = std::mem::replace(&mut task.state, State::Idle) else {
            panic!("task {at} does not run");
        };
        *self.used.entry(task.tenant.clone()).or_default() += used;
        self.queue.end(slice, used, self.now);
    }

    fn hold(&mut self, at: usize) {
        if let State::Running(slice) = &mut self.tasks[at].state {
            self.queue.hold(slice, self.now);
        }
    }

    fn in_state(&self, wanted: impl Fn(&Task) -> bool) -> Vec<usize> {
        let tasks = self.tasks.iter().enumerate();
        tasks
            .filter(|(_, task)| wanted(task))
            .map(|(at, _)| at)
            .collect()
    }

    fn running(&self) -> Vec<usize> {
        self.in_state(|task| matches!(task.state, State::Running(_)))
    }

    /// Every busy task is ready, as many run as there are processors, and all end.
    fn round(&mut self) {
        for at in self.in_state(|task| task.busy && matches!(task.state, State::Idle)) {
            self.push(at);
        }
        while self.running().len() < self.width && self.pop().is_some() {}
        self.now += SLICE;
        for at in self.running() {
            let slice = self.tasks[at].slice;
            self.end(at, slice);
        }
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    fn used(&self, tenant: &str) -> u128 {
        let used = self.used.get(&name(tenant)).copied();
        used.unwrap_or_default().as_millis()
    }
}

#[test]
fn tenants_share_by_weight_however_many_tasks_they_have() {
    let mut machine = Machine::new(2);
    machine.tasks("many", 1, None, 30);
    machine.tasks("few", 1, None, 2);
    machine.tasks("heavy", 2, None, 3);
    machine.rounds(4000);
    let [many, few, heavy] = ["many", "few", "heavy"].map(|tenant| machine.used(tenant));
    assert_eq!(many + few + heavy, 8000, "no processor was ever idle");
    for (used, share) in [(many, 2000), (few, 2000), (heavy, 4000)] {
        assert!(used.abs_diff(share) <= 40, "{many} {few} {heavy}");
    }
}

#[test]
fn alone_a_tenant_has_every_processor() {
    let mut machine = Machine::new(4);
    machine.tasks("only", 1, None, 10);
    machine.rounds(100);
    assert_eq!(machine.used("only"), 400);
}

#[test]
fn long_slices_are_paid_for_with_later_ones() {
    let mut machine = Machine::new(1);
    machine.tasks("long", 1, None, 1);
    machine.tasks("short", 1, None, 1);
    machine.tasks[0].slice = 10 * SLICE;
    machine.rounds(1100);
    let (long, short) = (machine.used("long"), machine.used("short"));
    assert!(long.abs_diff(short) <= 20, "{long} {short}");
}

#[test]
fn a_tenant_that_returns_brings_neither_credit_nor_debt() {
    let mut machine = Machine::new(1);
    machine.tasks("first", 1, None, 3);
    machine.rounds(1000);
    machine.tasks("late", 1, None, 3);
    machine.rounds(100);
    let late = machine.used("late");
    assert!(late.abs_diff(50) <= 2, "{late} of 100: no credit");
    let set_busy = |machine: &mut Machine, busy: bool| {
        let tasks = machine.tasks.iter_mut();
        tasks
            .filter(|task| task.tenant == name("first"))
            .for_each(|task| task.busy = busy);
    };
    set_busy(&mut machine, false);
    machine.rounds(1000);
    set_busy(&mut machine, true);
    machine.used.clear();
    machine.rounds(100);
    let first = machine.used("first");
    assert!(first.abs_diff(50) <= 2, "{first} of 100: no debt");
}

#[test]
fn the_task_of_a_tenant_that_used_less_is_next() {
    let mut machine = Machine::new(2);
    machine.tasks("busy", 1, None, 64);
    machine.rounds(500);
    machine.tasks("quiet", 1, None, 1);
    let quiet = machine.tasks.len() - 1;
    machine.push(quiet);
    assert_eq!(machine.pop(), Some(quiet));
}

#[test]
fn a_cap_holds_even_while_processors_are_idle() {
    let mut machine = Machine::new(2);
    machine.tasks("capped", 1, Some(500), 8);
    machine.rounds(4000);
    let used = machine.used("capped");
    // Half a processor for four seconds, and a period's part at the start.
    assert!((2000..=2060).contains(&used), "{used}");
}

#[test]
fn a_queue_of_capped_tenants_tells_when_the_next_may_run() {
    let mut machine = Machine::new(1);
    machine.tasks("capped", 1, Some(100), 1);
    while machine.queue.next_release().is_none() {
        machine.round();
        machine.push(0);
        if let Some(at) = machine.pop() {
            machine.end(at, SLICE);
        }
    }
    assert_eq!(machine.pop(), None);
    machine.now = machine.queue.next_release().unwrap();
    assert_eq!(machine.pop(), Some(0));
}

#[test]
fn what_a_cap_takes_from_one_is_there_for_others_and_earns_it_nothing() {
    let mut machine = Machine::new(1);
    machine.tasks("capped", 10, Some(100), 4);
    machine.tasks("other", 1, None, 1);
    machine.rounds(2000);
    let (capped, other) = (machine.used("capped"), machine.used("other"));
    assert_eq!(capped + other, 2000);
    assert!((190..=220).contains(&capped), "{capped}");
    // Without its cap it has its weight's share, and no more to make up for.
    for task in &mut machine.tasks {
        task.cap = None;
    }
    machine.used.clear();
    machine.rounds(1100);
    let capped = machine.used("capped");
    assert!(capped.abs_diff(1000) <= 15, "{capped} of 1100");
}

#[test]
fn a_guest_that_is_loaded_comes_before_its_own_tenant_only() {
    let mut machine = Machine::new(1);
    machine.tasks("a", 1, None, 3);
    machine.tasks("b", 1, None, 1);
    machine.rounds(10);
    for at in machine.in_state(|task| matches!(task.state, State::Idle)) {
        machine.push(at);
    }
    machine.tasks("a", 1, None, 1);
    let loaded = machine.tasks.len() - 1;
    let owner = Owner {
        tenant: &name("a"),
        weight: 1,
        cap: None,
        first: true,
    };
    machine.tasks[loaded].state = State::Ready(machine.queue.push(&owner, loaded, machine.now));
    let order: Vec<_> = std::iter::from_fn(|| machine.pop()).collect();
    assert!(order[..3].contains(&3), "the other tenant has its turn");
    let of_a = order
        .iter()
        .find(|at| machine.tasks[**at].tenant == name("a"));
    assert_eq!(of_a, Some(&loaded));
    assert_eq!(order.len(), 5);
}

#[test]
fn a_tenant_with_a_stuck_slice_runs_nothing_else_and_pays_for_it() {
    let mut machine = Machine::new(1);
    machine.tasks("stuck", 1, None, 3);
    machine.tasks("other", 1, None, 1);
    machine.push(0);
    assert_eq!(machine.pop(), Some(0));
    machine.push(1);
    machine.push(3);
    machine.hold(0);
    machine.hold(0);
    assert_eq!(machine.pop(), Some(3));
    machine.end(3, SLICE);
    assert_eq!(machine.pop(), None, "the rest is held");
    machine.end(0, 50 * SLICE);
    machine.used.clear();
    machine.rounds(40);
    assert!(machine.used("stuck") <= 1, "it pays for all of it");
    machine.rounds(30);
    assert!(machine.used("stuck") > 5);
}

#[test]
fn a_task_that_is_taken_out_runs_no_more() {
    let mut machine = Machine::new(1);
    machine.tasks("a", 1, None, 2);
    machine.push(0);
    machine.push(1);
    let State::Ready(ticket) = machine.tasks[0].state else {
        panic!("it was pushed");
    };
    assert_eq!(
        machine.queue.remove(&name("a"), ticket, machine.now),
        Some(0)
    );
    assert_eq!(machine.queue.remove(&name("a"), ticket, machine.now), None);
    assert_eq!(machine.pop(), Some(1));
    assert_eq!(machine.pop(), None);
}

/// The tenant that is next, found by looking at all: of those with a task that may run, the one with the least virtual time, then
/// the one whose first task waits longest.
fn next_of_all(queue: &mut RunQueue<usize>, now: Instant) -> Option<TenantName> {
    let virtual_clock = queue.virtual_clock;
    let ready = queue.tenants.iter_mut().filter_map(|(name, tenant)| {
        match tenant.new_position(virtual_clock, now) {
            Position::Ready(time, first) => Some(((time, first), name.clone())),
            _ => None,
        }
    });
    ready.min().map(|(_, name)| name)
}

/// What holds whatever happens.
fn check(machine: &mut Machine) {
    machine.queue.release_paused(machine.now);
    let next = machine.queue.ready.first().map(|(.., name)| name.clone());
    assert_eq!(next, next_of_all(&mut machine.queue, machine.now));
    assert_eq!(machine.queue.slices, machine.running().len());
    let ready = machine.in_state(|task| matches!(task.state, State::Ready(_)));
    let in_lines: usize = machine.queue.tenants.values().map(|t| t.line.len()).sum();
    assert_eq!(in_lines, ready.len());
    let held: Vec<_> = machine
        .tasks
        .iter()
        .filter(|task| matches!(&task.state, State::Running(slice) if slice.stuck))
        .map(|task| task.tenant.clone())
        .collect();
    let mut ready = ready.iter().map(|at| &machine.tasks[*at]);
    let may = ready.any(|task| task.cap.is_none() && !held.contains(&task.tenant));
    assert!(!may || machine.queue.has_ready(), "a task is kept back");
}

#[test]
fn whatever_happens_no_task_is_lost_or_run_twice() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut machine = Machine::new(random.usize(1..5));
        for tenant in ["a", "b", "c", "d"] {
            let cap = (random.u8(..3) == 0).then(|| random.u32(100..2100));
            machine.tasks(tenant, random.u32(1..6), cap, random.usize(1..7));
        }
        for _ in 0..3000 {
            let at = random.usize(..machine.tasks.len());
            machine.now += Duration::from_micros(random.u64(..400));
            match machine.tasks[at].state {
                State::Idle => machine.push(at),
                State::Running(_) if random.u8(..8) == 0 => machine.hold(at),
                State::Running(_) => {
                    let used = Duration::from_micros(random.u64(..1500));
                    machine.end(at, used);
                }
                State::Ready(ticket) if random.u8(..4) == 0 => {
                    let tenant = machine.tasks[at].tenant.clone();
                    machine.tasks[at].state = State::Idle;
                    let removed = machine.queue.remove(&tenant, ticket, machine.now);
                    assert_eq!(removed, Some(at));
                }
                State::Ready(_) => {
                    if machine.running().len() < machine.width {
                        machine.pop();
                    }
                }
            }
            check(&mut machine);
        }
    }
}

#[test]
fn idle_tenants_are_forgotten() {
    let mut machine = Machine::new(1);
    for tenant in 0..1000 {
        machine.tasks(&format!("t{tenant}"), 1, Some(1000), 1);
        machine.push(tenant);
        assert_eq!(machine.pop(), Some(tenant));
        machine.now += SLICE;
        machine.end(tenant, SLICE);
        machine.now += PERIOD;
    }
    assert!(machine.queue.tenants.len() <= REMEMBERED);
}

#[test]
fn many_tenants_that_wait_make_no_slice_slow() {
    // Looking at all of them for each slice would take minutes.
    let (mut machine, many) = (Machine::new(1), 20_000);
    for tenant in 0..many {
        let cap = (tenant % 2 == 0).then_some(1);
        machine.tasks(&format!("t{tenant}"), 1, cap, 1);
        machine.push(tenant);
    }
    for _ in 0..3 * many {
        machine.now += SLICE;
        let at = machine.pop().unwrap();
        machine.end(at, SLICE);
        machine.push(at);
    }
}
