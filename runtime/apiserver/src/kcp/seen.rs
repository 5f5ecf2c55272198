//! What a virtual workspace serves: [`Seen`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::registry::Registry;
use crate::resource::Resource;

/// A label and the value that it must have.
pub(crate) type Label = (Box<str>, Box<str>);

/// Kinds, and which of their objects are seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) registry: Registry,
    /// Group and plural of a kind → the label that its objects must have.
    labels: BTreeMap<(String, String), Label>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            registry: Registry::on([]),
            labels: BTreeMap::new(),
        }
    }
}

impl Seen {
    /// Serves a kind, or its objects with a label alone; what is served already stays as it is.
    pub(crate) fn add(
        &mut self,
        group: &str,
        plural: &str,
        versions: &[Arc<Resource>],
        label: Option<&Label>,
    ) {
        if self.registry.has_custom(group, plural) {
            return;
        }
        self.registry.set_custom(group, plural, versions.to_vec());
        if let Some(label) = label {
            self.labels
                .insert((group.to_owned(), plural.to_owned()), label.clone());
        }
    }

    /// Whether all objects of a kind are seen.
    pub(crate) fn is_whole(&self, group: &str, plural: &str) -> bool {
        let kind = (group.to_owned(), plural.to_owned());
        !self.labels.contains_key(&kind)
    }

    /// The label that objects of a kind must have.
    pub(crate) fn label(&self, resource: &Resource) -> Option<&Label> {
        let kind = (resource.group.clone(), resource.plural.clone());
        self.labels.get(&kind)
    }
}
