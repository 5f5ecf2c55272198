//! Kinds of objects and the resources that serve them. Entry point: [`GroupVersionKind`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The group of kinds that the host makes, in the local cluster. No server is asked for a kind of it, and no server has it.
pub const FLEET_GROUP: &str = "fleet.windlass.dev";

/// Group, version and kind, as in an object's `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// `""` for the core group.
    pub group: Arc<str>,
    /// For example `v1`.
    pub version: Arc<str>,
    /// For example `ConfigMap`.
    pub kind: Arc<str>,
}

impl GroupVersionKind {
    /// Makes one from its three parts.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// The kind of clusters: `fleet.windlass.dev/v1alpha1 Cluster`.
    #[must_use]
    pub fn of_clusters() -> Self {
        Self::new(FLEET_GROUP, "v1alpha1", "Cluster")
    }

    /// Whether the host makes its objects.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        &*self.group == FLEET_GROUP
    }

    /// The `apiVersion` of objects of this kind: `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Reads an `apiVersion` and a `kind`.
    #[must_use]
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        match api_version.split_once('/') {
            Some((group, version)) => Self::new(group, version, kind),
            None => Self::new("", api_version, kind),
        }
    }

    /// The kind without its version.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}/{}", self.version, self.kind)
        } else {
            write!(f, "{}/{}/{}", self.group, self.version, self.kind)
        }
    }
}

/// Group and kind, for where the version does not matter (owner references).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// `""` for the core group.
    pub group: Arc<str>,
    /// For example `Deployment`.
    pub kind: Arc<str>,
}

impl fmt::Display for GroupKind {
    /// `ConfigMap`, `Deployment.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

/// The text is not a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind: write it as Deployment.apps, or as ConfigMap for the core group")]
pub struct GroupKindError(String);

impl FromStr for GroupKind {
    type Err = GroupKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        let no_group = text.contains('.') && group.is_empty();
        let of_letters = kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if no_group || !of_letters || !kind.starts_with(|first: char| first.is_ascii_uppercase()) {
            return Err(GroupKindError(text.to_owned()));
        }
        Ok(Self {
            group: group.into(),
            kind: kind.into(),
        })
    }
}

/// What discovery knows of a kind: the resource that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The kind served.
    pub kind: GroupVersionKind,
    /// The plural in URLs, for example `configmaps`.
    pub plural: Arc<str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// The path of this resource's collection below the server's root: `/api/v1/namespaces/x/configmaps`. Every segment is
    /// percent-encoded, so that a name can never reach another path.
    #[must_use]
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.kind.group.is_empty() {
            format!("/api/{}", encode_segment(&self.kind.version))
        } else {
            format!(
                "/apis/{}/{}",
                encode_segment(&self.kind.group),
                encode_segment(&self.kind.version)
            )
        };
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str("/namespaces/");
            path.push_str(&encode_segment(namespace));
        }
        path.push('/');
        path.push_str(&encode_segment(&self.plural));
        path
    }

    /// The path of one object, or of a subresource of it.
    #[must_use]
    pub(crate) fn object_path(
        &self,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
    ) -> String {
        let mut path = self.collection_path(namespace);
        path.push('/');
        path.push_str(&encode_segment(name));
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(&encode_segment(subresource));
        }
        path
    }
}

/// Percent-encodes one path segment: everything but unreserved characters and `:` is encoded; `.` and `..` cannot come out.
fn encode_segment(segment: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b':');
    if segment == "." || segment == ".." {
        return segment.replace('.', "%2E");
    }
    utf8_percent_encode(segment, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, plural: &str, namespaced: bool) -> Resource {
        Resource {
            kind: GroupVersionKind::new(group, "v1", "X"),
            plural: plural.into(),
            namespaced,
        }
    }

    #[test]
    fn paths_follow_the_api_conventions() {
        let core = resource("", "configmaps", true);
        assert_eq!(core.collection_path(None), "/api/v1/configmaps");
        assert_eq!(
            core.object_path(Some("ns"), "a", None),
            "/api/v1/namespaces/ns/configmaps/a"
        );
        let apps = resource("apps", "deployments", true);
        assert_eq!(
            apps.object_path(Some("ns"), "a", Some("status")),
            "/apis/apps/v1/namespaces/ns/deployments/a/status"
        );
        assert_eq!(
            resource("", "nodes", false).object_path(Some("ns"), "n", None),
            "/api/v1/nodes/n"
        );
    }

    #[test]
    fn a_name_cannot_leave_its_segment() {
        let core = resource("", "configmaps", true);
        assert_eq!(
            core.object_path(Some("a/../b"), "../secrets?x#y", None),
            "/api/v1/namespaces/a%2F..%2Fb/configmaps/..%2Fsecrets%3Fx%23y"
        );
        assert_eq!(
            core.object_path(Some(".."), ".", None),
            "/api/v1/namespaces/%2E%2E/configmaps/%2E"
        );
        assert_eq!(
            core.object_path(None, "system:node", None),
            "/api/v1/configmaps/system:node"
        );
    }

    #[test]
    fn api_versions_round_trip() {
        for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment")] {
            assert_eq!(
                GroupVersionKind::from_api_version(api_version, kind).api_version(),
                api_version
            );
        }
    }
}
