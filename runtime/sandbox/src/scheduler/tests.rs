//! Calls on the scheduler's own threads.

use super::*;
use crate::options::{Limits, TenantLimits};
use crate::tenant::Tenant;
use crate::tenant::context::History;
use std::task::Poll;
use windlass_fleet::{ControllerName, Grant, TenantName};
use windlass_harness::eventually::Seen;

/// How long anything may take before a test fails.
const LONG: Duration = Duration::from_secs(20);

fn scheduler(processors: usize) -> Scheduler {
    Scheduler::start(&Engine::default(), processors, TICK).unwrap()
}

fn guest(tenant: &str) -> Arc<GuestContext> {
    limited(tenant, &TenantLimits::default())
}

fn limited(tenant: &str, limits: &TenantLimits) -> Arc<GuestContext> {
    GuestContext::new(
        Tenant::new(TenantName::new(tenant).unwrap(), limits),
        ControllerName::new("guest").unwrap(),
        Arc::new(Grant::none()),
        "".into(),
        Limits::default(),
        History::default(),
    )
}

fn spawn<F>(scheduler: &Scheduler, guest: &Arc<GuestContext>, call: F) -> Spawned<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    scheduler.spawn(guest, false, Arc::default(), call)
}

/// Gives the processor up once, as a guest does at the end of its slice.
async fn give_way() {
    let mut gave = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut gave, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn compute(time: Duration) {
    let began = std::time::Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Computes for some ticks and until told to end, and cannot be interrupted.
fn stuck(ends: &Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static {
    let ends = ends.clone();
    async move {
        compute(5 * TICK);
        while !ends.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

fn soon() -> Instant {
    Instant::now() + LONG
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let seen = windlass_harness::eventually(LONG, what, || {
        let holds = holds();
        async move { Ok(Seen::of(holds, |holds| *holds)) }
    });
    seen.await.unwrap();
}

#[tokio::test]
async fn a_call_has_the_timers_of_its_runtime_and_returns_its_result() {
    let scheduler = scheduler(1);
    let call = async {
        let never = std::future::pending::<()>();
        assert!(tokio::time::timeout(TICK, never).await.is_err());
        std::thread::current().name().map(str::to_owned)
    };
    let thread = spawn(&scheduler, &guest("a"), call).until(soon()).await;
    assert_eq!(thread.unwrap().as_deref(), Some("windlass-guest"));
}

#[tokio::test]
async fn calls_of_two_tenants_take_turns_however_many_they_are() {
    let scheduler = scheduler(1);
    let busy = |guest: &Arc<GuestContext>| {
        spawn(&scheduler, guest, async {
            loop {
                compute(TICK / 2);
                give_way().await;
            }
        })
    };
    let (many, few) = (guest("many"), guest("few"));
    let mut calls: Vec<_> = (0..8).map(|_| busy(&many)).collect();
    calls.push(busy(&few));
    let used = |guest: &Arc<GuestContext>| guest.usage().computed();
    eventually("slices", || used(&many) + used(&few) > 300 * TICK).await;
    let (many, few) = (used(&many), used(&few));
    assert!(few > many / 2 && many > few / 2, "{many:?} beside {few:?}");
}

#[tokio::test]
async fn a_stuck_worker_is_replaced_and_its_tenant_waits() {
    let scheduler = scheduler(1);
    let (bad, good) = (guest("bad"), guest("good"));
    let began = Instant::now();
    let is_counted = || bad.usage().hits().contains_key("slice");
    let mut times = 0;
    // Only what it computes counts, and a busy machine may give it next to nothing until it ends.
    while times < 10 || !is_counted() {
        assert!(began.elapsed() < LONG, "no stuck slice is counted");
        times += 1;
        let ends = Arc::new(AtomicBool::new(false));
        let first = spawn(&scheduler, &bad, stuck(&ends));
        eventually("it runs", || first.queued.account.ticket().is_none()).await;
        let second = spawn(&scheduler, &bad, async {});
        // There is one processor, and it is taken.
        let other = spawn(&scheduler, &good, async {});
        other.until(soon()).await.unwrap();
        assert!(
            second.queued.account.ticket().is_some(),
            "its tenant is held"
        );
        ends.store(true, Ordering::Relaxed);
        first.until(soon()).await.unwrap();
        second.until(soon()).await.unwrap();
    }
}

/// A system short of processors lets a worker begin its guest when the ticks of the slice are over.
#[tokio::test]
async fn a_guest_that_begins_late_is_interrupted_too() {
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let engine = Engine::new(&config).unwrap();
    let module = wat::parse_str(r#"(module (func (export "run") (loop (br 0))))"#).unwrap();
    let module = wasmtime::Module::new(&engine, &module).unwrap();
    let scheduler = Scheduler::start(&engine, 1, TICK).unwrap();
    let call = async move {
        compute(20 * TICK);
        let mut store = wasmtime::Store::new(&engine, ());
        let instance = wasmtime::Instance::new(&mut store, &module, &[]).unwrap();
        let run = instance
            .get_typed_func::<(), ()>(&mut store, "run")
            .unwrap();
        store.set_epoch_deadline(1);
        run.call(&mut store, ())
            .unwrap_err()
            .downcast::<wasmtime::Trap>()
            .unwrap()
    };
    let call = spawn(&scheduler, &guest("a"), call);
    let trap = tokio::time::timeout(LONG, call.until(soon()))
        .await
        .unwrap();
    assert_eq!(trap.unwrap(), wasmtime::Trap::Interrupt);
}

#[tokio::test]
async fn a_call_that_did_not_end_in_time_says_what_it_did() {
    let scheduler = scheduler(1);
    let a = guest("a");
    let waits = spawn(&scheduler, &a, std::future::pending::<()>());
    let deadline = Instant::now() + 20 * TICK;
    assert_eq!(waits.until(deadline).await, Err(Unfinished::Waiting));
    let ends = Arc::new(AtomicBool::new(false));
    let runs = spawn(&scheduler, &a, stuck(&ends));
    let ready = spawn(&scheduler, &a, async {});
    let deadline = Instant::now() + 20 * TICK;
    assert_eq!(ready.until(deadline).await, Err(Unfinished::Ready));
    ends.store(true, Ordering::Relaxed);
    runs.until(soon()).await.unwrap();
}

/// Notes that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_dropped_at_once_unless_it_computes() {
    let scheduler = scheduler(1);
    let a = guest("a");
    let watched = || {
        let dropped = Arc::new(AtomicBool::new(false));
        (Dropped(dropped.clone()), dropped)
    };
    let (held, dropped) = watched();
    let waits = spawn(&scheduler, &a, async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    eventually("it waits", || waits.queued.account.ticket().is_none()).await;
    drop(waits);
    eventually("what waits is dropped", || dropped.load(Ordering::SeqCst)).await;

    let ends = Arc::new(AtomicBool::new(false));
    let (held, of_running) = watched();
    let compute = stuck(&ends);
    let runs = spawn(&scheduler, &a, async move {
        let _held = held;
        compute.await;
        std::future::pending::<()>().await;
    });
    eventually("it runs", || runs.queued.account.ticket().is_none()).await;
    let (held, of_ready) = watched();
    let ready = spawn(&scheduler, &a, async move { drop(held) });
    drop(ready);
    assert!(of_ready.load(Ordering::SeqCst), "what is ready is dropped");
    drop(runs);
    assert!(!of_running.load(Ordering::SeqCst));
    ends.store(true, Ordering::Relaxed);
    eventually("what ran is dropped", || of_running.load(Ordering::SeqCst)).await;
}

#[tokio::test]
#[should_panic(expected = "of the host")]
async fn a_panic_is_its_callers() {
    let scheduler = scheduler(1);
    let call = spawn(&scheduler, &guest("a"), async { panic!("of the host") });
    let _: Result<(), _> = call.until(soon()).await;
}

#[tokio::test]
async fn a_worker_outlives_the_panic_of_a_call() {
    let scheduler = scheduler(1);
    let a = guest("a");
    for _ in 0..10 {
        let panics = spawn(&scheduler, &a, async { panic!("of the host") });
        let outcome: Result<Result<(), _>, _> = tokio::spawn(panics.until(soon())).await;
        assert!(outcome.is_err());
    }
    spawn(&scheduler, &a, async {}).until(soon()).await.unwrap();
}

#[tokio::test]
async fn a_cap_is_kept() {
    let scheduler = scheduler(1);
    let limits = TenantLimits {
        cpu_millis: Some(100),
        ..TenantLimits::default()
    };
    let capped = limited("capped", &limits);
    let time = Arc::<ProcessorTime>::default();
    let begun = std::time::Instant::now();
    let busy = async {
        loop {
            compute(TICK / 2);
            give_way().await;
        }
    };
    let call = scheduler.spawn(&capped, false, time.clone(), busy);
    let deadline = Instant::now() + 500 * TICK;
    let _: Result<(), _> = call.until(deadline).await;
    let most = begun.elapsed() / 10 + 20 * TICK;
    assert!(time.used() <= most, "{:?} of {most:?}", time.used());
    assert!(time.used() > TICK, "{:?}", time.used());
}

#[tokio::test]
async fn the_ticker_sleeps_while_nothing_computes() {
    let scheduler = scheduler(1);
    let waits = spawn(&scheduler, &guest("a"), std::future::pending::<()>());
    let sleeps = || scheduler.shared.ticker_sleeps();
    eventually("the ticker to sleep", sleeps).await;
    let ends = Arc::new(AtomicBool::new(false));
    let busy = ends.clone();
    let runs = spawn(&scheduler, &guest("b"), async move {
        while !busy.load(Ordering::Relaxed) {
            give_way().await;
        }
    });
    eventually("the ticker to wake up", || !sleeps()).await;
    ends.store(true, Ordering::Relaxed);
    runs.until(soon()).await.unwrap();
    drop(waits);
    eventually("the ticker to sleep again", sleeps).await;
}

#[test]
fn a_call_is_billed_at_most_one_tick_a_slice() {
    let time = ProcessorTime::default();
    time.add(TICK / 2);
    time.add(100 * TICK);
    assert_eq!(time.used(), TICK * 3 / 2);
}
