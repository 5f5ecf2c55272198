//! Forks of a cluster: what they read of it, what they keep to themselves, and what differs in the end. Entry point: [`Pair`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use windlass_apiserver::{
    AnswerFault, Budget, Cluster, Faults, Origin, OriginError, RequestFault, Rule, Server, Verb,
};

type Failure = Box<dyn std::error::Error>;

/// A request over a connection of its own.
async fn send(method: &str, url: &str, body: &Value) -> Result<(u16, Bytes), Failure> {
    let uri: http::Uri = url.parse()?;
    let stream = TcpStream::connect(uri.authority().ok_or("no host")?.as_str()).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header("host", "localhost")
        .header("content-type", kind)
        .body(Full::new(Bytes::from(text)))?;
    let answer = sender.send_request(request).await?;
    let code = answer.status().as_u16();
    Ok((code, answer.into_body().collect().await?.to_bytes()))
}

/// Reads a cluster by its URL.
struct Reads(String);

impl Origin for Reads {
    fn read(&self, path: String, _: &'static str) -> BoxFuture<'_, Result<Bytes, OriginError>> {
        async move {
            let url = format!("{}{path}", self.0);
            let answer = send("GET", &url, &Value::Null).await;
            match answer.map_err(|error| OriginError::Unreachable(error.to_string()))? {
                (200, body) => Ok(body),
                (code, body) => Err(OriginError::Answered { code, body }),
            }
        }
        .boxed()
    }
}

/// A cluster and a fork of it.
struct Pair {
    server: Server,
    faults: Arc<Faults>,
    real: Cluster,
    fork: Cluster,
    budget: Arc<Budget>,
}

impl Pair {
    async fn new() -> Result<Self, Failure> {
        Self::with_budget(1 << 20).await
    }

    async fn with_budget(bytes: u64) -> Result<Self, Failure> {
        let faults = Arc::new(Faults::default());
        let builder = Server::builder().hook(faults.clone()).cluster("real");
        let server = builder.bind("127.0.0.1:0").await?;
        let real = server.cluster("real").ok_or("no cluster")?;
        let budget = Budget::new(bytes);
        let origin = Arc::new(Reads(server.url("real")));
        let fork = server.fork("fork", origin, budget.clone());
        Ok(Self {
            server,
            faults,
            real,
            fork,
            budget,
        })
    }

    /// A request to the fork.
    async fn ask(&self, method: &str, path: &str, body: Value) -> Result<(u16, Value), Failure> {
        let url = format!("{}{path}", self.server.url("fork"));
        let (code, body) = send(method, &url, &body).await?;
        Ok((code, serde_json::from_slice(&body)?))
    }

    /// What was asked of the cluster about config maps since the start.
    fn reads(&self) -> (u64, u64) {
        let count = |verb| self.real.count(verb, "configmaps");
        (count(Verb::Get), count(Verb::List))
    }

    /// The verbs of everything that the cluster was asked.
    fn verbs(&self) -> Vec<Verb> {
        let calls = self.real.requests();
        calls.iter().map(|call| call.verb).collect()
    }

    /// Changes as `kind name`, with `+`, `~` or `-` before it.
    fn changes(&self) -> Vec<String> {
        let changes = self.fork.fork_changes().into_iter();
        let shown = changes.map(|change| {
            let sign = match (change.before, change.after) {
                (None, _) => "+",
                (_, None) => "-",
                _ => "~",
            };
            format!("{sign} {} {}", change.kind, change.name)
        });
        shown.collect()
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, app: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}}, "data": {"k": "v"}})
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

#[tokio::test]
async fn each_part_is_read_once_and_nothing_but_reads_reaches_the_cluster() -> Result<(), Failure> {
    let pair = Pair::new().await?;
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        pair.real.create(map(name, app))?;
    }
    let original = pair.real.get("v1", "ConfigMap", "default", "a")?;
    let original = original.ok_or("no object")?;
    for _ in 0..2 {
        let (code, found) = pair.ask("GET", &format!("{MAPS}/a"), Value::Null).await?;
        assert_eq!((code, &found), (200, &original), "the object as it is");
    }
    assert_eq!(pair.reads(), (1, 0));
    let selected = format!("{MAPS}?labelSelector=app%3Dx");
    for _ in 0..2 {
        let (_, list) = pair.ask("GET", &selected, Value::Null).await?;
        assert_eq!(names(&list), ["a", "b"]);
    }
    assert_eq!(pair.reads(), (1, 1));
    // A wider list has the rest, and what happened meanwhile is not seen.
    pair.real.delete("v1", "ConfigMap", "default", "a")?;
    let (_, list) = pair.ask("GET", "/api/v1/configmaps", Value::Null).await?;
    assert_eq!(names(&list), ["a", "b", "c"]);
    assert_eq!(pair.reads(), (1, 2));
    // Everything is known now, also what is absent.
    let (code, _) = pair.ask("GET", &format!("{MAPS}/d"), Value::Null).await?;
    assert_eq!((code, pair.reads()), (404, (1, 2)));
    let written = pair.ask("POST", MAPS, map("d", "x")).await?;
    assert_eq!(written.0, 201);
    let is_read = |verb: &Verb| matches!(verb, Verb::Get | Verb::List | Verb::Other);
    assert!(pair.verbs().iter().all(is_read), "{:?}", pair.verbs());
    assert!(pair.budget.used() > 0);
    Ok(())
}

#[tokio::test]
async fn writes_stay_in_the_fork_and_are_what_differs() -> Result<(), Failure> {
    let pair = Pair::new().await?;
    for name in ["kept", "changed", "gone"] {
        pair.real.create(map(name, "x"))?;
    }
    let before = pair.real.objects();
    let patch = json!({"data": {"k": "w"}});
    let at = |name: &str| format!("{MAPS}/{name}");
    let (code, changed) = pair.ask("PATCH", &at("changed"), patch).await?;
    assert_eq!(code, 200);
    let version = |object: &Value| -> Option<u64> {
        object["metadata"]["resourceVersion"].as_str()?.parse().ok()
    };
    let there = pair.real.get("v1", "ConfigMap", "default", "changed")?;
    assert!(version(&changed) > version(&there.ok_or("no object")?));
    assert_eq!(pair.ask("DELETE", &at("gone"), Value::Null).await?.0, 200);
    assert_eq!(pair.ask("POST", MAPS, map("new", "x")).await?.0, 201);
    let twice = pair.ask("POST", MAPS, map("kept", "x")).await?;
    assert_eq!(twice.0, 409, "{twice:?}");
    let (_, list) = pair.ask("GET", MAPS, Value::Null).await?;
    assert_eq!(names(&list), ["changed", "kept", "new"]);
    let expected = ["~ ConfigMap changed", "- ConfigMap gone", "+ ConfigMap new"];
    assert_eq!(pair.changes(), expected);
    assert_eq!(pair.real.objects(), before);
    pair.fork.settle_fork();
    assert_eq!(pair.changes(), [""; 0]);
    pair.ask("DELETE", &at("new"), Value::Null).await?;
    assert_eq!(pair.changes(), ["- ConfigMap new"]);
    Ok(())
}

#[tokio::test]
async fn an_owner_that_was_not_read_lives_and_one_that_is_deleted_takes_its_dependents()
-> Result<(), Failure> {
    let pair = Pair::new().await?;
    let owner = pair.real.create(map("owner", "x"))?;
    let mut dependent = map("dependent", "x");
    dependent["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"]}]);
    pair.real.create(dependent)?;
    let at = |name: &str| format!("{MAPS}/{name}");
    let touched = json!({"data": {"touched": "yes"}});
    pair.ask("PATCH", &at("dependent"), touched).await?;
    pair.fork.settle();
    assert_eq!(pair.changes(), ["~ ConfigMap dependent"]);
    pair.ask("DELETE", &at("owner"), Value::Null).await?;
    pair.fork.settle();
    assert_eq!(
        pair.changes(),
        ["- ConfigMap dependent", "- ConfigMap owner"]
    );
    Ok(())
}

#[tokio::test]
async fn custom_kinds_have_the_schema_of_the_cluster() -> Result<(), Failure> {
    let pair = Pair::new().await?;
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 3}, "colour": {"type": "string", "enum": ["red", "blue"]}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    pair.real.create(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}),
    )?;
    let boats = "/apis/x.dev/v1/namespaces/default/boats";
    let boat = |colour: &str| json!({"apiVersion": "x.dev/v1", "kind": "Boat", "metadata": {"name": colour}, "spec": {"colour": colour}});
    let (code, made) = pair.ask("POST", boats, boat("red")).await?;
    assert_eq!((code, &made["spec"]["size"]), (201, &json!(3)), "{made}");
    let (code, refused) = pair.ask("POST", boats, boat("green")).await?;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(pair.changes(), ["+ Boat red"]);
    Ok(())
}

#[tokio::test]
async fn what_the_cluster_refuses_the_fork_refuses_in_its_words() -> Result<(), Failure> {
    let pair = Pair::new().await?;
    pair.real.create(map("a", "x"))?;
    let refusal = RequestFault::Status {
        code: 403,
        retry_after: None,
    };
    let of = |rule: Rule, plural: &str| rule.cluster("real").resource(plural);
    pair.faults.add(of(Rule::new(refusal), "secrets"));
    let path = "/api/v1/namespaces/default/secrets";
    let (code, answer) = pair.ask("GET", path, Value::Null).await?;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")));
    // It is asked again, for the right may come.
    pair.faults.clear();
    assert_eq!(pair.ask("GET", path, Value::Null).await?.0, 200);
    pair.faults
        .add(of(Rule::new(AnswerFault::Lost), "configmaps"));
    let (code, _) = pair.ask("GET", MAPS, Value::Null).await?;
    assert_eq!(code, 503);
    pair.faults.clear();
    let (_, list) = pair.ask("GET", MAPS, Value::Null).await?;
    assert_eq!(names(&list), ["a"]);
    Ok(())
}

#[tokio::test]
async fn forks_hold_no_more_than_they_may() -> Result<(), Failure> {
    let pair = Pair::with_budget(4096).await?;
    for number in 0..20 {
        pair.real.create(map(&format!("m-{number}"), "x"))?;
    }
    let (code, refused) = pair.ask("GET", MAPS, Value::Null).await?;
    assert_eq!(code, 413, "{refused}");
    let budget = pair.budget.clone();
    assert!(budget.used() > 0);
    pair.server.remove_cluster("fork");
    drop(pair);
    let given_back = async {
        while budget.used() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), given_back).await?;
    Ok(())
}

#[tokio::test]
async fn what_goes_with_a_namespace_or_a_definition_is_read_before_it_goes() -> Result<(), Failure>
{
    let pair = Pair::new().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    pair.real.create(namespace)?;
    let mut inside = map("inside", "x");
    inside["metadata"]["namespace"] = json!("team");
    pair.real.create(inside)?;
    pair.ask("DELETE", "/api/v1/namespaces/team", Value::Null)
        .await?;
    pair.fork.settle();
    let changes = pair.changes();
    assert!(
        changes.contains(&"- ConfigMap inside".to_owned()),
        "{changes:?}"
    );
    assert!(
        changes.contains(&"- Namespace team".to_owned()),
        "{changes:?}"
    );

    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    pair.real.create(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}),
    )?;
    pair.real
        .create(json!({"apiVersion": "x.dev/v1", "kind": "Boat",
        "metadata": {"name": "red", "namespace": "default"}}))?;
    // A fork that begins now.
    let origin = Arc::new(Reads(pair.server.url("real")));
    let late = pair.server.fork("late", origin, pair.budget.clone());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.x.dev";
    let url = format!("{}{path}", pair.server.url("late"));
    assert_eq!(send("DELETE", &url, &Value::Null).await?.0, 200);
    late.settle();
    let gone: Vec<String> = late.fork_changes().into_iter().map(|it| it.kind).collect();
    assert!(gone.contains(&"Boat".to_owned()), "{gone:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_read_late_goes_with_its_owner_and_a_kind_of_the_fork_alone_is_empty()
-> Result<(), Failure> {
    let pair = Pair::new().await?;
    let owner = pair.real.create(map("owner", "x"))?;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"]}]);
    pair.real
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata":
        {"name": "dependent", "namespace": "default", "ownerReferences": reference}}))?;
    pair.ask("DELETE", &format!("{MAPS}/owner"), Value::Null)
        .await?;
    pair.fork.settle();
    let secrets = "/api/v1/namespaces/default/secrets";
    pair.ask("GET", secrets, Value::Null).await?;
    pair.fork.settle();
    let expected = ["- ConfigMap owner", "- Secret dependent"];
    assert_eq!(pair.changes(), expected);

    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(pair.ask("POST", definitions, definition).await?.0, 201);
    let boats = "/apis/x.dev/v1/namespaces/default/boats";
    let (code, list) = pair.ask("GET", boats, Value::Null).await?;
    assert_eq!((code, names(&list).len()), (200, 0), "{list}");
    let log = "/api/v1/namespaces/default/pods/p/log";
    assert_eq!(pair.ask("GET", log, Value::Null).await?.0, 501);
    Ok(())
}
