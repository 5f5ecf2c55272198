//! The rules that a guest would need. Entry point: [`needed_rules`].

use super::Description;
use crate::description::kinds::{CustomResource, plural_of};
use std::collections::BTreeMap;
use windlass_fleet::source::EnqueueRule;
use windlass_fleet::{GroupVersionKind, Rule};

/// Rules for what a guest says and imports: what it watches it lists and gets; what it owns it writes with the functions that
/// it imports. What else it reads and writes only its author knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NeededRules {
    pub(crate) rules: Vec<Rule>,
    /// The same as items of a YAML list, to paste below `rules:`.
    pub(crate) yaml: String,
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
    // Languages that import all of their world import it too: what they write is unknown then.
    let writes_at_will = imports(BATCH);
    let mut needed = NeededRules::default();
    for (kind, verbs) in verbs_of {
        let custom = customs.iter().find(|custom| custom.is(kind));
        let plural = plural_of(&kind.group, &kind.kind);
        let comment = match custom {
            None if !plural.known => {
                "  # the resource is a guess: check it with kubectl api-resources"
            }
            _ if writes_at_will && verbs.contains(&"create") => {
                "  # what it writes is unknown: leave out verbs that it has no use for"
            }
            _ => "",
        };
        let resource = custom.map_or(plural.name, |custom| custom.resource.clone());
        let rule = Rule {
            api_groups: vec![kind.group.clone()],
            resources: vec![resource.into()],
            verbs: verbs.into_iter().map(Into::into).collect(),
            namespaces: vec!["*".into()],
            ..Rule::default()
        }
        .of_use();
        needed.yaml.push_str(&format!("- {rule}{comment}\n"));
        needed.rules.push(rule);
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
