//! Rights as roles and bindings that kubectl applies. Entry points: [`manifests`] and [`yaml`].

use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use std::str::FromStr;
use std::sync::Arc;
use windlass_fleet::Rule;
use windlass_fleet::grant::{RuleSet, flow};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// The subject of a role binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A user, or a group if that is set.
    Named {
        /// `User` or `Group`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').filter(|(_, name)| !name.is_empty());
        let named = |kind, name: &str| Self::Named {
            kind,
            name: name.to_owned(),
        };
        let subject = match parts {
            Some(("user", name)) => Some(named("User", name)),
            Some(("group", name)) => Some(named("Group", name)),
            Some(("serviceaccount", account)) => {
                account
                    .split_once('/')
                    .map(|(namespace, name)| Self::ServiceAccount {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                    })
            }
            _ => None,
        };
        subject.ok_or_else(|| {
            "expected user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME".to_owned()
        })
    }
}

impl Subject {
    /// A user by its name. For RBAC a service account is not a user.
    pub(crate) fn of_user(name: &str) -> Self {
        let account = name.strip_prefix("system:serviceaccount:");
        match account.and_then(|account| account.split_once(':')) {
            Some((namespace, name)) => Self::ServiceAccount {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            None => Self::Named {
                kind: "User",
                name: name.to_owned(),
            },
        }
    }

    /// The namespace of a service account, which is also the namespace of its pods.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::ServiceAccount { namespace, .. } => Some(namespace),
            Self::Named { .. } => None,
        }
    }

    fn manifest(&self) -> Json {
        match self {
            Self::Named { kind, name } => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
            Self::ServiceAccount { namespace, name } => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
        }
    }
}

/// A name that depends on the rights and on the subject. So a role of another configuration, or of the chart, is never replaced.
pub(crate) fn name_by_content(
    beginning: &str,
    permissions: &RuleSet,
    bind: Option<&Subject>,
) -> String {
    let lines = permissions.rules();
    let lines = lines.iter().map(ToString::to_string);
    digest_name(beginning, subject(bind).chain(lines))
}

fn subject(bind: Option<&Subject>) -> impl Iterator<Item = String> {
    bind.map(|subject| subject.manifest().to_string())
        .into_iter()
}

fn digest_name(beginning: &str, content: impl Iterator<Item = String>) -> String {
    let mut hash = Sha256::new();
    for line in content {
        hash.update(line);
        hash.update("\n");
    }
    let digits = hash.finalize().into_iter().take(4);
    let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
    format!("{beginning}-{digits}")
}

/// A ClusterRole for permissions in all namespaces, a Role for the permissions in each single namespace, and their bindings if
/// there is a subject.
pub(crate) fn manifests(permissions: &RuleSet, name: &str, bind: Option<&Subject>) -> Vec<Json> {
    let mut manifests = Vec::new();
    let rules = permissions.rules();
    for rules in rules.chunk_by(|one, other| one.namespaces == other.namespaces) {
        let namespaces = rules.first().map_or(&[][..], |rule| &rule.namespaces);
        let (kind, metadata) = match namespaces.first().map(Arc::as_ref) {
            None | Some("*") => ("ClusterRole", json!({"name": name})),
            Some(namespace) => ("Role", json!({"namespace": namespace, "name": name})),
        };
        let rules = rules.iter().cloned().map(|rule| Rule {
            namespaces: Vec::new(),
            ..rule
        });
        let rules: Vec<Rule> = rules.collect();
        manifests.push(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata, "rules": rules,
        }));
        if let Some(subject) = bind {
            manifests.push(json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                "subjects": [subject.manifest()],
            }));
        }
    }
    manifests
}

/// The ClusterRoleBinding of a role. Its name depends on the subject, so that several subjects may have the role.
pub(super) fn binding(name: &str, subject: &Subject) -> Json {
    let own = digest_name(name, self::subject(Some(subject)));
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": own},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [subject.manifest()],
    })
}

/// Documents of YAML: a line for each field, rule and subject.
pub(crate) fn yaml(manifests: &[Json]) -> String {
    let documents: Vec<String> = manifests.iter().map(document).collect();
    documents.join("---\n")
}

fn document(manifest: &Json) -> String {
    let mut text = String::new();
    for field in [
        "apiVersion",
        "kind",
        "metadata",
        "roleRef",
        "subjects",
        "rules",
    ] {
        match &manifest[field] {
            Json::Null => {}
            Json::Array(items) => {
                text.push_str(&format!("{field}:\n"));
                for item in items {
                    text.push_str(&format!("  - {}\n", flow(item)));
                }
            }
            value => text.push_str(&format!("{field}: {}\n", flow(value))),
        }
    }
    text
}
