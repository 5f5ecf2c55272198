//! Descriptions at random. Entry point: [`description`].

use crate::calls::kind;
use crate::random::Random;
use crate::words::{FIELDS, LABELS, NAMES, PATHS, TOKENS};
use windlass_sdk::{Change, ClusterScope, Description, Enqueue, Index, Watch};

/// Names of indexes: few, so that some are declared twice and some that are asked for exist.
const INDEXES: &[&str] = &["color", "size"];

/// A random description, which may contradict itself.
pub(crate) fn description(random: &mut Random) -> Description {
    Description {
        title: random.text(NAMES),
        primary: random.maybe(kind),
        watches: (0..random.below(4)).map(|_| watch(random)).collect(),
        indexes: (0..random.below(3)).map(|_| index(random)).collect(),
        options: options(random),
    }
}

fn watch(random: &mut Random) -> Watch {
    let enqueue = match random.below(6) {
        0..2 => Enqueue::Primary,
        2 => Enqueue::ControllerOwner,
        3 => Enqueue::SameName,
        4 => Enqueue::ByIndex(random.text(INDEXES)),
        _ => Enqueue::Mapped,
    };
    Watch {
        kind: kind(random),
        enqueue,
        clusters: *random.pick(&[
            &ClusterScope::AsConfigured,
            &ClusterScope::Local,
            &ClusterScope::All,
        ]),
        label_selector: random.maybe(|random| random.text(LABELS)),
        field_selector: random.maybe(|random| random.text(FIELDS)),
        changes: (0..random.below(3))
            .map(|_| *random.pick(&[&Change::Generation, &Change::Status]))
            .collect(),
        metadata_only: random.once_in(2),
        options: options(random),
    }
}

fn index(random: &mut Random) -> Index {
    Index {
        kind: kind(random),
        name: random.text(INDEXES),
        path: random.text(PATHS),
        namespace_path: random.maybe(|random| random.text(PATHS)),
        options: options(random),
    }
}

/// Mostly none, because the host rejects unknown options before it checks anything else.
fn options(random: &mut Random) -> Vec<(String, String)> {
    if random.once_in(30) {
        vec![(random.text(TOKENS), random.text(TOKENS))]
    } else {
        Vec::new()
    }
}
