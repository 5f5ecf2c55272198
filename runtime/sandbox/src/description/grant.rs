//! Whether what a guest asks for is granted. Entry point: [`Description::check_granted`].

use super::{Description, DescriptionError, MissingRule, WatchSpec};
use crate::description::kinds::plural_of;
use windlass_fleet::grant::{Access, ClusterFacts, Denied, Namespaces, Verb};
use windlass_fleet::source::WatchClusters;
use windlass_fleet::{ClusterName, Grant, GroupVersionKind};

/// What a watch does on the wire.
const WATCHING: [Verb; 2] = [Verb::List, Verb::Watch];

impl Description {
    /// Checks that every watch and index is granted, as far as that can be told without a cluster: a rule that depends on the
    /// cluster, or on the resource of a kind that is not built in, is left to each cluster.
    pub(crate) fn check_granted(&self, grant: &Grant) -> Result<(), DescriptionError> {
        let watches = self.named_watches().filter_map(|(place, watch)| {
            let (local, name) = (local_only(watch), name_of(watch));
            missing(grant, &place, &watch.kind, local, name)
        });
        let indexes = self.indexes.iter().filter_map(|index| {
            let place = format!("index {:?} of {}", index.name, index.kind);
            missing(grant, &place, &index.kind, false, None)
        });
        let all: Vec<MissingRule> = watches.chain(indexes).collect();
        if !all.is_empty() {
            return Err(DescriptionError::Denied(all));
        }
        let mut of_clusters = self
            .named_watches()
            .filter(|(_, watch)| watch.kind.is_of_host());
        match of_clusters.next() {
            Some((place, _)) if !grant.opens_provider_clusters() => {
                Err(DescriptionError::NoClusters { place })
            }
            _ => Ok(()),
        }
    }
}

fn local_only(watch: &WatchSpec) -> bool {
    watch.clusters == WatchClusters::Local
}

fn name_of(watch: &WatchSpec) -> Option<&str> {
    watch.field_selector.as_ref()?.exact("metadata.name")
}

/// The rule that a watch or index of a kind lacks.
fn missing(
    grant: &Grant,
    place: &str,
    kind: &GroupVersionKind,
    local: bool,
    name: Option<&str>,
) -> Option<MissingRule> {
    // The cluster knows the resource, which is a guess here: the watch notes what it lacks, within the ceiling.
    if grant.is_noting() {
        return None;
    }
    let plural = plural_of(&kind.group, &kind.kind);
    let cluster_name = if local {
        ClusterName::local()
    } else {
        any_cluster()
    };
    let labels = windlass_fleet::Pairs::default();
    let cluster = ClusterFacts {
        name: &cluster_name,
        labels: &labels,
        provider: None,
        own: true,
    };
    // A tenant's clusters are compared with those that there are: the watch begins in no other one.
    let grant = if local {
        grant
    } else {
        &grant.in_some_cluster()
    };
    let denied = WATCHING
        .iter()
        .find_map(|verb| denial(grant, &cluster, &kind.group, &plural.name, *verb, name));
    let denied = denied?;
    let undecided =
        grant.names_group(&kind.group) && (grant.reaches_other_clusters() || !plural.known);
    if undecided {
        return None;
    }
    Some(MissingRule {
        place: place.to_owned(),
        denied: denied.verbs(WATCHING),
        is_guess: !plural.known,
    })
}

/// Some cluster of a provider. Rules that name clusters are not decided by it.
fn any_cluster() -> ClusterName {
    ClusterName::new("any").unwrap_or_else(|_| ClusterName::local())
}

fn denial(
    grant: &Grant,
    cluster: &ClusterFacts<'_>,
    group: &str,
    resource: &str,
    verb: Verb,
    name: Option<&str>,
) -> Option<Denied> {
    if grant.namespaces(cluster, group, resource, verb, name) != Namespaces::None {
        return None;
    }
    let access = Access {
        cluster: *cluster,
        group,
        resource,
        subresource: None,
        verb,
        namespaced: true,
        namespace: None,
        name,
    };
    grant.check(&access).err()
}
