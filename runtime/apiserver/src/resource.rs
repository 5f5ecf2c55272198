//! One version of one kind, as a cluster serves it: [`Resource`].

use std::sync::Arc;

use serde_json::Value;

use crate::rules::Rules;
use crate::schema::{NodeId, Schema, Schemas};
use crate::status::Subject;

/// Where the objects of a kind are kept, whatever the version they are asked in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CollectionId {
    pub(crate) group: Box<str>,
    pub(crate) plural: Box<str>,
    /// Which export of kcp the kind comes from; empty for every other kind. Kinds of one name from two exports are two kinds.
    pub(crate) identity: Box<str>,
}

/// The three places of a scale subresource.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

/// A subresource of a built-in kind beside its status and scale.
#[derive(Debug)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) verbs: Vec<String>,
    /// The kind of its requests and answers.
    pub(crate) kind: Box<Resource>,
}

/// One version of one kind, as served.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    pub(crate) subresources: Vec<Subresource>,
    /// `additionalPrinterColumns` of a CRD. Without any, a table shows the age.
    pub(crate) printer_columns: Vec<Value>,
    /// Made by a CRD.
    pub(crate) custom: bool,
    /// Name of the schema in OpenAPI documents.
    pub(crate) definition: String,
    /// The schema as a CRD wrote it, for OpenAPI.
    pub(crate) written: Option<Box<Value>>,
    pub(crate) schemas: Option<Arc<Schemas>>,
    pub(crate) root: Option<NodeId>,
    /// Objects are kept in this group and version; other versions are conversions of it.
    pub(crate) storage_group: String,
    pub(crate) storage_version: String,
    /// Rules of a CRD in the expression language.
    pub(crate) rules: Rules,
    /// Hash of the export of kcp that the kind comes from; empty for every other kind.
    pub(crate) identity: String,
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            group: &self.group,
            plural: &self.plural,
            kind: &self.kind,
        }
    }

    pub(crate) fn collection(&self) -> CollectionId {
        CollectionId {
            group: self.storage_group.as_str().into(),
            plural: self.plural.as_str().into(),
            identity: self.identity.as_str().into(),
        }
    }

    pub(crate) fn schema(&self) -> Schema<'_> {
        match (&self.schemas, self.root) {
            (Some(schemas), Some(root)) => schemas.at(root),
            _ => Schema::any(),
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|found| found.name == name)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether objects are kept in this very version.
    pub(crate) fn stored(&self) -> bool {
        self.group == self.storage_group && self.version == self.storage_version
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }

    /// Objects of this kind carry `metadata.generation`.
    pub(crate) fn generations(&self) -> bool {
        const BUILT_IN: [(&str, &str); 13] = [
            ("", "pods"),
            ("", "replicationcontrollers"),
            ("apps", "daemonsets"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
            ("batch", "cronjobs"),
            ("batch", "jobs"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("networking.k8s.io", "ingresses"),
            ("networking.k8s.io", "ingressclasses"),
            ("networking.k8s.io", "networkpolicies"),
            ("policy", "poddisruptionbudgets"),
        ];
        let extra = [
            ("scheduling.k8s.io", "priorityclasses"),
            ("discovery.k8s.io", "endpointslices"),
        ];
        self.custom
            || BUILT_IN
                .iter()
                .chain(&extra)
                .any(|(group, plural)| self.is(group, plural))
    }

    /// A PUT without a resourceVersion replaces whatever is there.
    pub(crate) fn unconditional_update(&self) -> bool {
        !self.custom
            && !self.is("coordination.k8s.io", "leases")
            && !self.is("apiextensions.k8s.io", "customresourcedefinitions")
            && !self.is("apiregistration.k8s.io", "apiservices")
    }

    /// A PUT of an absent object creates it.
    pub(crate) fn create_on_update(&self) -> bool {
        let core = [
            "endpoints",
            "events",
            "limitranges",
            "resourcequotas",
            "services",
        ];
        match self.group.as_str() {
            "" => core.contains(&self.plural.as_str()),
            "coordination.k8s.io" | "rbac.authorization.k8s.io" | "events.k8s.io" => true,
            _ => false,
        }
    }
}

pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Splits an `apiVersion` into group and version.
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
