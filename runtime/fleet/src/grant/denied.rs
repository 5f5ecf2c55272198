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
    by: By,
}

/// What does not allow a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// No rule of the reconciler grants it.
    Rules,
    /// No rule of the tenant allows it.
    Ceiling,
    /// The tenant's clusters do not include that cluster.
    Bound,
}

impl std::error::Error for Denied {}

impl Denied {
    pub(super) fn new(access: &Access<'_>, ceiling: bool) -> Self {
        let by = if ceiling { By::Ceiling } else { By::Rules };
        Self::because(access, by)
    }

    /// A call in a cluster that the tenant may not work in.
    pub(super) fn outside(access: &Access<'_>) -> Self {
        Self::because(access, By::Bound)
    }

    fn because(access: &Access<'_>, by: By) -> Self {
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
            by,
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

    /// Which call is denied, and by whose rules, without the rule that is missing.
    #[must_use]
    pub fn reason(&self) -> String {
        let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.as_str()).collect();
        let rules = match self.by {
            By::Rules => "no rule grants",
            By::Ceiling => "the tenant's rules do not allow",
            By::Bound => "the tenant's clusters do not include this one, which denies",
        };
        let mut reason = format!("{rules} {} on {}", verbs.join(" and "), self.resource);
        if !self.group.is_empty() {
            reason.push_str(&format!(" of group {}", self.group));
        }
        if let Some(name) = &self.name {
            reason.push_str(&format!(" {name:?}"));
        }
        match &self.namespace {
            Some(namespace) => reason.push_str(&format!(" in namespace {namespace:?}")),
            None => reason.push_str(" in all namespaces"),
        }
        match (self.own, &*self.cluster) {
            (true, _) => {}
            (false, "") => reason.push_str(" of the local cluster"),
            (false, name) => reason.push_str(&format!(" of cluster {name:?}")),
        }
        reason
    }

    /// What the Tenant has to allow, where it does not, whatever rules the reconciler has. Without the names of objects.
    #[must_use]
    pub fn tenant_lacks(&self) -> Option<String> {
        match self.by {
            By::Rules => None,
            By::Ceiling => {
                let rule = self.missing_rule_yaml();
                let rule = rule.trim_start_matches("- ");
                Some(format!("add {rule} to spec.rules of the Tenant"))
            }
            By::Bound => Some(format!(
                "add the cluster {:?} to spec.clusters of the Tenant",
                self.cluster
            )),
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
        let reason = self.reason();
        if let Some(lacks) = self.tenant_lacks() {
            return write!(f, "{reason}; {lacks}");
        }
        let rule = self.missing_rule_yaml();
        write!(f, "{reason}; add {}", rule.trim_start_matches("- "))
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
