//! Reads of the server's own JSON, as it is. Entry point: [`Client::read_raw`].

use super::Client;
use super::target::Awaited;
use crate::api::{ApiCode, ApiError};
use crate::grant::{Access, Verb};
use crate::http::transport::{Call, JSON};
use crate::kind::GroupVersionKind;
use bytes::Bytes;
use http::HeaderValue;
use http::header::ACCEPT;
use percent_encoding::percent_decode_str;

/// The documents that say what a server serves. No rule grants them; every user of a server may read them.
const DOCUMENTS: [&str; 4] = ["api", "apis", "openapi", "version"];

/// What a path asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    group: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Client {
    /// Answers a GET of `path`, which begins below the cluster's URL and has its query, with status and body as the server sends them. No
    /// cache answers it, and nothing is left out. It is checked as a `get` or, without a name, as a `list` of the resource that the path
    /// names. `accept` is the header.
    ///
    /// # Errors
    /// See [`Client`]; an answer with the status of an error is none. `invalid` for a watch, and for a path that is neither of a resource
    /// nor of a document about the server.
    pub async fn read_raw(
        &self,
        path: String,
        accept: &'static str,
    ) -> Result<(u16, Bytes), ApiError> {
        let any = GroupVersionKind::new("", "*", "*");
        let span = self.span("read", &any, None);
        let read = async {
            if let Some(read) = read(&path)? {
                self.check_read(&read)?;
            }
            let connected = self.cluster.connected();
            let backend = self.within(Awaited::Connection, connected).await??;
            let connection = &backend.connection;
            let call = Call {
                header: Some((ACCEPT, HeaderValue::from_static(accept))),
                ..Call::get(path, JSON)
            };
            let call = call
                .made_for(self.owner(), self.grant.identity())
                .in_workspace(self.part().workspace());
            let limit = self.scope.time_left(connection.options().call_timeout);
            let sent = connection.send(call, limit);
            let answer = self.within(Awaited::Answer, sent).await??;
            Ok((answer.status, answer.body))
        };
        self.scope.call(span, read).await
    }

    fn check_read(&self, read: &Read) -> Result<(), ApiError> {
        let labels = self.cluster.labels();
        let access = Access {
            cluster: self.facts(&labels),
            group: &read.group,
            resource: &read.resource,
            subresource: read.subresource.as_deref(),
            verb: if read.name.is_some() {
                Verb::Get
            } else {
                Verb::List
            },
            namespaced: read.namespace.is_some(),
            namespace: read.namespace.as_deref(),
            name: read.name.as_deref(),
        };
        let checked = self.grant().check(&access);
        checked.map_err(|denied| ApiError::host(ApiCode::Denied, denied.to_string()))
    }
}

/// What a path asks for; `None`: for a document about the server.
fn read(path: &str) -> Result<Option<Read>, ApiError> {
    let invalid = |message: &str| Err(ApiError::host(ApiCode::Invalid, message));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if query.split('&').any(|pair| pair.starts_with("watch=")) {
        return invalid("a watch goes on: read it with a source");
    }
    let decoded: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
    if parts.iter().any(|part| matches!(*part, "." | "..")) {
        return invalid("a part of the path leads out of it");
    }
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        [first, ..] if DOCUMENTS.contains(first) => return Ok(None),
        _ => return invalid("the path is neither of a resource nor of discovery"),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some(*namespace), inner),
        rest => (None, rest),
    };
    let text = |at: usize| rest.get(at).map(|part| (*part).to_owned());
    let below = rest.get(2..).filter(|below| !below.is_empty());
    Ok(Some(Read {
        group: group.to_owned(),
        resource: text(0).unwrap_or_default(),
        subresource: below.map(|below| below.join("/")),
        namespace: namespace.map(str::to_owned),
        name: text(1),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<(String, String, Option<String>, Option<String>)> {
        let read = read(path).unwrap()?;
        let resource = match &read.subresource {
            Some(below) => format!("{}/{below}", read.resource),
            None => read.resource,
        };
        Some((read.group, resource, read.namespace, read.name))
    }

    #[test]
    fn a_path_is_checked_as_what_it_reads() {
        let owned = |text: &str| Some(text.to_owned());
        assert_eq!(
            of("/apis/apps/v1/namespaces/a/deployments/b?x=y"),
            Some(("apps".into(), "deployments".into(), owned("a"), owned("b")))
        );
        assert_eq!(
            of("/api/v1/namespaces/a"),
            Some((String::new(), "namespaces".into(), None, owned("a")))
        );
        assert_eq!(
            of("/api/v1/namespaces/a/pods/b/log"),
            Some((String::new(), "pods/log".into(), owned("a"), owned("b")))
        );
        assert_eq!(
            of("/api/v1/secrets?limit=500"),
            Some((String::new(), "secrets".into(), None, None))
        );
        assert_eq!((of("/apis"), of("/apis/apps/v1")), (None, None));
    }

    #[test]
    fn what_is_no_read_of_an_object_is_refused() {
        let paths = [
            "/metrics",
            "/",
            "/logs/x",
            "/api/v1/pods?watch=1",
            "/api/../metrics",
        ];
        for path in paths {
            assert!(read(path).is_err(), "{path}");
        }
    }
}
