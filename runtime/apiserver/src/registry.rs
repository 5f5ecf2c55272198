//! All that one cluster serves: [`Registry`], the kinds of its base and what CRDs added.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::builtin::builtin;
use crate::resource::{CollectionId, Resource};

/// The kinds that one cluster serves.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    /// Kinds that are there from the beginning and stay.
    base: Arc<[Arc<Resource>]>,
    /// Keyed by (group, plural), one entry per served version, the preferred first. Holds what CRDs made, nothing else.
    custom: BTreeMap<(String, String), Vec<Arc<Resource>>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::on(builtin().resources.clone())
    }
}

impl Registry {
    /// Serves `base`, and what is added.
    pub(crate) fn on(base: impl Into<Arc<[Arc<Resource>]>>) -> Self {
        Self {
            base: base.into(),
            custom: BTreeMap::new(),
        }
    }

    /// Every served resource: the kinds of the base first, then those that were added by group and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.base.iter().chain(self.custom.values().flatten())
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.all().find(|resource| {
            resource.plural == plural && resource.version == version && resource.group == group
        })
    }

    pub(crate) fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&Arc<Resource>> {
        self.all().find(|resource| {
            resource.kind == kind && resource.version == version && resource.group == group
        })
    }

    /// Some version of the kind whose objects are kept in `collection`, its storage version where served.
    pub(crate) fn of_collection(&self, collection: &CollectionId) -> Option<&Arc<Resource>> {
        let mut versions = self.all().filter(|resource| {
            *resource.plural == *collection.plural && *resource.group == *collection.group
        });
        let first = versions.next()?;
        if first.stored() {
            Some(first)
        } else {
            versions.find(|resource| resource.stored()).or(Some(first))
        }
    }

    /// Versions of a group in the order of preference; `None` where the group is unknown.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let mut versions: Vec<&str> = Vec::new();
        for resource in self.all().filter(|resource| resource.group == group) {
            if !versions.contains(&resource.version.as_str()) {
                versions.push(&resource.version);
            }
        }
        versions
    }

    /// Groups but the core one, in the order in which discovery names them.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for resource in self.all().filter(|resource| !resource.group.is_empty()) {
            if !groups.contains(&resource.group.as_str()) {
                groups.push(&resource.group);
            }
        }
        groups
    }

    /// Puts what a CRD serves in the place of what it served before.
    pub(crate) fn set_custom(&mut self, group: &str, plural: &str, versions: Vec<Arc<Resource>>) {
        let key = (group.to_owned(), plural.to_owned());
        if versions.is_empty() {
            self.custom.remove(&key);
        } else {
            self.custom.insert(key, versions);
        }
    }

    /// Whether a kind was added.
    pub(crate) fn has_custom(&self, group: &str, plural: &str) -> bool {
        let key = (group.to_owned(), plural.to_owned());
        self.custom.contains_key(&key)
    }

    /// What CRDs serve in a group, every version of each kind.
    pub(crate) fn custom_of_group<'a>(
        &'a self,
        group: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.custom
            .values()
            .flatten()
            .filter(move |resource| resource.group == group)
    }
}
