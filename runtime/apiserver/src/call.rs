//! What a request asks for: [`Call`], read from its method, path and query.

use percent_encoding::percent_decode_str;

/// What is done, in RBAC's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// One object.
    Get,
    /// Many objects.
    List,
    /// Changes of many objects, or of one.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, server-side apply included.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of many objects.
    DeleteCollection,
    /// Discovery, OpenAPI, health, version.
    Other,
}

/// One request, as logged and as hooks see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// HTTP method.
    pub method: String,
    /// Path inside the cluster, without the prefix that names it.
    pub path: String,
    /// Query as sent, without the question mark.
    pub query: String,
    /// What is done.
    pub verb: Verb,
    /// API group; empty for core, and for everything that is not about a resource.
    pub group: String,
    /// API version; empty where no resource is asked for.
    pub version: String,
    /// Plural of the resource; empty where none is asked for.
    pub resource: String,
    /// Namespace; empty for all or none.
    pub namespace: String,
    /// Name; empty for a collection.
    pub name: String,
    /// Subresource; mostly empty.
    pub subresource: String,
    /// Content type of the body without parameters. It is the kind of a patch.
    pub content_type: String,
    /// `User-Agent` header.
    pub user_agent: String,
    /// `Impersonate-User` header; empty: none. Every user may do everything here.
    pub impersonate_user: String,
    /// `Impersonate-Group` headers.
    pub impersonate_groups: Vec<String>,
    /// The virtual workspace of kcp that it came through, such as `apiexport/<logical cluster>/<export>`; empty: none.
    pub service: String,
}

impl Call {
    /// Reads method, path (inside the cluster) and query.
    pub(crate) fn parse(method: &str, path: &str, query: &str) -> Self {
        let mut call = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            verb: Verb::Other,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            content_type: String::new(),
            user_agent: String::new(),
            impersonate_user: String::new(),
            impersonate_groups: Vec::new(),
            service: String::new(),
        };
        let decoded: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let rest = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                call.version = (*version).to_owned();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                call.group = (*group).to_owned();
                call.version = (*version).to_owned();
                rest
            }
            _ => return call,
        };
        let (old_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        // Below a namespace, all but its own subresources are resources inside it.
        let rest = match rest {
            ["namespaces", namespace, inner @ ..]
                if !inner.is_empty() && !matches!(inner[0], "status" | "finalize") =>
            {
                call.namespace = (*namespace).to_owned();
                inner
            }
            rest => rest,
        };
        call.resource = rest[0].to_owned();
        call.name = rest.get(1).copied().unwrap_or_default().to_owned();
        call.subresource = rest.get(2..).unwrap_or_default().join("/");
        call.verb = verb(
            method,
            !call.name.is_empty(),
            old_watch || call.asks_to_watch(),
        );
        if old_watch && !call.name.is_empty() {
            call.query = format!("{}&fieldSelector=metadata.name%3D{}", call.query, call.name);
            call.name.clear();
        }
        call
    }

    /// A query parameter, decoded; the first where it is given twice.
    pub fn parameter(&self, key: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| {
                percent_decode_str(&text.replace('+', " "))
                    .decode_utf8_lossy()
                    .into_owned()
            };
            (decode(name) == key).then(|| decode(value))
        })
    }

    /// A boolean query parameter; absent is false.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(
            self.parameter(key).as_deref(),
            Some("true" | "1" | "True" | "t")
        )
    }

    /// Whether it asks for all there is: a list, each page of one, or a watch that begins with one. Not a list of a single object,
    /// which clients make to learn the server's version.
    pub fn asks_for_all(&self) -> bool {
        let version_only = self.parameter("limit").as_deref() == Some("1");
        (self.verb == Verb::List && !version_only)
            || (self.verb == Verb::Watch && self.flag("sendInitialEvents"))
    }

    fn asks_to_watch(&self) -> bool {
        self.flag("watch") && self.name.is_empty()
    }
}

fn verb(method: &str, named: bool, watch: bool) -> Verb {
    match (method, named) {
        ("GET" | "HEAD", _) if watch => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::Get,
        ("GET" | "HEAD", false) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_group_namespace_name_and_subresource() {
        let call = Call::parse(
            "PUT",
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            "dryRun=All",
        );
        let parts = (
            call.verb,
            call.group.as_str(),
            call.namespace.as_str(),
            call.name.as_str(),
            call.subresource.as_str(),
        );
        assert_eq!(parts, (Verb::Update, "apps", "a", "b", "status"));
        assert_eq!(call.parameter("dryRun").as_deref(), Some("All"));
    }

    #[test]
    fn a_namespace_is_a_resource_and_its_status_a_subresource() {
        let call = Call::parse("GET", "/api/v1/namespaces/a", "");
        assert_eq!(
            (
                call.resource.as_str(),
                call.name.as_str(),
                call.namespace.as_str()
            ),
            ("namespaces", "a", "")
        );
        let call = Call::parse("PUT", "/api/v1/namespaces/a/finalize", "");
        assert_eq!(
            (
                call.resource.as_str(),
                call.name.as_str(),
                call.subresource.as_str()
            ),
            ("namespaces", "a", "finalize")
        );
    }

    #[test]
    fn a_watch_is_told_from_a_list() {
        assert_eq!(
            Call::parse("GET", "/api/v1/pods", "watch=true").verb,
            Verb::Watch
        );
        assert_eq!(
            Call::parse("GET", "/api/v1/watch/pods", "").verb,
            Verb::Watch
        );
        assert_eq!(
            Call::parse("GET", "/api/v1/pods", "limit=5").verb,
            Verb::List
        );
        assert_eq!(Call::parse("GET", "/apis/apps/v1", "").verb, Verb::Other);
    }
}
