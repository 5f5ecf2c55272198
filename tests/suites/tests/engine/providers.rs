//! Providers that are added, replaced and removed while the manager runs, and such as fail.

use super::fixture::{Log, builder, builder_of, config_map, controller, logged, object, recording};
use super::keys::wait_idle;
use anyhow::Result;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;
use windlass_fleet::api::ListOptions;
use windlass_fleet::cluster::ClusterState;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::engage::{ClusterSpec, Engage};
use windlass_fleet::manager::{Builder, Concurrency, ManagerOptions};
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::provider::none::NoClusters;
use windlass_fleet::provider::prefixed::Prefixed;
use windlass_fleet::provider::{Provider, ProviderError};
use windlass_fleet::source::Index;
use windlass_fleet::{Action, Controller, Grant, Request};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

fn names(fleet: &TestFleet) -> Vec<String> {
    let clusters = fleet.handle.clusters();
    clusters.into_iter().map(|c| c.name.to_string()).collect()
}

async fn engaged(fleet: &TestFleet, wanted: &[&str]) -> Result<()> {
    wait("the engaged clusters", || {
        Seen::of(names(fleet), |names| names == wanted)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_removed_provider_takes_its_clusters_and_no_other_with_it() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    fleet.engage("alpha").await?;
    let other = Arc::new(Clusters::new("other"));
    other.put(fleet.spec("beta")?);
    fleet.handle.put_provider(other.clone())?;
    fleet.ready("beta").await?;
    assert!(fleet.handle.remove_provider("other"));
    assert_eq!(names(&fleet), ["alpha"], "at once");
    other.put(fleet.spec("beta")?);
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    assert_eq!(names(&fleet), ["alpha"], "it has no say any more");
    wait("closed watches", || {
        Seen::of(fleet.simulated("beta").watchers(), |n| *n == 0)
    })
    .await?;
    assert!(!fleet.handle.remove_provider("other"));
    fleet.stop().await
}

#[tokio::test]
async fn a_name_of_another_provider_is_refused_and_taken_once_it_is_free() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    let first = fleet.engage("alpha").await?;
    let other = Arc::new(Clusters::new("other"));
    let mut spec = fleet.spec("beta")?;
    spec.name = name("alpha");
    other.put(spec);
    fleet.apply("beta", object("of-beta", json!({})))?;
    fleet.handle.put_provider(other)?;
    let problems = wait("the refusal to be reported", || {
        Seen::of(fleet.handle.provider_problems(), |problems| {
            problems.len() == 1
        })
    })
    .await?;
    assert_eq!(problems[0].subject, "alpha");
    assert_eq!(
        problems[0].message,
        "cluster \"alpha\" is provided by test already: give one of the two providers a prefix, or rename the cluster; this one is engaged once the name is free"
    );
    let counts = |name: &str| {
        let all = fleet.handle.providers();
        let found = all.into_iter().find(|status| status.name == name);
        found.map(|status| (status.found, status.engaged, status.refused))
    };
    assert_eq!(counts("test"), Some((1, 1, 0)));
    assert_eq!(counts("other"), Some((1, 0, 1)));
    assert!(Arc::ptr_eq(&first, &fleet.ready("alpha").await?));

    // Nothing of the provider that waits has changed.
    assert!(fleet.handle.remove_provider("test"));
    log.ran(&request("alpha", "of-beta"), 1).await?;
    assert!(!Arc::ptr_eq(&first, &fleet.ready("alpha").await?));
    wait("nothing to be reported", || {
        Seen::of(fleet.handle.provider_problems(), |problems| {
            problems.is_empty()
        })
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn without_its_last_provider_a_controller_engages_the_local_cluster() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::local_only(|b| b.controller(recording(&log))).await?;
    fleet.apply("local", object("a", json!({})))?;
    log.ran(&request("", "a"), 1).await?;
    let provider = Arc::new(Clusters::new("late"));
    fleet.handle.put_provider(provider)?;
    let sources = || fleet.handle.controllers()[0].clusters;
    assert_eq!(
        sources(),
        0,
        "provided clusters only, of which there is none"
    );
    assert!(fleet.handle.remove_provider("late"));
    assert_eq!(sources(), 1);
    log.ran(&request("", "a"), 2).await?;
    assert_eq!(names(&fleet), [""], "the local cluster is no provider's");
    fleet.stop().await
}

#[tokio::test]
async fn beside_a_provider_of_nothing_a_controller_engages_the_local_cluster() -> Result<()> {
    let log = Arc::new(Log::default());
    let nothing = Arc::new(Prefixed::new("a", Arc::new(NoClusters::new("nothing"))));
    let fleet = TestFleet::local_only(|b| b.controller(recording(&log)).provider(nothing)).await?;
    fleet.apply("local", object("a", json!({})))?;
    log.ran(&request("", "a"), 1).await?;
    let sources = || fleet.handle.controllers()[0].clusters;
    fleet.handle.put_provider(Arc::new(Clusters::new("late")))?;
    assert_eq!(sources(), 0, "provided clusters only");
    assert!(fleet.handle.remove_provider("late"));
    assert_eq!(sources(), 1);
    fleet.stop().await
}

/// A controller that notes how many red objects its index has in the cluster of a request.
fn counting_reds(
    log: &Arc<Log>,
    reds: &Arc<Mutex<BTreeMap<Request, usize>>>,
) -> Result<Controller> {
    let by_colour = Index {
        kind: config_map(),
        name: "colour".into(),
        path: "data.colour".parse()?,
        namespace_path: None,
    };
    let reds = reds.clone();
    Ok(logged(builder().index(by_colour), log, move |context| {
        let reds = reds.clone();
        async move {
            let red = ListOptions {
                index: Some(("colour".into(), "red".into())),
                ..ListOptions::default()
            };
            let client = context.client(&Arc::new(Grant::all()));
            let found = client.list(&config_map(), &red).await?.items.len();
            reds.lock().insert(context.request.clone(), found);
            Ok(Action::Done)
        }
    }))
}

#[tokio::test]
async fn two_providers_have_a_cluster_of_the_same_name_each_with_a_prefix() -> Result<()> {
    let log = Arc::new(Log::default());
    let reds: Arc<Mutex<BTreeMap<Request, usize>>> = Arc::default();
    let controller = counting_reds(&log, &reds)?;
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    for (provider, server) in [("one", "alpha"), ("two", "beta")] {
        let clusters = Clusters::new(provider);
        let mut spec = fleet.spec(server)?;
        spec.name = name("prod");
        clusters.put(spec);
        let prefixed = Prefixed::new(provider, Arc::new(clusters));
        fleet.handle.put_provider(Arc::new(prefixed))?;
    }
    engaged(&fleet, &["one#prod", "two#prod"]).await?;
    // A provider that came later knows the index that was declared before.
    for (server, cluster, colours) in [
        ("alpha", "one#prod", ["red", "red"]),
        ("beta", "two#prod", ["red", "blue"]),
    ] {
        for (object_name, colour) in ["a", "b"].into_iter().zip(colours) {
            let made = object(object_name, json!({"colour": colour}));
            fleet.apply(server, made)?;
            log.ran(&request(cluster, object_name), 1).await?;
        }
        let count = colours.iter().filter(|colour| **colour == "red").count();
        wait("what the index found", || {
            let found = reds.lock().get(&request(cluster, "b")).copied();
            Seen::of(found, |found| *found == Some(count))
        })
        .await?;
    }
    let stays = fleet.ready("two#prod").await?;
    assert!(fleet.handle.remove_provider("one"));
    assert_eq!(names(&fleet), ["two#prod"], "at once");
    let now = fleet.engaged("two#prod");
    assert!(now.is_some_and(|now| Arc::ptr_eq(&now, &stays)));
    fleet.apply("beta", object("c", json!({})))?;
    log.ran(&request("two#prod", "c"), 1).await?;
    fleet.stop().await
}

/// Two names of one server, of two providers.
async fn two_names(builder: impl FnOnce(Builder) -> Builder) -> Result<TestFleet> {
    let fleet = TestFleet::start(&["alpha"], builder).await?;
    let other = Arc::new(Clusters::new("other"));
    let mut spec = fleet.spec("alpha")?;
    spec.name = name("beta");
    other.put(spec);
    fleet.add("alpha")?;
    fleet.handle.put_provider(other)?;
    engaged(&fleet, &["alpha", "beta"]).await?;
    Ok(fleet)
}

#[tokio::test]
async fn a_server_under_two_names_is_worked_on_once_and_by_the_other_when_the_first_is_gone()
-> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = two_names(|b| b.controller(recording(&log))).await?;
    let status = fleet.reaches("beta", ClusterState::Degraded).await?;
    assert!(
        status.reason.contains("cluster \"alpha\""),
        "{}",
        status.reason
    );
    assert!(!status.usable);
    let providers = fleet.handle.providers();
    let other = providers.iter().find(|status| status.name == "other");
    let problem = other.and_then(|status| status.problems.first());
    let problem = problem.map(|problem| (problem.subject.as_str(), problem.message.as_str()));
    assert_eq!(problem, Some(("beta", &*status.reason)));

    fleet.ready("alpha").await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    // The first one stays the first: a label changes nothing.
    fleet
        .provider
        .put(fleet.spec("alpha")?.label("tier", "gold"));
    fleet.apply("alpha", object("b", json!({})))?;
    log.ran(&request("alpha", "b"), 1).await?;
    assert_eq!(log.count(&request("beta", "a")), 0);

    fleet.provider.remove(&name("alpha"));
    fleet.ready("beta").await?;
    log.ran(&request("beta", "a"), 1).await?;
    // The one that was first before comes back as the second.
    fleet.add("alpha")?;
    fleet.reaches("alpha", ClusterState::Degraded).await?;
    fleet.apply("alpha", object("c", json!({})))?;
    log.ran(&request("beta", "c"), 1).await?;
    assert_eq!(log.count(&request("alpha", "c")), 0);
    fleet.stop().await
}

#[tokio::test]
async fn a_second_name_is_worked_on_when_the_first_gets_another_server() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = two_names(|b| b.controller(recording(&log))).await?;
    fleet.reaches("beta", ClusterState::Degraded).await?;
    fleet.server.add_cluster("gamma");
    let mut spec = fleet.spec("gamma")?;
    spec.name = name("alpha");
    fleet.provider.put(spec);
    fleet.apply("alpha", object("a", json!({})))?;
    fleet.apply("gamma", object("g", json!({})))?;
    log.ran(&request("beta", "a"), 1).await?;
    log.ran(&request("alpha", "g"), 1).await?;
    fleet.ready("alpha").await?;
    fleet.ready("beta").await?;
    fleet.stop().await
}

#[tokio::test]
async fn both_names_of_a_server_are_worked_on_where_that_is_asked_for() -> Result<()> {
    let log = Arc::new(Log::default());
    let options = ManagerOptions {
        duplicate_clusters: true,
        ..ManagerOptions::default()
    };
    let fleet = two_names(|b| b.options(options).controller(recording(&log))).await?;
    fleet.apply("alpha", object("a", json!({})))?;
    log.ran(&request("alpha", "a"), 1).await?;
    log.ran(&request("beta", "a"), 1).await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_provider_put_in_place_of_another_keeps_what_both_know() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta", "gamma"], |b| {
        b.controller(recording(&log))
    })
    .await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let alpha = fleet.engage("alpha").await?;
    fleet.engage("beta").await?;
    log.ran(&request("alpha", "a"), 1).await?;
    let next = Arc::new(Clusters::new("test"));
    next.put(fleet.spec("alpha")?);
    next.put(fleet.spec("gamma")?);
    fleet.handle.put_provider(next)?;
    engaged(&fleet, &["alpha", "gamma"]).await?;
    fleet.ready("gamma").await?;
    let now = fleet.engaged("alpha");
    assert!(now.is_some_and(|now| Arc::ptr_eq(&now, &alpha)));
    // The one before has no say any more.
    fleet.add("beta")?;
    fleet.provider.remove(&name("alpha"));
    wait_idle(&fleet).await?;
    assert_eq!(names(&fleet), ["alpha", "gamma"]);
    assert_eq!(log.count(&request("alpha", "a")), 1, "undisturbed");
    fleet.stop().await
}

/// Engages one cluster and panics, then engages another.
struct Crashing {
    specs: [ClusterSpec; 2],
    runs: AtomicUsize,
}

impl Provider for Crashing {
    fn name(&self) -> &str {
        "crashing"
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        assert_eq!(engage.engage(self.specs[run].clone()), Ok(()));
        assert!(run > 0, "the first time");
        Box::pin(async move {
            engage.listed();
            stop.cancelled().await;
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_provider_that_crashes_is_reported_and_started_again() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(recording(&log))).await?;
    let specs = [fleet.spec("alpha")?, fleet.spec("beta")?];
    let runs = AtomicUsize::new(0);
    fleet
        .handle
        .put_provider(Arc::new(Crashing { specs, runs }))?;
    let problems = wait("the report", || {
        Seen::of(fleet.handle.provider_problems(), |all| !all.is_empty())
    })
    .await?;
    assert_eq!(problems[0].subject, "crashing");
    assert!(problems[0].message.contains("panicked"), "{problems:?}");
    // Its clusters stay while it does not run, and leave after the next run has reported all clusters that it knows.
    assert_eq!(names(&fleet), ["alpha"]);
    engaged(&fleet, &["beta"]).await?;
    assert_eq!(fleet.handle.provider_problems(), []);
    fleet.stop().await
}

#[tokio::test]
async fn concurrency_follows_its_setting_while_keys_run() -> Result<()> {
    let (log, gate) = (
        Arc::new(Log::default()),
        Arc::new(tokio::sync::Semaphore::new(0)),
    );
    let held = gate.clone();
    let controller = super::fixture::controller_with(
        &log,
        ControllerOptions {
            concurrency: Some(100),
            ..Default::default()
        },
        move |_| {
            let gate = held.clone();
            async move {
                gate.acquire().await.expect("never closed").forget();
                Ok(Action::Done)
            }
        },
    );
    let clusters = ["a", "b", "c", "d", "e"];
    let fleet = TestFleet::start(&clusters, |b| b.controller(controller)).await?;
    let set = |global| {
        let concurrency = Concurrency {
            global,
            ..Concurrency::default()
        };
        fleet.handle.set_concurrency(&concurrency);
    };
    set(3);
    for cluster in clusters {
        for n in 0..4 {
            fleet.apply(cluster, object(&format!("n{n}"), json!({})))?;
        }
        fleet.engage(cluster).await?;
    }
    let running = |wanted: usize| {
        let fleet = &fleet;
        wait("so many runs", move || {
            Seen::of(fleet.handle.controllers()[0].running, |n| *n == wanted)
        })
    };
    running(3).await?;
    set(5);
    running(5).await?;
    set(2);
    gate.add_permits(4);
    log.ended(4).await?;
    running(2).await?;
    gate.add_permits(100);
    wait_idle(&fleet).await?;
    assert_eq!((log.total(), log.most()), (20, 5));
    fleet.stop().await
}

/// A controller's own limit counts; else that of its primary kind, whatever the version; else the manager's. Its bound counts if it is
/// less. A change of the kinds' limits holds at once.
#[tokio::test]
async fn concurrency_is_a_controllers_own_or_that_of_its_kind() -> Result<()> {
    let log = Arc::new(Log::default());
    let of = |name: &str, kind: &str, (concurrency, most): (Option<usize>, Option<usize>)| {
        let options = ControllerOptions {
            concurrency,
            most_concurrency: most,
            ..ControllerOptions::default()
        };
        let builder = builder_of(name, kind).options(options);
        logged(builder, &log, |_| async { Ok(Action::Done) })
    };
    let of_kinds = |limits: &[(&str, usize)]| Concurrency {
        kinds: limits
            .iter()
            .map(|(kind, limit)| (kind.parse().expect("a kind"), *limit))
            .collect(),
        ..Concurrency::default()
    };
    let options = ManagerOptions {
        concurrency: of_kinds(&[("Secret", 7), ("ConfigMap.example.com", 9)]),
        ..ManagerOptions::default()
    };
    let fleet = TestFleet::start(&[], |b| {
        b.options(options)
            .controller(of("own", "Secret", (Some(3), Some(9))))
            .controller(of("of-its-kind", "Secret", (None, None)))
            .controller(of("of-no-kind", "ConfigMap", (None, None)))
            .controller(of("less", "Secret", (Some(3), Some(2))))
            .controller(of("bounded", "Secret", (None, Some(9))))
    })
    .await?;
    let limits = || -> Vec<String> {
        let text = fleet.metrics().expect("it encodes");
        ["own", "of-its-kind", "of-no-kind", "less", "bounded"]
            .iter()
            .map(|name| {
                let series =
                    format!("controller_runtime_max_concurrent_reconciles{{controller=\"{name}\",");
                let line = text.lines().find(|line| line.starts_with(&series));
                let value = line.and_then(|line| line.rsplit(' ').next());
                value.unwrap_or_default().to_owned()
            })
            .collect()
    };
    assert_eq!(limits(), ["3.0", "7.0", "512.0", "2.0", "7.0"]);
    fleet.handle.set_concurrency(&of_kinds(&[("ConfigMap", 2)]));
    assert_eq!(limits(), ["3.0", "512.0", "2.0", "2.0", "9.0"]);
    fleet.stop().await
}

#[tokio::test]
async fn as_many_keys_of_a_kind_run_at_once_as_its_limit_says() -> Result<()> {
    let log = Arc::new(Log::default());
    let options = ManagerOptions {
        concurrency: Concurrency {
            kinds: [("ConfigMap".parse()?, 2)].into(),
            ..Concurrency::default()
        },
        ..ManagerOptions::default()
    };
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let held = gate.clone();
    let waiting = controller(&log, move |_| {
        let gate = held.clone();
        async move {
            let _ = gate.acquire().await;
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.options(options).controller(waiting)).await?;
    for n in 0..10 {
        fleet.apply("alpha", object(&format!("n{n}"), json!({})))?;
    }
    fleet.engage("alpha").await?;
    wait("all keys in line", || {
        let status = fleet.handle.controllers()[0].clone();
        Seen::of(status, |now| (now.running, now.ready) == (2, 8))
    })
    .await?;
    gate.add_permits(10);
    log.ended(10).await?;
    assert_eq!(log.most(), 2);
    fleet.stop().await
}
