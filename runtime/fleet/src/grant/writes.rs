//! Where a grant lets objects be written. Entry point: [`Grant::writes`].

use super::{ClusterFacts, Grant, Layer, Namespaces, Rule, Verb};

/// The verbs by which an object gets a finalizer.
const WRITES: [Verb; 3] = [Verb::Create, Verb::Update, Verb::Patch];

impl Grant {
    /// The namespaces in which some objects of a resource may be written, whatever names the rules are about.
    #[must_use]
    pub fn writes(&self, cluster: &ClusterFacts<'_>, group: &str, resource: &str) -> Namespaces {
        if !self.has_cluster(cluster) {
            return Namespaces::None;
        }
        let layers = self.layers.iter();
        layers.fold(Namespaces::All, |all, layer| {
            all.and(layer.writes(cluster, group, resource))
        })
    }
}

impl Layer {
    fn writes(&self, cluster: &ClusterFacts<'_>, group: &str, resource: &str) -> Namespaces {
        let covers = |rule: &&Rule| {
            let mut verbs = WRITES.into_iter();
            verbs.any(|verb| rule.covers(group, resource, None, verb))
                && rule.covers_cluster(cluster)
        };
        let rules: Vec<&Rule> = self.rules.iter().filter(covers).collect();
        let mut namespaces = rules.iter().flat_map(|rule| &rule.namespaces);
        if namespaces.any(|namespace| &**namespace == "*") {
            return Namespaces::All;
        }
        let namespaces = rules.iter().flat_map(|rule| &rule.namespaces);
        Namespaces::of(namespaces.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ClusterName;
    use crate::pairs::Pairs;

    fn rule(resources: &str, verbs: &[&str], namespaces: &[&str]) -> Rule {
        let list = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        Rule {
            api_groups: list(&[""]),
            resources: list(&[resources]),
            verbs: list(verbs),
            namespaces: list(namespaces),
            ..Rule::default()
        }
    }

    fn writes(grant: &Grant, resource: &str) -> Namespaces {
        let (name, labels) = (ClusterName::new("alpha").unwrap(), Pairs::default());
        let cluster = ClusterFacts {
            name: &name,
            labels: &labels,
            provider: None,
            own: true,
        };
        grant.writes(&cluster, "", resource)
    }

    #[test]
    fn an_object_is_written_where_a_rule_grants_a_verb_that_writes() {
        let named = Rule {
            resource_names: vec!["one".into()],
            ..rule("secrets", &["update"], &["a"])
        };
        let grant = Grant::new([
            rule("pods", &["get", "list", "watch", "delete"], &["*"]),
            rule("pods/status", &["patch"], &["*"]),
            rule("configmaps", &["patch"], &["a"]),
            rule("configmaps", &["*"], &["b"]),
            rule("services", &["create"], &["*"]),
            named,
        ]);
        let only =
            |names: &[&str]| Namespaces::Only(names.iter().map(|name| (*name).into()).collect());
        assert_eq!(writes(&grant, "pods"), Namespaces::None);
        assert_eq!(writes(&grant, "configmaps"), only(&["a", "b"]));
        assert_eq!(writes(&grant, "services"), Namespaces::All);
        assert_eq!(writes(&grant, "secrets"), only(&["a"]));
        assert_eq!(writes(&Grant::all(), "pods"), Namespaces::All);
        let grant = grant.with_ceiling([rule("*", &["*"], &["b", "c"])]);
        assert_eq!(writes(&grant, "configmaps"), only(&["b"]));
        assert_eq!(writes(&grant, "secrets"), Namespaces::None);
    }
}
