//! The kinds of `windlass.dev/v1alpha1`, the same in files and in the API. Entry points: [`Kind`] and [`Resource`].
//!
//! Every field's default stands on the field. A field that is known but not in effect yet is refused by the kind's `check`,
//! never ignored.

mod admin;
pub(crate) mod bounded;
mod caches;
mod class;
mod guest;
mod guests;
mod http;
mod isolation;
mod leader_election;
mod lease;
mod limits;
mod manager;
mod provider;
mod quantity;
mod reconciler;
mod record;
mod registries;
mod rules;
mod sharding;
pub(crate) mod status;
mod tenant;

pub(crate) use admin::{AdminSpec, Authentication, MetricsAuthentication};
pub(crate) use bounded::{Items, Within};
pub(crate) use class::Class;
pub(crate) use guest::{GuestSource, GuestSpec};
pub(crate) use guests::GuestsSpec;
pub(crate) use http::{HttpRuleSpec, http_rules};
pub(crate) use isolation::IsolationSpec;
pub(crate) use limits::{Ceiling, ReconcilerLimits, TenantLimits};
pub(crate) use manager::ManagerSpec;
pub(crate) use provider::{
    AccessProviderSpec, ClusterApiSpec, ClusterProfilesSpec, HubSecretSpec, HubSpec, KcpSpec,
    KindSpec, KubeconfigFilesSpec, KubeconfigSecretsSpec, NamespacesSpec, ProfileArgsPolicy,
    ProfileEnvPolicy, ProviderSpec, ReadySpec, SingleSpec, Source,
};
pub(crate) use quantity::{Bytes, Processors};
pub(crate) use reconciler::{ConfigSource, ReconcilerSpec};
pub(crate) use record::RecordSpec;
pub(crate) use rules::{RuleSpec, rules};
pub(crate) use tenant::{Impersonate, TenantClusters, TenantSpec};
pub(crate) use windlass_files::{API_VERSION, Interval};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(crate) enum Kind {
    /// The process itself; at most one.
    Manager,
    /// A source of clusters.
    Provider,
    /// An owner of reconcilers.
    Tenant,
    /// A guest at work.
    Reconciler,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [
        Self::Manager,
        Self::Provider,
        Self::Tenant,
        Self::Reconciler,
    ];

    /// The word in `kind`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Manager => "Manager",
            Self::Provider => "Provider",
            Self::Tenant => "Tenant",
            Self::Reconciler => "Reconciler",
        }
    }

    /// The kind of this word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a document stands. Some fields may be given in one of the two only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a file, whose author runs the process.
    File,
    /// In the local cluster, as an object.
    Cluster,
}

/// What a document is called: unique in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(crate) struct Identity {
    /// The kind.
    pub(crate) kind: Kind,
    /// `metadata.name`; `<namespace>/<name>` of an object that has a namespace.
    pub(crate) name: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A document of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Resource<S> {
    /// Always [`API_VERSION`].
    pub(crate) api_version: String,
    /// The word of the [`Kind`].
    pub(crate) kind: String,
    /// Its name.
    pub(crate) metadata: Metadata,
    /// What it asks for.
    pub(crate) spec: S,
}

/// A document's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Metadata {
    /// Unique among documents of the kind.
    pub(crate) name: String,
    /// For people and tools. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// For people and tools. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A value that has the right type but cannot be honoured: its path (`spec.isolation`) and the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The path of the value from the document's root.
    pub(crate) path: String,
    /// What is wrong and the remedy, lower case, without the path.
    pub(crate) message: String,
}

impl Refusal {
    /// Refuses the value at `path`.
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

/// Whether a text is a DNS label (RFC 1123), as the name of a namespace is.
fn is_label(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inside)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
