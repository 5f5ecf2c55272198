//! What sources that read a hub have in common: which cluster that is, and which of its objects count. Entry points: [`HubSpec`] and
//! [`ReadySpec`].

use crate::config::kinds::{Refusal, is_label};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use windlass_fleet::provider::readiness::{self, Readiness};
use windlass_fleet::selector::LabelSelector;

/// The cluster that a source reads: the context of a kubeconfig file, or of one that a Secret of the local cluster holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct HubSpec {
    /// A kubeconfig file, relative to the document's folder; read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of `kubeconfig`. Default: its current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// A Secret of the local cluster with a kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kubeconfig_secret: Option<HubSecretSpec>,
}

/// A Secret of the local cluster with the kubeconfig of a hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct HubSecretSpec {
    /// The Secret's namespace.
    pub(crate) namespace: String,
    /// The Secret's name.
    pub(crate) name: String,
    /// The key of its data. Default: kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The context. Default: the current context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
}

impl ReadySpec {
    /// The same in the engine's words; without one, as the source says.
    pub(crate) fn engine(ready: Option<&Self>) -> Readiness {
        match ready {
            None => Readiness::Default,
            Some(Self::Always) => Readiness::Always,
            Some(Self::Condition(name)) => Readiness::Condition(name.clone()),
        }
    }
}

impl OnUnready {
    /// The same in the engine's words.
    pub(crate) fn engine(self) -> readiness::OnUnready {
        match self {
            Self::Keep => readiness::OnUnready::Keep,
            Self::Disengage => readiness::OnUnready::Disengage,
        }
    }
}

impl HubSpec {
    fn check(&self, path: &str) -> Result<(), Refusal> {
        match (&self.kubeconfig, &self.kubeconfig_secret) {
            (Some(_), Some(_)) => Err(Refusal::new(
                path,
                "kubeconfig and kubeconfigSecret are both given: keep one of them",
            )),
            (None, None) => Err(Refusal::new(
                path,
                "it names no cluster: give kubeconfig or kubeconfigSecret, or leave it out for the local cluster",
            )),
            (None, Some(_)) if self.context.is_some() => Err(Refusal::new(
                format!("{path}.context"),
                "it is a context of kubeconfig, which is not given: write it into kubeconfigSecret",
            )),
            (_, Some(secret)) => secret.check(&format!("{path}.kubeconfigSecret")),
            (Some(_), None) => check_text(path, "context", self.context.as_deref()),
        }
    }
}

impl HubSecretSpec {
    pub(super) fn check(&self, path: &str) -> Result<(), Refusal> {
        for (field, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            if text.is_empty() {
                let message = "it is empty: name the Secret";
                return Err(Refusal::new(format!("{path}.{field}"), message));
            }
        }
        check_text(path, "key", self.key.as_deref())?;
        check_text(path, "context", self.context.as_deref())
    }
}

/// When a cluster is ready to be engaged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) enum ReadySpec {
    /// As soon as its object is there.
    Always,
    /// Once the condition of this type is true.
    #[serde(rename = "condition")]
    Condition(String),
}

/// What happens to an engaged cluster that is not ready any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum OnUnready {
    /// It stays engaged.
    #[default]
    Keep,
    /// It is disengaged until it is ready again.
    Disengage,
}

/// What stands under `ready`, if that is no word: exactly one of the two.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReadySpec")]
struct Fields {
    /// Once the condition of this type is true.
    condition: Option<String>,
    /// As soon as its object is there.
    always: Option<bool>,
}

impl JsonSchema for ReadySpec {
    fn schema_name() -> Cow<'static, str> {
        Fields::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Fields::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for ReadySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

struct Words;

impl<'de> de::Visitor<'de> for Words {
    type Value = ReadySpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Always, or a condition such as {condition: Ready}")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<ReadySpec, E> {
        match word {
            "Always" => Ok(ReadySpec::Always),
            _ => Err(E::unknown_variant(word, &["Always"])),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ReadySpec, A::Error> {
        let Fields { condition, always } = Fields::deserialize(MapAccessDeserializer::new(map))?;
        match (condition, always) {
            (Some(condition), None) if condition.is_empty() => Err(de::Error::custom(
                "the condition's type is empty: name one, or write Always",
            )),
            (Some(condition), None) => Ok(ReadySpec::Condition(condition)),
            (None, Some(true)) => Ok(ReadySpec::Always),
            _ => Err(de::Error::custom(
                "give a condition, or write Always: {always: true} in a cluster",
            )),
        }
    }
}

/// Refuses what cannot be honoured in the fields that every source with a hub has. `path` is the source's.
pub(super) fn check(
    path: &str,
    from: Option<&HubSpec>,
    namespaces: Option<&[String]>,
    selector: Option<&str>,
) -> Result<(), Refusal> {
    if let Some(from) = from {
        from.check(&format!("{path}.from"))?;
    }
    check_namespaces(&format!("{path}.namespaces"), namespaces)?;
    check_selector(&format!("{path}.selector"), selector)
}

/// Refuses a field that is there and has no text.
pub(super) fn check_text(path: &str, field: &str, text: Option<&str>) -> Result<(), Refusal> {
    match text {
        Some("") => Err(Refusal::new(
            format!("{path}.{field}"),
            "it is empty: leave it out for the default",
        )),
        _ => Ok(()),
    }
}

/// Refuses a list that names no namespace, and texts that no namespace is called.
fn check_namespaces(path: &str, namespaces: Option<&[String]>) -> Result<(), Refusal> {
    let Some(namespaces) = namespaces else {
        return Ok(());
    };
    if namespaces.is_empty() {
        let message = "the list is empty: name at least one, or leave it out for all namespaces";
        return Err(Refusal::new(path, message));
    }
    match namespaces.iter().position(|name| !is_label(name)) {
        None => Ok(()),
        Some(index) => Err(Refusal::new(
            format!("{path}[{index}]"),
            format!(
                "{:?} is not the name of a namespace: leave the list out for all namespaces",
                namespaces[index]
            ),
        )),
    }
}

/// Refuses a selector that cannot be read.
fn check_selector(path: &str, selector: Option<&str>) -> Result<(), Refusal> {
    match selector.map(LabelSelector::parse) {
        Some(Err(error)) => Err(Refusal::new(path, error.to_string())),
        _ => Ok(()),
    }
}
