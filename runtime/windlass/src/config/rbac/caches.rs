//! The rights that the manager needs for its caches, and what these answer. No I/O. Entry point: [`caches`].

use windlass_fleet::grant::{Right, RuleSet, Verb};

/// The rights to fill caches: to list and to watch, where a set has both.
pub(super) fn caches(all: &RuleSet) -> RuleSet {
    let has = |one: &Right, verb| {
        all.contains(&Right {
            verb,
            ..one.clone()
        })
    };
    let fills = |one: &&Right| match one.verb {
        Verb::List => has(one, Verb::Watch),
        Verb::Watch => has(one, Verb::List),
        _ => false,
    };
    all.iter().filter(fills).cloned().collect()
}

/// All but the reads that caches answer.
pub(super) fn without_cached_reads(all: &RuleSet) -> RuleSet {
    let caches = caches(all);
    let cached = |one: &Right| {
        let verb = Verb::List;
        let is_read = [Verb::Get, Verb::List, Verb::Watch].contains(&one.verb);
        is_read
            && caches.covers(&Right {
                verb,
                ..one.clone()
            })
    };
    all.iter().filter(|one| !cached(one)).cloned().collect()
}

/// The rights to list and watch the resources that are watched, wherever a set contains both.
pub(super) fn for_watches(all: &RuleSet, watched: &RuleSet) -> RuleSet {
    let caches = caches(all);
    let watches = watched.iter().flat_map(|watched| {
        let watch = |one: &Right| Right {
            group: watched.group.clone(),
            resource: watched.resource.clone(),
            ..one.clone()
        };
        let pairs = caches.iter().map(move |one| (one, watch(one)));
        pairs.filter_map(|(one, watch)| one.covers(&watch).then_some(watch))
    });
    watches.collect()
}

/// The same rights in a cluster that is one namespace of its server: that namespace is `stored` there and `shown` in rules. Caches are those
/// of the whole server.
pub(super) fn in_namespace(all: &RuleSet, stored: &str, shown: &str) -> RuleSet {
    let caches = caches(all);
    let here = |one: &&Right| one.namespace.as_deref().is_none_or(|name| name == shown);
    let moved = |one: &Right| {
        let stored = Some(stored).filter(|_| !caches.contains(one));
        one.clone().within(stored)
    };
    all.iter().filter(here).map(moved).collect()
}
