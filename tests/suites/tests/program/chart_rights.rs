//! Rights of roles, one by one. Entry point: [`rights`].

use crate::pod::list;
use anyhow::Result;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// The documents of a text.
pub(crate) fn documents(text: &str) -> Result<Vec<Json>> {
    let says_something = |one: &&str| {
        let mut lines = one.lines().map(str::trim);
        lines.any(|line| !line.is_empty() && !line.starts_with('#') && line != "---")
    };
    let all = text.split("\n---").filter(says_something);
    let all = all.map(|one| serde_saphyr::from_str(one.trim_start_matches("---")));
    Ok(all.collect::<Result<_, _>>()?)
}

/// One right, of the whole cluster or of the process's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) in_cluster: bool,
    pub(crate) group: String,
    pub(crate) resource: String,
    /// Empty: any.
    pub(crate) name: String,
    pub(crate) verb: String,
}

impl Right {
    /// Whether this right includes the other one.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let what = |of: &Self| (of.group.clone(), of.resource.clone(), of.verb.clone());
        (self.in_cluster || !other.in_cluster)
            && (self.name.is_empty() || self.name == other.name)
            && what(self) == what(other)
    }
}

/// The rights in the rules of roles and cluster roles, without those that others of them include.
pub(crate) fn rights<'a>(roles: impl IntoIterator<Item = &'a Json>) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for role in roles {
        for rule in list(&role["rules"]) {
            let of = |field: &str| list(&rule[field]).filter_map(Json::as_str).collect();
            let [groups, resources, verbs]: [Vec<&str>; 3] =
                [of("apiGroups"), of("resources"), of("verbs")];
            let mut names: Vec<&str> = of("resourceNames");
            if names.is_empty() {
                names.push("");
            }
            rights.extend(product(&groups, &resources, &names, &verbs).map(
                |[group, resource, name, verb]| Right {
                    in_cluster: role["kind"] == "ClusterRole",
                    group,
                    resource,
                    name,
                    verb,
                },
            ));
        }
    }
    let is_included = |one: &Right| {
        rights
            .iter()
            .any(|other| other != one && other.includes(one))
    };
    rights
        .iter()
        .filter(|one| !is_included(one))
        .cloned()
        .collect()
}

/// Every choice of one text of each.
fn product<'a>(
    groups: &'a [&str],
    resources: &'a [&str],
    names: &'a [&str],
    verbs: &'a [&str],
) -> impl Iterator<Item = [String; 4]> + 'a {
    groups.iter().flat_map(move |group| {
        resources.iter().flat_map(move |resource| {
            names.iter().flat_map(move |name| {
                let of_verb =
                    move |verb: &&str| [*group, *resource, *name, *verb].map(str::to_owned);
                verbs.iter().map(of_verb)
            })
        })
    })
}

/// The rights that the chart gives the process.
pub(crate) fn rights_of_process(documents: &[Json]) -> BTreeSet<Right> {
    let is_of_process = |one: &&Json| {
        let (kind, name) = (&one["kind"], &one["metadata"]["name"]);
        (kind == "Role" || kind == "ClusterRole")
            && ["windlass", "windlass:windlass", "windlass:windlass-secrets"]
                .iter()
                .any(|of| name == of)
    };
    rights(documents.iter().filter(is_of_process))
}
