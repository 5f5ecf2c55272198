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
pub(crate) struct Clusters(RwLock<BTreeMap<String, Cluster>>);

impl Clusters {
    pub(crate) fn get(&self, name: &str) -> Option<Cluster> {
        self.0.read().get(name).cloned()
    }

    /// The cluster of that name, made if there is none, atomically.
    pub(crate) fn get_or_add(&self, name: &str, make: impl FnOnce() -> Cluster) -> Cluster {
        self.0
            .write()
            .entry(name.to_owned())
            .or_insert_with(make)
            .clone()
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Cluster> {
        self.0.write().remove(name)
    }

    /// Every name, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.read().keys().cloned().collect()
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
