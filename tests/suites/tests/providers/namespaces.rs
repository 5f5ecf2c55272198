//! Namespaces of one server as clusters. Entry points: [`Zoo`] and the tests.

use crate::play::{Play, config_map, marked};
use crate::stage::{DEPUTY, EAST, HUB, SOON, Scene, delete, put};
use anyhow::{Context as _, Result, anyhow};
use k8s_openapi::api::core::v1::Event as StoredEvent;
use kube_client::Api;
use kube_client::api::ListParams;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::api::{
    ApiCode, ApplyOptions, DeleteOptions, Event, EventType, GetOptions, ListOptions, PatchType,
    ReadMode, WriteOptions,
};
use windlass_fleet::cluster::{KubeconfigPolicy, Review};
use windlass_fleet::provider::hub_source::HubSource;
use windlass_fleet::provider::namespaces::{Namespaces, NamespacesOptions};
use windlass_fleet::{Client, Grant, GroupVersionKind, ObjectKey};
use windlass_harness::eventually::{Seen, eventually, wait};

/// Namespaces of the hub that are clusters of a test.
struct Zoo {
    scene: Scene,
    play: Play,
}

fn namespace(mark: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"zoo": mark}}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

impl Zoo {
    /// Namespaces of these names, which must not be those of other tests.
    async fn start(name: &'static str, namespaces: &[&str]) -> Result<Self> {
        let scene = Scene::start(name).await?;
        for one in namespaces {
            put(scene.client(HUB), &namespace(name, one)).await?;
        }
        let options = NamespacesOptions {
            label_selector: format!("zoo={name}").parse()?,
            ..NamespacesOptions::default()
        };
        let play = scene.play(vec![Arc::new(Namespaces::new("namespaces", options))])?;
        play.engaged(namespaces).await?;
        Ok(Self { scene, play })
    }

    /// Makes an animal in a namespace, as an administrator.
    async fn animal(&self, namespace: &str, name: &str) -> Result<()> {
        let animal = marked(self.scene.name, namespace, name);
        put(self.scene.client(HUB), &animal).await?;
        Ok(())
    }

    async fn fed(&self, namespace: &str, name: &str) -> Result<()> {
        self.scene.fed_in(HUB, namespace, name).await
    }

    /// What a reconciler has of a cluster.
    async fn client(&self, cluster: &str) -> Result<Client> {
        Ok(self.play.ready_soon(cluster).await?.client(Grant::all()))
    }

    async fn end(self) -> Result<()> {
        self.play.end().await
    }
}

/// Names of the listed objects, with their namespaces.
async fn listed(client: &Client, options: &ListOptions) -> Result<Vec<String>> {
    let page = client
        .list(&config_map(), options)
        .await
        .map_err(|error| anyhow!("{error:?}"))?;
    page.items
        .iter()
        .map(|item| {
            let object: Value = serde_json::from_slice(item)?;
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or("?").to_owned();
            Ok(format!("{}/{}", text("namespace"), text("name")))
        })
        .collect()
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn each_selected_namespace_is_a_cluster_whose_objects_are_in_default() -> Result<()> {
    let names = ["spaces-island", "spaces-jungle", "spaces-zoo"];
    let zoo = Zoo::start("namespaces-are-clusters", &names).await?;
    for name in names {
        zoo.animal(name, "parrot").await?;
        zoo.fed(name, "parrot").await?;
    }
    // The test's own namespace is not selected.
    zoo.animal(zoo.scene.name, "outside").await?;
    for name in names {
        let client = zoo.client(name).await?;
        let request = windlass_harness::fleet::request(name, "parrot");
        wait("one object of the species", || {
            Seen::of(zoo.play.feeder.alike(&request), |alike| *alike == Some(1))
        })
        .await?;
        for mode in [ReadMode::Cached, ReadMode::Live] {
            let marked = ListOptions {
                namespace: Some("default".into()),
                label_selector: Some(format!("animal-of={}", zoo.scene.name)),
                mode,
                ..ListOptions::default()
            };
            assert_eq!(listed(&client, &marked).await?, ["default/parrot"]);
        }
    }
    assert_eq!(
        zoo.scene.stomach(HUB, zoo.scene.name, "outside").await?,
        None
    );
    // A namespace that is labelled later joins.
    put(
        zoo.scene.client(HUB),
        &namespace(zoo.scene.name, "spaces-beach"),
    )
    .await?;
    zoo.animal("spaces-beach", "crab").await?;
    zoo.fed("spaces-beach", "crab").await?;
    zoo.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn every_verb_works_in_a_namespace_cluster_and_nothing_beyond_it() -> Result<()> {
    let zoo = Zoo::start("namespaces-verbs", &["verbs-a", "verbs-b"]).await?;
    zoo.animal("verbs-a", "seen").await?;
    zoo.fed("verbs-a", "seen").await?;
    let client = zoo.client("verbs-a").await?;
    let body = |value: Value| bytes::Bytes::from(value.to_string());
    let object = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data});
    let kind = config_map();
    let failed = |error| anyhow!("{error:?}");
    let plain = WriteOptions::default();

    let made = client
        .create(&kind, body(object("made", json!({"n": "1"}))), &plain)
        .await
        .map_err(failed)?;
    let mut made: Value = serde_json::from_slice(&made)?;
    assert_eq!(made["metadata"]["namespace"], "default");
    made["data"]["n"] = json!("2");
    client
        .update(&kind, body(made), &plain)
        .await
        .map_err(failed)?;
    let patch = body(json!({"data": {"patched": "yes"}}));
    client
        .patch(&kind, &key("made"), PatchType::Merge, patch, &plain)
        .await
        .map_err(failed)?;
    let applied = body(object("made", json!({"applied": "yes"})));
    client
        .apply(&kind, applied, &ApplyOptions::default())
        .await
        .map_err(failed)?;
    let stored: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(zoo.scene.client(HUB).clone(), "verbs-a");
    let data = stored.get("made").await?.data.context("data")?;
    assert_eq!(
        (&*data["n"], &*data["patched"], &*data["applied"]),
        ("2", "yes", "yes")
    );
    let read = client
        .get(&kind, &key("made"), &GetOptions::default())
        .await
        .map_err(failed)?;
    assert!(read.is_some(), "an own write is read at once");
    client
        .delete(&kind, &key("made"), &DeleteOptions::default())
        .await
        .map_err(failed)?;
    assert!(stored.get_opt("made").await?.is_none());

    // Other namespaces do not exist, by their real names neither; kinds without a namespace are not the cluster's.
    for other in ["verbs-a", "verbs-b", "kube-system"] {
        let elsewhere = ObjectKey::namespaced(other, "seen");
        for mode in [ReadMode::Cached, ReadMode::Live] {
            let options = GetOptions {
                mode,
                ..GetOptions::default()
            };
            let refused = client.get(&kind, &elsewhere, &options).await;
            let error = refused.err().context("another namespace is refused")?;
            assert_eq!(error.code, ApiCode::Invalid, "{error:?}");
        }
        let mut away = object("away", json!({}));
        away["metadata"]["namespace"] = json!(other);
        let refused = client.create(&kind, body(away), &plain).await;
        assert!(refused.is_err(), "{other}");
    }
    let nodes = GroupVersionKind::new("", "v1", "Node");
    let refused = client
        .get(
            &nodes,
            &ObjectKey::cluster_scoped("n"),
            &GetOptions::default(),
        )
        .await;
    let error = refused.err().context("cluster-scoped kinds are refused")?;
    assert_eq!(error.code, ApiCode::Denied, "{error:?}");

    // An event about an object stands beside it.
    client.record_event(Event {
        kind: kind.clone(),
        key: key("seen"),
        event_type: EventType::Normal,
        reason: "Fed".into(),
        action: "Feed".into(),
        note: "with food".into(),
    });
    let events: Api<StoredEvent> = Api::namespaced(zoo.scene.client(HUB).clone(), "verbs-a");
    eventually(SOON, "the event in the real namespace", || async {
        let all = events.list(&ListParams::default()).await?.items;
        let about: Vec<_> = all
            .into_iter()
            .map(|event| event.involved_object.namespace)
            .collect();
        Ok(Seen::of(about, |about| {
            about.iter().any(|one| one.as_deref() == Some("verbs-a"))
        }))
    })
    .await?;
    zoo.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_deleted_namespace_is_gone_and_made_anew_is_another_cluster() -> Result<()> {
    let names = ["anew-again", "anew-stays"];
    let zoo = Zoo::start("namespaces-made-anew", &names).await?;
    let before = zoo.play.ready_soon("anew-again").await?;
    let stays = zoo.play.ready_soon("anew-stays").await?;
    let object = namespace(zoo.scene.name, "anew-again");
    delete(zoo.scene.client(HUB), &object).await?;
    zoo.play.has(&["anew-stays"]).await?;
    // A namespace that is being deleted cannot be made again yet.
    eventually(SOON, "the namespace to be made again", || async {
        put(zoo.scene.client(HUB), &object).await?;
        zoo.animal("anew-again", "phoenix").await?;
        Ok(Seen::Yes(()))
    })
    .await?;
    zoo.fed("anew-again", "phoenix").await?;
    assert!(!zoo.play.is_still(&before));
    assert!(zoo.play.is_still(&stays));
    // One that is not selected any more is left alone.
    put(zoo.scene.client(HUB), &namespace("nobody", "anew-again")).await?;
    zoo.play.has(&["anew-stays"]).await?;
    zoo.animal("anew-again", "late").await?;
    zoo.animal("anew-stays", "late").await?;
    zoo.fed("anew-stays", "late").await?;
    assert_eq!(zoo.scene.stomach(HUB, "anew-again", "late").await?, None);
    zoo.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn other_credentials_for_the_server_reach_all_namespaces_under_load_and_fail_no_run()
-> Result<()> {
    let scene = Scene::start("namespaces-renewed").await?;
    let (east, names) = (scene.client(EAST), ["renewed-one", "renewed-two"]);
    for name in names {
        put(east, &namespace(scene.name, name)).await?;
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("server.kubeconfig");
    let renew = |text: String| {
        let next = folder.path().join("next");
        std::fs::write(&next, text)?;
        std::fs::rename(next, &path)
    };
    renew(scene.server(EAST).kubeconfig())?;
    let options = NamespacesOptions {
        from: HubSource::Kubeconfig {
            path: path.clone(),
            context: None,
            policy: KubeconfigPolicy::file(),
        },
        label_selector: format!("zoo={}", scene.name).parse()?,
        ..NamespacesOptions::default()
    };
    let play = scene.play(vec![Arc::new(Namespaces::new("namespaces", options))])?;
    play.engaged(&names).await?;
    let mut clusters = Vec::new();
    for name in names {
        clusters.push(play.ready_soon(name).await?);
    }
    for (round, user) in [DEPUTY, "admin", DEPUTY].into_iter().enumerate() {
        renew(match user {
            DEPUTY => scene.server(EAST).kubeconfig_of(DEPUTY),
            _ => scene.server(EAST).kubeconfig(),
        })?;
        let animals: Vec<String> = (0..10).map(|n| format!("animal-{round}-{n}")).collect();
        for (animal, name) in animals.iter().flat_map(|one| names.map(|name| (one, name))) {
            put(east, &marked(scene.name, name, animal)).await?;
        }
        for cluster in &clusters {
            eventually(
                SOON,
                &format!("{} used as {user}", cluster.name()),
                || async {
                    let review = cluster.review(Review::User, &json!(null), None).await;
                    let status = review.map_err(|error| anyhow!("{error:?}"))?;
                    let now = status["userInfo"]["username"].clone();
                    Ok(Seen::of(now, |now| now == user))
                },
            )
            .await?;
        }
        for (animal, name) in animals.iter().flat_map(|one| names.map(|name| (one, name))) {
            scene.fed_in(EAST, name, animal).await?;
        }
    }
    assert!(clusters.iter().all(|cluster| play.is_still(cluster)));
    let metrics = play.metrics()?;
    let mut errors = metrics
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_errors_total{"));
    assert!(errors.all(|line| line.ends_with(" 0")), "{metrics}");
    play.end().await
}
