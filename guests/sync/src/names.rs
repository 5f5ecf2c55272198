//! Where the copy of an object is on the compute cluster. Entry points: [`place`] and [`related_name`].
//!
//! A name says whose it is. It ends in a digest of the cluster, namespace and name that it is made of where these do not tell objects
//! apart by themselves: where they are joined, where a name is cut, and where letters are replaced that names cannot have.

use crate::config::{Published, Related, Scope, Side};
use crate::digest::digest;
use crate::template::{Facts, HASH, Template, Values};
use serde_json::Value;
use windlass_sdk::prelude::*;

/// The longest name of a namespace.
const NAMESPACE_LENGTH: usize = 63;
/// The longest name of a Secret or ConfigMap.
const RELATED_LENGTH: usize = 253;

/// The namespace and the name of a new copy.
pub(crate) fn place(published: &Published, facts: &Facts) -> ObjectKey {
    let projection = &published.projection;
    let is_cluster = published.source.scope == Scope::Cluster;
    let by_default = match (is_shared(published), is_cluster) {
        (false, _) => "{name}",
        (true, false) => "{name}-{namespace}-{cluster}-{hash}",
        (true, true) => "{name}-{cluster}-{hash}",
    };
    let name = Name {
        facts,
        value: "",
        hash: digest([&*facts.cluster, &facts.namespace, &facts.name], HASH),
        length: projection.max_name_length,
        has_dots: true,
    };
    let name = name.of(projection.name.as_ref(), by_default);
    if published.target_scope() == Scope::Cluster {
        return ObjectKey::cluster_scoped(name);
    }
    let by_default = if is_cluster {
        "{cluster}-{hash}"
    } else {
        "{namespace}-{cluster}-{hash}"
    };
    let namespace = Name {
        facts,
        value: "",
        hash: digest([&*facts.cluster, &facts.namespace], HASH),
        length: NAMESPACE_LENGTH,
        has_dots: false,
    };
    ObjectKey::namespaced(
        namespace.of(projection.namespace.as_ref(), by_default),
        name,
    )
}

/// Whether several consumers' namespaces may share one of the compute cluster.
fn is_shared(published: &Published) -> bool {
    published.target_scope() == Scope::Cluster || published.projection.namespace.is_some()
}

/// The name that a related object has on the other side.
pub(crate) fn related_name(
    published: &Published,
    related: &Related,
    facts: &Facts,
    origin: &str,
) -> String {
    let by_default = match related.origin {
        Side::Consumer if is_shared(published) => "{value}-{namespace}-{cluster}-{hash}",
        _ => "{value}",
    };
    let name = Name {
        facts,
        value: origin,
        hash: digest([&*facts.cluster, &facts.namespace, origin], HASH),
        length: RELATED_LENGTH,
        has_dots: true,
    };
    name.of(related.rename.as_ref(), by_default)
}

struct Name<'a> {
    facts: &'a Facts,
    value: &'a str,
    hash: String,
    length: usize,
    /// Names of namespaces have none.
    has_dots: bool,
}

impl Name<'_> {
    fn of(&self, template: Option<&Template>, by_default: &str) -> String {
        let default = Template::try_from(by_default.to_owned());
        let template = template.cloned().or(default.ok());
        let Some(template) = template else {
            return self.hash.clone();
        };
        let values = Values {
            facts: self.facts,
            object: &Value::Null,
            value: self.value,
            hash: &self.hash,
        };
        let mut is_changed = false;
        let filled = template.fill(&values, &mut |text| {
            let fit = self.letters(text);
            is_changed |= fit != text;
            fit
        });
        let whole = self.letters(&filled.unwrap_or_default());
        let whole = whole.trim_matches(['-', '.']);
        let is_told_apart = !is_changed || template.has_hash();
        if is_told_apart && whole.len() <= self.length && !whole.is_empty() {
            return whole.to_owned();
        }
        // Letters that names can have are one byte each.
        let room = self.length.saturating_sub(self.hash.len() + 1);
        let kept = whole.get(..room.min(whole.len())).unwrap_or_default();
        match kept.trim_end_matches(['-', '.']) {
            "" => self.hash.clone(),
            kept => format!("{kept}-{}", self.hash),
        }
    }

    fn letters(&self, text: &str) -> String {
        let fit = |letter: char| match letter {
            'a'..='z' | '0'..='9' | '-' => letter,
            'A'..='Z' => letter.to_ascii_lowercase(),
            '.' if self.has_dots => '.',
            _ => '-',
        };
        text.chars().map(fit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::published;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn facts(cluster: &str, namespace: &str, name: &str) -> Facts {
        Facts {
            cluster: cluster.into(),
            logical_cluster: "1x2y3z".into(),
            path: "root:blue".into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn at(projection: &Value, facts: &Facts) -> String {
        let published = published(json!({"projection": projection}));
        place(&published, facts).to_string()
    }

    #[test]
    fn names_can_be_read() {
        let place = at(&json!({}), &facts("1x2y3z", "default", "db"));
        let (namespace, name) = place.split_once('/').unwrap();
        assert!(
            namespace.starts_with("default-1x2y3z-") && name == "db",
            "{place}"
        );
        let place = at(&json!({}), &facts("root:blue", "default", "db"));
        assert!(place.starts_with("default-root-blue-"), "{place}");
        let template = json!({"namespace": "services", "name": "{path}-{name}"});
        let place = at(&template, &facts("1x2y3z", "default", "db"));
        assert!(
            place.starts_with("services/root-blue-db-"),
            "{place}: `:` was replaced"
        );
        let template = json!({"namespace": "services", "name": "{logicalCluster}-{name}"});
        let place = at(&template, &facts("1x2y3z", "default", "db"));
        assert_eq!(place, "services/1x2y3z-db");
        let place = at(
            &json!({"scope": "Cluster"}),
            &facts("1x2y3z", "default", "db"),
        );
        assert!(place.starts_with("db-default-1x2y3z-"), "{place}");
    }

    #[test]
    fn names_never_collide_and_are_never_too_long() {
        let long = "n".repeat(63);
        let longer = "a".repeat(253);
        let texts = ["a", "a-b", "b", "b-a", &*long];
        let clusters = ["c", "b-c", "root:a:b", "root:a-b", "root-a:b", &*longer];
        for projection in [
            json!({}),
            json!({"namespace": "one"}),
            json!({"scope": "Cluster"}),
            json!({"maxNameLength": 40, "namespace": "x"}),
        ] {
            let mut seen = BTreeSet::new();
            for cluster in clusters {
                for namespace in texts {
                    for name in texts.iter().chain([&&*longer]) {
                        let place = at(&projection, &facts(cluster, namespace, name));
                        let (namespace, name) = place.split_once('/').unwrap_or(("", &place));
                        assert!(namespace.len() <= 63 && name.len() <= 253, "{place}");
                        assert!(seen.insert(place.clone()), "{cluster} {place}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_related_object_keeps_its_name_unless_namespaces_are_shared() {
        let related = json!([{"kind": "Secret", "origin": "consumer", "name": "pw"}]);
        let own = published(json!({"related": related}));
        let facts = facts("1x2y3z", "default", "db");
        assert_eq!(related_name(&own, &own.related[0], &facts, "pw"), "pw");
        let shared = published(json!({"related": related, "projection": {"namespace": "one"}}));
        let name = related_name(&shared, &shared.related[0], &facts, "pw");
        assert!(name.starts_with("pw-default-1x2y3z-"), "{name}");
    }
}
