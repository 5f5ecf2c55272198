//! Calls that take turns on one thread of a runtime, as they do in the program.

use super::*;
use crate::identity::History;
use crate::options::{Limits, TenantLimits};
use crate::runtime::GuestRuntime;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use windlass_fleet::{ControllerName, Grant, TenantName};

/// How long a turn of the tenant with many calls is.
const LONG: Duration = Duration::from_millis(2);

fn identity(tenant: &str) -> Arc<Identity> {
    let tenant = Tenant::new(TenantName::new(tenant).unwrap(), &TenantLimits::default());
    Identity::new(
        tenant,
        ControllerName::new("guest").unwrap(),
        Arc::new(Grant::none()),
        "".into(),
        Limits::default(),
        History::default(),
    )
}

/// Ends a turn and wants another, as a guest does at a tick.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if paused {
            return Poll::Ready(());
        }
        paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn compute(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Calls of a tenant that use every turn, and how many they had.
fn busy(processors: &Arc<Processors>, calls: usize) -> Rc<Cell<usize>> {
    let turns = Rc::new(Cell::new(0));
    let identity = identity("busy");
    for _ in 0..calls {
        let mut turn = Turn::new(processors.clone(), identity.clone(), Used::default(), false);
        let turns = turns.clone();
        tokio::task::spawn_local(async move {
            let work = pin!(async {
                loop {
                    turns.set(turns.get() + 1);
                    compute(LONG);
                    pause().await;
                }
            });
            turn.of(work).await
        });
    }
    turns
}

#[tokio::test(flavor = "local")]
async fn a_call_that_paused_goes_on_before_calls_that_have_used_more() {
    const ROUNDS: usize = 20;
    let processors = Arc::new(Processors::new(1));
    let turns = busy(&processors, 4);
    let identity = identity("light");
    let mut overtaken = 0;
    for round in 1..=ROUNDS {
        while turns.get() < 4 * round {
            tokio::task::yield_now().await;
        }
        let mut turn = Turn::new(processors.clone(), identity.clone(), Used::default(), false);
        let work = pin!(async {
            let before = turns.get();
            pause().await;
            turns.get() - before
        });
        overtaken += turn.of(work).await.min(1);
    }
    // Not all of them: the system may take the processor away from a light call, which uses up its lead.
    assert!(
        overtaken <= ROUNDS / 4,
        "{overtaken} of {ROUNDS} waited for others"
    );
}

#[tokio::test(flavor = "local")]
async fn a_call_that_is_dropped_in_a_pause_leaves_its_place_to_others() {
    let processors = Arc::new(Processors::new(1));
    let mut paused = Turn::new(processors.clone(), identity("gone"), Used::default(), false);
    {
        let pause = pin!(pause());
        let mut work = pin!(paused.of(pause));
        let mut context = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
    }
    assert!(paused.is_waiting());
    drop(paused);
    let turns = busy(&processors, 1);
    while turns.get() < 2 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass until something has happened.
fn tick_until(processors: &Processors, what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        processors.tick();
        std::thread::park_timeout(TICK);
    }
}

/// Spawns a call that computes without a pause until `ends`, and says when it has begun.
fn stuck(
    runtime: &GuestRuntime,
    processors: &Arc<Processors>,
    identity: &Arc<Identity>,
    ends: Arc<AtomicBool>,
) -> tokio::task::JoinHandle<()> {
    let mut turn = Turn::new(processors.clone(), identity.clone(), Used::default(), false);
    runtime.handle().spawn(async move {
        let compute = pin!(async {
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        turn.of(compute).await
    })
}

#[test]
fn who_does_not_end_is_overtaken_as_often_as_need_be_and_goes_to_the_sideline() {
    if !cfg!(target_os = "linux") {
        return; // which tells what another thread has computed
    }
    let runtime = GuestRuntime::new(Some(1)).unwrap();
    let processors = Arc::new(Processors::new(1));
    let (bad, good) = (identity("stuck"), identity("other"));
    for _ in 0..10 {
        let ends = Arc::new(AtomicBool::new(false));
        let never = stuck(&runtime, &processors, &bad, ends.clone());
        tick_until(&processors, "it computes", || {
            !processors.turns.lock().has_free() || never.is_finished()
        });
        // There is one thread, and it is taken.
        let mut turn = Turn::new(processors.clone(), good.clone(), Used::default(), false);
        let other = runtime
            .handle()
            .spawn(async move { turn.of(pin!(async {})).await });
        tick_until(&processors, "another goes on", || other.is_finished());
        assert!(!never.is_finished());
        ends.store(true, Ordering::Relaxed);
        tick_until(&processors, "it ends", || never.is_finished());
    }
    assert!(bad.is_sidelined());
    assert!(!good.is_sidelined());
    let place = |identity: &Arc<Identity>| {
        let identity = identity.clone();
        let call = async { std::thread::current().name().map(str::to_owned) };
        let call = runtime.handle().spawn(async move {
            match Sideline::of(&identity) {
                None => call.await,
                Some(sideline) => sideline.run(call).await,
            }
        });
        tick_until(&processors, "a call ends", || call.is_finished());
        runtime.handle().block_on(call).unwrap().unwrap()
    };
    assert_eq!(place(&bad), "windlass-sideline");
    assert_eq!(place(&good), "windlass-guest");
}
