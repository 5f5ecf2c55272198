//! Shares as they come out over time, and what holds after every operation of random ones.

use super::bucket::PERIOD;
use super::*;
use std::collections::HashSet;

const TURN: Duration = Duration::from_millis(1);

fn name(of: &str) -> TenantName {
    TenantName::new(of).unwrap()
}

/// A call that computes in turns.
struct Call {
    tenant: TenantName,
    weight: u32,
    cap: Option<u32>,
    /// Length of its turns.
    turn: Duration,
    /// Whether it asks for another turn when it wants nothing.
    asks: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Wants nothing.
    Idle,
    Waiting(Ticket),
    Computing(Ticket),
}

impl State {
    fn is_computing(self) -> bool {
        matches!(self, Self::Computing(_))
    }
}

/// Calls that are woken by their index.
struct Machine {
    turns: Turns<usize>,
    now: Instant,
    calls: Vec<Call>,
    used: HashMap<TenantName, Duration>,
}

impl Machine {
    fn new(width: usize) -> Self {
        Self {
            turns: Turns::new(width, TURN),
            now: Instant::now(),
            calls: Vec::new(),
            used: HashMap::new(),
        }
    }

    fn calls(&mut self, tenant: &str, weight: u32, cap: Option<u32>, count: usize) {
        for _ in 0..count {
            self.calls.push(Call {
                tenant: name(tenant),
                weight,
                cap,
                turn: TURN,
                asks: true,
                state: State::Idle,
            });
        }
    }

    fn ask(&mut self, at: usize) {
        let call = &mut self.calls[at];
        let claim = Claim {
            tenant: &call.tenant,
            weight: call.weight,
            cap: call.cap,
            first: false,
        };
        call.state = match self.turns.ask(&claim, at, self.now) {
            Asked::Begun(ticket) => State::Computing(ticket),
            Asked::Waits(ticket) => State::Waiting(ticket),
        };
    }

    fn wake(&mut self, mut next: Option<usize>) {
        while let Some(at) = next {
            let call = &mut self.calls[at];
            let State::Waiting(ticket) = call.state else {
                panic!("call {at} was woken and does not wait");
            };
            let (begun, other) = self.turns.take(&call.tenant, ticket, at, self.now);
            if begun {
                call.state = State::Computing(ticket);
            }
            assert!(begun || other != Some(at), "who is woken may begin");
            next = other;
        }
    }

    fn end(&mut self, at: usize, used: Duration) {
        let due = self.ended(at, used).next;
        self.wake(due);
    }

    /// As [`Self::end`], and nobody is woken.
    fn ended(&mut self, at: usize, used: Duration) -> Ended<usize> {
        let call = &mut self.calls[at];
        let State::Computing(ticket) = call.state else {
            panic!("call {at} does not compute");
        };
        call.state = State::Idle;
        *self.used.entry(call.tenant.clone()).or_default() += used;
        self.turns.end(ticket, used, self.now)
    }

    /// Overtakes what has not ended at so many ticks. Returns who is to be woken.
    fn overtake(&mut self, after: u32) -> Option<usize> {
        self.turns.overtake(self.now, |_, ticks| ticks >= after);
        self.turns.next(self.now)
    }

    fn in_state(&self, wanted: impl Fn(&Call) -> bool) -> Vec<usize> {
        let calls = self.calls.iter().enumerate();
        calls
            .filter(|(_, call)| wanted(call))
            .map(|(at, _)| at)
            .collect()
    }

    /// A tick: all that compute end their turn, and whoever wants nothing asks.
    fn tick(&mut self) {
        for at in self.in_state(|call| call.asks && call.state == State::Idle) {
            self.ask(at);
        }
        self.now += TURN;
        for at in self.in_state(|call| call.state.is_computing()) {
            let turn = self.calls[at].turn;
            self.end(at, turn);
        }
        let due = self.turns.next(self.now);
        self.wake(due);
    }

    fn run(&mut self, ticks: usize) {
        (0..ticks).for_each(|_| self.tick());
    }

    fn used(&self, tenant: &str) -> u128 {
        self.used
            .get(&name(tenant))
            .copied()
            .unwrap_or_default()
            .as_millis()
    }
}

#[test]
fn what_is_used_without_a_turn_is_paid_for_with_later_ones() {
    let mut machine = Machine::new(1);
    machine.calls("pays", 1, None, 2);
    machine.calls("other", 1, None, 2);
    machine.run(10);
    let debt = Duration::from_millis(100);
    machine.turns.charge(&name("pays"), debt, machine.now);
    let before = [machine.used("pays"), machine.used("other")];
    machine.run(110);
    let gained = [
        machine.used("pays") - before[0],
        machine.used("other") - before[1],
    ];
    assert!((3..=7).contains(&gained[0]), "{gained:?}");
    assert_eq!(gained[0] + gained[1], 110);
}

#[test]
fn tenants_share_by_weight_however_many_calls_they_have() {
    let mut machine = Machine::new(2);
    machine.calls("many", 1, None, 30);
    machine.calls("few", 1, None, 2);
    machine.calls("heavy", 2, None, 3);
    machine.run(4000);
    let [many, few, heavy] = ["many", "few", "heavy"].map(|tenant| machine.used(tenant));
    assert_eq!(many + few + heavy, 8000, "no processor was ever idle");
    for (used, share) in [(many, 2000), (few, 2000), (heavy, 4000)] {
        assert!(used.abs_diff(share) <= 40, "{many} {few} {heavy}");
    }
}

#[test]
fn alone_a_tenant_has_every_processor() {
    let mut machine = Machine::new(4);
    machine.calls("only", 1, None, 10);
    machine.run(100);
    assert_eq!(machine.used("only"), 400);
}

#[test]
fn a_tenant_that_returns_brings_neither_credit_nor_debt() {
    let mut machine = Machine::new(1);
    machine.calls("first", 1, None, 3);
    machine.run(1000);
    machine.calls("late", 1, None, 3);
    machine.run(100);
    let late = machine.used("late");
    assert!(
        late.abs_diff(50) <= 2,
        "{late} of 100: the past is not made good"
    );
    let pause = |machine: &mut Machine, asks: bool| {
        let calls = machine.calls.iter_mut();
        calls
            .filter(|call| call.tenant == name("first"))
            .for_each(|call| call.asks = asks);
    };
    pause(&mut machine, false);
    machine.run(1000);
    pause(&mut machine, true);
    machine.used.clear();
    machine.run(100);
    let first = machine.used("first");
    assert!(first.abs_diff(50) <= 2, "{first} of 100: nor is a pause");
}

#[test]
fn a_short_turn_beside_loops_waits_for_one_of_theirs_at_most() {
    let mut machine = Machine::new(2);
    machine.calls("loops", 1, None, 64);
    machine.run(500);
    machine.calls("quiet", 1, None, 1);
    let quiet = machine.calls.len() - 1;
    machine.calls[quiet].turn = Duration::from_micros(50);
    machine.ask(quiet);
    for at in machine.in_state(|call| call.state.is_computing()) {
        if at != quiet {
            machine.now += TURN;
            machine.end(at, TURN);
            break;
        }
    }
    assert!(machine.calls[quiet].state.is_computing());
}

#[test]
fn a_cap_holds_even_while_processors_are_idle() {
    let mut machine = Machine::new(2);
    machine.calls("capped", 1, Some(500), 8);
    machine.run(4000);
    let used = machine.used("capped");
    // Half a processor for four seconds, and a period's part at the start.
    assert!((2000..=2060).contains(&used), "{used}");
}

#[test]
fn what_a_cap_takes_from_one_is_there_for_others_and_earns_it_nothing() {
    let mut machine = Machine::new(1);
    machine.calls("capped", 10, Some(100), 4);
    machine.calls("other", 1, None, 1);
    machine.run(2000);
    let (capped, other) = (machine.used("capped"), machine.used("other"));
    assert_eq!(capped + other, 2000);
    assert!((190..=220).contains(&capped), "{capped}");
    // Without its cap it has its weight's share, and no more to make up for.
    for call in &mut machine.calls {
        call.cap = None;
    }
    machine.used.clear();
    machine.run(1100);
    let capped = machine.used("capped");
    assert!(capped.abs_diff(1000) <= 15, "{capped} of 1100");
}

#[test]
fn who_comes_first_of_its_tenant_does_not_pass_another_tenant() {
    let mut machine = Machine::new(1);
    machine.calls("a", 1, None, 3);
    machine.calls("b", 1, None, 1);
    machine.run(10);
    let claim = Claim {
        tenant: &name("a"),
        weight: 1,
        cap: None,
        first: true,
    };
    let asked = machine.turns.ask(&claim, 99, machine.now);
    let Asked::Waits(ticket) = asked else {
        panic!("another computes");
    };
    let line = &machine.turns.tenants[&name("a")].line;
    assert_eq!(line.keys().next(), Some(&ticket));
    assert_eq!(machine.turns.given, 1);
}

/// Who comes next, found by looking at everybody: of the tenants that wait and may, the one with the least virtual time, then who
/// waits longest.
fn next_of_all(turns: &mut Turns<usize>, now: Instant) -> Option<TenantName> {
    let floor = turns.floor;
    let waiting = turns.tenants.iter_mut().filter_map(|(name, tenant)| {
        let first = tenant.line.keys().next()?.number;
        let from = match tenant.bucket {
            Some(_) => tenant.virtual_time.max(floor),
            None => tenant.virtual_time,
        };
        tenant.may(now).then(|| ((from, first), name.clone()))
    });
    waiting.min().map(|(_, name)| name)
}

/// What holds whatever happens: no more turns than there are, none given that is not counted, none kept back while somebody who
/// waits may have it, and the next one as somebody who looks at all tenants would choose it.
fn check(machine: &mut Machine) {
    machine.turns.look_at_paused(machine.now);
    let next = machine.turns.ready.first().map(|(.., name)| name.clone());
    assert_eq!(next, next_of_all(&mut machine.turns, machine.now));
    let computing = machine.in_state(|call| call.state.is_computing());
    assert_eq!(machine.turns.begun.len(), computing.len());
    let overtaken = machine.turns.begun.iter().filter(|begun| begun.overtaken);
    let held: HashSet<_> = overtaken
        .clone()
        .map(|begun| begun.tenant.clone())
        .collect();
    assert_eq!(machine.turns.given + overtaken.count(), computing.len());
    assert!(machine.turns.given <= machine.turns.width);
    let most = (machine.turns.width / 2).max(1);
    let mut tenants = machine.turns.tenants.values();
    assert!(tenants.all(|tenant| tenant.overtaken <= most));
    let waiting = machine.in_state(|call| matches!(call.state, State::Waiting(_)));
    let in_lines: usize = machine.turns.tenants.values().map(|t| t.line.len()).sum();
    assert_eq!(in_lines, waiting.len());
    let calls = waiting.iter().map(|at| &machine.calls[*at]);
    let may = calls.filter(|call| call.cap.is_none() && !held.contains(&call.tenant));
    if may.count() > 0 {
        assert_eq!(machine.turns.given, machine.turns.width);
    }
}

#[test]
fn whatever_happens_no_turn_is_lost_or_given_twice() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut machine = Machine::new(random.usize(1..5));
        for tenant in ["a", "b", "c", "d"] {
            let cap = (random.u8(..3) == 0).then(|| random.u32(100..2100));
            machine.calls(tenant, random.u32(1..6), cap, random.usize(1..7));
        }
        for _ in 0..3000 {
            let at = random.usize(..machine.calls.len());
            machine.now += Duration::from_micros(random.u64(..400));
            match machine.calls[at].state {
                State::Idle => {
                    machine.ask(at);
                    let due = machine.turns.next(machine.now);
                    machine.wake(due);
                }
                State::Computing(_) if random.u8(..8) == 0 => {
                    let due = machine.overtake(2);
                    machine.wake(due);
                }
                State::Computing(_) => {
                    let used = Duration::from_micros(random.u64(..1500));
                    machine.end(at, used);
                }
                State::Waiting(ticket) if random.u8(..4) == 0 => {
                    let tenant = machine.calls[at].tenant.clone();
                    machine.calls[at].state = State::Idle;
                    let due = machine.turns.leave(&tenant, ticket, machine.now);
                    machine.wake(due);
                }
                State::Waiting(_) => {
                    let due = machine.turns.next(machine.now);
                    machine.wake(due);
                }
            }
            check(&mut machine);
        }
    }
}

#[test]
fn a_turn_that_somebody_was_woken_for_and_left_goes_to_the_next() {
    let mut machine = Machine::new(1);
    machine.calls("a", 1, None, 3);
    for at in 0..3 {
        machine.ask(at);
    }
    assert_eq!(machine.ended(0, TURN).next, Some(1));
    let State::Waiting(ticket) = machine.calls[1].state else {
        panic!("it waited");
    };
    let due = machine.turns.leave(&name("a"), ticket, machine.now);
    assert_eq!(due, Some(2));
}

#[test]
fn who_was_woken_lets_one_begin_that_asked_meanwhile_and_comes_before_it() {
    let mut machine = Machine::new(1);
    machine.calls("loops", 1, None, 2);
    machine.calls("quiet", 1, None, 1);
    machine.ask(0);
    machine.ask(1);
    machine.now += TURN;
    let woken = machine.ended(0, TURN).next;
    assert_eq!(woken, Some(1));
    machine.ask(2);
    assert!(machine.calls[2].state.is_computing());
    machine.wake(woken);
    assert!(matches!(machine.calls[1].state, State::Waiting(_)));
    machine.end(2, TURN / 10);
    assert!(machine.calls[1].state.is_computing());
}

#[test]
fn of_those_that_came_together_the_one_that_used_least_begins() {
    let names = ["hungry", "quiet"].map(name);
    let mut turns = Turns::new(1, TURN);
    let claim = |tenant| Claim {
        tenant,
        weight: 1,
        cap: None,
        first: false,
    };
    let now = Instant::now();
    let Asked::Begun(first) = turns.ask(&claim(&names[0]), 0, now) else {
        panic!("nobody computes");
    };
    let Asked::Waits(second) = turns.ask(&claim(&names[0]), 1, now) else {
        panic!("the first computes");
    };
    assert_eq!(turns.end(first, TURN, now + TURN).next, Some(1));
    let quiet = turns.enlist(&claim(&names[1]), 2, now + TURN);
    assert_eq!(
        turns.take(&names[0], second, 1, now + TURN),
        (false, Some(2))
    );
    assert_eq!(turns.take(&names[1], quiet, 2, now + TURN), (true, None));
}

#[test]
fn a_turn_that_does_not_end_is_overtaken_and_its_tenant_has_no_other() {
    let mut machine = Machine::new(1);
    machine.calls("stuck", 1, None, 3);
    machine.calls("other", 1, None, 2);
    for at in 0..5 {
        machine.ask(at);
    }
    assert_eq!(machine.overtake(2), None, "not yet");
    let due = machine.overtake(2);
    assert_eq!(due, Some(3), "the other tenant's, though it asked last");
    machine.wake(due);
    machine.end(3, TURN);
    machine.end(4, TURN);
    assert_eq!(machine.turns.given, 0);
    assert_eq!(machine.turns.next(machine.now), None, "the rest is held");
    machine.ask(3);
    let ended = machine.ended(0, 50 * TURN);
    assert!(ended.was_overtaken);
    assert_eq!(ended.next, None, "the other computes");
    machine.used.clear();
    machine.run(40);
    assert_eq!(machine.used("stuck"), 0, "it pays for all of it");
    machine.run(30);
    assert!(machine.used("stuck") > 5);
}

#[test]
fn a_turn_is_not_overtaken_where_nobody_goes_on_in_its_stead() {
    let mut machine = Machine::new(1);
    machine.calls("stuck", 1, None, 1);
    machine.calls("other", 1, None, 1);
    machine.ask(0);
    machine.ask(1);
    machine.now += 9 * TURN;
    machine.turns.overtake(machine.now, |_, _| false);
    assert_eq!(machine.turns.next(machine.now), None);
    assert!(!machine.ended(0, 9 * TURN).was_overtaken);
}

#[test]
fn at_most_half_of_the_turns_are_overtaken_of_one_tenant_and_those_of_others_still() {
    let mut machine = Machine::new(4);
    machine.calls("worst", 1, None, 3);
    machine.calls("bad", 1, None, 1);
    for at in 0..4 {
        machine.ask(at);
    }
    let overtaken = |machine: &Machine| {
        let tenants = &machine.turns.tenants;
        ["worst", "bad"].map(|of| tenants[&name(of)].overtaken)
    };
    machine.overtake(1);
    assert_eq!(overtaken(&machine), [2, 1]);
    machine.end(0, TURN);
    machine.overtake(1);
    assert_eq!(overtaken(&machine), [2, 1], "the third, as one has ended");
}

#[test]
fn tenants_that_want_nothing_are_forgotten() {
    let mut machine = Machine::new(1);
    for tenant in 0..1000 {
        machine.calls(&format!("t{tenant}"), 1, Some(1000), 1);
        machine.ask(tenant);
        machine.now += TURN;
        machine.end(tenant, TURN);
        machine.now += PERIOD;
    }
    assert!(machine.turns.tenants.len() <= REMEMBERED);
}

#[test]
fn a_crowd_of_tenants_that_wait_makes_no_turn_slow() {
    // Looking at all of them for each turn would take minutes.
    let (mut machine, crowd) = (Machine::new(1), 20_000);
    for tenant in 0..crowd {
        let cap = (tenant % 2 == 0).then_some(1);
        machine.calls(&format!("t{tenant}"), 1, cap, 1);
        machine.ask(tenant);
    }
    let mut at = 0;
    for _ in 0..3 * crowd {
        machine.now += TURN;
        let due = machine.ended(at, TURN).next;
        machine.wake(due);
        machine.ask(at);
        at = due.unwrap();
    }
}
