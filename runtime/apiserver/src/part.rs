//! Which part of an object a write is about: [`Part`].

use serde_json::json;

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
}

impl Part {
    /// The subresource; empty for the object itself.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
        }
    }

    /// Fields of other parts: a write of this one does not come to own them.
    pub(crate) fn others(self, resource: &Resource) -> FieldSet {
        match self {
            Self::Status if resource.custom => {
                FieldSet::from_json(&json!({"f:spec": {}, "f:metadata": {}}))
            }
            Self::Status => FieldSet::from_json(&json!({"f:spec": {}})),
            _ if resource.status => FieldSet::from_json(&json!({"f:status": {}})),
            _ => FieldSet::default(),
        }
    }
}
