//! Calls with random arguments. Entry point: [`make_one`].

use crate::random::Random;
use crate::words::{
    FIELDS, GROUPS, KINDS, LABELS, NAMES, NAMESPACES, OBJECTS, PATCHES, SUBRESOURCES, TOKENS,
    VERSIONS,
};
use windlass_sdk::raw::Cluster;
use windlass_sdk::{
    ApplyOptions, DeleteOptions, Event, EventType, GetOptions, GroupVersionKind, Level,
    ListOptions, ObjectKey, Operation, PatchType, Projection, Propagation, ReadMode, Selection,
    WriteOptions, fleet, log,
};

/// Makes a call. Every result is correct, but the call must return.
pub(crate) fn make_one(random: &mut Random, cluster: &Cluster) {
    match random.below(12) {
        0 => cluster.record_event(&event(random)),
        1 => drop(cluster.delete_collection(&kind(random), &selection(random), &delete(random))),
        2 => {
            let operations: Vec<_> = (0..random.below(20)).map(|_| operation(random)).collect();
            drop(cluster.batch(&operations));
        }
        3 => line(random),
        4 => other_clusters(random),
        _ => alone(cluster, operation(random)),
    }
}

/// The function that the operation is named after.
fn alone(cluster: &Cluster, operation: Operation) {
    match operation {
        Operation::Get((kind, key, options)) => drop(cluster.get(&kind, &key, &options)),
        Operation::Create((kind, object, options)) => {
            drop(cluster.create(&kind, &object, &options))
        }
        Operation::Update((kind, object, options)) => {
            drop(cluster.update(&kind, &object, &options))
        }
        Operation::Patch((kind, key, how, patch, options)) => {
            drop(cluster.patch(&kind, &key, how, &patch, &options))
        }
        Operation::Apply((kind, object, options)) => drop(cluster.apply(&kind, &object, &options)),
        Operation::Delete((kind, key, options)) => drop(cluster.delete(&kind, &key, &options)),
        Operation::List((kind, options)) => drop(cluster.list(&kind, &options)),
    }
}

fn operation(random: &mut Random) -> Operation {
    match random.below(9) {
        0 => Operation::Create((kind(random), random.text(OBJECTS), write(random))),
        1 => Operation::Update((kind(random), random.text(OBJECTS), write(random))),
        2 => Operation::Patch((
            kind(random),
            key(random),
            patch_type(random),
            random.text(PATCHES),
            write(random),
        )),
        3 => Operation::Apply((kind(random), random.text(OBJECTS), apply(random))),
        4 => Operation::Delete((kind(random), key(random), delete(random))),
        5..7 => Operation::List((kind(random), list(random))),
        _ => Operation::Get((kind(random), key(random), get(random))),
    }
}

fn other_clusters(random: &mut Random) {
    match random.below(3) {
        0 => drop(fleet::clusters_labelled(&random.text(LABELS))),
        1 => {
            if let Ok(other) = fleet::open(&random.text(&["alpha", "beta", "", "gamma", ".."])) {
                alone(other.raw(), operation(random));
            }
        }
        _ => drop(fleet::batch(&[(
            random.text(&["alpha", "beta", ""]),
            operation(random),
        )])),
    }
}

fn line(random: &mut Random) {
    let fields: Vec<_> = (0..random.below(40))
        .map(|_| (random.text(NAMES), random.text(OBJECTS)))
        .collect();
    let level = *random.pick(&[&Level::Debug, &Level::Info, &Level::Error]);
    log::write(level, &random.text(PATCHES), &fields);
}

pub(crate) fn kind(random: &mut Random) -> GroupVersionKind {
    // Mostly the granted one, so that the host checks the other arguments too.
    if !random.once_in(3) {
        return GroupVersionKind::new("v1", "ConfigMap");
    }
    GroupVersionKind {
        group: random.text(GROUPS),
        version: random.text(VERSIONS),
        kind: random.text(KINDS),
    }
}

fn key(random: &mut Random) -> ObjectKey {
    ObjectKey {
        namespace: random.maybe(|random| random.text(NAMESPACES)),
        name: random.text(NAMES),
    }
}

fn mode(random: &mut Random) -> ReadMode {
    if random.once_in(2) {
        ReadMode::Live
    } else {
        ReadMode::Cached
    }
}

fn projection(random: &mut Random) -> Projection {
    if random.once_in(2) {
        Projection::Metadata
    } else {
        Projection::Full
    }
}

fn patch_type(random: &mut Random) -> PatchType {
    *random.pick(&[
        &PatchType::JsonPatch,
        &PatchType::Merge,
        &PatchType::StrategicMerge,
    ])
}

fn subresource(random: &mut Random) -> Option<String> {
    if random.once_in(4) {
        Some(random.text(SUBRESOURCES))
    } else {
        None
    }
}

fn get(random: &mut Random) -> GetOptions {
    GetOptions {
        mode: mode(random),
        projection: projection(random),
        subresource: subresource(random),
    }
}

fn list(random: &mut Random) -> ListOptions {
    ListOptions {
        namespace: random.maybe(|random| random.text(NAMESPACES)),
        label_selector: random.maybe(|random| random.text(LABELS)),
        field_selector: random.maybe(|random| random.text(FIELDS)),
        index: if random.once_in(5) {
            Some((random.text(TOKENS), random.text(TOKENS)))
        } else {
            None
        },
        limit: random.number(),
        continue_token: if random.once_in(4) {
            Some(random.text(TOKENS))
        } else {
            None
        },
        mode: mode(random),
        projection: projection(random),
    }
}

fn write(random: &mut Random) -> WriteOptions {
    WriteOptions {
        subresource: subresource(random),
        dry_run: random.once_in(3),
    }
}

fn apply(random: &mut Random) -> ApplyOptions {
    ApplyOptions {
        subresource: subresource(random),
        force: random.once_in(2),
        dry_run: random.once_in(3),
    }
}

fn delete(random: &mut Random) -> DeleteOptions {
    DeleteOptions {
        uid: if random.once_in(3) {
            Some(random.text(TOKENS))
        } else {
            None
        },
        resource_version: if random.once_in(3) {
            Some(random.text(TOKENS))
        } else {
            None
        },
        propagation: random.maybe(|random| {
            *random.pick(&[
                &Propagation::Background,
                &Propagation::Foreground,
                &Propagation::Orphan,
            ])
        }),
        grace_period_seconds: random.maybe(Random::number),
        dry_run: random.once_in(3),
    }
}

fn selection(random: &mut Random) -> Selection {
    // Never all objects: the objects with the seeds must stay.
    Selection {
        namespace: random.maybe(|random| random.text(NAMESPACES)),
        label_selector: Some(format!("mine,{}", random.text(LABELS))),
        field_selector: random.maybe(|random| random.text(FIELDS)),
    }
}

fn event(random: &mut Random) -> Event {
    Event {
        kind: kind(random),
        key: key(random),
        event_type: if random.once_in(2) {
            EventType::Normal
        } else {
            EventType::Warning
        },
        reason: random.text(KINDS),
        action: random.text(KINDS),
        note: random.text(PATCHES),
    }
}
