//! Handles that are kept beyond their call, without the isolation that prevents it; memory and slots of calls; teardown.

use super::*;
use crate::options::Options;
use wasmtime::ResourceLimiter as _;
use windlass_fleet::Manager;
use windlass_fleet::cluster::{Cluster, ClusterConfig};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::provider::single::Single;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;

/// A cluster without a server. These tests only ask for its name.
async fn cluster() -> Arc<Cluster> {
    let name = ClusterName::new("nowhere").unwrap();
    let spec = ClusterSpec::new(
        name.clone(),
        ClusterConfig::from_url("http://127.0.0.1:9").unwrap(),
    );
    let manager = Manager::builder()
        .provider(Arc::new(Single::new(spec)))
        .build()
        .unwrap()
        .bind();
    let handle = manager.handle();
    tokio::spawn(manager.run(tokio_util::sync::CancellationToken::new()));
    eventually(Duration::from_secs(10), "the cluster", || {
        let found = handle.fleet().cluster(&name);
        async move { Ok(found.map_or_else(|| Seen::NotYet("nothing".to_owned()), Seen::Yes)) }
    })
    .await
    .unwrap()
}

fn owner() -> Arc<GuestContext> {
    owner_in("default", TenantLimits::default().memory)
}

/// A guest in a tenant with this much memory, in bytes.
fn owner_in(tenant: &str, memory: usize) -> Arc<GuestContext> {
    let limits = TenantLimits {
        memory,
        ..TenantLimits::default()
    };
    GuestContext::new(
        Tenant::new(TenantName::new(tenant).unwrap(), &limits),
        ControllerName::new("handles").unwrap(),
        Arc::new(Grant::none()),
        "{}".into(),
        Limits::default(),
        History::default(),
    )
}

/// Calls `reconcile` again and again in one instance, revoking after each call as the end of a call does.
async fn calls(names: &[&str]) -> Vec<wasmtime::Result<Result<types::Action, types::Failure>>> {
    let sandbox = Sandbox::new(Options {
        instances: 2,
        ..Options::default()
    })
    .unwrap();
    let revision = sandbox.load(guest("test-handle")).await.unwrap();
    let code = Code::bind(&sandbox, &revision, false).unwrap();
    let cluster = cluster().await;
    let deadline = Instant::now() + Duration::from_secs(10);
    let owner = owner();
    let reservation = owner.tenant.try_reserve(0, false).unwrap();
    let mut store = code.store(Call::new(
        owner,
        reservation,
        Purpose::Describe,
        Time::until(deadline),
    ));
    let instance = code.pre.instantiate_async(&mut store).await.unwrap();
    let mut outcomes = Vec::new();
    for name in names {
        let handle = ClusterHandle::new(cluster.client(Grant::none()), Reach::Everything);
        let handle = store.data_mut().give(handle).unwrap();
        let key = types::ObjectKey {
            namespace: None,
            name: (*name).to_owned(),
        };
        let request = types::Request {
            cluster: "nowhere".to_owned(),
            key,
        };
        let given = (&request, handle);
        let outcome = code.exports.reconcile(&mut store, &instance, given);
        outcomes.push(outcome.await);
        store.data_mut().end();
    }
    outcomes
}

#[tokio::test]
async fn a_handle_that_was_kept_traps_when_it_is_used_after_its_call() {
    let outcomes = calls(&["keep", "use"]).await;
    assert!(matches!(outcomes[0], Ok(Ok(types::Action::Done))));
    let error = outcomes[1].as_ref().unwrap_err();
    let stale = error
        .downcast_ref::<crate::contract::handle::StaleHandle>()
        .unwrap()
        .to_string();
    assert_eq!(
        stale,
        "the handle of cluster \"nowhere\" was used after the call that it was given for: a guest must not keep one"
    );
}

#[tokio::test]
async fn a_kept_handle_never_becomes_the_one_of_a_later_call() {
    // The second call is given a new handle while the first one's is still held: were the entry deleted instead of revoked, the
    // table would hand out its index again, and the kept handle would reach the later call's cluster.
    let outcomes = calls(&["keep", "keep", "use"]).await;
    assert!(
        outcomes[2]
            .as_ref()
            .unwrap_err()
            .is::<crate::contract::handle::StaleHandle>()
    );
}

#[tokio::test]
async fn a_call_that_waits_for_memory_holds_no_slot_and_leaves_at_its_deadline() {
    let sandbox = Sandbox::new(Options {
        instances: 4,
        ..Options::default()
    })
    .unwrap();
    let revision = sandbox.load(guest("test-handle")).await.unwrap();
    let code = Code::bind(&sandbox, &revision, false).unwrap();
    assert!(code.least >= 1 << 20, "what a guest in Rust begins with");
    // Memory for one instance, and three slots beside the one that is reserved for guests that are being loaded.
    let (short, rich) = (owner_in("short", 3 << 19), owner_in("rich", 1 << 30));
    let (soon, never) = (Instant::now(), Instant::now() + Duration::from_secs(60));
    let held = code.admit(&short, false, never).await.unwrap();
    let first = code.admit(&short, false, never);
    tokio::pin!(first);
    assert!(futures::poll!(&mut first).is_pending());
    let late = code
        .admit(&short, false, soon)
        .await
        .err()
        .unwrap()
        .into_failure();
    assert_eq!(
        (late.reason, late.blame),
        ("memory", windlass_fleet::outcome::Blame::Guest)
    );
    let mut others = Vec::new();
    for _ in 0..2 {
        others.push(code.admit(&rich, false, never).await.unwrap());
    }
    let full = code
        .admit(&rich, false, soon)
        .await
        .err()
        .unwrap()
        .into_failure();
    assert_eq!(full.reason, "capacity", "all three slots are taken");
    assert_eq!(short.usage().hits()["tenant.memory"], 2);
    assert!(short.usage().computed().is_zero());
    drop(held);
    let second = first.await.unwrap();
    assert!(!short.tenant.is_short_of_memory(), "no call waits");
    drop((second, others));
}

/// Blocks the thread that drops it until the other end is dropped.
struct Stuck(std::sync::mpsc::Receiver<()>);

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

#[tokio::test]
async fn a_large_instance_is_torn_down_on_another_thread_wherever_it_is_dropped() {
    let sandbox = Sandbox::new(Options {
        instances: 8,
        ..Options::default()
    })
    .unwrap();
    let revision = sandbox.load(guest("test-handle")).await.unwrap();
    let code = Code::bind(&sandbox, &revision, false).unwrap();
    let owner = owner();
    let (held, end) = std::sync::mpsc::channel();
    drop(sandbox.teardown().take_down(Box::new(Stuck(end))));
    let with = async |megabytes: usize| {
        let time = Time::until(Instant::now() + Duration::from_secs(10));
        let admitted = code.admit(&owner, false, time.deadline);
        let (reservation, slot) = admitted.await.unwrap();
        let call = Call::new(owner.clone(), reservation, Purpose::Idle, time);
        let mut pooled = PooledInstance::new(code.store(call), slot, sandbox.teardown());
        let meter = &mut pooled.store.data_mut().meter;
        assert!(meter.memory_growing(0, megabytes << 20, None).unwrap());
        pooled
    };
    let used = || owner.tenant.memory_used() >> 20;
    drop(with(1).await);
    assert_eq!(used(), 0, "a small one at once");
    // As when the future of its call is dropped.
    drop(with(5).await);
    assert_eq!(used(), 5);
    let bounds = crate::options::Reuse::default();
    let idle_pool = IdlePool::new(bounds);
    for megabytes in [6, 7] {
        assert!(idle_pool.keep(with(megabytes).await).is_ok());
    }
    assert_eq!(used(), 18);
    assert!(idle_pool.evict_one());
    assert_eq!(used(), 12, "the charge of an evicted instance ends at once");
    drop(idle_pool);
    assert_eq!(used(), 12);
    drop(held);
    eventually(Duration::from_secs(10), "all memory back", || async {
        Ok(Seen::of(used(), |used| *used == 0))
    })
    .await
    .unwrap();
}

#[test]
fn a_call_that_waits_is_cut_off_before_the_fleets_deadline() {
    for millis in [20, 100, 500, 1000, 10_000, 600_000] {
        let timeout = Duration::from_millis(millis);
        let outer = Instant::now() + timeout;
        let cut_off = deadline(timeout, Some(outer)) + grace(timeout);
        assert!(cut_off < outer, "{millis} ms");
    }
}
