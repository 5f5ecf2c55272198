//! Claims: what an export sees of a consumer beside its own kinds.

use serde_json::{Value, json};
use windlass_apiserver::Server;

use super::Failure;
use super::asking::{Asker, BINDINGS, binding, consume, create, endpoint, provide};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn claim(plural: &str) -> Value {
    json!({"group": "", "resource": plural, "verbs": ["*"]})
}

fn answered(plural: &str, state: &str, selector: Value) -> Value {
    let mut claim = claim(plural);
    claim["state"] = state.into();
    claim["selector"] = selector;
    claim
}

fn map(name: &str, app: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": app}}})
}

/// A server, its export's virtual workspace as a whole, and as the consumer `root:one` sees it.
struct Claimed {
    server: Server,
    one: Asker,
    all: Asker,
    through: Asker,
}

async fn claimed(answers: Value) -> Result<Claimed, Failure> {
    let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
    let provider = provide(&server, json!([claim("configmaps"), claim("events")])).await?;
    let one = consume(&server, "root:one", answers).await?;
    let url = endpoint(&provider).await?;
    let name = server.workspace("root:one").ok_or("no workspace")?;
    Ok(Claimed {
        all: Asker::at(format!("{url}/clusters/*")),
        through: Asker::at(format!("{url}/clusters/{}", name.name())),
        server,
        one,
    })
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map(Vec::as_slice);
    let items = items.unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

#[tokio::test]
async fn an_accepted_claim_shows_what_its_selector_selects() -> Result<(), Failure> {
    let selector = json!({"matchLabels": {"app": "x"}});
    let asked = claimed(json!([answered("configmaps", "Accepted", selector)])).await?;
    create(&asked.one, MAPS, &map("seen", "x")).await?;
    create(&asked.one, MAPS, &map("hidden", "y")).await?;
    let (_, all) = asked.all.get("/api/v1/configmaps").await?;
    assert_eq!(names(&all), ["seen"], "{all}");
    let (_, inside) = asked.through.get(MAPS).await?;
    assert_eq!(names(&inside), ["seen"], "{inside}");
    let version = all["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={version}");
    let mut watch = asked.all.watch(&path).await?;
    let gone = json!({"metadata": {"labels": {"app": "y"}}});
    asked
        .one
        .ask("PATCH", &format!("{MAPS}/seen"), Some(&gone))
        .await?;
    assert_eq!(watch.event().await?.0, "DELETED");
    assert_eq!(asked.through.get(&format!("{MAPS}/seen")).await?.0, 404);
    Ok(())
}

#[tokio::test]
async fn what_is_made_through_the_virtual_workspace_gets_the_labels_of_the_selector()
-> Result<(), Failure> {
    let selector = json!({"matchLabels": {"app": "x"}});
    let asked = claimed(json!([answered("configmaps", "Accepted", selector)])).await?;
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare"}});
    let made = create(&asked.through, MAPS, &bare).await?;
    assert_eq!(made["metadata"]["labels"]["app"], "x", "{made}");
    assert_eq!(asked.through.get(&format!("{MAPS}/bare")).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_rejected_claim_is_denied_in_the_words_of_kcp() -> Result<(), Failure> {
    let asked = claimed(json!([answered(
        "configmaps",
        "Rejected",
        json!({"matchAll": true})
    )]))
    .await?;
    create(&asked.one, MAPS, &map("a", "x")).await?;
    let (status, denied) = asked.through.get(MAPS).await?;
    let text = denied["message"].as_str().unwrap_or_default();
    let why = "access denied";
    assert!(status == 403 && text.ends_with(why), "{status} {denied}");
    let (status, all) = asked.all.get("/api/v1/configmaps").await?;
    assert_eq!((status, names(&all).len()), (200, 0));
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_accepted_later_shows_objects_that_were_there_before() -> Result<(), Failure>
{
    let asked = claimed(json!([])).await?;
    create(&asked.one, MAPS, &map("a", "x")).await?;
    let mut watch = asked.all.watch("/api/v1/configmaps?watch=1").await?;
    let everything = json!({"matchAll": true});
    let accepted = json!({"spec": {"permissionClaims": [answered("configmaps", "Accepted", everything.clone())]}});
    let path = format!("{BINDINGS}/things");
    asked.one.ask("PATCH", &path, Some(&accepted)).await?;
    let (kind, object) = watch.event().await?;
    assert_eq!(
        (kind.as_str(), object["metadata"]["name"].as_str()),
        ("ADDED", Some("a"))
    );
    let rejected =
        json!({"spec": {"permissionClaims": [answered("configmaps", "Rejected", everything)]}});
    asked.one.ask("PATCH", &path, Some(&rejected)).await?;
    assert_eq!(watch.event().await?.0, "DELETED");
    Ok(())
}

#[tokio::test]
async fn a_claim_on_events_holds_for_both_groups() -> Result<(), Failure> {
    let everything = json!({"matchAll": true});
    let asked = claimed(json!([answered("events", "Accepted", everything)])).await?;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "action": "Look", "reason": "Seen",
        "note": "seen", "type": "Normal", "reportingController": "c", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Thing", "name": "a", "namespace": "default"}});
    create(&asked.through, EVENTS, &event).await?;
    let (_, core) = asked.all.get("/api/v1/events").await?;
    assert_eq!(names(&core), ["e"], "{core}");
    let own = asked.server.workspace("root:one").ok_or("no workspace")?;
    assert_eq!(own.list("v1", "Event", "default")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn bindings_of_the_export_are_seen_and_not_written() -> Result<(), Failure> {
    let asked = claimed(json!([])).await?;
    let (_, all) = asked
        .all
        .get("/apis/apis.kcp.io/v1alpha1/apibindings")
        .await?;
    assert_eq!(names(&all), ["things"], "{all}");
    assert_eq!(all["items"][0]["apiVersion"], "apis.kcp.io/v1alpha1");
    let ready = all["items"][0]["status"]["conditions"]
        .as_array()
        .map(|list| {
            list.iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
        });
    assert_eq!(ready, Some(true), "{all}");
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{BINDINGS}/things");
    let (status, denied) = asked.through.ask("PATCH", &path, Some(&change)).await?;
    let text = denied["message"].as_str().unwrap_or_default();
    let why = "access denied";
    assert!(status == 403 && text.ends_with(why), "{status} {denied}");
    Ok(())
}

#[tokio::test]
async fn a_binding_to_an_export_that_is_not_there_is_refused() -> Result<(), Failure> {
    let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
    server.add_workspace("root:one")?;
    let one = Asker::at(server.url("root:one"));
    let absent = binding("root:nobody", Value::Null);
    let (status, refused) = one.ask("POST", BINDINGS, Some(&absent)).await?;
    let text = refused["message"].as_str().unwrap_or_default();
    let why = "unable to create APIBinding: no permission to bind to export root:nobody:things";
    assert!(status == 403 && text.ends_with(why), "{status} {refused}");
    Ok(())
}
