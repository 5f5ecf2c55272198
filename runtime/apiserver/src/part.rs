//! Which part of an object a write is about: [`Part`].

use serde_json::{Map, json};

use crate::apply::field_set::FieldSet;
use crate::resource::Resource;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// The `finalize` subresource of a namespace.
    Finalize,
    /// The main part, written through its scale.
    Scale,
    /// The containers that are added to a running pod.
    EphemeralContainers,
    /// Whether a certificate may be issued.
    Approval,
}

impl Part {
    /// The part that is written through a subresource of this name.
    pub(crate) fn of_subresource(name: &str, resource: &Resource) -> Option<Self> {
        match name {
            "" => Some(Self::Main),
            "status" => resource.status.then_some(Self::Status),
            "finalize" => resource.is("", "namespaces").then_some(Self::Finalize),
            _ => {
                resource.subresource(name)?;
                [Self::EphemeralContainers, Self::Approval]
                    .into_iter()
                    .find(|part| part.name() == name)
            }
        }
    }

    /// The subresource; empty for the object itself.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Approval => "approval",
        }
    }

    /// Fields of other parts: a write of this one does not come to own them.
    pub(crate) fn others(self, resource: &Resource) -> FieldSet {
        let request = resource.is("certificates.k8s.io", "certificatesigningrequests");
        match self {
            Self::Status if keeps_metadata(resource) => {
                FieldSet::from_json(&json!({"f:spec": {}, "f:metadata": {}}))
            }
            Self::Status if request => {
                FieldSet::from_json(&json!({"f:spec": {}, "f:status": {"f:conditions": {}}}))
            }
            Self::Status => FieldSet::from_json(&json!({"f:spec": {}})),
            Self::Approval => {
                FieldSet::from_json(&json!({"f:spec": {}, "f:status": {"f:certificate": {}}}))
            }
            Self::EphemeralContainers => all_but_ephemeral_containers(resource),
            _ if request => FieldSet::from_json(&json!({"f:spec": {}, "f:status": {}})),
            _ if resource.status => FieldSet::from_json(&json!({"f:status": {}})),
            _ => FieldSet::default(),
        }
    }
}

/// Whether a write of the status leaves the metadata as it is.
pub(crate) fn keeps_metadata(resource: &Resource) -> bool {
    resource.custom || resource.is("apiregistration.k8s.io", "apiservices")
}

fn all_but_ephemeral_containers(resource: &Resource) -> FieldSet {
    let spec = resource.schema().property("spec");
    let fields: Map<_, _> = spec
        .iter()
        .flat_map(|spec| spec.properties())
        .filter(|(name, _)| *name != "ephemeralContainers")
        .map(|(name, _)| (format!("f:{name}"), json!({})))
        .collect();
    FieldSet::from_json(&json!({"f:metadata": {}, "f:spec": fields, "f:status": {}}))
}
