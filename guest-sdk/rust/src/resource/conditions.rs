//! Conditions in the status of an object. Entry points: [`Object::condition`] and [`Object::set_condition`].

use super::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whether a [`Condition`] is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Nobody knows.
    #[serde(other)]
    Unknown,
}

impl ConditionStatus {
    /// The word in an object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is: bool) -> Self {
        if is { Self::True } else { Self::False }
    }
}

impl From<&str> for ConditionStatus {
    /// Another word than `True` and `False` is `Unknown`.
    fn from(word: &str) -> Self {
        match word {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// A condition in the status of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// For example `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// One CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// The `metadata.generation` that the condition is about. For [`Object::set_condition`] `None` stands for that of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status became what it is: RFC 3339, whole seconds. [`Object::set_condition`] sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

impl Condition {
    /// A condition without a message, about the generation of the object.
    #[must_use]
    pub fn new(
        kind: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: None,
        }
    }

    /// For people.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }

    /// Reason and message, or the status where there are none.
    pub(crate) fn said(&self) -> String {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => format!("its condition {} is {}", self.kind, self.status.as_str()),
            (reason, "") => reason.to_owned(),
            ("", message) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}

impl Object {
    /// The condition of this type in `status.conditions`.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<Condition> {
        let found = conditions(self).iter().find(|each| each["type"] == kind)?;
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Some(Condition {
            kind: kind.to_owned(),
            status: text("status").as_str().into(),
            reason: text("reason"),
            message: text("message"),
            observed_generation: found["observedGeneration"].as_i64(),
            last_transition_time: found["lastTransitionTime"].as_str().map(str::to_owned),
        })
    }

    /// Sets a condition in `status.conditions` of an object that was read, and returns whether that changed anything. Write it with
    /// [`crate::OfKind::set_status`]. The transition time changes only if the status does; the order of the conditions, and
    /// fields unknown here, are kept.
    pub fn set_condition(&mut self, condition: Condition) -> bool {
        let generation = condition
            .observed_generation
            .or_else(|| self.0["metadata"]["generation"].as_i64());
        let mut all = conditions(self).to_vec();
        let at = all.iter().position(|each| each["type"] == condition.kind);
        let before = at.and_then(|at| all.get(at)).cloned();
        let mut after = before.clone().unwrap_or_else(|| json!({}));
        let status = condition.status.as_str();
        let stays = after["status"] == status && after["lastTransitionTime"].is_string();
        after["type"] = condition.kind.into();
        after["status"] = status.into();
        after["reason"] = condition.reason.into();
        after["message"] = condition.message.into();
        if let Some(generation) = generation {
            after["observedGeneration"] = generation.into();
        }
        if !stays {
            after["lastTransitionTime"] = moment().into();
        }
        if before.as_ref() == Some(&after) {
            return false;
        }
        match at.and_then(|at| all.get_mut(at)) {
            Some(place) => *place = after,
            None => all.push(after),
        }
        if !self.0["status"].is_object() {
            self.0["status"] = json!({});
        }
        self.0["status"]["conditions"] = all.into();
        true
    }
}

fn conditions(object: &Object) -> &[Value] {
    object.0["status"]["conditions"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// The time in whole seconds, as conditions have it.
fn moment() -> String {
    let now = crate::now();
    format!("{}Z", now.get(..19).unwrap_or(&now))
}
