//! A call that no rule grants, and the rule that would. Entry point: [`Denied`].

use super::{Access, Verb};
use std::fmt;

/// A call that no rule grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    verbs: Vec<Verb>,
    group: String,
    /// With its subresource, as in a rule.
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    cluster: String,
    own: bool,
    ceiling: bool,
}

impl std::error::Error for Denied {}

impl Denied {
    pub(super) fn new(access: &Access<'_>, ceiling: bool) -> Self {
        let resource = match access.subresource {
            Some(subresource) => format!("{}/{subresource}", access.resource),
            None => access.resource.to_owned(),
        };
        Self {
            verbs: vec![access.verb],
            group: access.group.to_owned(),
            resource,
            namespace: access.namespace.map(str::to_owned),
            name: access.name.map(str::to_owned),
            cluster: access.cluster.name.to_string(),
            own: access.cluster.own,
            ceiling,
        }
    }

    /// The same denial for several verbs at once, for example those of a watch: list and watch.
    #[must_use]
    pub fn verbs(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self {
            verbs: verbs.into_iter().collect(),
            ..self
        }
    }

    /// The missing rule, as an item of a YAML list to paste below `rules:`. It covers every object of the namespace: a reconciler that
    /// needs one object needs the next one.
    #[must_use]
    pub fn missing_rule_yaml(&self) -> String {
        let verbs = self
            .verbs
            .iter()
            .map(|verb| verb.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let mut rule = format!(
            "- {{apiGroups: [{}], resources: [{}], verbs: [{verbs}]",
            scalar(&self.group),
            scalar(&self.resource)
        );
        rule.push_str(&format!(
            ", namespaces: [{}]",
            scalar(self.namespace.as_deref().unwrap_or("*"))
        ));
        match (self.own, &*self.cluster) {
            (true, _) => {}
            (false, "") => rule.push_str(", clusters: {local: true}"),
            (false, name) => rule.push_str(&format!(", clusters: {{names: [{}]}}", scalar(name))),
        }
        rule.push('}');
        rule
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs = self
            .verbs
            .iter()
            .map(|verb| verb.as_str())
            .collect::<Vec<_>>()
            .join(" and ");
        let whose = if self.ceiling {
            "the tenant's rules do not allow"
        } else {
            "no rule grants"
        };
        write!(f, "{whose} {verbs} on {}", self.resource)?;
        if !self.group.is_empty() {
            write!(f, " of group {}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace:?}")?,
            None => f.write_str(" in all namespaces")?,
        }
        match (self.own, &*self.cluster) {
            (true, _) => {}
            (false, "") => f.write_str(" of the local cluster")?,
            (false, name) => write!(f, " of cluster {name:?}")?,
        }
        write!(
            f,
            "; add {}",
            self.missing_rule_yaml().trim_start_matches("- ")
        )
    }
}

/// A text as a YAML scalar in a flow list: quoted if it could be misread otherwise.
fn scalar(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'/' | b'_');
    let word =
        text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && text.bytes().all(plain);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|reserved| text.eq_ignore_ascii_case(reserved));
    if word && !reserved {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}
