//! What clients answer, live and cached, and what grants refuse.

use super::fixture::{builder_of, bytes, client, config_map, get, key, object};
use anyhow::{Context as _, Result};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, GetOptions, ListOptions, Operation, PatchType,
    Projection, ReadMode, Reply, Selection, WriteOptions,
};
use windlass_fleet::cluster::{CallPolicy, Permit};
use windlass_fleet::grant::{Denied, Needs, Verb};
use windlass_fleet::{Action, Cluster, Context, Failure, Grant, GroupVersionKind, ObjectKey, Rule};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{TestFleet, name};

pub(crate) fn rule(resources: &[&str], verbs: &[&str], namespaces: &[&str]) -> Rule {
    let list = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    Rule {
        api_groups: list(&[""]),
        resources: list(resources),
        verbs: list(verbs),
        namespaces: list(namespaces),
        ..Rule::default()
    }
}

async fn alpha() -> Result<(TestFleet, Arc<Cluster>)> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    let cluster = fleet.engage("alpha").await?;
    Ok((fleet, cluster))
}

#[tokio::test]
async fn every_write_does_what_the_api_says() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let (client, kind) = (client(&cluster), config_map());
    let created = client
        .create(
            &kind,
            bytes(&object("a", json!({"x": "1"}))),
            &WriteOptions::default(),
        )
        .await?;
    let again = client
        .create(
            &kind,
            bytes(&object("a", json!({}))),
            &WriteOptions::default(),
        )
        .await;
    assert_eq!(again.expect_err("it exists").code, ApiCode::AlreadyExists);

    let mut updated: Value = serde_json::from_slice(&created)?;
    updated["data"]["x"] = json!("2");
    client
        .update(&kind, bytes(&updated), &WriteOptions::default())
        .await?;
    let stale = client
        .update(&kind, bytes(&updated), &WriteOptions::default())
        .await;
    assert_eq!(
        stale.expect_err("its version is old").code,
        ApiCode::Conflict
    );

    let json_patch = bytes(&json!([{"op": "add", "path": "/data/y", "value": "1"}]));
    client
        .patch(
            &kind,
            &key("a"),
            PatchType::Json,
            json_patch,
            &WriteOptions::default(),
        )
        .await?;
    let strategic = bytes(&json!({"data": {"z": "1"}}));
    client
        .patch(
            &kind,
            &key("a"),
            PatchType::StrategicMerge,
            strategic,
            &WriteOptions::default(),
        )
        .await?;
    let dry = WriteOptions {
        dry_run: true,
        ..Default::default()
    };
    client
        .patch(
            &kind,
            &key("a"),
            PatchType::Merge,
            bytes(&json!({"data": {"dry": "1"}})),
            &dry,
        )
        .await?;
    let now = get(&client, "a", ReadMode::Live)
        .await?
        .expect("it is there");
    assert_eq!(now["data"], json!({"x": "2", "y": "1", "z": "1"}));

    let absent = client
        .patch(
            &kind,
            &key("b"),
            PatchType::Merge,
            bytes(&json!({})),
            &WriteOptions::default(),
        )
        .await;
    assert_eq!(absent.expect_err("it is not there").code, ApiCode::NotFound);
    let uid = DeleteOptions {
        uid: Some("another".into()),
        ..Default::default()
    };
    assert_eq!(
        client
            .delete(&kind, &key("a"), &uid)
            .await
            .expect_err("another uid")
            .code,
        ApiCode::Conflict
    );
    client
        .delete(&kind, &key("a"), &DeleteOptions::default())
        .await?;
    assert_eq!(get(&client, "a", ReadMode::Live).await?, None);
    fleet.stop().await
}

#[tokio::test]
async fn an_apply_conflicts_until_it_is_forced() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let (client, kind) = (client(&cluster), config_map());
    client
        .create(
            &kind,
            bytes(&object("a", json!({"x": "1"}))),
            &WriteOptions::default(),
        )
        .await?;
    // Applied under the same manager name, but by apply, the field has another owner.
    let other = cluster.client(Grant::all());
    let apply = |value: &str| bytes(&object("a", json!({"x": value})));
    let conflict = other
        .apply(&kind, apply("2"), &ApplyOptions::default())
        .await
        .expect_err("the creator owns it");
    assert_eq!(conflict.code, ApiCode::Conflict);
    assert!(
        conflict
            .details
            .is_some_and(|details| details.contains(".data.x"))
    );
    other
        .apply(
            &kind,
            apply("2"),
            &ApplyOptions {
                force: true,
                ..Default::default()
            },
        )
        .await?;
    assert_eq!(
        get(&client, "a", ReadMode::Live).await?.expect("there")["data"]["x"],
        "2"
    );
    fleet.stop().await
}

#[tokio::test]
async fn lists_page_select_and_project_cached_as_well_as_live() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let client = client(&cluster);
    for n in 0..7 {
        let mut value = object(&format!("n{n}"), json!({"n": n.to_string()}));
        value["metadata"]["labels"] = json!({"even": (n % 2 == 0).to_string()});
        fleet.apply("alpha", value)?;
    }
    for mode in [ReadMode::Live, ReadMode::Cached] {
        let mut options = ListOptions {
            namespace: Some("default".into()),
            label_selector: Some("even=true".into()),
            limit: 3,
            mode,
            projection: Projection::Metadata,
            ..Default::default()
        };
        let first = client.list(&config_map(), &options).await?;
        assert_eq!(first.items.len(), 3, "{mode:?}");
        options.continue_token = first.continue_token;
        let second = client.list(&config_map(), &options).await?;
        assert_eq!(
            (second.items.len(), &second.continue_token),
            (1, &None),
            "{mode:?}"
        );
        let item: Value = serde_json::from_slice(&second.items[0])?;
        assert_eq!(
            (&item["metadata"]["name"], &item["data"]),
            (&json!("n6"), &Value::Null),
            "{mode:?}"
        );
        let by_name = ListOptions {
            field_selector: Some("metadata.name=n1".into()),
            mode,
            ..Default::default()
        };
        assert_eq!(
            client.list(&config_map(), &by_name).await?.items.len(),
            1,
            "{mode:?}"
        );
    }
    let unknown = ListOptions {
        field_selector: Some("data.n=1".into()),
        ..Default::default()
    };
    assert_eq!(
        client
            .list(&config_map(), &unknown)
            .await
            .expect_err("no such index")
            .code,
        ApiCode::Invalid
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_collection_is_deleted_by_selection() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    for (name, app) in [("a", "one"), ("b", "one"), ("c", "two")] {
        let mut value = object(name, json!({}));
        value["metadata"]["labels"] = json!({"app": app});
        fleet.apply("alpha", value)?;
    }
    let client = client(&cluster);
    let selection = Selection {
        namespace: Some("default".into()),
        label_selector: Some("app=one".into()),
        ..Default::default()
    };
    client
        .delete_collection(&config_map(), &selection, &DeleteOptions::default())
        .await?;
    for (name, there) in [("a", false), ("b", false), ("c", true)] {
        assert_eq!(
            get(&client, name, ReadMode::Live).await?.is_some(),
            there,
            "{name}"
        );
    }
    fleet.stop().await
}

/// Leaves of each grant what the rule allows, as when rights are revoked during a run.
struct Only(Rule);

impl CallPolicy for Only {
    fn acquire(&self, _: Duration) -> BoxFuture<'_, Result<Permit, ApiError>> {
        async { Ok(Box::new(()) as Permit) }.boxed()
    }

    fn current_grant(&self, grant: &Arc<Grant>) -> Arc<Grant> {
        Arc::new(grant.and(&Grant::new([self.0.clone()])))
    }

    fn denied(&self, missing: &Denied) {
        panic!("{missing}");
    }
}

#[tokio::test]
async fn a_collection_of_all_namespaces_needs_no_right_to_namespaces() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let right = rule(&["configmaps"], &["deletecollection"], &["*"]);
    let caller = client(&cluster).with_policy(Arc::new(Only(right)));
    caller
        .delete_collection(
            &config_map(),
            &Selection::default(),
            &DeleteOptions::default(),
        )
        .await?;
    assert!(
        get(&client(&cluster), "a", ReadMode::Live).await?.is_none(),
        "it is deleted"
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_batch_answers_in_order() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let client = client(&cluster);
    let operations = vec![
        Operation::Apply(
            config_map(),
            bytes(&object("a", json!({}))),
            ApplyOptions::default(),
        ),
        Operation::Delete(config_map(), key("absent"), DeleteOptions::default()),
        Operation::Get(config_map(), key("nothing"), GetOptions::default()),
        Operation::List(
            config_map(),
            ListOptions {
                mode: ReadMode::Live,
                ..Default::default()
            },
        ),
    ];
    let replies = client.batch(operations).await;
    assert!(matches!(&replies[0], Ok(Reply::Object(_))));
    assert!(matches!(&replies[1], Err(error) if error.code == ApiCode::NotFound));
    assert!(matches!(&replies[2], Ok(Reply::Nothing)));
    assert!(matches!(&replies[3], Ok(Reply::Page(_))));
    fleet.stop().await
}

#[tokio::test]
async fn a_grant_is_checked_before_anything_is_asked() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let client = cluster.client(Grant::new([rule(&["configmaps"], &["get"], &["default"])]));
    assert!(
        client
            .get(&config_map(), &key("a"), &GetOptions::default())
            .await?
            .is_some()
    );
    let before = fleet.simulated("alpha").requests().len();

    let elsewhere = ObjectKey::namespaced("kube-system", "a");
    let denied = client
        .get(&config_map(), &elsewhere, &GetOptions::default())
        .await
        .expect_err("another namespace");
    assert_eq!(denied.code, ApiCode::Denied);
    assert!(
        denied
            .message
            .contains("resources: [configmaps], verbs: [get], namespaces: [kube-system]"),
        "{}",
        denied.message
    );
    let write = client
        .patch(
            &config_map(),
            &key("a"),
            PatchType::Merge,
            bytes(&json!({})),
            &WriteOptions::default(),
        )
        .await;
    assert_eq!(write.expect_err("no patch").code, ApiCode::Denied);
    let list = client.list(&config_map(), &ListOptions::default()).await;
    assert_eq!(list.expect_err("no list").code, ApiCode::Denied);
    let secret = GroupVersionKind::new("", "v1", "Secret");
    assert_eq!(
        client
            .get(&secret, &key("a"), &GetOptions::default())
            .await
            .expect_err("another kind")
            .code,
        ApiCode::Denied
    );
    let unknown_group = GroupVersionKind::new("example.com", "v1", "Widget");
    assert_eq!(
        client
            .get(&unknown_group, &key("a"), &GetOptions::default())
            .await
            .expect_err("another group")
            .code,
        ApiCode::Denied
    );
    assert_eq!(
        fleet.simulated("alpha").requests().len(),
        before,
        "a denied call asks nothing of the server"
    );
    fleet.stop().await
}

#[tokio::test]
async fn a_list_without_a_namespace_sees_the_granted_ones_only() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    for namespace in ["one", "two", "three"] {
        fleet.apply(
            "alpha",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )?;
        let mut value = object("a", json!({}));
        value["metadata"]["namespace"] = json!(namespace);
        fleet.apply("alpha", value)?;
    }
    let grant = Grant::new([rule(
        &["configmaps"],
        &["get", "list", "watch"],
        &["one", "three"],
    )]);
    let client = cluster.client(grant);
    for mode in [ReadMode::Live, ReadMode::Cached] {
        let (mut seen, mut token) = (Vec::new(), None);
        loop {
            let options = ListOptions {
                mode,
                limit: 1,
                continue_token: token,
                ..Default::default()
            };
            let page = client.list(&config_map(), &options).await?;
            for item in &page.items {
                let item: Value = serde_json::from_slice(item)?;
                seen.push(
                    item["metadata"]["namespace"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
            token = page.continue_token;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["one", "three"], "{mode:?}");
    }
    fleet.stop().await
}

#[tokio::test]
async fn what_would_vanish_from_a_url_is_invalid_and_asks_nothing() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let (client, kind) = (client(&cluster), config_map());
    let before = fleet.simulated("alpha").requests().len();
    for subresource in ["", "status/scale", "/"] {
        let options = GetOptions {
            subresource: Some(subresource.into()),
            ..Default::default()
        };
        let read = client.get(&kind, &key("a"), &options).await;
        assert_eq!(read.expect_err("no subresource").code, ApiCode::Invalid);
        let options = WriteOptions {
            subresource: Some(subresource.into()),
            ..Default::default()
        };
        let patch = bytes(&json!({}));
        let write = client
            .patch(&kind, &key("a"), PatchType::Merge, patch, &options)
            .await;
        assert_eq!(write.expect_err("no subresource").code, ApiCode::Invalid);
    }
    for mode in [ReadMode::Live, ReadMode::Cached] {
        let options = ListOptions {
            namespace: Some(String::new()),
            mode,
            ..Default::default()
        };
        let list = client.list(&kind, &options).await;
        assert_eq!(list.expect_err("no namespace").code, ApiCode::Invalid);
    }
    let nodes = GroupVersionKind::new("", "v1", "Node");
    for (kind, namespace) in [(&kind, ""), (&nodes, "default")] {
        let selection = Selection {
            namespace: Some(namespace.into()),
            ..Default::default()
        };
        let deleted = client
            .delete_collection(kind, &selection, &DeleteOptions::default())
            .await;
        assert_eq!(deleted.expect_err("no namespace").code, ApiCode::Invalid);
    }
    assert_eq!(fleet.simulated("alpha").requests().len(), before);
    fleet.stop().await
}

#[tokio::test]
async fn metadata_comes_under_the_objects_own_kind_live_as_well_as_cached() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    fleet.apply("alpha", object("a", json!({"x": "1"})))?;
    let client = client(&cluster);
    for mode in [ReadMode::Live, ReadMode::Cached] {
        let options = GetOptions {
            mode,
            projection: Projection::Metadata,
            ..Default::default()
        };
        let one = client
            .get(&config_map(), &key("a"), &options)
            .await?
            .expect("it is there");
        let namespace = Some("default".into());
        let options = ListOptions {
            namespace,
            mode,
            projection: Projection::Metadata,
            ..Default::default()
        };
        let page = client.list(&config_map(), &options).await?;
        for json in page.items.iter().chain([&one]) {
            let object: Value = serde_json::from_slice(json)?;
            assert_eq!(
                (&object["kind"], &object["apiVersion"]),
                (&json!("ConfigMap"), &json!("v1")),
                "{mode:?}"
            );
            assert!(object["data"].is_null());
        }
    }
    fleet.stop().await
}

/// A cache may serve a read of one object, if that is granted; it can be without. A cached list needs it.
#[tokio::test]
async fn a_grant_that_notes_what_it_lacks_notes_no_more_than_the_calls() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    fleet.apply("alpha", object("a", json!({})))?;
    let needs = Arc::new(Needs::default());
    let client = cluster.client(Grant::none().noting(needs.clone()));
    let noted = || {
        let noted = needs.noted().needs.into_iter();
        noted.map(|need| need.right.verb).collect::<Vec<_>>()
    };
    let found = client
        .get(&config_map(), &key("a"), &GetOptions::default())
        .await?;
    assert!(found.is_some());
    assert_eq!(noted(), [Verb::Get]);
    let page = client.list(&config_map(), &ListOptions::default()).await?;
    assert_eq!(page.items.len(), 1);
    assert_eq!(noted(), [Verb::List, Verb::Watch, Verb::Get]);

    // Within what a tenant allows.
    let needs = Arc::new(Needs::default());
    let grant = Grant::none().noting(needs.clone());
    let bounded = grant.with_ceiling([rule(&["configmaps"], &["*"], &["default"])]);
    let client = cluster.client(bounded);
    let page = client.list(&config_map(), &ListOptions::default()).await?;
    assert_eq!(page.items.len(), 1);
    let options = DeleteOptions::default();
    client
        .delete_collection(&config_map(), &Selection::default(), &options)
        .await?;
    let noted = needs.noted().needs;
    let mut namespaces = noted.iter().map(|need| need.right.namespace.as_deref());
    assert!(namespaces.all(|name| name == Some("default")), "{noted:?}");
    fleet.stop().await
}

/// No test may have caused a deletion of a dependent, or a write of one.
#[tokio::test]
async fn who_looks_for_dependents_needs_to_write_and_to_delete_them() -> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let needs = Arc::new(Needs::default());
    let client = cluster.client(Grant::none().noting(needs.clone()));
    let options = ListOptions {
        index: Some(("windlass.dev/owner".to_owned(), "uid".to_owned())),
        namespace: Some("default".to_owned()),
        ..ListOptions::default()
    };
    // This client has declared no index. What it asks for counts.
    assert!(client.list(&config_map(), &options).await.is_err());
    let needs = needs.noted().needs;
    let noted: Vec<_> = needs.iter().map(|need| need.right.verb).collect();
    assert_eq!(noted, [Verb::List, Verb::Create, Verb::Patch, Verb::Delete]);
    fleet.stop().await
}

#[tokio::test]
async fn a_denial_names_the_resource_that_is_served_or_a_kind_like_the_one_that_is_not()
-> Result<()> {
    let (fleet, cluster) = alpha().await?;
    let client = cluster.client(Grant::none());
    for (kind, said) in [
        (
            GroupVersionKind::new("networking.k8s.io", "v1", "NetworkPolicy"),
            "resources: [networkpolicies]",
        ),
        (
            GroupVersionKind::new("apps", "v1", "Deploymnet"),
            "does not serve apps/v1/Deploymnet: did you mean apps/v1/Deployment?",
        ),
        // Nothing is like it: it may come with a definition.
        (
            GroupVersionKind::new("example.com", "v1", "Tuba"),
            "resources: [tubas]",
        ),
    ] {
        let denied = client.get(&kind, &key("a"), &GetOptions::default()).await;
        let denied = denied.expect_err("no rule grants it");
        assert_eq!(denied.code, ApiCode::Denied);
        assert!(denied.message.contains(said), "{denied:?}");
    }
    fleet.stop().await
}

/// The answers that a run at alpha gets to copies in beta and in alpha that its object owns.
async fn owned_copies(context: Context) -> Result<Vec<Option<ApiError>>> {
    let (kind, grant) = (config_map(), Arc::new(Grant::all()));
    let alpha = context.client(&grant);
    let owner = alpha
        .get(&kind, &key("owner"), &GetOptions::default())
        .await?;
    let owner: Value = serde_json::from_slice(&owner.context("the owner")?)?;
    let mut told = Vec::new();
    for cluster in ["beta", "alpha"] {
        let cluster = context.fleet().cluster(&name(cluster)).context("engaged")?;
        let client = context.client_for(&cluster, &grant);
        let mut copy = object("copy", json!({}));
        copy["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        }]);
        let options = ApplyOptions::default();
        told.push(client.apply(&kind, bytes(&copy), &options).await.err());
        copy["metadata"]["name"] = json!("created");
        let options = WriteOptions::default();
        told.push(client.create(&kind, bytes(&copy), &options).await.err());
    }
    Ok(told)
}

#[tokio::test]
async fn an_object_of_another_cluster_is_no_owner() -> Result<()> {
    let told = Arc::new(Mutex::new(None));
    let tell = told.clone();
    let controller =
        builder_of("copies", "ConfigMap").build(Arc::new(move |context: Context| {
            let tell = tell.clone();
            async move {
                if context.request.cluster.as_str() == "alpha"
                    && &*context.request.key.name == "owner"
                {
                    *tell.lock() = Some(owned_copies(context).await);
                }
                Ok::<_, Failure>(Action::Done)
            }
        }))?;
    let fleet = TestFleet::start(&["alpha", "beta"], |b| b.controller(controller)).await?;
    fleet.engage("beta").await?;
    fleet.apply("alpha", object("owner", json!({})))?;
    fleet.engage("alpha").await?;
    let told = wait("the copies", || {
        Seen::of(told.lock().take(), Option::is_some)
    })
    .await?;
    let told = told.context("seen")??;
    for refused in &told[..2] {
        let refused = refused.as_ref().context("beta does not have the owner")?;
        assert_eq!(refused.code, ApiCode::Invalid);
        assert!(
            refused
                .message
                .contains("owner ConfigMap owner is an object of the cluster \"alpha\""),
            "{}",
            refused.message
        );
    }
    assert!(told[2].is_none() && told[3].is_none(), "{told:?}");
    fleet.stop().await
}
