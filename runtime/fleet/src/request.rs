//! The object that a reconciler is to reconcile. Entry point: [`Request`].

use crate::name::ClusterName;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// The object's name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster_scoped(name: &str) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of another object in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }
}

impl ObjectKey {
    /// Checks that namespace and name can be segments of a URL and are not too long.
    ///
    /// # Errors
    /// [`ObjectNameError`] with the part that is wrong.
    pub fn check(&self) -> Result<(), ObjectNameError> {
        self.namespace.as_deref().map_or(Ok(()), check_name)?;
        check_name(&self.name)
    }
}

/// Most bytes of a name. For nearly every kind servers allow 253.
const LONGEST: usize = 1024;

/// The text is not a name of an object or a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name: it may not be empty, \".\" or \"..\", nor hold \"/\" or \"%\" or a control character, nor be longer than {LONGEST} bytes"
)]
pub struct ObjectNameError(String);

/// Checks that a name is one segment of a URL's path. kube-apiserver splits the path after decoding it, so that even an encoded slash
/// reaches another resource: the grant would be checked for one URL, and the server would serve another.
pub(crate) fn check_name(name: &str) -> Result<(), ObjectNameError> {
    let says_more = matches!(name, "" | "." | "..") || name.contains(['/', '%']);
    if !says_more && name.len() <= LONGEST && !name.contains(char::is_control) {
        return Ok(());
    }
    Err(ObjectNameError(name.chars().take(80).collect()))
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The identity of an object, and never an event about it. Equal requests merge in the queue. Cheap to clone.
///
/// Printed and parsed as `cluster://<cluster>/<namespace>/<name>`, the cluster percent-encoded; a cluster-scoped object has
/// an empty namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// The cluster; `""` is the local one.
    pub cluster: ClusterName,
    /// The object.
    pub key: ObjectKey,
}

impl Request {
    /// Makes a request.
    #[must_use]
    pub fn new(cluster: ClusterName, key: ObjectKey) -> Self {
        Self { cluster, key }
    }
}

/// Characters that would end the cluster part of the printed form, or cannot be typed.
const CLUSTER: &AsciiSet = &CONTROLS.add(b'/').add(b'%').add(b' ').add(b'?').add(b'#');

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = utf8_percent_encode(self.cluster.as_str(), CLUSTER);
        write!(
            f,
            "cluster://{cluster}/{}/{}",
            self.key.namespace.as_deref().unwrap_or(""),
            self.key.name
        )
    }
}

/// The text is not the printed form of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key: write cluster://<cluster>/<namespace>/<name>, with an empty namespace for cluster-scoped objects"
)]
pub struct ParseRequestError(String);

impl std::str::FromStr for Request {
    type Err = ParseRequestError;

    fn from_str(text: &str) -> Result<Self, ParseRequestError> {
        let error = || ParseRequestError(text.chars().take(300).collect());
        let rest = text.strip_prefix("cluster://").ok_or_else(error)?;
        let mut parts = rest.splitn(3, '/');
        let (Some(cluster), Some(namespace), Some(name)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(error());
        };
        if name.is_empty() || name.contains('/') {
            return Err(error());
        }
        let cluster = percent_decode_str(cluster)
            .decode_utf8()
            .map_err(|_| error())?;
        let cluster = ClusterName::new(cluster).map_err(|_| error())?;
        let namespace = (!namespace.is_empty()).then(|| namespace.into());
        Ok(Self {
            cluster,
            key: ObjectKey {
                namespace,
                name: name.into(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_refused_for_what_no_server_takes_for_a_name() {
        let long = "x".repeat(LONGEST + 1);
        for name in ["", ".", "..", "a/b", "a%2fb", "a\n", &long] {
            assert!(ObjectKey::cluster_scoped(name).check().is_err(), "{name:?}");
            assert!(ObjectKey::namespaced(name, "a").check().is_err());
        }
        assert!(ObjectKey::namespaced("default", "a.b").check().is_ok());
        let error = ObjectKey::cluster_scoped(&long).check().unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn printed_form_round_trips() {
        for (cluster, key, printed) in [
            (
                "alpha",
                ObjectKey::namespaced("default", "a"),
                "cluster://alpha/default/a",
            ),
            (
                "",
                ObjectKey::namespaced("default", "a"),
                "cluster:///default/a",
            ),
            (
                "clusters/a.kubeconfig+ctx",
                ObjectKey::cluster_scoped("node-1"),
                "cluster://clusters%2Fa.kubeconfig+ctx//node-1",
            ),
            (
                "100% a",
                ObjectKey::cluster_scoped("n"),
                "cluster://100%25%20a//n",
            ),
        ] {
            let request = Request::new(ClusterName::new(cluster).unwrap(), key);
            assert_eq!(request.to_string(), printed);
            assert_eq!(printed.parse::<Request>().unwrap(), request);
        }
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in [
            "",
            "alpha/default/a",
            "cluster://alpha",
            "cluster://alpha/ns",
            "cluster://alpha/ns/",
            "cluster://a/b/c/d",
        ] {
            assert!(text.parse::<Request>().is_err(), "{text}");
        }
    }
}
