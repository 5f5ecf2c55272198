//! How the tests ask: [`Asker`], and objects of kcp to ask with.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use windlass_apiserver::Server;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

const DEADLINE: Duration = Duration::from_secs(20);

const JSON: &str = "application/json";

/// A client of one base URL.
pub(crate) struct Asker {
    base: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A watch that is read line by line.
pub(crate) struct Watch(Response<Incoming>);

impl Asker {
    pub(crate) fn at(base: impl Into<String>) -> Self {
        Self {
            base: base.into(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, Failure> {
        let kind = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", kind)
            .header("accept", accept)
            .body(Full::from(text))?;
        Ok(tokio::time::timeout(DEADLINE, self.client.request(request)).await??)
    }

    /// The status of the answer and its body.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Failure> {
        read(self.send(method, path, JSON, body).await?).await
    }

    /// As a GET that takes these forms of an answer alone.
    pub(crate) async fn accepting(
        &self,
        accept: &str,
        path: &str,
    ) -> Result<(u16, Value), Failure> {
        read(self.send("GET", path, accept, None).await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<(u16, Value), Failure> {
        self.ask("GET", path, None).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Result<Watch, Failure> {
        let answer = self.send("GET", path, JSON, None).await?;
        if answer.status() == 200 {
            return Ok(Watch(answer));
        }
        Err(format!("{path}: {}", answer.status()).into())
    }

    /// Watches a collection until an object of it is as wanted, and returns that.
    pub(crate) async fn until(
        &self,
        collection: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let mut watch = self.watch(&format!("{collection}?watch=1")).await?;
        loop {
            let line = watch.line().await?.ok_or("the watch ended")?;
            if line["type"] != "DELETED" && wanted(&line["object"]) {
                return Ok(line["object"].clone());
            }
        }
    }
}

async fn read(answer: Response<Incoming>) -> Result<(u16, Value), Failure> {
    let status = answer.status().as_u16();
    let collected = tokio::time::timeout(DEADLINE, answer.into_body().collect()).await??;
    let body = serde_json::from_slice(&collected.to_bytes()).unwrap_or_default();
    Ok((status, body))
}

impl Watch {
    /// The next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Result<Option<Value>, Failure> {
        let Some(frame) = tokio::time::timeout(DEADLINE, self.0.body_mut().frame()).await? else {
            return Ok(None);
        };
        let data = frame?.into_data().map_err(|_| "trailers in a watch")?;
        Ok(Some(serde_json::from_slice(&data)?))
    }

    /// The next line, as its type and the object.
    pub(crate) async fn event(&mut self) -> Result<(String, Value), Failure> {
        let mut line = self.line().await?.ok_or("the watch ended")?;
        let kind = line["type"].as_str().unwrap_or_default().to_owned();
        Ok((kind, line["object"].take()))
    }
}

pub(crate) const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
pub(crate) const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
pub(crate) const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
pub(crate) const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
pub(crate) const ALL_THINGS: &str = "/apis/example.com/v1/things";

/// Creates an object that must not be there yet.
pub(crate) async fn create(at: &Asker, path: &str, object: &Value) -> Result<Value, Failure> {
    let (status, body) = at.ask("POST", path, Some(object)).await?;
    if status == 201 {
        return Ok(body);
    }
    Err(format!("{path}: {status} {body}").into())
}

pub(crate) fn schema() -> Value {
    let color = json!({"type": "object", "properties": {"color": {"type": "string"}}});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"type": "object", "properties": {"spec": color, "status": free}}});
    json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}}})
}

pub(crate) fn export(claims: Value) -> Value {
    let resource = json!({"name": "things", "group": "example.com", "schema": "v1.things.example.com", "storage": {"crd": {}}});
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "things"},
        "spec": {"resources": [resource], "permissionClaims": claims}})
}

pub(crate) fn binding(provider: &str, claims: Value) -> Value {
    json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
        "spec": {"reference": {"export": {"path": provider, "name": "things"}}, "permissionClaims": claims}})
}

pub(crate) fn thing(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"color": "grey"}})
}

/// A client of a workspace, by its path.
pub(crate) fn inside(server: &Server, path: &str) -> Asker {
    Asker::at(server.url(path))
}

/// Makes `root:provider` with the export of things.
pub(crate) async fn provide(server: &Server, claims: Value) -> Result<Asker, Failure> {
    server.add_workspace("root:provider")?;
    let provider = inside(server, "root:provider");
    create(&provider, SCHEMAS, &schema()).await?;
    create(&provider, EXPORTS, &export(claims)).await?;
    Ok(provider)
}

/// Makes a workspace that binds the export of things.
pub(crate) async fn consume(server: &Server, path: &str, claims: Value) -> Result<Asker, Failure> {
    if server.workspace(path).is_none() {
        server.add_workspace(path)?;
    }
    let consumer = inside(server, path);
    create(&consumer, BINDINGS, &binding("root:provider", claims)).await?;
    consumer
        .until(BINDINGS, |one| one["status"]["phase"] == "Bound")
        .await?;
    Ok(consumer)
}

/// The URL of the export's virtual workspace, once there is one.
pub(crate) async fn endpoint(provider: &Asker) -> Result<String, Failure> {
    let slice = provider
        .until(SLICES, |slice| {
            slice["status"]["endpoints"][0]["url"].is_string()
        })
        .await?;
    Ok(slice["status"]["endpoints"][0]["url"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}
