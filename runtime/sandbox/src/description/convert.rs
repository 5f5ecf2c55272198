//! Converts the parts of a guest's description from the contract's types, and checks each on its own. Entry points: [`watch`] and [`index`].

use super::{
    CLUSTER_NAMES, CLUSTER_SELECTOR, DescriptionError, FIELDS, MAX_ITEMS, MAX_NAME, WatchSpec,
    watch_name,
};
use crate::clean::clean;
use crate::contract::exports::windlass::runtime::reconciler as wit;
use windlass_fleet::GroupVersionKind;
use windlass_fleet::api::Projection;
use windlass_fleet::name::NamePattern;
use windlass_fleet::path::FieldPath;
use windlass_fleet::predicate::Predicate;
use windlass_fleet::selector::{FieldSelector, LabelSelector};
use windlass_fleet::source::{ClusterFilter, EnqueueRule, Index, WatchClusters};

pub(super) fn check_count(items: &'static str, count: usize) -> Result<(), DescriptionError> {
    if count > MAX_ITEMS {
        Err(DescriptionError::TooMany { items, count })
    } else {
        Ok(())
    }
}

pub(super) fn no_options(
    place: &str,
    options: &[(String, String)],
) -> Result<(), DescriptionError> {
    match options.first() {
        Some((key, _)) => Err(DescriptionError::UnknownOption {
            place: place.to_owned(),
            key: clean(key, MAX_NAME),
        }),
        None => Ok(()),
    }
}

/// What the options of a watch say.
#[derive(Default)]
struct WatchOptions {
    only: ClusterFilter,
    fields: Option<Vec<FieldPath>>,
}

fn watch_options(
    place: &str,
    options: &[(String, String)],
) -> Result<WatchOptions, DescriptionError> {
    let mut read = WatchOptions::default();
    for (at, (key, value)) in options.iter().enumerate() {
        if options[..at].iter().any(|(before, _)| before == key) {
            return Err(DescriptionError::OptionTwice {
                place: place.to_owned(),
                key: clean(key, MAX_NAME),
            });
        }
        match key.as_str() {
            CLUSTER_NAMES => read.only.names = patterns(place, value)?,
            CLUSTER_SELECTOR => {
                let selector = LabelSelector::parse(value);
                let selector = selector.map_err(|source| DescriptionError::Selector {
                    place: place.to_owned(),
                    source,
                })?;
                read.only.selector = Some(selector);
            }
            FIELDS => read.fields = Some(paths(place, value)?),
            _ => no_options(place, &options[at..])?,
        }
    }
    Ok(read)
}

/// Paths to fields, separated by commas.
fn paths(place: &str, value: &str) -> Result<Vec<FieldPath>, DescriptionError> {
    let paths = FieldPath::list(value).map_err(|source| DescriptionError::Path {
        place: place.to_owned(),
        source,
    })?;
    check_count("fields", paths.len())?;
    Ok(paths)
}

/// Patterns of cluster names, separated by commas.
fn patterns(place: &str, value: &str) -> Result<Vec<NamePattern>, DescriptionError> {
    let patterns: Vec<&str> = value.split(',').map(str::trim).collect();
    let fits = |pattern: &&str| (1..=MAX_NAME).contains(&pattern.len());
    if patterns.len() > MAX_ITEMS || !patterns.iter().all(fits) {
        return Err(DescriptionError::ClusterNames {
            place: place.to_owned(),
        });
    }
    Ok(patterns.into_iter().map(NamePattern::new).collect())
}

pub(super) fn check_kind(
    place: &str,
    kind: crate::contract::windlass::runtime::types::GroupVersionKind,
) -> Result<GroupVersionKind, DescriptionError> {
    let allowed = |text: &str| {
        text.len() <= MAX_NAME
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
    };
    let fits = [&kind.group, &kind.version, &kind.kind]
        .iter()
        .all(|text| allowed(text));
    if fits && !kind.version.is_empty() && !kind.kind.is_empty() {
        return Ok(kind.into());
    }
    let text = format!("{}/{}/{}", kind.group, kind.version, kind.kind)
        .chars()
        .take(MAX_NAME)
        .collect();
    Err(DescriptionError::NotAKind {
        place: place.to_owned(),
        text,
    })
}

pub(super) fn watch((at, raw): (usize, wit::Watch)) -> Result<WatchSpec, DescriptionError> {
    let kind = check_kind(&format!("watch {}", at + 1), raw.kind)?;
    let place = watch_name(at, &kind);
    let WatchOptions { only, fields } = watch_options(&place, &raw.options)?;
    if raw.metadata_only && fields.is_some() {
        return Err(DescriptionError::FieldsOfMetadata { place });
    }
    let selector = |source| DescriptionError::Selector {
        place: place.clone(),
        source,
    };
    let label_selector = raw
        .label_selector
        .as_deref()
        .map(LabelSelector::parse)
        .transpose()
        .map_err(selector)?;
    let field_selector = raw
        .field_selector
        .as_deref()
        .map(FieldSelector::parse)
        .transpose()
        .map_err(selector)?;
    let mut selected = field_selector
        .iter()
        .flat_map(FieldSelector::requirements)
        .map(|requirement| &*requirement.field);
    if let Some(field) =
        selected.find(|field| !matches!(*field, "metadata.name" | "metadata.namespace"))
    {
        return Err(DescriptionError::Field {
            place,
            field: field.to_owned(),
        });
    }
    let is_of_host = kind.is_of_host();
    Ok(WatchSpec {
        kind,
        enqueue: match raw.enqueue {
            wit::Enqueue::Primary => EnqueueRule::Primary,
            wit::Enqueue::ControllerOwner => EnqueueRule::ControllerOwner,
            wit::Enqueue::AnyOwner => EnqueueRule::AnyOwner,
            wit::Enqueue::SameName => EnqueueRule::SameName,
            wit::Enqueue::ByIndex(index) => EnqueueRule::ByIndex(index),
            wit::Enqueue::Mapped => EnqueueRule::Mapped,
        },
        clusters: match raw.clusters {
            // The only cluster that has the host's kinds.
            _ if is_of_host => WatchClusters::Local,
            wit::ClusterScope::AsConfigured => WatchClusters::AsConfigured,
            wit::ClusterScope::Local => WatchClusters::Local,
            wit::ClusterScope::Provider => WatchClusters::Provider,
            wit::ClusterScope::All => WatchClusters::All,
        },
        only,
        label_selector,
        field_selector,
        predicate: predicate(&raw.changes),
        projection: if raw.metadata_only {
            Projection::Metadata
        } else {
            Projection::Full
        },
        fields,
    })
}

/// The changes that count: those that the guest lists, or all if it lists none.
fn predicate(changes: &[wit::Change]) -> Predicate {
    let counted = |change: &wit::Change| match change {
        wit::Change::Generation => Predicate::Generation,
        wit::Change::Labels => Predicate::Labels,
        wit::Change::Annotations => Predicate::Annotations,
        wit::Change::Status => Predicate::Status,
    };
    match changes {
        [] => Predicate::always(),
        changes => Predicate::Any(changes.iter().map(counted).collect()),
    }
}

pub(super) fn index((at, raw): (usize, wit::Index)) -> Result<Index, DescriptionError> {
    let kind = check_kind(&format!("index {}", at + 1), raw.kind)?;
    let name = clean(&raw.name, MAX_NAME);
    let place = format!("index {name:?} of {kind}");
    no_options(&place, &raw.options)?;
    let parse = |path: &str| {
        FieldPath::parse(path).map_err(|source| DescriptionError::Path {
            place: place.clone(),
            source,
        })
    };
    let path = parse(&raw.path)?;
    let namespace_path = raw.namespace_path.as_deref().map(parse).transpose()?;
    Ok(Index {
        kind,
        name,
        path,
        namespace_path,
    })
}
