//! What a search finds, within bounds. Entry point: [`Found`].

use crate::status::view::{HeldView, ReleaseReply, UnreadView};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use windlass_fleet::api::{ApiCode, ApiError};
use windlass_fleet::object::Held;
use windlass_fleet::{ClusterName, GroupVersionKind};

/// Most objects that an answer lists. The count goes on.
pub(crate) const LISTED: usize = 1000;
/// Most reasons why something was not read.
const REASONS: usize = 100;
/// Most kinds that a reason names.
const KINDS: usize = 20;
/// Most kinds that credentials may not list.
const NOT_ALLOWED: usize = 500;
/// Most objects that are recognized when another cluster has them too.
const RECOGNIZED: usize = 100_000;

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Found {
    reply: ReleaseReply,
    /// Clusters that are parts of one server, or the same one by two names, have the same objects.
    uids: HashSet<String>,
    clusters: BTreeSet<String>,
    /// By cluster and sort of reason.
    unread: BTreeMap<(String, &'static str), UnreadView>,
    not_allowed: BTreeSet<String>,
}

/// What became of an object.
pub(super) enum Fate {
    /// It was only looked at.
    Holds,
    /// Its finalizers were removed.
    LetGo,
    /// They were not.
    Failed(ApiError),
}

impl Found {
    /// Whether an object has not been found before.
    pub(super) fn is_new(&mut self, held: &Held) -> bool {
        self.uids.len() >= RECOGNIZED || self.uids.insert(held.uid.clone())
    }

    pub(super) fn add(
        &mut self,
        cluster: &ClusterName,
        kind: &GroupVersionKind,
        held: &Held,
        fate: &Fate,
    ) {
        let reply = &mut self.reply;
        reply.count += 1;
        reply.deleting += u64::from(held.is_deleting);
        reply.released += u64::from(matches!(fate, Fate::LetGo));
        reply.failed += u64::from(matches!(fate, Fate::Failed(_)));
        if !self.clusters.contains(cluster.as_str()) {
            self.clusters.insert(cluster.to_string());
        }
        if reply.items.len() < LISTED {
            reply.items.push(view(cluster, kind, held, fate));
        }
    }

    /// A list was read to its end.
    pub(super) fn has_read(&mut self) {
        self.reply.lists += 1;
    }

    /// A kind that the credentials may not list, where all kinds are looked at.
    pub(super) fn not_allowed(&mut self, kind: &GroupVersionKind) {
        if self.not_allowed.len() < NOT_ALLOWED {
            self.not_allowed.insert(kind.group_kind().to_string());
        }
    }

    /// A kind of a cluster, or with none all that is left of it, was not read.
    pub(super) fn unread(
        &mut self,
        cluster: &ClusterName,
        kind: Option<&GroupVersionKind>,
        error: &ApiError,
    ) {
        let sort = (cluster.to_string(), error.code.as_str());
        if !self.unread.contains_key(&sort) && self.unread.len() >= REASONS {
            self.reply.more_unread += 1;
            return;
        }
        let view = self.unread.entry(sort).or_insert_with(|| UnreadView {
            cluster: cluster.to_string(),
            kinds: Vec::new(),
            more: 0,
            why: error.message.clone(),
        });
        let Some(kind) = kind else { return };
        let kind = kind.group_kind().to_string();
        if view.kinds.contains(&kind) {
            return;
        }
        if view.kinds.len() < KINDS {
            view.kinds.push(kind);
        } else {
            view.more += 1;
        }
    }

    /// The same for a reason of the program's own.
    pub(super) fn unread_because(
        &mut self,
        cluster: &ClusterName,
        kind: Option<&GroupVersionKind>,
        why: impl Into<String>,
    ) {
        let error = ApiError::host(ApiCode::Timeout, why);
        self.unread(cluster, kind, &error);
    }

    /// How many objects there are.
    pub(crate) fn count(&self) -> u64 {
        self.reply.count
    }

    /// How many of them are being deleted.
    pub(crate) fn deleting(&self) -> u64 {
        self.reply.deleting
    }

    /// How many clusters have some.
    pub(crate) fn clusters(&self) -> usize {
        self.clusters.len()
    }

    /// How many clusters, or kinds of them, were not read.
    pub(crate) fn unread_count(&self) -> u64 {
        self.unread.len() as u64 + self.reply.more_unread
    }

    /// All of it, sorted.
    pub(crate) fn into_reply(mut self) -> ReleaseReply {
        let place = |item: &HeldView| {
            let (cluster, kind) = (item.cluster.clone(), item.kind.clone());
            (cluster, kind, item.namespace.clone(), item.name.clone())
        };
        self.reply.items.sort_by_cached_key(place);
        self.reply.unread = self.unread.into_values().collect();
        self.reply.not_allowed = self.not_allowed.into_iter().collect();
        self.reply
    }
}

fn view(cluster: &ClusterName, kind: &GroupVersionKind, held: &Held, fate: &Fate) -> HeldView {
    let mut others: Vec<String> = held.own.iter().flat_map(|own| own.others.clone()).collect();
    others.sort_unstable();
    others.dedup();
    HeldView {
        cluster: cluster.to_string(),
        kind: kind.group_kind().to_string(),
        namespace: held.key.namespace.as_deref().unwrap_or_default().to_owned(),
        name: held.key.name.to_string(),
        finalizers: held.own.iter().map(|own| own.name.clone()).collect(),
        also_of: others,
        deleting: held.is_deleting,
        released: matches!(fate, Fate::LetGo),
        problem: match fate {
            Fate::Failed(error) => error.message.clone(),
            Fate::Holds | Fate::LetGo => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::ObjectKey;
    use windlass_fleet::object::OwnFinalizer;

    fn held(uid: usize) -> Held {
        Held {
            key: ObjectKey::namespaced("default", &format!("o{uid}")),
            uid: uid.to_string(),
            is_deleting: uid.is_multiple_of(2),
            finalizers: vec!["example.com/x".to_owned()],
            own: vec![OwnFinalizer {
                name: "example.com/x".to_owned(),
                others: Vec::new(),
            }],
        }
    }

    fn map() -> GroupVersionKind {
        GroupVersionKind::new("", "v1", "ConfigMap")
    }

    #[test]
    fn so_many_objects_are_listed_and_all_are_counted() {
        let mut found = Found::default();
        let alpha = ClusterName::new("alpha").unwrap();
        for uid in 0..LISTED + 10 {
            let held = held(uid);
            assert!(found.is_new(&held));
            found.add(&alpha, &map(), &held, &Fate::Holds);
        }
        assert!(!found.is_new(&held(3)));
        assert_eq!(found.clusters(), 1);
        let reply = found.into_reply();
        assert_eq!(reply.items.len(), LISTED);
        assert_eq!((reply.count, reply.deleting), (1010, 505));
    }

    #[test]
    fn a_reason_stands_once_for_a_cluster_and_there_are_not_too_many() {
        let mut found = Found::default();
        let refused = ApiError::host(ApiCode::Forbidden, "not for you");
        for cluster in 0..REASONS + 5 {
            let cluster = ClusterName::new(format!("c{cluster:03}")).unwrap();
            for kind in 0..KINDS + 2 {
                let kind = GroupVersionKind::new("example.com", "v1", &format!("Kind{kind}"));
                found.unread(&cluster, Some(&kind), &refused);
                found.unread(&cluster, Some(&kind), &refused);
            }
        }
        let reply = found.into_reply();
        assert_eq!(reply.unread.len(), REASONS);
        assert!(reply.more_unread > 0);
        let first = &reply.unread[0];
        assert_eq!((first.kinds.len(), first.cluster.as_str()), (KINDS, "c000"));
        assert_eq!(first.kinds[0], "Kind0.example.com");
        assert!(first.more > 0);
    }
}
