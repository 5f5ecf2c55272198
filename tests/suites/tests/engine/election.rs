//! Several managers and one lease: who works, who waits, and what a write is worth when the lease is gone.

use super::fixture::{Log, builder, config_map, controller, object};
use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_apiserver::{Call, Hook, RequestVerdict, Server, Verb};
use windlass_fleet::api::{ApiCode, WriteOptions};
use windlass_fleet::cluster::{ClusterConfig, ClusterState, KubeconfigPolicy};
use windlass_fleet::election::{ElectionOptions, Timing};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{KeyFilter, ManagerError, ManagerOptions};
use windlass_fleet::shard::{ShardStatus, Sharding};
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, Manager,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{RunningManager, name, request};

/// Short times, which tests can wait for.
pub(super) const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(4),
    renew_deadline: Duration::from_secs(3),
    retry_period: Duration::from_millis(200),
};

type OnRequest = Box<dyn Fn(&str, &Call) -> Option<RequestVerdict> + Send>;

/// Does to requests what a test says.
#[derive(Default)]
struct Faults(Mutex<Option<OnRequest>>);

impl Faults {
    fn set(&self, fault: impl Fn(&str, &Call) -> Option<RequestVerdict> + Send + 'static) {
        *self.0.lock() = Some(Box::new(fault));
    }
}

impl Hook for Faults {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let fault = self.0.lock();
        fault
            .as_ref()
            .and_then(|fault| fault(cluster, call))
            .unwrap_or_default()
    }
}

/// A hub with the lease, a cluster to work in, and faults on the way to both.
struct Stage {
    server: Server,
    faults: Arc<Faults>,
}

impl Stage {
    async fn new() -> Result<Self> {
        windlass_harness::logs::init();
        let faults = Arc::new(Faults::default());
        let server = Server::builder()
            .cluster("hub")
            .cluster("alpha")
            .hook(faults.clone());
        Ok(Self {
            server: server.bind("127.0.0.1:0").await?,
            faults,
        })
    }

    fn candidate(
        &self,
        identity: &str,
        controllers: Vec<Controller>,
        options: ManagerOptions,
    ) -> Result<RunningManager> {
        let election = ElectionOptions {
            candidate: identity.to_owned(),
            timing: TIMING,
            ..ElectionOptions::new("default", "test")
        };
        let config = ClusterConfig::from_url(&self.server.url("hub"))?;
        let local = ClusterSpec::new(ClusterName::local(), config);
        let builder = Manager::builder()
            .options(options)
            .local(local)
            .leader_election(election);
        let builder = controllers
            .into_iter()
            .fold(builder, |builder, controller| {
                builder.controller(controller)
            });
        let manager = RunningManager::start(builder)?;
        manager.add_from(
            "alpha",
            &self.server.kubeconfig(),
            &KubeconfigPolicy::file(),
        )?;
        Ok(manager)
    }

    fn holder(&self) -> Result<Option<String>> {
        let hub = self.server.cluster("hub").context("the hub")?;
        let lease = hub
            .get("coordination.k8s.io/v1", "Lease", "default", "test")
            .map_err(|e| anyhow::anyhow!("{e:?}"))?;
        Ok(lease.map(|lease| {
            lease["spec"]["holderIdentity"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }))
    }

    async fn held_by(&self, holder: &str) -> Result<()> {
        wait(
            &format!("the lease to be held by {holder:?}"),
            || match self.holder() {
                Ok(seen) => Seen::of(seen, |seen| seen.as_deref() == Some(holder)).map_unit(),
                Err(error) => Seen::NotYet(error.to_string()),
            },
        )
        .await
    }

    fn apply(&self, name: &str) -> Result<()> {
        let alpha = self.server.cluster("alpha").context("alpha")?;
        alpha
            .apply(object(name, json!({})))
            .map(drop)
            .map_err(|e| anyhow::anyhow!("{e:?}"))
    }

    fn exists(&self, name: &str) -> bool {
        let alpha = self.server.cluster("alpha");
        alpha.is_some_and(|alpha| {
            matches!(alpha.get("v1", "ConfigMap", "default", name), Ok(Some(_)))
        })
    }
}

trait MapUnit {
    fn map_unit(self) -> Seen<()>;
}

impl<T> MapUnit for Seen<T> {
    fn map_unit(self) -> Seen<()> {
        match self {
            Self::Yes(_) => Seen::Yes(()),
            Self::NotYet(seen) => Seen::NotYet(seen),
        }
    }
}

/// Waits until a candidate leads.
pub(super) async fn leads(candidate: &RunningManager) -> Result<()> {
    wait("leadership", || {
        Seen::of(candidate.handle.election(), |status| {
            status.as_ref().is_some_and(|status| status.leads)
        })
    })
    .await
    .map(drop)
}

async fn warm(candidate: &RunningManager) -> Result<()> {
    wait("a warm cache", || {
        let alpha = candidate.status("alpha").ok();
        Seen::of(alpha, |alpha| {
            alpha
                .as_ref()
                .is_some_and(|alpha| alpha.state == ClusterState::Ready && alpha.objects > 0)
        })
    })
    .await
    .map(drop)
}

fn recording(log: &Arc<Log>) -> Controller {
    controller(log, |_| async { Ok(Action::Done) })
}

/// Writes a ConfigMap beside the one it is asked about, and keeps what came of that.
fn writing(log: &Arc<Log>, errors: &Arc<Mutex<Vec<ApiCode>>>) -> Controller {
    let errors = errors.clone();
    controller(log, move |context: Context| {
        let errors = errors.clone();
        async move {
            if context.request.key.name.ends_with("-child") {
                return Ok(Action::Done);
            }
            let child = object(&format!("{}-child", context.request.key.name), json!({}));
            let client = context.client(&Arc::new(Grant::all()));
            let written = client
                .create(
                    &config_map(),
                    child.to_string().into(),
                    &WriteOptions::default(),
                )
                .await;
            match written {
                Ok(_) => Ok(Action::Done),
                Err(error) if error.code == ApiCode::AlreadyExists => Ok(Action::Done),
                Err(error) => {
                    errors.lock().push(error.code);
                    Err(Failure::retry(error.message))
                }
            }
        }
    })
}

/// Leader election: followers discover and cache, and do not reconcile; controllers that need no lease do. On a real server:
/// `program::leading`.
#[tokio::test]
async fn a_follower_keeps_its_caches_warm_and_runs_only_what_needs_no_lease_until_it_leads()
-> Result<()> {
    let stage = Stage::new().await?;
    stage.apply("a")?;
    let (first_log, second_log, free_log) = (
        Arc::new(Log::default()),
        Arc::new(Log::default()),
        Arc::new(Log::default()),
    );
    let first = stage.candidate(
        "first",
        vec![recording(&first_log)],
        ManagerOptions::default(),
    )?;
    leads(&first).await?;
    first_log.ran(&request("alpha", "a"), 1).await?;

    let logged = free_log.clone();
    let free = Controller::builder(ControllerName::new("free")?)
        .for_kind(config_map())
        .needs_leader_election(false)
        .build(Arc::new(move |context: Context| {
            logged.enter(&context.request);
            logged.leave(&context.request);
            async { Ok(Action::Done) }
        }))?;
    let second = stage.candidate(
        "second",
        vec![recording(&second_log), free],
        ManagerOptions::default(),
    )?;
    warm(&second).await?;
    stage.apply("b")?;
    free_log.ran(&request("alpha", "b"), 1).await?;
    first_log.ran(&request("alpha", "b"), 1).await?;
    wait("the follower's keys to be held", || {
        let filter = KeyFilter {
            controller: Some("test".into()),
            state: Some("held".into()),
            ..KeyFilter::default()
        };
        Seen::of(second.handle.keys(&filter).len(), |keys| *keys == 2)
    })
    .await?;
    let status = second.handle.election().context("an election")?;
    assert_eq!(
        (status.leads, status.holder.as_str(), status.problem),
        (false, "first", None)
    );
    assert_eq!(second_log.total(), 0);

    // The leader drains: the other takes over without reading anything anew.
    let alpha = stage.server.cluster("alpha").context("alpha")?;
    let asked = || {
        (
            alpha.count(Verb::List, "configmaps"),
            alpha.count(Verb::Watch, "configmaps"),
        )
    };
    let before = asked();
    first.stop().await?;
    leads(&second).await?;
    for key in ["a", "b"] {
        second_log.ran(&request("alpha", key), 1).await?;
    }
    assert_eq!(asked(), before);
    let status = second.handle.election().context("an election")?;
    assert_eq!((status.holder.as_str(), status.transitions), ("second", 1));
    second.stop().await?;
    assert_eq!(stage.holder()?.as_deref(), Some(""), "given back");
    Ok(())
}

/// Leader election: a lost lease stops what works under it.
#[tokio::test]
async fn a_leader_that_cannot_renew_cancels_what_runs_and_ends_and_another_takes_over() -> Result<()>
{
    let stage = Stage::new().await?;
    let (log, other_log, cancelled) = (
        Arc::new(Log::default()),
        Arc::new(Log::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let noted = cancelled.clone();
    let endless = controller(&log, move |context: Context| {
        let noted = noted.clone();
        async move {
            context.cancelled().cancelled().await;
            let client = context.client(&Arc::new(Grant::all()));
            let late = client
                .create(
                    &config_map(),
                    object("late", json!({})).to_string().into(),
                    &WriteOptions::default(),
                )
                .await;
            noted.store(
                late.is_err_and(|error| error.code == ApiCode::Cancelled),
                Ordering::SeqCst,
            );
            Ok(Action::Done)
        }
    });
    let first = stage.candidate("first", vec![endless], ManagerOptions::default())?;
    leads(&first).await?;
    stage.apply("a")?;
    log.ran(&request("alpha", "a"), 1).await?;
    let second = stage.candidate(
        "second",
        vec![recording(&other_log)],
        ManagerOptions::default(),
    )?;
    warm(&second).await?;

    // From now on the hub answers no write of the lease; the second candidate still reads it.
    stage.faults.set(|cluster, call| {
        (cluster == "hub" && call.resource == "leases" && call.verb == Verb::Update)
            .then_some(RequestVerdict::Cut)
    });
    let ended = first.ended().await?;
    assert!(
        matches!(ended, Err(ManagerError::ElectionLost { .. })),
        "{ended:?}"
    );
    assert!(cancelled.load(Ordering::SeqCst) && !stage.exists("late"));
    assert!(!second.handle.election().context("an election")?.leads);
    stage.faults.set(|_, _| None);
    leads(&second).await?;
    other_log.ran(&request("alpha", "a"), 1).await?;
    second.stop().await
}

#[tokio::test]
async fn a_write_that_waited_past_the_end_of_renewing_is_never_sent() -> Result<()> {
    let stage = Stage::new().await?;
    let (log, errors) = (Arc::new(Log::default()), Arc::new(Mutex::new(Vec::new())));
    let mut options = ManagerOptions::default();
    // One call at a time in a cluster: a slow read holds up the write behind it.
    options.transport.in_flight = 1;
    let first = stage.candidate("first", vec![writing(&log, &errors)], options)?;
    leads(&first).await?;
    first
        .handle
        .fleet()
        .cluster(&name("alpha"))
        .context("alpha")?;
    wait("a ready cluster", || {
        Seen::of(first.handle.clusters(), |all| {
            all.iter()
                .any(|one| one.name == "alpha" && one.state.as_str() == "Ready")
        })
    })
    .await?;
    let slow = Arc::new(AtomicBool::new(false));
    let seen = slow.clone();
    stage.faults.set(
        move |cluster, call| match (cluster, call.resource.as_str(), call.verb) {
            ("hub", "leases", Verb::Update) => Some(RequestVerdict::Cut),
            ("alpha", "secrets", Verb::Get) => {
                seen.store(true, Ordering::SeqCst);
                Some(RequestVerdict::Delay(
                    TIMING.renew_deadline + Duration::from_millis(300),
                ))
            }
            _ => None,
        },
    );
    let alpha = first
        .handle
        .fleet()
        .cluster(&name("alpha"))
        .context("alpha")?;
    let reading = tokio::spawn(async move {
        let secret = windlass_fleet::GroupVersionKind::new("", "v1", "Secret");
        let live = windlass_fleet::api::GetOptions {
            mode: windlass_fleet::api::ReadMode::Live,
            ..Default::default()
        };
        alpha
            .client(Grant::all())
            .get(&secret, &super::fixture::key("none"), &live)
            .await
    });
    wait("the slow read", || {
        Seen::of(slow.load(Ordering::SeqCst), |seen| *seen)
    })
    .await?;
    stage.apply("a")?;
    log.ran(&request("alpha", "a"), 1).await?;
    let ended = first.ended().await?;
    assert!(
        matches!(ended, Err(ManagerError::ElectionLost { .. })),
        "{ended:?}"
    );
    let _ = reading.await?;
    assert!(!stage.exists("a-child"));
    let alpha = stage.server.cluster("alpha").context("alpha")?;
    assert_eq!(alpha.count(Verb::Create, "configmaps"), 0, "not even sent");
    Ok(())
}

#[tokio::test]
async fn the_lease_is_given_back_only_after_the_last_write_has_landed() -> Result<()> {
    let stage = Stage::new().await?;
    let (log, errors) = (Arc::new(Log::default()), Arc::new(Mutex::new(Vec::new())));
    let options = ManagerOptions {
        drain_timeout: Duration::from_millis(100),
        ..ManagerOptions::default()
    };
    let first = stage.candidate("first", vec![writing(&log, &errors)], options)?;
    leads(&first).await?;
    let writing = Arc::new(AtomicBool::new(false));
    let seen = writing.clone();
    stage.faults.set(move |cluster, call| {
        let slow = cluster == "alpha" && call.verb == Verb::Create && call.resource == "configmaps";
        slow.then(|| {
            seen.store(true, Ordering::SeqCst);
            RequestVerdict::Delay(Duration::from_millis(2500))
        })
    });
    stage.apply("a")?;
    wait("the write to be under way", || {
        Seen::of(writing.load(Ordering::SeqCst), |seen| *seen)
    })
    .await?;
    let drained = tokio::spawn(first.stop());
    stage.held_by("").await?;
    assert!(
        stage.exists("a-child"),
        "the run was cut off long ago, its write was not"
    );
    drained.await?
}

#[tokio::test]
async fn a_lease_that_cannot_be_had_is_told_and_nothing_runs() -> Result<()> {
    let stage = Stage::new().await?;
    stage.apply("a")?;
    stage.faults.set(|cluster, call| {
        (cluster == "hub" && call.resource == "leases").then(|| RequestVerdict::Answer {
            code: 403,
            retry_after: None,
            body: r#"{"kind":"Status","reason":"Forbidden","message":"leases is forbidden"}"#
                .into(),
        })
    });
    let log = Arc::new(Log::default());
    let only = stage.candidate("only", vec![recording(&log)], ManagerOptions::default())?;
    warm(&only).await?;
    wait("the problem", || {
        let problem = only.handle.election().and_then(|status| status.problem);
        Seen::of(problem, |problem| {
            problem
                .as_ref()
                .is_some_and(|text| text.contains("leases is forbidden"))
        })
    })
    .await?;
    assert_eq!(log.total(), 0);
    stage.faults.set(|_, _| None);
    leads(&only).await?;
    log.ran(&request("alpha", "a"), 1).await?;
    only.stop().await
}

#[tokio::test]
async fn an_election_needs_a_local_cluster_and_times_that_go_together() -> Result<()> {
    let log = Arc::new(Log::default());
    let lonely = Manager::builder()
        .controller(recording(&log))
        .leader_election(ElectionOptions::new("default", "test"));
    assert_eq!(
        lonely.build().err(),
        Some(ManagerError::ElectionWithoutLocal)
    );
    let mut hasty = ElectionOptions::new("default", "test");
    hasty.timing.renew_deadline = Duration::from_secs(14);
    let hasty = Manager::builder().leader_election(hasty);
    assert!(matches!(
        hasty.build().err(),
        Some(ManagerError::Election(_))
    ));
    assert!(
        builder()
            .build(Arc::new(|_: Context| async { Ok(Action::Done) }))
            .is_ok()
    );
    Ok(())
}

/// Members and candidates of one name are not at work at once: whichever finds the Lease of the other waits.
#[tokio::test]
async fn an_election_and_shards_never_work_by_one_lease() -> Result<()> {
    let stage = Stage::new().await?;
    let one = stage.candidate("one", Vec::new(), ManagerOptions::default())?;
    leads(&one).await?;
    let mut sharding = Sharding::new("default", "test");
    sharding.timing = TIMING;
    let config = ClusterConfig::from_url(&stage.server.url("hub"))?;
    let local = ClusterSpec::new(ClusterName::local(), config);
    let member = RunningManager::start(Manager::builder().local(local).sharding(sharding))?;
    let state = || member.handle.shards().unwrap_or_default();
    let is_told = |state: &ShardStatus| {
        let problem = state.problem.as_deref().unwrap_or_default();
        problem.contains("an election's") && state.held == 0
    };
    wait("the member to find the election", || {
        Seen::of(state(), is_told).map_unit()
    })
    .await?;
    one.stop().await?;
    assert_eq!(state().held, 0, "the Lease is still an election's");
    let hub = stage.server.cluster("hub").context("the hub")?;
    let deleted = hub.delete("coordination.k8s.io/v1", "Lease", "default", "test");
    deleted.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    wait("the member to hold all shards", || {
        Seen::of(state(), |state| state.held == 256).map_unit()
    })
    .await?;

    let two = stage.candidate("two", Vec::new(), ManagerOptions::default())?;
    wait("the candidate to find the members", || {
        let problem = two.handle.election().and_then(|election| election.problem);
        Seen::of(problem, |problem| {
            problem.as_ref().is_some_and(|text| text.contains("share"))
        })
        .map_unit()
    })
    .await?;
    assert_ne!(stage.holder()?.as_deref(), Some("two"));
    two.stop().await?;
    member.stop().await
}
