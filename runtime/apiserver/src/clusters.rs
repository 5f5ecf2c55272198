//! The clusters of one server: [`Clusters`], found by name or by the path of a request.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::cluster::Cluster;

/// Where the paths of all clusters begin.
const ROOT: &str = "/clusters/";

/// What needs no encoding in the path segment that names a cluster.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':')
    .remove(b'~');

/// The clusters that are served now.
#[derive(Debug, Default)]
pub(crate) struct Clusters(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    clusters: BTreeMap<String, Cluster>,
    /// Other name → name.
    aliases: BTreeMap<String, String>,
}

impl Clusters {
    /// The cluster of that name, or of that other name.
    pub(crate) fn get(&self, name: &str) -> Option<Cluster> {
        let inner = self.0.read();
        let found = inner.clusters.get(name);
        found
            .or_else(|| inner.clusters.get(inner.aliases.get(name)?))
            .cloned()
    }

    /// Lets a cluster be found by another name too.
    pub(crate) fn also_at(&self, alias: &str, name: &str) {
        let mut inner = self.0.write();
        inner.aliases.insert(alias.to_owned(), name.to_owned());
    }

    /// Removes a cluster with its other name.
    pub(crate) fn forget(&self, name: &str, alias: &str) {
        let mut inner = self.0.write();
        inner.clusters.remove(name);
        inner.aliases.remove(alias);
    }

    /// The cluster of that name, made if there is none, atomically.
    pub(crate) fn get_or_add(&self, name: &str, make: impl FnOnce() -> Cluster) -> Cluster {
        self.0
            .write()
            .clusters
            .entry(name.to_owned())
            .or_insert_with(make)
            .clone()
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Cluster> {
        self.0.write().clusters.remove(name)
    }

    /// Every name, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.read().clusters.keys().cloned().collect()
    }

    /// The cluster that a path begins with, and the path inside it.
    pub(crate) fn locate<'a>(&self, path: &'a str) -> Option<(Cluster, &'a str)> {
        let (name, inner) = split(path)?;
        Some((self.get(&name)?, inner))
    }
}

/// The path of a cluster, whether or not it is served.
pub(crate) fn path(name: &str) -> String {
    format!("{ROOT}{}", utf8_percent_encode(name, SEGMENT))
}

/// The name that a path begins with, and the path inside that cluster.
fn split(path: &str) -> Option<(String, &str)> {
    let rest = path.strip_prefix(ROOT)?;
    let (name, inner) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let name = percent_decode_str(name).decode_utf8().ok()?;
    Some((name.into_owned(), inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_path() {
        for name in ["alpha", "a/b", "eu-1.prod_x:~", "100% größer"] {
            let inside = format!("{}/api/v1", path(name));
            assert_eq!(
                split(&inside),
                Some((name.to_owned(), "/api/v1")),
                "{inside}"
            );
            assert_eq!(split(&path(name)), Some((name.to_owned(), "/")));
        }
    }

    #[test]
    fn paths_of_no_cluster_name_none() {
        assert_eq!(split("/api/v1"), None);
        assert_eq!(split("/clusters"), None);
        assert_eq!(split("/clusters/%ff/api"), None);
    }
}
