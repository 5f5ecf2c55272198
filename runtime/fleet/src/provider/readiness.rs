//! When a cluster of an inventory counts as ready, and what happens when it is no longer. Entry points: [`Readiness`] and [`OnUnready`].

use serde::{Deserialize, Serialize};

/// When a cluster is ready to be engaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Readiness {
    /// As the provider's documentation says.
    #[default]
    Default,
    /// When its object has this condition with the status `True`.
    Condition(String),
    /// At once.
    Always,
}

/// What happens to an engaged cluster that is not ready any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUnready {
    /// It stays engaged, and its credentials are still renewed.
    #[default]
    Keep,
    /// It is disengaged, and engaged again once it is ready.
    Disengage,
}

/// One of an object's `status.conditions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    #[serde(default, rename = "type")]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) status: String,
}

/// Whether one of the conditions has this name and is true.
pub(crate) fn is_true(conditions: &[Condition], name: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.name == name && condition.status == "True")
}
