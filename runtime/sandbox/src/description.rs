//! The checked description of a guest. Entry point: [`Description::check`].
//!
//! A guest describes its watches, indexes and primary kind. Here each is checked on its own and all of them together ([`convert`], [`error`]),
//! then against the grant ([`grant`]). [`rules`] lists the rules that a guest needs.

mod convert;
mod error;
mod grant;
pub(crate) mod kinds;
mod rules;

pub use error::{DescriptionError, MissingRule};
pub(crate) use rules::needed_rules;

use crate::clean::clean;
use crate::contract::exports::windlass::runtime::reconciler as wit;
use convert::{check_count, check_kind, index, no_options, watch};
use std::sync::Arc;
use windlass_fleet::GroupVersionKind;
use windlass_fleet::api::Projection;
use windlass_fleet::controller::check_shape;
use windlass_fleet::path::{FieldMask, FieldPath};
use windlass_fleet::predicate::Predicate;
use windlass_fleet::selector::{FieldSelector, LabelSelector};
use windlass_fleet::source::{ClusterFilter, EnqueueRule, Index, Mapper, Watch, WatchClusters};

/// Most watches, and most indexes.
const MAX_ITEMS: usize = 64;
/// Longest title, in bytes. The rest is cut.
const MAX_TITLE: usize = 200;
/// Longest group, version, kind or index name, in bytes.
const MAX_NAME: usize = 253;

/// Options of a watch: which of the reconciler's provider clusters it engages.
const CLUSTER_NAMES: &str = "cluster-names";
const CLUSTER_SELECTOR: &str = "cluster-selector";
/// Option of a watch: paths to the fields that the guest reads of the objects, with commas between them.
const FIELDS: &str = "fields";

/// A checked description: every part is valid, and all of them fit together.
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
    pub(crate) enqueue: EnqueueRule,
    pub(crate) clusters: WatchClusters,
    pub(crate) only: ClusterFilter,
    pub(crate) label_selector: Option<LabelSelector>,
    pub(crate) field_selector: Option<FieldSelector>,
    pub(crate) predicate: Predicate,
    pub(crate) projection: Projection,
    /// The fields that the guest reads besides the metadata. `None`: all of them.
    pub(crate) fields: Option<Vec<FieldPath>>,
}

impl WatchSpec {
    /// The watch, with `mapper` as the guest's code for a mapped watch.
    pub(crate) fn watch(&self, mapper: &Arc<dyn Mapper>) -> Watch {
        Watch {
            clusters: self.clusters,
            only: self.only.clone(),
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            predicate: self.predicate.clone(),
            projection: self.projection,
            ..Watch::new(self.kind.clone(), self.enqueue.with_mapper(mapper))
        }
    }
}

impl Description {
    /// Checks the description that `describe()` returned. [`Self::check_granted`] checks it against the grant.
    pub(crate) fn check(raw: wit::Description, has_mapper: bool) -> Result<Self, DescriptionError> {
        no_options("the description", &raw.options)?;
        check_count("watches", raw.watches.len())?;
        check_count("indexes", raw.indexes.len())?;
        let primary = raw
            .primary
            .map(|kind| check_kind("the primary kind", kind))
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
        let shape: Vec<_> = watches
            .iter()
            .map(|watch| (&watch.kind, watch.enqueue.clone()))
            .collect();
        check_shape(primary.as_ref(), &shape, &indexes)?;
        let description = Self {
            title: clean(&raw.title, MAX_TITLE),
            primary,
            watches,
            indexes,
        };
        description.check_mapper(has_mapper)?;
        Ok(description)
    }

    /// The kinds of which the guest reads some fields alone: all of its watches of such a kind say so.
    pub(crate) fn masks(&self) -> Vec<(GroupVersionKind, FieldMask)> {
        let mut kinds: Vec<_> = self.watches.iter().map(|watch| &watch.kind).collect();
        kinds.sort();
        kinds.dedup();
        let mask = |kind: &GroupVersionKind| {
            let watches = self.watches.iter().filter(|watch| watch.kind == *kind);
            let mut paths = Vec::new();
            // One that wants the metadata alone is content with any part.
            for watch in watches.filter(|watch| watch.projection == Projection::Full) {
                paths.extend(watch.fields.as_ref()?);
            }
            let has_paths = !paths.is_empty();
            has_paths.then(|| (kind.clone(), FieldMask::new(paths)))
        };
        kinds.into_iter().filter_map(mask).collect()
    }

    /// The watches with their names in errors.
    fn named_watches(&self) -> impl Iterator<Item = (String, &WatchSpec)> {
        self.watches
            .iter()
            .enumerate()
            .map(|(at, watch)| (watch_name(at, &watch.kind), watch))
    }

    fn check_mapper(&self, has_mapper: bool) -> Result<(), DescriptionError> {
        let mut mapped = self
            .named_watches()
            .filter(|(_, watch)| watch.enqueue == EnqueueRule::Mapped);
        match mapped.next() {
            Some((place, _)) if !has_mapper => Err(DescriptionError::NoMapper { place }),
            _ => Ok(()),
        }
    }
}

fn watch_name(at: usize, kind: &GroupVersionKind) -> String {
    format!("watch {} ({kind})", at + 1)
}

#[cfg(test)]
mod tests;
