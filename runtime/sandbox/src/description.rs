//! What a guest asks for, checked. Entry point: [`Description::check`].

mod grant;
pub(crate) mod kinds;
mod rules;

pub(crate) use rules::needed_rules;

use crate::clean::clean;
use crate::contract::exports::windlass::runtime::reconciler as wit;
use std::sync::Arc;
use windlass_fleet::GroupVersionKind;
use windlass_fleet::api::Projection;
use windlass_fleet::name::NamePattern;
use windlass_fleet::path::{FieldPath, PathError};
use windlass_fleet::predicate::Predicate;
use windlass_fleet::selector::{FieldSelector, LabelSelector, SelectorError};
use windlass_fleet::source::{ClusterFilter, Enqueue, Index, Mapper, Watch, WatchClusters};

/// Most watches, and most indexes.
const MOST: usize = 64;
/// Longest title, in bytes; the rest is cut.
const TITLE: usize = 200;
/// Longest group, version, kind or index name, in bytes.
const NAME: usize = 253;

/// Options of a watch: the provider's clusters that it engages, of those that its reconciler does.
const CLUSTER_NAMES: &str = "cluster-names";
const CLUSTER_SELECTOR: &str = "cluster-selector";

/// Why what a guest asks for cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Nothing would ever trigger it.
    #[error("the guest watches nothing and would never run: add a watch to its description")]
    NoWatches,
    /// More than a host takes.
    #[error("the guest asks for {count} {what}: {MOST} are allowed")]
    TooMany {
        /// `watches` or `indexes`.
        what: &'static str,
        /// How many it asks for.
        count: usize,
    },
    /// An option of a later version.
    #[error(
        "{place} has the option {key:?}, which this host does not know: use a newer host, or build the guest without it"
    )]
    UnknownOption {
        /// Where it stands.
        place: String,
        /// Its key.
        key: String,
    },
    /// One option with two values.
    #[error("{place} has the option {key:?} twice: leave one out")]
    OptionTwice {
        /// Where it stands.
        place: String,
        /// Its key.
        key: String,
    },
    /// Names of clusters that are none.
    #[error(
        "{place} has the option {CLUSTER_NAMES:?} with a name that is empty or too long, or with more than {MOST}: write names with commas between them, * matches any characters"
    )]
    ClusterNames {
        /// The watch.
        place: String,
    },
    /// A kind without version or kind, or with characters that none has.
    #[error(
        "{place} names {text:?}, which is not a kind: give group, version and kind as in apiVersion and kind"
    )]
    NotAKind {
        /// Where it stands.
        place: String,
        /// What stands there.
        text: String,
    },
    /// Two watches enqueue the object itself.
    #[error(
        "both {first} and {second} enqueue the object itself: let one enqueue by owner, name, index or mapper"
    )]
    TwoPrimaries {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// A watch enqueues the object itself, and its kind is not the primary one.
    #[error(
        "{place} enqueues the object itself, but the primary kind is {primary}: make them the same"
    )]
    OtherPrimary {
        /// The watch.
        place: String,
        /// The kind declared, or `not declared`.
        primary: String,
    },
    /// The rule needs to know what requests name.
    #[error("{place} enqueues by {rule}, which needs a primary kind: declare it")]
    NeedsPrimary {
        /// The watch.
        place: String,
        /// The rule.
        rule: &'static str,
    },
    /// No such index.
    #[error(
        "{place} enqueues by the index {index:?}, which the guest does not declare on its primary kind: declare it"
    )]
    UnknownIndex {
        /// The watch.
        place: String,
        /// The index.
        index: String,
    },
    /// Two indexes of one kind have one name.
    #[error("the guest declares the index {index:?} of {kind} twice: rename one")]
    DuplicateIndex {
        /// The kind.
        kind: String,
        /// The index.
        index: String,
    },
    /// No code to map with.
    #[error(
        "{place} is mapped by the guest's code, but the guest does not export windlass:runtime/mapper@0.1.0: export it"
    )]
    NoMapper {
        /// The watch.
        place: String,
    },
    /// A selector is wrong.
    #[error("{place}")]
    Selector {
        /// The watch.
        place: String,
        /// What is wrong.
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
    /// A path is wrong.
    #[error("{place}")]
    Path {
        /// The index.
        place: String,
        /// What is wrong.
        #[source]
        source: PathError,
    },
    /// It asks for more than it is granted.
    #[error("{place} needs a rule that is not there: {reason}\n  add to rules:\n    {rule}")]
    Denied {
        /// The watch or index.
        place: String,
        /// What is refused.
        reason: String,
        /// The missing rule, as a YAML list item.
        rule: String,
    },
}

/// What a guest asks for. Everything in it is well-formed and fits together.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    pub(crate) title: String,
    pub(crate) primary: Option<GroupVersionKind>,
    pub(crate) watches: Vec<WatchSpec>,
    pub(crate) indexes: Vec<Index>,
}

/// A watch whose mapper, if it has one, is not known yet.
#[derive(Debug, Clone)]
pub(crate) struct WatchSpec {
    pub(crate) kind: GroupVersionKind,
    pub(crate) enqueue: EnqueueSpec,
    pub(crate) clusters: WatchClusters,
    pub(crate) only: ClusterFilter,
    pub(crate) label_selector: Option<LabelSelector>,
    pub(crate) field_selector: Option<FieldSelector>,
    pub(crate) predicate: Predicate,
    pub(crate) projection: Projection,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EnqueueSpec {
    Primary,
    ControllerOwner,
    AnyOwner,
    SameName,
    ByIndex(String),
    Mapped,
}

impl EnqueueSpec {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::ControllerOwner => "controller-owner",
            Self::AnyOwner => "any-owner",
            Self::SameName => "same-name",
            Self::ByIndex(_) => "by-index",
            Self::Mapped => "mapped",
        }
    }

    fn needs_primary(&self) -> bool {
        matches!(
            self,
            Self::ControllerOwner | Self::AnyOwner | Self::SameName | Self::ByIndex(_)
        )
    }
}

impl WatchSpec {
    /// The watch, with `mapper` for the events that the guest's code maps.
    pub(crate) fn watch(&self, mapper: &Arc<dyn Mapper>) -> Watch {
        let enqueue = match &self.enqueue {
            EnqueueSpec::Primary => Enqueue::Primary,
            EnqueueSpec::ControllerOwner => Enqueue::ControllerOwner,
            EnqueueSpec::AnyOwner => Enqueue::AnyOwner,
            EnqueueSpec::SameName => Enqueue::SameName,
            EnqueueSpec::ByIndex(index) => Enqueue::ByIndex(index.clone()),
            EnqueueSpec::Mapped => Enqueue::Mapped(mapper.clone()),
        };
        Watch {
            clusters: self.clusters,
            only: self.only.clone(),
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            predicate: self.predicate.clone(),
            projection: self.projection,
            ..Watch::new(self.kind.clone(), enqueue)
        }
    }
}

impl Description {
    /// Checks what `describe()` answered, by itself: what it is granted is checked by [`Self::check_granted`].
    pub(crate) fn check(raw: wit::Description, has_mapper: bool) -> Result<Self, DescriptionError> {
        no_options("the description", &raw.options)?;
        bounded("watches", raw.watches.len())?;
        bounded("indexes", raw.indexes.len())?;
        if raw.watches.is_empty() {
            return Err(DescriptionError::NoWatches);
        }
        let primary = raw
            .primary
            .map(|kind| checked_kind("the primary kind", kind))
            .transpose()?;
        let indexes = raw
            .indexes
            .into_iter()
            .enumerate()
            .map(index)
            .collect::<Result<Vec<_>, _>>()?;
        let watches = raw
            .watches
            .into_iter()
            .enumerate()
            .map(watch)
            .collect::<Result<Vec<_>, _>>()?;
        let description = Self {
            title: clean(&raw.title, TITLE),
            primary,
            watches,
            indexes,
        };
        description.check_primary()?;
        description.check_indexes()?;
        description.check_mapper(has_mapper)?;
        Ok(description)
    }

    fn places(&self) -> impl Iterator<Item = (String, &WatchSpec)> {
        self.watches
            .iter()
            .enumerate()
            .map(|(at, watch)| (watch_place(at, &watch.kind), watch))
    }

    fn check_primary(&self) -> Result<(), DescriptionError> {
        let mut primaries = self
            .places()
            .filter(|(_, watch)| watch.enqueue == EnqueueSpec::Primary);
        if let (Some((first, _)), Some((second, _))) = (primaries.next(), primaries.next()) {
            return Err(DescriptionError::TwoPrimaries { first, second });
        }
        for (place, watch) in self.places() {
            match (&watch.enqueue, &self.primary) {
                (EnqueueSpec::Primary, Some(primary)) if *primary == watch.kind => {}
                (EnqueueSpec::Primary, declared) => {
                    let primary = declared
                        .as_ref()
                        .map_or_else(|| "not declared".to_owned(), ToString::to_string);
                    return Err(DescriptionError::OtherPrimary { place, primary });
                }
                (rule, None) if rule.needs_primary() => {
                    return Err(DescriptionError::NeedsPrimary {
                        place,
                        rule: rule.as_str(),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), DescriptionError> {
        for (at, index) in self.indexes.iter().enumerate() {
            if self.indexes[..at]
                .iter()
                .any(|other| other.kind == index.kind && other.name == index.name)
            {
                return Err(DescriptionError::DuplicateIndex {
                    kind: index.kind.to_string(),
                    index: index.name.clone(),
                });
            }
        }
        for (place, watch) in self.places() {
            let EnqueueSpec::ByIndex(name) = &watch.enqueue else {
                continue;
            };
            let declared =
                |index: &Index| Some(&index.kind) == self.primary.as_ref() && index.name == *name;
            if !self.indexes.iter().any(declared) {
                return Err(DescriptionError::UnknownIndex {
                    place,
                    index: name.clone(),
                });
            }
        }
        Ok(())
    }

    fn check_mapper(&self, has_mapper: bool) -> Result<(), DescriptionError> {
        let mut mapped = self
            .places()
            .filter(|(_, watch)| watch.enqueue == EnqueueSpec::Mapped);
        match mapped.next() {
            Some((place, _)) if !has_mapper => Err(DescriptionError::NoMapper { place }),
            _ => Ok(()),
        }
    }
}

fn watch_place(at: usize, kind: &GroupVersionKind) -> String {
    format!("watch {} ({kind})", at + 1)
}

fn bounded(what: &'static str, count: usize) -> Result<(), DescriptionError> {
    if count > MOST {
        Err(DescriptionError::TooMany { what, count })
    } else {
        Ok(())
    }
}

fn no_options(place: &str, options: &[(String, String)]) -> Result<(), DescriptionError> {
    match options.first() {
        Some((key, _)) => Err(DescriptionError::UnknownOption {
            place: place.to_owned(),
            key: clean(key, NAME),
        }),
        None => Ok(()),
    }
}

/// The clusters that the options of a watch name.
fn cluster_filter(
    place: &str,
    options: &[(String, String)],
) -> Result<ClusterFilter, DescriptionError> {
    let mut only = ClusterFilter::default();
    for (at, (key, value)) in options.iter().enumerate() {
        if options[..at].iter().any(|(before, _)| before == key) {
            return Err(DescriptionError::OptionTwice {
                place: place.to_owned(),
                key: clean(key, NAME),
            });
        }
        match key.as_str() {
            CLUSTER_NAMES => only.names = patterns(place, value)?,
            CLUSTER_SELECTOR => {
                let selector = LabelSelector::parse(value);
                let selector = selector.map_err(|source| DescriptionError::Selector {
                    place: place.to_owned(),
                    source,
                })?;
                only.selector = Some(selector);
            }
            _ => no_options(place, &options[at..])?,
        }
    }
    Ok(only)
}

/// Patterns over names of clusters, between commas.
fn patterns(place: &str, value: &str) -> Result<Vec<NamePattern>, DescriptionError> {
    let patterns: Vec<&str> = value.split(',').map(str::trim).collect();
    let fits = |pattern: &&str| (1..=NAME).contains(&pattern.len());
    if patterns.len() > MOST || !patterns.iter().all(fits) {
        return Err(DescriptionError::ClusterNames {
            place: place.to_owned(),
        });
    }
    Ok(patterns.into_iter().map(NamePattern::new).collect())
}

fn checked_kind(
    place: &str,
    kind: crate::contract::windlass::runtime::types::GroupVersionKind,
) -> Result<GroupVersionKind, DescriptionError> {
    let allowed = |text: &str| {
        text.len() <= NAME
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
        .take(NAME)
        .collect();
    Err(DescriptionError::NotAKind {
        place: place.to_owned(),
        text,
    })
}

fn watch((at, raw): (usize, wit::Watch)) -> Result<WatchSpec, DescriptionError> {
    let kind = checked_kind(&format!("watch {}", at + 1), raw.kind)?;
    let place = watch_place(at, &kind);
    let only = cluster_filter(&place, &raw.options)?;
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
    let mut fields = field_selector
        .iter()
        .flat_map(FieldSelector::requirements)
        .map(|requirement| &*requirement.field);
    if let Some(field) =
        fields.find(|field| !matches!(*field, "metadata.name" | "metadata.namespace"))
    {
        return Err(DescriptionError::Field {
            place,
            field: field.to_owned(),
        });
    }
    Ok(WatchSpec {
        kind,
        enqueue: match raw.enqueue {
            wit::Enqueue::Primary => EnqueueSpec::Primary,
            wit::Enqueue::ControllerOwner => EnqueueSpec::ControllerOwner,
            wit::Enqueue::AnyOwner => EnqueueSpec::AnyOwner,
            wit::Enqueue::SameName => EnqueueSpec::SameName,
            wit::Enqueue::ByIndex(index) => EnqueueSpec::ByIndex(index),
            wit::Enqueue::Mapped => EnqueueSpec::Mapped,
        },
        clusters: match raw.clusters {
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
    })
}

/// The changes that count: any of those named, or every one if none is.
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

fn index((at, raw): (usize, wit::Index)) -> Result<Index, DescriptionError> {
    let kind = checked_kind(&format!("index {}", at + 1), raw.kind)?;
    let name = clean(&raw.name, NAME);
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

#[cfg(test)]
mod tests;
