//! What a grant does not name is not to be learned: not by answers, counts, tokens, indexes, events or the time that an answer takes.

use super::clients::rule;
use super::fixture::{Log, bytes, config_map, key, logged, object};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_apiserver::Verb;
use windlass_fleet::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, GetOptions, ListOptions, ListPage, PatchType,
    ReadMode, Selection, WriteOptions,
};
use windlass_fleet::cluster::KubeconfigPolicy;
use windlass_fleet::path::FieldPath;
use windlass_fleet::source::{Enqueue, Index, Watch};
use windlass_fleet::{
    Action, Client, Cluster, Controller, ControllerName, Grant, GroupVersionKind, ObjectKey, Rule,
    TenantName,
};
use windlass_harness::fleet::{TestFleet, request};

fn within(namespace: &str, name: &str, data: Value) -> Value {
    let mut map = object(name, data);
    map["metadata"]["namespace"] = json!(namespace);
    map
}

fn secret_kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Secret")
}

fn named(rule: Rule, names: &[&str]) -> Rule {
    let resource_names = names.iter().map(|name| Arc::from(*name)).collect();
    Rule {
        resource_names,
        ..rule
    }
}

/// Alpha with ConfigMaps in the namespaces `mine` and `other`, all of them cached for a caller that may see everything.
async fn shared() -> Result<(TestFleet, Arc<Cluster>)> {
    let log = Arc::new(Log::default());
    let builder = Controller::builder(ControllerName::new("everywhere")?)
        .tenant(TenantName::new("wide")?)
        .for_kind(config_map());
    let wide = logged(builder, &log, |_| async { Ok(Action::Done) });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(wide)).await?;
    for namespace in ["mine", "other"] {
        let made =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        fleet.apply("alpha", made)?;
        for name in ["a", "b", "c"] {
            fleet.apply("alpha", within(namespace, name, json!({"in": namespace})))?;
        }
    }
    fleet.apply("alpha", within("other", "only-there", json!({})))?;
    let cluster = fleet.engage("alpha").await?;
    Ok((fleet, cluster))
}

fn narrow(cluster: &Arc<Cluster>, verbs: &[&str]) -> Client {
    cluster.client(Grant::new([rule(&["configmaps"], verbs, &["mine"])]))
}

const READING: [&str; 3] = ["get", "list", "watch"];

fn in_mode(mode: ReadMode) -> ListOptions {
    ListOptions {
        mode,
        ..ListOptions::default()
    }
}

fn names(page: &ListPage) -> Vec<String> {
    let name = |item: &bytes::Bytes| {
        let item: Value = serde_json::from_slice(item).expect("an object");
        let metadata = &item["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    page.items.iter().map(name).collect()
}

/// All pages of a list, two objects each.
async fn all(client: &Client, mut options: ListOptions) -> Result<Vec<String>, ApiError> {
    options.limit = 2;
    let mut seen = Vec::new();
    loop {
        let page = client.list(&config_map(), &options).await?;
        seen.extend(names(&page));
        match page.continue_token {
            Some(token) => options.continue_token = Some(token),
            None => return Ok(seen),
        }
    }
}

#[tokio::test]
async fn a_wider_cache_answers_a_narrow_grant_with_what_is_granted_alone() -> Result<()> {
    let (_fleet, cluster) = shared().await?;
    let client = narrow(&cluster, &READING);
    let mine = ["mine/a", "mine/b", "mine/c"];
    for mode in [ReadMode::Cached, ReadMode::Live] {
        assert_eq!(all(&client, in_mode(mode)).await?, mine, "{mode:?}");
        let of_other = ListOptions {
            namespace: Some("other".into()),
            ..in_mode(mode)
        };
        let denied = all(&client, of_other).await.expect_err("not granted");
        assert_eq!(denied.code, ApiCode::Denied);
        let by_name = ListOptions {
            field_selector: Some("metadata.name=only-there".into()),
            ..in_mode(mode)
        };
        assert_eq!(all(&client, by_name).await?, [""; 0], "{mode:?}");
        let by_namespace = ListOptions {
            field_selector: Some("metadata.namespace=other".into()),
            ..in_mode(mode)
        };
        assert_eq!(all(&client, by_namespace).await?, [""; 0], "{mode:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_denied_is_denied_in_the_same_words_whether_it_exists_or_not() -> Result<()> {
    let (_fleet, cluster) = shared().await?;
    let client = narrow(&cluster, &READING);
    for mode in [ReadMode::Cached, ReadMode::Live] {
        let options = GetOptions {
            mode,
            ..GetOptions::default()
        };
        let mut answers = BTreeSet::new();
        for name in ["only-there", "nowhere"] {
            let key = ObjectKey::namespaced("other", name);
            let denied = client.get(&config_map(), &key, &options).await;
            let denied = denied.expect_err("not granted");
            assert_eq!(denied.code, ApiCode::Denied);
            answers.insert(format!("{denied:?}").replace(name, "NAME"));
        }
        assert_eq!(answers.len(), 1, "{answers:?}");
        // Nor does it tell whether there is such a namespace.
        let absent = ObjectKey::namespaced("no-such", "a");
        let denied = client.get(&config_map(), &absent, &options).await;
        assert_eq!(denied.expect_err("not granted").code, ApiCode::Denied);
    }
    Ok(())
}

#[tokio::test]
async fn a_denied_call_starts_no_cache_and_asks_no_server() -> Result<()> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    let cluster = fleet.engage("alpha").await?;
    let client = narrow(&cluster, &["get"]);
    let asked = fleet.simulated("alpha").requests().len();
    let kind = config_map();
    let (secret, other) = (secret_kind(), ObjectKey::namespaced("other", "a"));
    let (get, write) = (GetOptions::default(), WriteOptions::default());
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let status = GetOptions {
        subresource: Some("status".into()),
        ..GetOptions::default()
    };
    let map = || bytes(&within("mine", "a", json!({})));
    let mine = ObjectKey::namespaced("mine", "a");
    let merge = || bytes(&json!({}));
    let denied = [
        client.get(&secret, &mine, &get).await.err(),
        client.get(&secret, &mine, &live).await.err(),
        client.get(&kind, &other, &get).await.err(),
        client.get(&kind, &mine, &status).await.err(),
        client.list(&kind, &in_mode(ReadMode::Cached)).await.err(),
        client.list(&kind, &in_mode(ReadMode::Live)).await.err(),
        client.create(&kind, map(), &write).await.err(),
        client.update(&kind, map(), &write).await.err(),
        client
            .patch(&kind, &mine, PatchType::Merge, merge(), &write)
            .await
            .err(),
        client
            .apply(&kind, map(), &ApplyOptions::default())
            .await
            .err(),
        client
            .delete(&kind, &mine, &DeleteOptions::default())
            .await
            .err(),
        client
            .delete_collection(&kind, &Selection::default(), &DeleteOptions::default())
            .await
            .err(),
    ];
    for (at, denied) in denied.iter().enumerate() {
        let code = denied.as_ref().map(|error| error.code);
        assert_eq!(code, Some(ApiCode::Denied), "{at}: {denied:?}");
    }
    assert_eq!(fleet.simulated("alpha").requests().len(), asked);
    assert!(cluster.status().stores.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_continue_token_serves_no_other_list_and_no_other_grant() -> Result<()> {
    let (_fleet, cluster) = shared().await?;
    let grant = |namespaces: &[&str]| {
        cluster.client(Grant::new([rule(&["configmaps"], &READING, namespaces)]))
    };
    for mode in [ReadMode::Cached, ReadMode::Live] {
        let first = ListOptions {
            limit: 2,
            ..in_mode(mode)
        };
        let page = grant(&["mine", "other"])
            .list(&config_map(), &first)
            .await?;
        let token = page.continue_token.expect("there is more");
        let with = |token: &str| ListOptions {
            continue_token: Some(token.to_owned()),
            ..first.clone()
        };
        let labels = ListOptions {
            label_selector: Some("a=b".into()),
            ..with(&token)
        };
        let namespace = ListOptions {
            namespace: Some("other".into()),
            ..with(&token)
        };
        let mut refused = vec![
            grant(&["mine"]).list(&config_map(), &with(&token)).await,
            grant(&["other"]).list(&config_map(), &with(&token)).await,
            grant(&["*"]).list(&config_map(), &with(&token)).await,
            grant(&["mine", "other"]).list(&config_map(), &labels).await,
            grant(&["mine", "other"])
                .list(&config_map(), &namespace)
                .await,
        ];
        for made_up in ["", "cached:0:other/", "live:1:", &token[..12], "x:y:z"] {
            refused.push(
                grant(&["mine", "other"])
                    .list(&config_map(), &with(made_up))
                    .await,
            );
        }
        for (at, refused) in refused.into_iter().enumerate() {
            let code = refused.err().map(|error| error.code);
            assert_eq!(code, Some(ApiCode::Expired), "{mode:?}, {at}");
        }
        let next = grant(&["mine", "other"])
            .list(&config_map(), &with(&token))
            .await?;
        assert_eq!(next.items.len(), if mode == ReadMode::Live { 1 } else { 2 });
    }
    Ok(())
}

#[tokio::test]
async fn an_index_finds_nothing_outside_the_grant() -> Result<()> {
    let log = Arc::new(Log::default());
    let index = |builder: windlass_fleet::controller::Builder| {
        builder.index(Index {
            kind: config_map(),
            name: "uses".into(),
            path: FieldPath::parse("data.uses").expect("a path"),
            namespace_path: Some(FieldPath::parse("data.of").expect("a path")),
        })
    };
    let builder = Controller::builder(ControllerName::new("wide").expect("a name"));
    let wide = logged(
        index(builder.for_kind(config_map())),
        &Arc::default(),
        |_| async { Ok(Action::Done) },
    );
    // Hears of Secrets in its own namespace, and of ConfigMaps that refer to them; others do as well.
    let found = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let kept = found.clone();
    let grant = Arc::new(Grant::new([
        rule(&["configmaps"], &READING, &["default"]),
        rule(&["secrets"], &READING, &["default"]),
    ]));
    let reading = grant.clone();
    let builder = Controller::builder(ControllerName::new("narrow").expect("a name"))
        .tenant(TenantName::new("narrow").expect("a name"))
        .grant(grant)
        .primary(config_map())
        .watch(Watch::new(secret_kind(), Enqueue::ByIndex("uses".into())))
        .watch(Watch::new(config_map(), Enqueue::Primary));
    let narrow = logged(index(builder), &log, move |context| {
        let (kept, reading) = (kept.clone(), reading.clone());
        async move {
            let by_index = ListOptions {
                index: Some(("uses".into(), "default/s".into())),
                ..ListOptions::default()
            };
            let page = context
                .client(&reading)
                .list(&config_map(), &by_index)
                .await;
            kept.lock().push(page.map(|page| names(&page)));
            Ok(Action::Done)
        }
    });
    let fleet = TestFleet::start(&["alpha"], |b| b.controller(wide).controller(narrow)).await?;
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    fleet.apply("alpha", made)?;
    for namespace in ["default", "other"] {
        let refers = json!({"uses": "s", "of": "default"});
        fleet.apply("alpha", within(namespace, "refers", refers))?;
    }
    fleet.engage("alpha").await?;
    log.ran(&request("alpha", "refers"), 1).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    fleet.apply("alpha", secret)?;
    log.ran(&request("alpha", "refers"), 2).await?;
    log.ended(2).await?;
    for found in found.lock().iter() {
        assert_eq!(found.as_ref().expect("an answer"), &["default/refers"]);
    }
    // A marker that comes after whatever the Secret caused.
    fleet.apply("alpha", object("marker", json!({})))?;
    log.ran(&request("alpha", "marker"), 1).await?;
    let elsewhere = windlass_fleet::Request::new(
        windlass_harness::fleet::name("alpha"),
        ObjectKey::namespaced("other", "refers"),
    );
    assert_eq!(
        log.count(&elsewhere),
        0,
        "it got an event on an object that it may not see"
    );
    Ok(())
}

#[tokio::test]
async fn one_object_can_be_granted_by_its_name() -> Result<()> {
    let log = Arc::new(Log::default());
    let by_name = named(rule(&["configmaps"], &READING, &["mine"]), &["b"]);
    let grant = Arc::new(Grant::new([by_name]));
    let watch = Watch {
        field_selector: Some(windlass_fleet::selector::FieldSelector::name("b")),
        ..Watch::new(config_map(), Enqueue::Primary)
    };
    let builder = Controller::builder(ControllerName::new("one")?)
        .grant(grant.clone())
        .primary(config_map())
        .watch(watch);
    let one = logged(builder, &log, |_| async { Ok(Action::Done) });
    let (fleet, cluster) = shared().await?;
    fleet.handle.put_controller(one)?;
    let mine = windlass_fleet::Request::new(
        windlass_harness::fleet::name("alpha"),
        ObjectKey::namespaced("mine", "b"),
    );
    log.ran(&mine, 1).await?;
    fleet.apply("alpha", within("mine", "a", json!({"x": "1"})))?;
    fleet.apply("alpha", within("mine", "b", json!({"x": "1"})))?;
    log.ran(&mine, 2).await?;
    assert_eq!(log.total(), 2, "nothing but the one is told");

    let client = cluster.client((*grant).clone());
    let lists = || fleet.simulated("alpha").count(Verb::List, "configmaps");
    let before = lists();
    for mode in [ReadMode::Cached, ReadMode::Live] {
        let of = |selector: Option<&str>| ListOptions {
            field_selector: selector.map(str::to_owned),
            ..in_mode(mode)
        };
        assert_eq!(all(&client, of(Some("metadata.name=b"))).await?, ["mine/b"]);
        let asked = u64::from(mode == ReadMode::Live);
        assert_eq!(lists() - before, asked, "the cache of its watch has it");
        for selector in [None, Some("metadata.name=a"), Some("metadata.name!=a")] {
            let denied = all(&client, of(selector)).await.expect_err("not granted");
            assert_eq!(denied.code, ApiCode::Denied, "{mode:?} {selector:?}");
        }
    }
    let get = async |name: &str| {
        let key = ObjectKey::namespaced("mine", name);
        let found = client
            .get(&config_map(), &key, &GetOptions::default())
            .await;
        found
            .map(|found| found.is_some())
            .map_err(|error| error.code)
    };
    assert_eq!(
        (get("b").await, get("a").await),
        (Ok(true), Err(ApiCode::Denied))
    );
    Ok(())
}

#[tokio::test]
async fn no_name_leaves_its_place_in_the_url() -> Result<()> {
    let (fleet, cluster) = shared().await?;
    let client = cluster.client(Grant::new([rule(&["configmaps"], &["*"], &["*"])]));
    let asked = fleet.simulated("alpha").requests().len();
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let bad = ["a/status", "..", ".", "a%2Fstatus", "../secrets/s"];
    for bad in bad {
        let keys = [
            ObjectKey::namespaced("mine", bad),
            ObjectKey::namespaced(bad, "a"),
        ];
        for key in keys {
            let merge = bytes(&json!({}));
            let write = WriteOptions::default();
            let whole = bytes(&json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": key.namespace, "name": key.name},
            }));
            let refused = [
                client.get(&config_map(), &key, &live).await.err(),
                client
                    .get(&config_map(), &key, &GetOptions::default())
                    .await
                    .err(),
                client
                    .patch(&config_map(), &key, PatchType::Merge, merge, &write)
                    .await
                    .err(),
                client
                    .delete(&config_map(), &key, &DeleteOptions::default())
                    .await
                    .err(),
                client
                    .update(&config_map(), whole.clone(), &write)
                    .await
                    .err(),
                client
                    .apply(&config_map(), whole, &ApplyOptions::default())
                    .await
                    .err(),
            ];
            for (at, refused) in refused.into_iter().enumerate() {
                let code = refused.map(|error| error.code);
                assert_eq!(code, Some(ApiCode::Invalid), "{key:?}, {at}");
            }
        }
        let list = ListOptions {
            namespace: Some(bad.into()),
            ..in_mode(ReadMode::Live)
        };
        assert_eq!(
            client
                .list(&config_map(), &list)
                .await
                .err()
                .map(|e| e.code),
            Some(ApiCode::Invalid)
        );
        let part = GetOptions {
            subresource: Some(bad.into()),
            ..GetOptions::default()
        };
        let refused = client.get(&config_map(), &key("a"), &part).await.err();
        assert_eq!(
            refused.map(|error| error.code),
            Some(ApiCode::Invalid),
            "{bad}"
        );
    }
    assert_eq!(fleet.simulated("alpha").requests().len(), asked);
    Ok(())
}

#[tokio::test]
async fn what_reaches_a_server_in_somebodys_name_says_so_and_nothing_else_does() -> Result<()> {
    let (fleet, cluster) = shared().await?;
    let identity = windlass_fleet::grant::Identity::new("team-a", &["teams", "all"])?;
    let client = cluster.client(Grant::all().impersonate(Some(identity)));
    let (before, kind) = (fleet.simulated("alpha").requests().len(), config_map());
    let mine = ObjectKey::namespaced("mine", "a");
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let write = WriteOptions::default();
    client.get(&kind, &mine, &GetOptions::default()).await?;
    client.get(&kind, &mine, &live).await?;
    client.list(&kind, &in_mode(ReadMode::Live)).await?;
    client
        .create(&kind, bytes(&within("mine", "new", json!({}))), &write)
        .await?;
    client
        .delete_collection(&kind, &Selection::default(), &DeleteOptions::default())
        .await?;
    let calls = fleet.simulated("alpha").requests();
    let calls: Vec<_> = calls[before..]
        .iter()
        .filter(|call| call.verb != Verb::Watch)
        .collect();
    let of_caller: Vec<_> = calls
        .iter()
        .filter(|call| call.resource == "configmaps")
        .collect();
    assert!(of_caller.len() >= 5, "{calls:?}");
    for call in of_caller {
        assert_eq!(call.impersonate_user, "team-a", "{call:?}");
        assert_eq!(call.impersonate_groups, ["teams", "all"]);
    }
    // The host itself lists the namespaces to delete in.
    let namespaces: Vec<_> = calls
        .iter()
        .filter(|call| call.resource == "namespaces")
        .collect();
    assert!(!namespaces.is_empty());
    assert!(
        namespaces
            .iter()
            .all(|call| call.impersonate_user.is_empty())
    );
    // Caches are filled by the host, for everybody.
    let secrets = ListOptions::default();
    client.list(&secret_kind(), &secrets).await?;
    let filling = fleet.simulated("alpha").requests();
    let filling = filling.iter().filter(|call| call.resource == "secrets");
    assert!(filling.clone().count() > 0);
    assert!(filling.clone().all(|call| call.impersonate_user.is_empty()));
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_impersonates_is_not_used_in_anothers_name() -> Result<()> {
    let fleet = TestFleet::start(&["alpha"], |b| b).await?;
    let url = fleet.server.url("alpha");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: \"{url}\"}}}}]\n\
         users: [{{name: a, user: {{as: somebody}}}}]\ncontexts: [{{name: alpha, context: {{cluster: a, user: a}}}}]\n"
    );
    fleet.add_from("alpha", &text, &KubeconfigPolicy::file())?;
    let cluster = fleet.ready("alpha").await?;
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let client = cluster.client(Grant::all());
    client.get(&config_map(), &key("a"), &live).await?;
    let calls = fleet.simulated("alpha").requests();
    assert!(calls.iter().all(|call| call.impersonate_user == "somebody"));

    let identity = windlass_fleet::grant::Identity::new::<&str>("team-a", &[])?;
    let client = cluster.client(Grant::all().impersonate(Some(identity)));
    let refused = client.get(&config_map(), &key("a"), &live).await;
    let refused = refused.expect_err("they would be one");
    assert!(
        refused.message.contains("impersonate a user already"),
        "{refused:?}"
    );
    assert_eq!(fleet.simulated("alpha").requests().len(), calls.len());
    Ok(())
}

#[tokio::test]
async fn an_update_that_would_make_its_object_is_a_create_too() -> Result<()> {
    let (_fleet, cluster) = shared().await?;
    let lease = GroupVersionKind::new("coordination.k8s.io", "v1", "Lease");
    let update = async |verbs: &[&str], kind: &GroupVersionKind, version: Value| {
        let mut rule = rule(&["leases", "configmaps"], verbs, &["mine"]);
        rule.api_groups = vec!["".into(), "coordination.k8s.io".into()];
        let object = json!({
            "apiVersion": kind.api_version(), "kind": &*kind.kind,
            "metadata": {"namespace": "mine", "name": "new", "resourceVersion": version},
        });
        let client = cluster.client(Grant::new([rule]));
        let options = WriteOptions::default();
        let written = client.update(kind, bytes(&object), &options).await;
        written.err().map(|error| error.code)
    };
    for version in [Value::Null, json!(""), json!("0")] {
        let denied = update(&["update"], &lease, version).await;
        assert_eq!(denied, Some(ApiCode::Denied));
    }
    // With a version it changes what is there, or nothing. ConfigMaps are never made so.
    for (kind, version) in [(&lease, json!("1")), (&config_map(), Value::Null)] {
        let answered = update(&["update"], kind, version).await;
        assert!(
            matches!(answered, Some(ApiCode::NotFound | ApiCode::Conflict)),
            "{kind}: {answered:?}"
        );
    }
    let answered = update(&["update", "create"], &lease, Value::Null).await;
    assert_ne!(answered, Some(ApiCode::Denied));
    Ok(())
}
