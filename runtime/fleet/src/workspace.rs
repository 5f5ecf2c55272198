//! Workspaces of kcp in the keys of caches. Entry points: [`stored`] and [`holds`].
//!
//! A wildcard endpoint (`…/clusters/*`) serves the objects of many logical clusters, and one cache holds them all. There the namespace of
//! a key is `<logical cluster>|<namespace>`, with an empty namespace for cluster-scoped objects. No namespace has a `|` in its name.
//!
//! A *part* of a cache is a namespace as keys have it, or `<logical cluster>|`, which is all of that logical cluster. Keys are sorted, so
//! that a part is one range of them.

use std::sync::Arc;

/// The annotation by which an object tells its logical cluster.
pub(crate) const ANNOTATION: &str = "kcp.io/cluster";

/// What stands before the name of a logical cluster in a URL.
pub(crate) const CLUSTERS: &str = "/clusters/";

/// The end of the URL of an endpoint that serves many logical clusters.
pub(crate) const WILDCARD: &str = "/clusters/*";

/// A part of the URL of an endpoint of an APIExport.
pub(crate) const EXPORTS: &str = "/services/apiexport/";

/// A part of the URL of an endpoint of workspaces that are being initialized. All of what is in such a workspace is served, but not for
/// all workspaces at once.
pub(crate) const INITIALIZING: &str = "/services/initializingworkspaces/";

/// A part of the URL of an endpoint of workspaces that end. Nothing but the LogicalCluster of such a workspace is served.
pub(crate) const TERMINATING: &str = "/services/terminatingworkspaces/";

const END: char = '|';

/// The namespace of a key in a cache of many logical clusters; without a namespace, the part that is the whole logical cluster.
pub(crate) fn stored(workspace: &str, namespace: Option<&str>) -> Arc<str> {
    format!("{workspace}{END}{}", namespace.unwrap_or_default()).into()
}

/// The logical cluster, and the namespace there, of a key's namespace; `None` outside such caches.
pub(crate) fn split(namespace: &str) -> Option<(&str, Option<&str>)> {
    let (workspace, namespace) = namespace.split_once(END)?;
    Some((workspace, Some(namespace).filter(|name| !name.is_empty())))
}

/// Whether the keys of a namespace are in a part.
pub(crate) fn holds(part: &str, namespace: Option<&str>) -> bool {
    let namespace = namespace.unwrap_or_default();
    if part.ends_with(END) {
        namespace.starts_with(part)
    } else {
        namespace == part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_namespace_or_a_whole_logical_cluster() {
        let (team, scoped) = (stored("c1", Some("team")), stored("c1", None));
        assert!(holds(&team, Some(&team)) && holds(&scoped, Some(&scoped)));
        assert!(holds(&scoped, Some(&team)), "the whole has its namespaces");
        assert!(!holds(&team, Some(&scoped)));
        assert!(!holds(&scoped, Some("c10|team")));
        assert!(!holds(&scoped, None) && !holds("team", Some("team-b")));
        assert_eq!(split(&team), Some(("c1", Some("team"))));
        assert_eq!(split(&scoped), Some(("c1", None)));
        assert_eq!(split("team"), None);
    }
}
