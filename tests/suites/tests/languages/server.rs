//! What the API servers do in these tests: they answer by the name that is asked for, and write down what they are asked. Entry
//! point: [`Servers`].

use crate::book::{Book, Entry};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_apiserver::{Call, Hook, Reply, ReplyBody, RequestVerdict, Verb};

/// The hook of a subject's servers.
pub(crate) struct Servers {
    pub(crate) book: Arc<Book>,
}

impl Hook for Servers {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let verdict = match call.name.strip_prefix("answers-") {
            None => return RequestVerdict::Proceed,
            // Unwritten: over a connection that has been used before it is asked again.
            Some("cut") => return RequestVerdict::Cut,
            Some("never") => RequestVerdict::Silence,
            Some("endless") => RequestVerdict::Reply(reply(
                200,
                ReplyBody::Endless(Bytes::from_static(&[b'a'; 4096])),
            )),
            Some(code) => match code.parse() {
                Ok(code) => RequestVerdict::Reply(refusal(code, &call.name)),
                Err(_) => return RequestVerdict::Proceed,
            },
        };
        self.write(cluster, call, "");
        verdict
    }

    fn received(&self, cluster: &str, call: &Call, body: &Bytes) {
        self.write(cluster, call, &shown(body));
    }
}

impl Servers {
    /// What is the engine's own goes unwritten: discovery, watches, and what is in no case's namespace.
    fn write(&self, cluster: &str, call: &Call, body: &str) {
        if matches!(call.verb, Verb::Watch | Verb::Other) || call.resource == "events" {
            return;
        }
        let of = call.parameter("labelSelector");
        let of = of.as_deref().and_then(|labels| labels.strip_prefix("of="));
        let namespace = match (&*call.namespace, &*call.resource) {
            ("", "namespaces") => &call.name,
            ("", _) => of.unwrap_or_default(),
            (namespace, _) => namespace,
        };
        let text = format!(
            "{} {cluster} {} {} {} {body}",
            call.method,
            call.path,
            decoded(&call.query),
            call.content_type
        );
        self.book.add(namespace, Entry::Request(text));
    }
}

/// A body with its keys in order, so that equal ones are equal text.
fn shown(body: &Bytes) -> String {
    serde_json::from_slice::<Value>(body).map_or_else(
        |_| String::from_utf8_lossy(body).into_owned(),
        |json| json.to_string(),
    )
}

/// A query with what people read decoded.
fn decoded(query: &str) -> String {
    let pairs = [
        ("%2D", "-"),
        ("%3A", ":"),
        ("%3D", "="),
        ("%2F", "/"),
        ("%21", "!"),
    ];
    let text = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    pairs.iter().fold(query.to_owned(), text)
}

/// What an API server says that refuses.
fn refusal(code: u16, name: &str) -> Reply {
    let wait = (code == 429).then_some(2);
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": format!("Reason{code}"),
        "message": format!("refused on purpose: \"{code}\""),
        "details": {
            "name": name, "kind": "configmaps", "retryAfterSeconds": wait,
            "causes": [{"reason": "FieldValueInvalid", "message": "wrong", "field": format!("data.{code}")}],
        },
    });
    reply(code, ReplyBody::Whole(status.to_string().into()))
}

fn reply(code: u16, body: ReplyBody) -> Reply {
    Reply {
        code,
        headers: Vec::new(),
        body,
    }
}
