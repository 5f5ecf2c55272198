//! The single faults of a case, in the order in which they are tried. Entry point: [`singles`].
//!
//! The telling ones come first: those at writes, and at the first of several clusters that do the same. Within a rank the seed decides.

use super::door::{Made, Sort};
use super::trial::Trial;
use fastrand::Rng;
use std::collections::{BTreeSet, HashMap, HashSet};
use windlass_author::cases::{Effect, Fault};
use windlass_author::simulated::SeenEvent;

/// How many changes ago the caches of a restarted process begin.
const BEHIND: [u64; 4] = [1, 2, 4, 8];

/// The same for one cache of several.
const ONE_BEHIND: [u64; 2] = [1, 4];

/// Ranks by which a fault is later that only repeats one in another cluster.
const REPEATED: u32 = 10;

/// All single faults at the calls and events of a run without faults.
pub(super) fn singles(usual: &Trial, rng: &mut Rng) -> Vec<Fault> {
    let mut ranked = Vec::new();
    let resources = resources(usual);
    let mut seen = HashSet::new();
    for (at, made) in usual.made.iter().enumerate() {
        let is_first = seen.insert((&made.name.reconciler, &made.name.at, made.number));
        let repeated = if is_first { 0 } else { REPEATED };
        let own = at_call(usual, at, &resources);
        ranked.extend(
            own.into_iter()
                .map(|(rank, fault)| (rank + repeated, fault)),
        );
    }
    let mut seen = HashSet::new();
    for event in &usual.events {
        let is_first = seen.insert((&event.at, event.number));
        let rank = if is_first { 2 } else { 2 + REPEATED };
        ranked.push((rank, of_event(event)));
    }
    // First by luck, then by rank: the sort keeps the order of equals.
    rng.shuffle(&mut ranked);
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, fault)| fault).collect()
}

fn of_event(event: &SeenEvent) -> Fault {
    Fault {
        fault: Effect::Merge,
        cluster: event.cluster.clone(),
        at: event.at.clone(),
        reconciler: String::new(),
        request: String::new(),
        number: event.number,
        object: None,
        behind: None,
        resource: None,
    }
}

/// The resources of each cluster whose objects change, by their kinds' texts.
fn resources(usual: &Trial) -> HashMap<String, BTreeSet<String>> {
    let mut all: HashMap<String, BTreeSet<String>> = HashMap::new();
    for event in &usual.events {
        let kind = event.at.split(' ').nth(1).and_then(resource_of);
        if let Some(resource) = kind {
            all.entry(event.cluster.clone())
                .or_default()
                .insert(resource);
        }
    }
    all
}

/// `websites.example.dev` of `example.dev/v1/Website`, by the usual plural.
fn resource_of(kind: &str) -> Option<String> {
    let mut parts = kind.rsplitn(3, '/');
    let (kind, _, group) = (parts.next()?, parts.next()?, parts.next());
    let lower = kind.to_ascii_lowercase();
    let plural = match lower.as_bytes() {
        [.., b's' | b'x'] | [.., b'c' | b's', b'h'] => format!("{lower}es"),
        [.., b'a' | b'e' | b'o' | b'u', b'y'] => format!("{lower}s"),
        [.., b'y'] => format!("{}ies", &lower[..lower.len() - 1]),
        _ => format!("{lower}s"),
    };
    Some(match group {
        Some(group) => format!("{plural}.{group}"),
        None => plural,
    })
}

/// The faults at one call, each with its rank. A fault that equals another one is left out: a guest keeps nothing from run to run, so a run
/// that is killed before a call ends as one that is killed after the write before it, or at its first call.
fn at_call(
    usual: &Trial,
    at: usize,
    resources: &HashMap<String, BTreeSet<String>>,
) -> Vec<(u32, Fault)> {
    let made = &usual.made[at];
    let fault = |effect| Fault::at(effect, &made.name, made.number);
    let mut all = Vec::new();
    if at == 0 || usual.made[at - 1].run != made.run {
        all.push((4, fault(Effect::KillBefore)));
        all.extend(restarts(made, Effect::Restart, 2, resources));
    }
    if !made.sort.writes() {
        let writes = |other: &Made| other.run == made.run && other.sort.writes();
        let idle = if usual.made.iter().any(writes) { 0 } else { 2 };
        all.push((1 + idle, fault(Effect::Error)));
        all.push((4 + idle, fault(Effect::Timeout)));
        return all;
    }
    all.push((0, fault(Effect::KillAfter)));
    all.push((1, fault(Effect::TimeoutDone)));
    all.push((2, fault(Effect::Error)));
    all.push((4, fault(Effect::Timeout)));
    if made.sort == Sort::Write {
        all.push((0, fault(Effect::Conflict)));
    }
    for (rank, object) in read_before(usual, at) {
        let of = |effect| Fault {
            object: Some(object.clone()),
            ..fault(effect)
        };
        all.push((rank, of(Effect::Change)));
        all.push((rank + 1, of(Effect::Delete)));
    }
    all.extend(restarts(made, Effect::RestartAfter, 1, resources));
    all
}

/// The objects that the run had read before a write, in the cluster of the write: that of the write first.
fn read_before(usual: &Trial, at: usize) -> Vec<(u32, String)> {
    let write = &usual.made[at];
    let of_run = usual.made[..at].iter().rev();
    let of_run = of_run.take_while(|made| made.run == write.run);
    let there = of_run.filter(|made| made.name.cluster == write.name.cluster);
    let read: BTreeSet<&String> = there.filter_map(|made| made.object.as_ref()).collect();
    let own = write.object.iter().filter(|object| read.contains(object));
    let others = read.iter().filter(|it| write.object.as_ref() != Some(**it));
    let own = own.map(|object| (0, object.clone()));
    own.chain(others.map(|object| (2, (*object).clone())))
        .collect()
}

/// Restarts with caches that begin in the past: all, or one of several.
fn restarts(
    made: &Made,
    effect: Effect,
    rank: u32,
    resources: &HashMap<String, BTreeSet<String>>,
) -> Vec<(u32, Fault)> {
    let of = |rank: u32, behind: u64, resource: Option<&String>| {
        let fault = Fault {
            behind: Some(behind),
            resource: resource.cloned(),
            ..Fault::at(effect, &made.name, made.number)
        };
        (rank, fault)
    };
    let mut all: Vec<_> = BEHIND.map(|behind| of(rank, behind, None)).into();
    let own = resources.get(&made.name.cluster);
    for resource in own.into_iter().flatten() {
        all.extend(ONE_BEHIND.map(|behind| of(rank, behind, Some(resource))));
    }
    all
}

/// The same change by somebody at a time at which it races with nothing: before the first call of the run in that cluster, which begins again with fresh
/// caches. None: a fault is none of somebody, or its call was not made without faults.
pub(super) fn quiet(usual: &Trial, fault: &Fault) -> Option<Vec<Fault>> {
    if !fault.is_of_somebody() {
        return None;
    }
    let is_it = |made: &&Made| fault.number == made.number && fault.is_at(&made.name);
    let run = usual.made.iter().find(is_it)?.run;
    let in_cluster = |made: &&Made| made.run == run && made.name.cluster == fault.cluster;
    let first = usual.made.iter().find(in_cluster)?;
    let change = Fault {
        object: fault.object.clone(),
        ..Fault::at(fault.fault, &first.name, first.number)
    };
    let restart = Fault {
        fault: Effect::Restart,
        object: None,
        ..change.clone()
    };
    Some(vec![change, restart])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_usual_plural() {
        for (kind, resource) in [
            ("v1/ConfigMap", "configmaps"),
            ("example.dev/v1/Website", "websites.example.dev"),
            (
                "networking.k8s.io/v1/Ingress",
                "ingresses.networking.k8s.io",
            ),
            (
                "networking.k8s.io/v1/NetworkPolicy",
                "networkpolicies.networking.k8s.io",
            ),
            ("x.dev/v1/Gateway", "gateways.x.dev"),
        ] {
            assert_eq!(resource_of(kind).as_deref(), Some(resource));
        }
    }
}
