//! Makes the calls of its config, and returns their results. Entry point: [`Calls`]; [`script`] describes the config.
//!
//! With `{"fields": PATH}` it reads this field of ConfigMaps alone.
//! With `{"http": [{"method", "url", "headers", "body", "ms"}, …]}` it calls servers that are no API servers.

use serde_json::{Value, json};
use std::time::Duration;
use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, http};

/// The guest. Its result is the message of a terminal failure.
struct Calls;
windlass_sdk::guest!(Calls);

impl Reconciler for Calls {
    fn describe() -> Result<Description> {
        let mut watch =
            Watch::of(GroupVersionKind::new("v1", "ConfigMap")).labels("test.windlass.dev/run");
        let config: Value = config()?;
        if let Some(path) = config["fields"].as_str() {
            watch = watch.reads(&[path]);
        }
        let mut description = Description::new("calls what it is told to").primary_watch(watch);
        description.indexes.push(windlass_sdk::Index {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            name: "color".to_owned(),
            path: "data.color".to_owned(),
            namespace_path: None,
            options: Vec::new(),
        });
        Ok(description)
    }

    fn reconcile(_: &Request, cluster: &Cluster) -> Result<Action> {
        let config: Value = config()?;
        let answers = match &config["http"] {
            Value::Array(requests) => requests.iter().map(asked).collect(),
            _ => script::run(cluster.raw())?,
        };
        Err(Error::terminal(script::text(&answers)))
    }
}

/// The answer to a request of the config.
fn asked(request: &Value) -> Value {
    let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
    let mut asked = http::Request::new(text("method"), text("url")).body(text("body"));
    for pair in script::items(&request["headers"]) {
        let part = |at: usize| pair[at].as_str().unwrap_or_default();
        asked = asked.header(part(0), part(1));
    }
    asked.timeout = request["ms"].as_u64().map(Duration::from_millis);
    match asked.send() {
        Ok(answer) => {
            json!({"status": answer.status, "body": answer.text(), "type": answer.header("content-type")})
        }
        Err(failed) => json!({"code": failed.code.as_str(), "message": failed.message}),
    }
}
