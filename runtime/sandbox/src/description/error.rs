//! Why a guest's description cannot be used. Entry point: [`DescriptionError`].

use super::{CLUSTER_NAMES, FIELDS, MAX_ITEMS};
use std::collections::BTreeSet;
use windlass_fleet::controller::ShapeError;
use windlass_fleet::grant::Denied;
use windlass_fleet::path::PathError;
use windlass_fleet::selector::SelectorError;

/// Why a guest's description cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Too many watches or indexes.
    #[error("the guest asks for {count} {items}: {MAX_ITEMS} are allowed")]
    TooMany {
        /// `watches` or `indexes`.
        items: &'static str,
        /// How many it asks for.
        count: usize,
    },
    /// An unknown option.
    #[error(
        "{place} has the option {key:?}, which this host does not know: use a newer host, or build the guest without it"
    )]
    UnknownOption {
        /// The watch, index or description that has it.
        place: String,
        /// Its key.
        key: String,
    },
    /// An option is given twice.
    #[error("{place} has the option {key:?} twice: leave one out")]
    OptionTwice {
        /// The watch, index or description that has it.
        place: String,
        /// Its key.
        key: String,
    },
    /// A name of a cluster is not valid, or there are too many.
    #[error(
        "{place} has the option {CLUSTER_NAMES:?} with a name that is empty or too long, or with more than {MAX_ITEMS}: write names with commas between them, * matches any characters"
    )]
    ClusterNames {
        /// The watch.
        place: String,
    },
    /// A watch wants some fields, and none.
    #[error(
        "{place} has the option {FIELDS:?} and asks for the metadata alone: leave one of them out"
    )]
    FieldsOfMetadata {
        /// The watch.
        place: String,
    },
    /// A kind is not valid.
    #[error(
        "{place} names {text:?}, which is not a kind: give group, version and kind as in apiVersion and kind"
    )]
    NotAKind {
        /// The watch, index or description that has it.
        place: String,
        /// The text that is not a kind.
        text: String,
    },
    /// Watches, indexes and the primary kind do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A watch is mapped by code that the guest does not export.
    #[error(
        "{place} is mapped by the guest's code, but the guest does not export windlass:runtime/mapper@0.1.0: export it"
    )]
    NoMapper {
        /// The watch.
        place: String,
    },
    /// A selector is not valid.
    #[error("{place}")]
    Selector {
        /// The watch.
        place: String,
        /// The cause.
        #[source]
        source: SelectorError,
    },
    /// A field that a watch cannot select by.
    #[error(
        "{place} selects by the field {field:?}: a watch can select by metadata.name and metadata.namespace"
    )]
    Field {
        /// The watch.
        place: String,
        /// The field.
        field: String,
    },
    /// A path is not valid.
    #[error("{place}")]
    Path {
        /// The index.
        place: String,
        /// The cause.
        #[source]
        source: PathError,
    },
    /// A watch of clusters, without a rule that opens one.
    #[error(
        "{place} shows the clusters that rules open, and no rule opens one: add clusters: {{local: true, names: [\"*\"]}} to its rule"
    )]
    NoClusters {
        /// The watch.
        place: String,
    },
    /// Watches and indexes are not granted.
    #[error("{}", missing_rules(.0))]
    Denied(Vec<MissingRule>),
}

/// A watch or index that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRule {
    /// The watch or index.
    pub place: String,
    /// What is not granted.
    pub denied: Denied,
    /// Whether the resource is a guess.
    pub is_guess: bool,
}

/// What needs a rule, and the rules to add, each once.
fn missing_rules(all: &[MissingRule]) -> String {
    let places: Vec<String> = all
        .iter()
        .map(|MissingRule { place, denied, .. }| {
            format!(
                "{place} needs a rule that is not there: {}",
                denied.reason()
            )
        })
        .collect();
    let rule = |one: &MissingRule| {
        let guess = if one.is_guess {
            "    # the resource is a guess"
        } else {
            ""
        };
        format!("- {}{guess}", one.denied.missing_rule())
    };
    let rules: BTreeSet<String> = all.iter().map(rule).collect();
    let rules: Vec<String> = rules.into_iter().collect();
    format!(
        "{}\n  add to rules:\n    {}",
        places.join("\n  "),
        rules.join("\n    ")
    )
}
