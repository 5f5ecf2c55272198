//! A call that no rule grants, and the rule that would. Entry point: [`Denied`].

use super::{Access, ClusterRule, Right, Rule, Verb};
use crate::kind::GroupVersionKind;
use crate::name::ClusterName;
use std::fmt;

/// A call that no rule grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    right: Right,
    /// In place of the right's.
    verbs: Vec<Verb>,
    cluster: ClusterName,
    own: bool,
    by: By,
    /// For a kind that the cluster does not serve: which one it is, and the served one that is like it.
    misspelt: Option<String>,
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
        Self {
            right: Right::of(access),
            verbs: vec![access.verb],
            cluster: access.cluster.name.clone(),
            own: access.cluster.own,
            by,
            misspelt: None,
        }
    }

    /// The same denial of a kind that the cluster does not serve, though it serves one that is like it: no rule would help.
    #[must_use]
    pub(crate) fn of_misspelt(self, kind: &GroupVersionKind, like: &GroupVersionKind) -> Self {
        let hint = format!("the cluster does not serve {kind}: did you mean {like}?");
        Self {
            misspelt: Some(hint),
            ..self
        }
    }

    /// Why no rule would help: the cluster does not serve the kind.
    #[must_use]
    pub fn misspelt(&self) -> Option<&str> {
        self.misspelt.as_deref()
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
        let mut reason = format!("{rules} {} on {}", verbs.join(" and "), self.right.resource);
        if !self.right.group.is_empty() {
            reason.push_str(&format!(" of group {}", self.right.group));
        }
        if let Some(name) = &self.right.name {
            reason.push_str(&format!(" {name:?}"));
        }
        match &self.right.namespace {
            Some(namespace) => reason.push_str(&format!(" in namespace {namespace:?}")),
            None => reason.push_str(" in all namespaces"),
        }
        match (self.own, self.cluster.as_str()) {
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
                let rule = self.missing_rule();
                Some(format!("add {rule} to spec.rules of the Tenant"))
            }
            By::Bound => Some(format!(
                "add the cluster {:?} to spec.clusters of the Tenant",
                self.cluster.as_str()
            )),
        }
    }

    /// The missing rule. It covers every object of the namespace: a reconciler that needs one object needs the next one.
    #[must_use]
    pub fn missing_rule(&self) -> Rule {
        let rule = Rule {
            verbs: self.verbs.iter().map(|verb| verb.as_str().into()).collect(),
            resource_names: Vec::new(),
            clusters: (!self.own).then(|| ClusterRule::only(&self.cluster)),
            ..self.right.rule()
        };
        rule.of_use()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hint) = &self.misspelt {
            return write!(f, "no rule names the group {:?}; {hint}", self.right.group);
        }
        let reason = self.reason();
        if let Some(lacks) = self.tenant_lacks() {
            return write!(f, "{reason}; {lacks}");
        }
        write!(f, "{reason}; add {}", self.missing_rule())
    }
}
