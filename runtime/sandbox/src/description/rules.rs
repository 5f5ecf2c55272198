//! The rules that a guest would need. Entry point: [`needed_rules`].

use super::Description;
use crate::description::kinds::{CustomResource, plural_of};
use std::collections::BTreeMap;
use std::fmt::Write;
use windlass_fleet::source::EnqueueRule;
use windlass_fleet::{GroupVersionKind, Rule};

/// Rules for what a guest says and imports: what it watches it lists and gets; what it owns it writes with the functions that
/// it imports. What else it reads and writes only its author knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NeededRules {
    pub(crate) rules: Vec<Rule>,
    /// The kinds whose resource is a guess.
    pub(crate) guessed: Vec<GroupVersionKind>,
    /// Whether it imports `batch`, as languages do that import all of their world: what it writes is unknown then.
    pub(crate) writes_at_will: bool,
}

/// The functions of `cluster` that write, and the verbs that they need.
const WRITES: [(&str, &[&str]); 7] = [
    ("create", &["create"]),
    ("update", &["update"]),
    ("patch", &["patch"]),
    ("apply", &["create", "patch"]),
    ("delete", &["delete"]),
    ("delete-collection", &["deletecollection"]),
    (BATCH, &["create", "patch", "delete"]),
];

/// A function that may write anything. Dependents of the SDKs apply and delete by it.
const BATCH: &str = "batch";

/// The rules for a description, given the functions of `cluster` that the component imports, and custom resources that are known.
pub(crate) fn needed_rules(
    description: &Description,
    functions: &[String],
    customs: &[CustomResource],
) -> NeededRules {
    let imports = |function: &str| functions.iter().any(|imported| imported == function);
    let mut verbs_of: BTreeMap<&GroupVersionKind, Vec<&str>> = BTreeMap::new();
    for watch in &description.watches {
        let verbs = verbs_of.entry(&watch.kind).or_default();
        add(verbs, &["get", "list", "watch"]);
        if matches!(
            watch.enqueue,
            EnqueueRule::ControllerOwner | EnqueueRule::AnyOwner
        ) {
            for (_, needed) in WRITES.iter().filter(|(function, _)| imports(function)) {
                add(verbs, needed);
            }
        }
    }
    let mut needed = NeededRules {
        writes_at_will: imports(BATCH),
        ..NeededRules::default()
    };
    for (kind, verbs) in verbs_of {
        let custom = customs.iter().find(|custom| custom.is(kind));
        let resource = match custom {
            Some(custom) => custom.resource.clone(),
            None => {
                let plural = plural_of(&kind.group, &kind.kind);
                if !plural.known {
                    needed.guessed.push(kind.clone());
                }
                plural.name
            }
        };
        needed.rules.push(Rule {
            api_groups: vec![kind.group.clone()],
            resources: vec![resource.into()],
            verbs: verbs.into_iter().map(Into::into).collect(),
            namespaces: vec!["*".into()],
            ..Rule::default()
        });
    }
    needed
}

fn add(verbs: &mut Vec<&str>, more: &[&'static str]) {
    for verb in more {
        if !verbs.contains(verb) {
            verbs.push(verb);
        }
    }
}

impl NeededRules {
    /// As items of a YAML list, to paste below `rules:`.
    pub(crate) fn yaml(&self) -> String {
        let mut yaml = String::new();
        for rule in &self.rules {
            let group = rule
                .api_groups
                .first()
                .map(|group| &**group)
                .unwrap_or_default();
            let resource = rule
                .resources
                .first()
                .map(|resource| &**resource)
                .unwrap_or_default();
            let group_text = if group.is_empty() { "\"\"" } else { group };
            let guessed = self
                .guessed
                .iter()
                .any(|kind| &*kind.group == group && plural_of(group, &kind.kind).name == resource);
            let at_will = self.writes_at_will && rule.verbs.iter().any(|verb| &**verb == "create");
            let comment = match (guessed, at_will) {
                (true, _) => "  # the resource is a guess: check it with kubectl api-resources",
                (false, true) => {
                    "  # what it writes is unknown: leave out verbs that it has no use for"
                }
                (false, false) => "",
            };
            let verbs = rule.verbs.join(", ");
            let written = writeln!(
                yaml,
                "- {{apiGroups: [{group_text}], resources: [{resource}], verbs: [{verbs}], namespaces: [\"*\"]}}{comment}"
            );
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        yaml
    }
}
