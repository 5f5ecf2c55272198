//! The contract's types, with constructors, defaults and printed forms. Entry points: [`Request`], [`ObjectKey`], [`Action`].

use std::fmt;
use std::time::Duration;

pub use crate::bindings::exports::windlass::runtime::reconciler::{
    Change, ClusterScope, Description, Enqueue, Index, Watch,
};
pub use crate::bindings::windlass::runtime::client::{
    ApplyOptions, DeleteOptions, Event, EventType, GetOptions, ListOptions, ListPage, Operation,
    PatchType, Projection, Propagation, ReadMode, Reply, Selection, WriteOptions,
};
pub use crate::bindings::windlass::runtime::fleet::ClusterInfo;
pub use crate::bindings::windlass::runtime::log::Level;
pub use crate::bindings::windlass::runtime::types::{
    Action, ApiCode, GroupVersionKind, ObjectKey, Request,
};

pub(crate) use crate::bindings::windlass::runtime::types::{ApiError as RawApiError, Failure};

impl GroupVersionKind {
    /// Makes one from an `apiVersion` (`v1`, `apps/v1`) and a `kind`.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// The `apiVersion` of objects of this kind.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.kind)
    }
}

impl ObjectKey {
    /// The key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster_scoped(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of another object in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: impl Into<String>) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cluster://")?;
        for byte in self.cluster.bytes() {
            // These characters are not escaped in a URL; all others are percent-encoded.
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    write!(f, "{}", byte as char)?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        let namespace = self.key.namespace.as_deref().unwrap_or("");
        write!(f, "/{namespace}/{}", self.key.name)
    }
}

impl Action {
    /// Runs again after `delay`, or earlier after an event. Fractions of a millisecond are rounded up. The longest delay is
    /// about 49 days. Zero runs again at once, but at most every 100 ms for a key.
    #[must_use]
    pub fn requeue_after(delay: Duration) -> Self {
        let milliseconds = delay.as_nanos().div_ceil(1_000_000);
        Self::RequeueAfterMs(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }
}

impl Default for GetOptions {
    /// All of the object, from the cache.
    fn default() -> Self {
        Self {
            mode: ReadMode::Cached,
            projection: Projection::Full,
            subresource: None,
        }
    }
}

impl GetOptions {
    /// Reads from the API server.
    #[must_use]
    pub fn live() -> Self {
        Self {
            mode: ReadMode::Live,
            ..Self::default()
        }
    }
}

impl Default for ListOptions {
    /// All granted objects, from the cache, in pages of the host's default size.
    fn default() -> Self {
        Self {
            namespace: None,
            label_selector: None,
            field_selector: None,
            index: None,
            limit: 0,
            continue_token: None,
            mode: ReadMode::Cached,
            projection: Projection::Full,
        }
    }
}

impl ListOptions {
    /// In one namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// As kubectl's `-l`.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            label_selector: Some(selector.into()),
            ..self
        }
    }

    /// As kubectl's `--field-selector`.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            field_selector: Some(selector.into()),
            ..self
        }
    }

    /// The objects that an index of the description has under `value`.
    #[must_use]
    pub fn index(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            index: Some((name.into(), value.into())),
            ..self
        }
    }

    /// At most so many in a page.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// From the API server.
    #[must_use]
    pub fn live(self) -> Self {
        Self {
            mode: ReadMode::Live,
            ..self
        }
    }

    /// Only `apiVersion`, `kind` and `metadata` of each.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self {
            projection: Projection::Metadata,
            ..self
        }
    }
}

impl Default for WriteOptions {
    /// The object itself, not a dry run.
    fn default() -> Self {
        Self {
            subresource: None,
            dry_run: false,
        }
    }
}

impl WriteOptions {
    /// Writes the status subresource.
    #[must_use]
    pub fn status() -> Self {
        Self {
            subresource: Some("status".to_owned()),
            dry_run: false,
        }
    }
}

impl Default for ApplyOptions {
    /// The object itself, not a dry run; a field of another manager is a conflict.
    fn default() -> Self {
        Self {
            subresource: None,
            force: false,
            dry_run: false,
        }
    }
}

impl ApplyOptions {
    /// Takes fields over that another manager owns.
    #[must_use]
    pub fn forced() -> Self {
        Self {
            force: true,
            ..Self::default()
        }
    }
}

impl Default for DeleteOptions {
    /// No precondition, the kind's own propagation and grace period.
    fn default() -> Self {
        Self {
            uid: None,
            resource_version: None,
            propagation: None,
            grace_period_seconds: None,
            dry_run: false,
        }
    }
}

impl Default for Selection {
    /// All granted objects.
    fn default() -> Self {
        Self {
            namespace: None,
            label_selector: None,
            field_selector: None,
        }
    }
}

impl Selection {
    /// In one namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }

    /// As kubectl's `-l`.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            label_selector: Some(selector.into()),
            ..self
        }
    }
}

impl ApiCode {
    /// The word of the contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::AlreadyExists => "already-exists",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Denied => "denied",
            Self::UnknownKind => "unknown-kind",
            Self::Throttled => "throttled",
            Self::Expired => "expired",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::LimitExceeded => "limit-exceeded",
            Self::ClusterGone => "cluster-gone",
            Self::Cancelled => "cancelled",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_keys_print_as_people_write_them() {
        assert_eq!(
            GroupVersionKind::new("apps/v1", "Deployment").to_string(),
            "apps/v1/Deployment"
        );
        assert_eq!(GroupVersionKind::new("v1", "ConfigMap").api_version(), "v1");
        let request = Request {
            cluster: "alpha".into(),
            key: ObjectKey::namespaced("default", "a"),
        };
        assert_eq!(request.to_string(), "cluster://alpha/default/a");
        let request = Request {
            cluster: "prod/eu ż".into(),
            key: ObjectKey::cluster_scoped("a"),
        };
        assert_eq!(request.to_string(), "cluster://prod%2Feu%20%C5%BC//a");
    }

    #[test]
    fn a_fraction_of_a_millisecond_counts_as_a_whole_one() {
        for (delay, milliseconds) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(1499), 2),
            (Duration::from_millis(3), 3),
        ] {
            assert_eq!(
                Action::requeue_after(delay),
                Action::RequeueAfterMs(milliseconds)
            );
        }
    }

    #[test]
    fn a_delay_beyond_the_contract_is_the_longest_one() {
        assert_eq!(
            Action::requeue_after(Duration::from_secs(2)),
            Action::RequeueAfterMs(2000)
        );
        assert_eq!(
            Action::requeue_after(Duration::MAX),
            Action::RequeueAfterMs(u32::MAX)
        );
    }
}
