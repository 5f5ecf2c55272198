//! Clusters as objects of the local cluster: watched, listed and read, by those who may see them.

use super::fixture::{Log, builder_of, logged, object};
use super::keys::wait_idle;
use anyhow::{Context as _, Result, anyhow};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::Server;
use windlass_fleet::api::{
    ApiCode, DeleteOptions, GetOptions, ListOptions, ReadMode, WriteOptions,
};
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::{ClusterSpec, Engage};
use windlass_fleet::grant::{ClusterRule, Grant, Rule};
use windlass_fleet::name::NamePattern;
use windlass_fleet::provider::{Provider, ProviderError};
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, Client, ClusterName, Context, Controller, ControllerName, FLEET_GROUP, Failure,
    GroupVersionKind, Manager, ObjectKey, Request,
};
use windlass_harness::eventually::{DEADLINE, Seen, eventually, wait};
use windlass_harness::fleet::{RunningManager, TestFleet, name};

fn kind() -> GroupVersionKind {
    GroupVersionKind::of_clusters()
}

fn key(cluster: &str) -> ObjectKey {
    ObjectKey::cluster_scoped(cluster)
}

fn request(cluster: &str) -> Request {
    Request::new(ClusterName::local(), key(cluster))
}

/// A controller of clusters.
fn of_clusters(log: &Arc<Log>, grant: Grant) -> Controller {
    let name = ControllerName::new("test").expect("a valid name");
    let builder = Controller::builder(name).for_kind(kind());
    let done = |_: Context| async { Ok::<_, Failure>(Action::Done) };
    logged(builder.grant(Arc::new(grant)), log, done)
}

/// The rule that `check` prints for a watch of clusters, for the clusters of a name.
fn seeing(pattern: &str) -> Rule {
    Rule {
        api_groups: vec![FLEET_GROUP.into()],
        resources: vec!["clusters".into()],
        verbs: ["get", "list", "watch"].map(Into::into).to_vec(),
        resource_names: Vec::new(),
        namespaces: vec!["*".into()],
        clusters: Some(ClusterRule {
            local: true,
            names: vec![NamePattern::new(pattern)],
            selector: None,
        }),
    }
}

async fn get(client: &Client, cluster: &str, mode: ReadMode) -> Result<Option<Value>> {
    let options = GetOptions {
        mode,
        ..GetOptions::default()
    };
    let json = client.get(&kind(), &key(cluster), &options).await?;
    Ok(json.map(|json| serde_json::from_slice(&json)).transpose()?)
}

/// The names that all pages of a list have.
async fn names(client: &Client, options: ListOptions) -> Result<Vec<String>> {
    let (mut options, mut names) = (options, Vec::new());
    loop {
        let page = client.list(&kind(), &options).await?;
        for item in page.items.iter() {
            let object: Value = serde_json::from_slice(item)?;
            names.push(
                object["metadata"]["name"]
                    .as_str()
                    .context("a name")?
                    .to_owned(),
            );
        }
        let Some(token) = page.continue_token else {
            return Ok(names);
        };
        let of_others = ["beta", "gamma"]
            .iter()
            .any(|hidden| token.contains(hidden));
        assert!(
            !of_others || names.len() > 1,
            "{token} names what is hidden"
        );
        options.continue_token = Some(token);
    }
}

#[tokio::test]
async fn a_cluster_that_comes_changes_or_goes_enqueues_its_object() -> Result<()> {
    let log = Arc::new(Log::default());
    let controller = of_clusters(&log, Grant::all());
    let fleet = TestFleet::with_local(&["alpha"], |b| b.controller(controller)).await?;
    let local = fleet.ready("").await?;
    let client = local.client(Grant::all());
    wait_idle(&fleet).await?;
    assert_eq!(log.total(), 0);
    assert_eq!(get(&client, "alpha", ReadMode::Cached).await?, None);

    fleet.provider.put(
        fleet
            .spec("alpha")?
            .label("env", "test")
            .property("owner", "me"),
    );
    fleet.ready("alpha").await?;
    let ready = |object: &Option<Value>| {
        let object = object.as_ref();
        object.is_some_and(|object| object["status"]["state"] == "Ready")
    };
    let object = eventually(DEADLINE, "the object of a ready cluster", || async {
        Ok(Seen::of(
            get(&client, "alpha", ReadMode::Cached).await?,
            ready,
        ))
    })
    .await?
    .context("an object")?;
    log.ran(&request("alpha"), 1).await?;
    assert_eq!(object["metadata"]["labels"]["env"], "test");
    assert_eq!(object["metadata"]["annotations"]["owner"], "me");
    assert_eq!(object["spec"]["name"], "alpha");
    assert_eq!(object["status"]["ready"], true);

    wait_idle(&fleet).await?;
    let ran = log.total();
    fleet
        .provider
        .put(fleet.spec("alpha")?.label("env", "prod"));
    log.ran(&request("alpha"), ran + 1).await?;
    let relabelled = get(&client, "alpha", ReadMode::Cached)
        .await?
        .context("an object")?;
    assert_eq!(relabelled["metadata"]["labels"]["env"], "prod");
    assert_eq!(relabelled["metadata"]["uid"], object["metadata"]["uid"]);

    wait_idle(&fleet).await?;
    let ran = log.total();
    fleet.provider.remove(&name("alpha"));
    log.ran(&request("alpha"), ran + 1).await?;
    assert_eq!(get(&client, "alpha", ReadMode::Cached).await?, None);

    fleet.engage("alpha").await?;
    let again = get(&client, "alpha", ReadMode::Live)
        .await?
        .context("an object")?;
    assert_ne!(again["metadata"]["uid"], object["metadata"]["uid"]);
    let asked = fleet.simulated("local").requests();
    assert!(
        asked.iter().all(|call| call.resource != "clusters"),
        "no server has them"
    );
    fleet.stop().await
}

#[tokio::test]
async fn those_clusters_are_seen_that_rules_open() -> Result<()> {
    let log = Arc::new(Log::default());
    let controller = of_clusters(&log, Grant::new([seeing("a*")]));
    let clusters = ["alpha", "beta", "gamma"];
    let fleet = TestFleet::with_local(&clusters, |b| b.controller(controller)).await?;
    for cluster in clusters {
        fleet.engage(cluster).await?;
    }
    let local = fleet.ready("").await?;
    log.ran(&request("alpha"), 1).await?;
    wait_idle(&fleet).await?;
    assert_eq!(log.count(&request("beta")), 0);

    let [all, some] = [seeing("*"), seeing("a*")].map(|rule| local.client(Grant::new([rule])));
    for limit in [0, 1] {
        let options = ListOptions {
            limit,
            ..ListOptions::default()
        };
        assert_eq!(names(&all, options.clone()).await?, clusters);
        assert_eq!(names(&some, options).await?, ["alpha"]);
    }
    for mode in [ReadMode::Cached, ReadMode::Live] {
        assert!(get(&some, "alpha", mode).await?.is_some());
        assert_eq!(
            get(&some, "beta", mode).await?,
            None,
            "as if it were not there"
        );
    }
    let by_name = |mode| ListOptions {
        field_selector: Some("metadata.name=beta".to_owned()),
        mode,
        ..ListOptions::default()
    };
    assert_eq!(names(&all, by_name(ReadMode::Live)).await?, ["beta"]);
    assert!(names(&some, by_name(ReadMode::Cached)).await?.is_empty());
    fleet.stop().await
}

/// A watch selects by labels, and an object that stops matching counts as deleted.
#[tokio::test]
async fn a_watch_selects_clusters_by_their_labels() -> Result<()> {
    let log = Arc::new(Log::default());
    let mut watch = Watch::new(kind(), Enqueue::SameName);
    watch.label_selector = Some("env=prod".parse()?);
    let done = |_: Context| async { Ok::<_, Failure>(Action::Done) };
    let controller = logged(
        Controller::builder(ControllerName::new("test")?)
            .primary(GroupVersionKind::new("", "v1", "Node"))
            .watch(watch),
        &log,
        done,
    );
    let fleet = TestFleet::with_local(&["alpha"], |b| b.controller(controller)).await?;
    fleet
        .provider
        .put(fleet.spec("alpha")?.label("env", "test"));
    fleet.ready("alpha").await?;
    fleet.ready("").await?;
    wait_idle(&fleet).await?;
    assert_eq!(log.total(), 0);
    for (label, runs) in [("prod", 1), ("test", 2)] {
        fleet.provider.put(fleet.spec("alpha")?.label("env", label));
        log.ran(&request("alpha"), runs).await?;
    }
    wait_idle(&fleet).await?;
    let ran = log.total();
    fleet.provider.remove(&name("alpha"));
    wait("alpha's end", || {
        Seen::of(fleet.handle.clusters().len(), |n| *n == 1)
    })
    .await?;
    wait_idle(&fleet).await?;
    assert_eq!(log.total(), ran, "it did not match any more");
    fleet.stop().await
}

#[tokio::test]
async fn nobody_writes_clusters_and_no_other_cluster_has_them() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = TestFleet::with_local(&["alpha"], |b| {
        b.controller(super::fixture::recording(&log))
    })
    .await?;
    let alpha = fleet.engage("alpha").await?;
    let client = fleet.ready("").await?.client(Grant::all());
    let object = get(&client, "alpha", ReadMode::Live)
        .await?
        .context("an object")?;
    let written = client
        .update(&kind(), object.to_string().into(), &WriteOptions::default())
        .await;
    let deleted = client
        .delete(&kind(), &key("alpha"), &DeleteOptions::default())
        .await;
    for refused in [written.map(drop), deleted] {
        let refused = refused.expect_err("read-only");
        assert_eq!(refused.code, ApiCode::Invalid, "{refused}");
        assert!(refused.message.contains("read-only"), "{refused}");
    }
    let asked = fleet.simulated("alpha").requests().len();
    let elsewhere = get(&alpha.client(Grant::all()), "alpha", ReadMode::Live).await;
    let refused = format!("{:#}", elsewhere.expect_err("another cluster"));
    assert!(refused.contains("one of the local cluster"), "{refused}");
    assert_eq!(fleet.simulated("alpha").requests().len(), asked);
    fleet.stop().await
}

/// Knows a cluster, and says so when it is asked to.
struct Late(ClusterSpec, Arc<Notify>);

impl Provider for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            self.1.notified().await;
            drop(engage.engage(self.0.clone()));
            engage.listed();
            stop.cancelled().await;
            Ok(())
        })
    }
}

/// After a start a fleet that is not known yet is no empty fleet: who decides by it would take every cluster for gone.
#[tokio::test]
async fn no_run_sees_a_fleet_that_providers_have_still_to_list() -> Result<()> {
    let server = Server::builder().cluster("local").cluster("alpha");
    let server = server.bind("127.0.0.1:0").await?;
    server
        .cluster("local")
        .context("served")?
        .apply(object("a", json!({})))
        .map_err(|error| anyhow!("{error:?}"))?;
    let spec = |name: ClusterName, cluster: &str| -> Result<ClusterSpec> {
        Ok(ClusterSpec::new(
            name,
            ClusterConfig::from_url(&server.url(cluster))?,
        ))
    };
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let see = seen.clone();
    let reconcile = move |context: Context| {
        let see = see.clone();
        async move {
            let client = context.client(&Arc::new(Grant::all()));
            let page = client.list(&kind(), &ListOptions::default()).await;
            see.lock().push(page.map_or(0, |page| page.items.len()));
            Ok::<_, Failure>(Action::Done)
        }
    };
    let watch = Watch::new(kind(), Enqueue::SameName);
    let controller = builder_of("seer", "ConfigMap")
        .watch(watch)
        .build(Arc::new(reconcile))?;
    let asked = Arc::new(Notify::new());
    let late = Late(spec(ClusterName::new("alpha")?, "alpha")?, asked.clone());
    let builder = Manager::builder().local(spec(ClusterName::local(), "local")?);
    let manager = RunningManager::start(builder.provider(Arc::new(late)).controller(controller))?;
    let mut ran = pin!(wait("a run", || {
        Seen::of(seen.lock().clone(), |seen| !seen.is_empty())
    }));
    let early = timeout(Duration::from_secs(1), &mut ran).await;
    assert!(early.is_err(), "it ran before the fleet was known");
    asked.notify_one();
    assert_eq!(ran.await?[0], 1);
    manager.stop().await
}
