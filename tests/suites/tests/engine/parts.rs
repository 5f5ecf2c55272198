//! Clusters that are namespaces of one server: what they share, and what they cannot see of each other.

use super::faults::Faults;
use super::fixture::{Log, builder_of, bytes, client, config_map, controller, key, logged, object};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use windlass_apiserver::RequestVerdict;
use windlass_fleet::api::{
    ApiCode, ApplyOptions, DeleteOptions, Event, EventType, GetOptions, ListOptions, PatchType,
    ReadMode, Selection, WriteOptions,
};
use windlass_fleet::cluster::{ClusterState, NamespaceScope, Scope};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::name::NamePattern;
use windlass_fleet::provider::namespaces::{Namespaces, NamespacesOptions};
use windlass_fleet::source::{ClusterFilter, ClusterSelection, Enqueue, Index, Watch};
use windlass_fleet::{
    Action, Client, Controller, ControllerName, Grant, GroupVersionKind, ObjectKey,
};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name, request};

fn in_namespace(namespace: &str, name: &str, data: Value) -> Value {
    let mut object = object(name, data);
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// A server whose namespaces become clusters.
struct Parts(TestFleet);

impl Parts {
    async fn start(controllers: Vec<Controller>) -> Result<Self> {
        let fleet = TestFleet::start(&["server"], |builder| {
            controllers
                .into_iter()
                .fold(builder, |builder, one| builder.controller(one))
        })
        .await?;
        Ok(Self(fleet))
    }

    /// Creates a namespace unless it exists. Returns its UID.
    fn namespace(&self, namespace: &str) -> Result<String> {
        let manifest =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.0.apply("server", manifest)?;
        let server = self.0.simulated("server");
        let made = server.get("v1", "Namespace", "", namespace);
        let made = made.ok().flatten().context("the namespace")?;
        Ok(made["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    fn spec(&self, namespace: &str) -> Result<ClusterSpec> {
        let uid = self.namespace(namespace)?;
        let whole = self.0.spec("server")?;
        let scope = NamespaceScope {
            name: namespace.into(),
            uid: uid.into(),
        };
        Ok(ClusterSpec {
            scope: Scope::Namespace(scope),
            ..ClusterSpec::new(name(namespace), whole.config)
        })
    }

    async fn engage(&self, namespace: &str) -> Result<Client> {
        self.0.provider.put(self.spec(namespace)?);
        Ok(client(&self.0.ready(namespace).await?))
    }

    /// An object as the server has it.
    fn stored(&self, namespace: &str, name: &str) -> Option<Value> {
        let server = self.0.simulated("server");
        server
            .get("v1", "ConfigMap", namespace, name)
            .ok()
            .flatten()
    }
}

async fn names(client: &Client, options: ListOptions) -> Result<Vec<(String, String)>> {
    let page = client.list(&config_map(), &options).await?;
    let read = |json: &windlass_fleet::api::Json| -> Result<(String, String)> {
        let object: Value = serde_json::from_slice(json)?;
        let text = |field: &str| {
            object["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Ok((text("namespace"), text("name")))
    };
    page.items.iter().map(read).collect()
}

fn live() -> ListOptions {
    ListOptions {
        mode: ReadMode::Live,
        ..ListOptions::default()
    }
}

#[tokio::test]
async fn a_part_is_ready_once_its_own_caches_are_filled_though_its_server_is_ready_before()
-> Result<()> {
    let (log, faults) = (Arc::new(Log::default()), Arc::new(Faults::default()));
    faults.on_request(|call| {
        (call.resource == "secrets").then_some(RequestVerdict::Delay(Duration::from_millis(500)))
    });
    let late = ClusterSelection {
        only: ClusterFilter {
            names: vec![NamePattern::new("late")],
            ..ClusterFilter::default()
        },
        ..ClusterSelection::default()
    };
    let secrets = builder_of("secrets", "Secret").engage(late);
    let secrets = logged(secrets, &log, |_| async { Ok(Action::Done) });
    let maps = controller(&log, |_| async { Ok(Action::Done) });
    let parts = TestFleet::start_with(faults, &["server"], |builder| {
        builder.controller(maps).controller(secrets)
    });
    let parts = Parts(parts.await?);
    parts.engage("early").await?;
    parts.engage("late").await?;
    let status = parts.0.status("late")?;
    let filled = status.stores.iter().filter(|store| store.synced).count();
    assert_eq!((filled, status.stores.len()), (2, 2), "{status:?}");
    parts.0.stop().await
}

#[tokio::test]
async fn each_namespace_is_a_cluster_with_its_objects_under_default() -> Result<()> {
    let log = Arc::new(Log::default());
    let parts = Parts::start(vec![controller(&log, |_| async { Ok(Action::Done) })]).await?;
    for namespace in ["zoo", "jungle", "island"] {
        parts.namespace(namespace)?;
        parts
            .0
            .apply("server", in_namespace(namespace, "keeper", json!({})))?;
    }
    parts.0.apply("server", object("elsewhere", json!({})))?;
    for namespace in ["zoo", "jungle", "island"] {
        parts.engage(namespace).await?;
        log.ran(&request(namespace, "keeper"), 1).await?;
    }
    parts
        .0
        .apply("server", in_namespace("jungle", "tarzan", json!({})))?;
    log.ran(&request("jungle", "tarzan"), 1).await?;
    let (lists, watches) = parts.0.asked("server", "configmaps");
    assert_eq!(
        (lists, watches),
        (1, 0),
        "one streamed list and watch serves all"
    );
    super::keys::wait_idle(&parts.0).await?;
    assert_eq!(log.total(), 4, "and nothing of other namespaces");
    parts.0.stop().await
}

#[tokio::test]
async fn a_further_part_at_rest_has_no_task_and_still_follows_its_objects() -> Result<()> {
    const PARTS: usize = 30;
    let log = Arc::new(Log::default());
    let parts = Parts::start(vec![controller(&log, |_| async { Ok(Action::Done) })]).await?;
    parts.engage("first").await?;
    super::keys::wait_idle(&parts.0).await?;
    let metrics = Handle::current().metrics();
    let baseline = metrics.num_alive_tasks();
    for n in 0..PARTS {
        parts.engage(&format!("part{n}")).await?;
    }
    wait("watches at rest", || {
        Seen::of(metrics.num_alive_tasks(), |n| *n < baseline + PARTS / 3)
    })
    .await?;
    parts
        .0
        .apply("server", in_namespace("part7", "keeper", json!({})))?;
    log.ran(&request("part7", "keeper"), 1).await?;
    parts.0.stop().await
}

#[tokio::test]
async fn every_verb_works_and_stays_in_the_namespace() -> Result<()> {
    let parts = Parts::start(Vec::new()).await?;
    let (zoo, kind) = (parts.engage("zoo").await?, config_map());
    let jungle = parts.engage("jungle").await?;
    let (options, none) = (WriteOptions::default(), GetOptions::default());
    let made = zoo
        .create(&kind, bytes(&object("a", json!({"x": "1"}))), &options)
        .await?;
    let mut made: Value = serde_json::from_slice(&made)?;
    assert_eq!(made["metadata"]["namespace"], "default");
    assert!(parts.stored("zoo", "a").is_some() && parts.stored("default", "a").is_none());
    assert!(
        zoo.get(&kind, &key("a"), &none).await?.is_some(),
        "from the cache"
    );
    assert!(jungle.get(&kind, &key("a"), &none).await?.is_none());

    made["data"]["x"] = json!("2");
    zoo.update(&kind, bytes(&made), &options).await?;
    for (patch_type, patch) in [
        (
            PatchType::Merge,
            json!({"metadata": {"namespace": "default"}, "data": {"merge": "1"}}),
        ),
        (
            PatchType::StrategicMerge,
            json!({"data": {"strategic": "1"}}),
        ),
        (
            PatchType::Json,
            json!([{"op": "test", "path": "/metadata/namespace", "value": "default"}, {"op": "add", "path": "/data/json", "value": "1"}]),
        ),
    ] {
        let patched = zoo
            .patch(&kind, &key("a"), patch_type, bytes(&patch), &options)
            .await?;
        let patched: Value = serde_json::from_slice(&patched)?;
        assert_eq!(
            patched["metadata"]["namespace"], "default",
            "{patch_type:?}"
        );
    }
    let applied = object("a", json!({"applied": "1"}));
    zoo.apply(&kind, bytes(&applied), &ApplyOptions::default())
        .await?;
    let stored = parts.stored("zoo", "a").context("it is there")?;
    assert_eq!(
        stored["data"],
        json!({"x": "2", "merge": "1", "strategic": "1", "json": "1", "applied": "1"})
    );

    let status = WriteOptions {
        subresource: Some("status".into()),
        ..WriteOptions::default()
    };
    let pods = GroupVersionKind::new("", "v1", "Pod");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    zoo.create(&pods, bytes(&pod), &options).await?;
    let phase = bytes(&json!({"status": {"phase": "Running"}}));
    let patched = zoo
        .patch(&pods, &key("p"), PatchType::Merge, phase, &status)
        .await?;
    let patched: Value = serde_json::from_slice(&patched)?;
    assert_eq!(patched["status"]["phase"], "Running");

    let own = ("default".to_owned(), "a".to_owned());
    for options in [ListOptions::default(), live()] {
        assert_eq!(
            names(&zoo, options.clone()).await?,
            std::slice::from_ref(&own)
        );
        assert!(names(&jungle, options.clone()).await?.is_empty());
        let by_field = ListOptions {
            field_selector: Some("metadata.namespace=default,metadata.name=a".into()),
            ..options
        };
        assert_eq!(names(&zoo, by_field).await?, std::slice::from_ref(&own));
    }
    zoo.delete(&kind, &key("a"), &DeleteOptions::default())
        .await?;
    assert!(
        zoo.get(&kind, &key("a"), &none).await?.is_none(),
        "from the cache"
    );

    for namespace in ["zoo", "jungle"] {
        parts
            .0
            .apply("server", in_namespace(namespace, "b", json!({})))?;
    }
    zoo.delete_collection(&kind, &Selection::default(), &DeleteOptions::default())
        .await?;
    assert!(parts.stored("zoo", "b").is_none() && parts.stored("jungle", "b").is_some());
    parts.0.stop().await
}

#[tokio::test]
async fn other_namespaces_are_invalid_and_cluster_scoped_kinds_are_denied() -> Result<()> {
    let parts = Parts::start(Vec::new()).await?;
    let (zoo, kind) = (parts.engage("zoo").await?, config_map());
    parts.engage("jungle").await?;
    let (options, none) = (WriteOptions::default(), GetOptions::default());
    for namespace in ["zoo", "jungle", "kube-system"] {
        let key = ObjectKey::namespaced(namespace, "a");
        let refused = zoo.get(&kind, &key, &none).await;
        assert_eq!(refused.expect_err("another").code, ApiCode::Invalid);
        let body = bytes(&in_namespace(namespace, "a", json!({})));
        let refused = zoo.create(&kind, body, &options).await;
        assert_eq!(refused.expect_err("another").code, ApiCode::Invalid);
        let refused = zoo.delete(&kind, &key, &DeleteOptions::default()).await;
        assert_eq!(refused.expect_err("another").code, ApiCode::Invalid);
        let listed = ListOptions {
            namespace: Some(namespace.into()),
            ..live()
        };
        let refused = zoo.list(&kind, &listed).await;
        assert_eq!(refused.expect_err("another").code, ApiCode::Invalid);
        let all = Selection {
            namespace: Some(namespace.into()),
            ..Selection::default()
        };
        let refused = zoo
            .delete_collection(&kind, &all, &DeleteOptions::default())
            .await;
        assert_eq!(refused.expect_err("another").code, ApiCode::Invalid);
    }
    let namespaces = GroupVersionKind::new("", "v1", "Namespace");
    let refused = zoo
        .get(&namespaces, &ObjectKey::cluster_scoped("zoo"), &none)
        .await;
    assert_eq!(refused.expect_err("no part").code, ApiCode::Denied);
    let refused = zoo.list(&namespaces, &live()).await;
    assert_eq!(refused.expect_err("no part").code, ApiCode::Denied);
    parts.0.stop().await
}

#[tokio::test]
async fn an_index_finds_only_what_is_in_the_namespace() -> Result<()> {
    let log = Arc::new(Log::default());
    let index = Index {
        kind: config_map(),
        name: "secret".into(),
        path: "data.secret".parse()?,
        namespace_path: None,
    };
    let builder = Controller::builder(ControllerName::new("test")?)
        .for_kind(config_map())
        .watch(Watch::new(
            GroupVersionKind::new("", "v1", "Secret"),
            Enqueue::ByIndex("secret".into()),
        ))
        .index(index);
    let found = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = found.clone();
    let reconciler = logged(builder, &log, move |context| {
        let seen = seen.clone();
        async move {
            let by_index = ListOptions {
                index: Some(("secret".into(), "s".into())),
                ..ListOptions::default()
            };
            let page = context
                .client(&Arc::new(Grant::all()))
                .list(&config_map(), &by_index)
                .await?;
            seen.lock()
                .push((context.request.cluster.to_string(), page.items.len()));
            Ok(Action::Done)
        }
    });
    let parts = Parts::start(vec![reconciler]).await?;
    for namespace in ["zoo", "jungle"] {
        parts.namespace(namespace)?;
        parts.0.apply(
            "server",
            in_namespace(namespace, "a", json!({"secret": "s"})),
        )?;
    }
    parts.0.apply(
        "server",
        in_namespace("jungle", "b", json!({"secret": "s"})),
    )?;
    parts.engage("zoo").await?;
    parts.engage("jungle").await?;
    super::keys::wait_idle(&parts.0).await?;
    let before = log.count(&request("jungle", "a"));
    parts.0.apply(
        "server",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "zoo"}}),
    )?;
    log.ran(&request("zoo", "a"), 2).await?;
    super::keys::wait_idle(&parts.0).await?;
    assert_eq!(
        log.count(&request("jungle", "a")),
        before,
        "its namespace has no such Secret"
    );
    let found = std::mem::take(&mut *found.lock());
    assert!(
        found
            .iter()
            .all(|(cluster, n)| *n == if cluster == "zoo" { 1 } else { 2 }),
        "{found:?}"
    );
    parts.0.stop().await
}

#[tokio::test]
async fn an_event_is_in_the_namespace_of_its_object() -> Result<()> {
    let parts = Parts::start(Vec::new()).await?;
    let zoo = parts.engage("zoo").await?;
    zoo.create(
        &config_map(),
        bytes(&object("a", json!({}))),
        &WriteOptions::default(),
    )
    .await?;
    zoo.record_event(Event {
        kind: config_map(),
        key: key("a"),
        event_type: EventType::Normal,
        reason: "Fed".into(),
        action: "Feed".into(),
        note: "from a test".into(),
    });
    let event = wait("the event", || {
        let events = parts.0.simulated("server").list("v1", "Event", "");
        let event = events.ok().and_then(|events| events.first().cloned());
        event.map_or_else(|| Seen::NotYet("none".into()), Seen::Yes)
    })
    .await?;
    assert_eq!(event["metadata"]["namespace"], "zoo");
    assert_eq!(event["involvedObject"]["namespace"], "zoo");
    assert!(
        event["involvedObject"]["uid"]
            .as_str()
            .is_some_and(|uid| !uid.is_empty())
    );
    parts.0.stop().await
}

#[tokio::test]
async fn a_namespace_made_anew_is_another_cluster() -> Result<()> {
    let log = Arc::new(Log::default());
    let parts = Parts::start(vec![controller(&log, |_| async { Ok(Action::Done) })]).await?;
    parts.namespace("zoo")?;
    parts
        .0
        .apply("server", in_namespace("zoo", "a", json!({})))?;
    parts.engage("zoo").await?;
    log.ran(&request("zoo", "a"), 1).await?;
    let before = parts.0.engaged("zoo").context("engaged")?;
    let spec = parts.spec("zoo")?;
    let anew = NamespaceScope {
        name: "zoo".into(),
        uid: "another".into(),
    };
    parts.0.provider.put(ClusterSpec {
        scope: Scope::Namespace(anew),
        ..spec
    });
    log.ran(&request("zoo", "a"), 2).await?;
    assert_eq!(before.state(), ClusterState::Gone);
    parts.0.stop().await
}

#[tokio::test]
async fn nothing_is_left_of_a_server_whose_parts_have_all_left() -> Result<()> {
    let log = Arc::new(Log::default());
    let parts = Parts::start(vec![controller(&log, |_| async { Ok(Action::Done) })]).await?;
    let before = parts.0.at_rest().await?;
    for namespace in ["zoo", "jungle"] {
        parts.engage(namespace).await?;
    }
    let jungle = parts.0.engaged("jungle").context("engaged")?;
    parts.0.provider.remove(&name("zoo"));
    wait("zoo to leave", || {
        Seen::of(parts.0.engaged("zoo").is_none(), |gone| *gone)
    })
    .await?;
    let jungle = jungle.client(Grant::all());
    let made = bytes(&object("a", json!({})));
    jungle
        .create(&config_map(), made, &WriteOptions::default())
        .await?;
    log.ran(&request("jungle", "a"), 1).await?;
    drop(jungle);
    parts.0.provider.remove(&name("jungle"));
    parts.0.nothing_is_left(before).await?;
    parts.0.stop().await
}

/// A manager whose namespaces provider reads the local cluster.
async fn with_namespaces(selector: &str, log: &Arc<Log>) -> Result<TestFleet> {
    let options = NamespacesOptions {
        label_selector: selector.parse()?,
        ..NamespacesOptions::default()
    };
    let provider = Arc::new(Namespaces::new("spaces", options));
    let selection = controller(log, |_| async { Ok(Action::Done) });
    TestFleet::local_only(|b| b.provider(provider).controller(selection)).await
}

fn labelled(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

#[tokio::test]
async fn namespaces_that_are_selected_are_clusters_and_the_objects_of_others_are_not_cached()
-> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = with_namespaces("team=a", &log).await?;
    for (namespace, team) in [("zoo", "a"), ("jungle", "b")] {
        fleet.apply("local", labelled(namespace, team))?;
        fleet.apply("local", in_namespace(namespace, "one", json!({})))?;
    }
    log.ran(&request("zoo", "one"), 1).await?;
    assert!(fleet.engaged("jungle").is_none());
    let zoo = fleet.engaged("zoo").context("engaged")?;
    let cached = || {
        let stores = zoo.status().stores;
        let config_maps = stores
            .into_iter()
            .find(|store| store.kind == "v1/ConfigMap");
        config_maps.map_or(0, |store| store.objects)
    };
    assert_eq!(cached(), 1);
    // Selected now: what it holds already is listed.
    fleet.apply("local", labelled("jungle", "a"))?;
    log.ran(&request("jungle", "one"), 1).await?;
    // Not selected any more.
    fleet.apply("local", labelled("zoo", "b"))?;
    wait("zoo to leave", || {
        Seen::of(fleet.engaged("zoo").is_none(), |gone| *gone)
    })
    .await?;
    // Deleted.
    let deleted = fleet
        .simulated("local")
        .delete("v1", "Namespace", "", "jungle");
    deleted.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    wait("jungle to leave", || {
        Seen::of(fleet.engaged("jungle").is_none(), |gone| *gone)
    })
    .await?;
    fleet.stop().await
}

#[tokio::test]
async fn a_namespace_that_is_made_anew_is_reconciled_as_another_cluster() -> Result<()> {
    let log = Arc::new(Log::default());
    let fleet = with_namespaces("team=a", &log).await?;
    fleet.apply("local", labelled("zoo", "a"))?;
    fleet.apply("local", in_namespace("zoo", "one", json!({})))?;
    log.ran(&request("zoo", "one"), 1).await?;
    let before = fleet.engaged("zoo").context("engaged")?;
    let server = fleet.simulated("local");
    server
        .delete("v1", "ConfigMap", "zoo", "one")
        .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    server
        .delete("v1", "Namespace", "", "zoo")
        .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    wait("the namespace to be gone", || {
        let left = server.get("v1", "Namespace", "", "zoo").ok().flatten();
        Seen::of(left.is_none(), |gone| *gone)
    })
    .await?;
    fleet.apply("local", labelled("zoo", "a"))?;
    fleet.apply("local", in_namespace("zoo", "two", json!({})))?;
    log.ran(&request("zoo", "two"), 1).await?;
    wait("the cluster before to end", || {
        Seen::of(before.state(), |state| *state == ClusterState::Gone)
    })
    .await?;
    fleet.stop().await
}
