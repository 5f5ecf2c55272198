//! A builder of the watches and indexes that a guest needs. Entry point: [`Description::new`].

use crate::resource::Typed;
use crate::types::{Change, ClusterScope, Description, Enqueue, GroupVersionKind, Index, Watch};

impl Description {
    /// Starts with a title for people and nothing to watch.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            primary: None,
            watches: Vec::new(),
            indexes: Vec::new(),
            options: Vec::new(),
        }
    }

    /// Watches the kind that requests name: an event on an object asks for that object.
    #[must_use]
    pub fn primary<T: Typed>(self) -> Self {
        self.primary_watch(Watch::new::<T>())
    }

    /// As [`Self::primary`], with a watch of your own.
    #[must_use]
    pub fn primary_watch(mut self, watch: Watch) -> Self {
        self.primary = Some(watch.kind.clone());
        self.watches.push(watch.enqueue(Enqueue::Primary));
        self
    }

    /// Watches objects that the primary kind controls: an event on one asks for its controller.
    #[must_use]
    pub fn owns<T: Typed>(self) -> Self {
        self.watch(Watch::new::<T>().enqueue(Enqueue::ControllerOwner))
    }

    /// Adds a watch.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Names the kind of requests without watching it, for a guest whose requests all come from a mapper.
    #[must_use]
    pub fn about<T: Typed>(mut self) -> Self {
        self.primary = Some(T::KIND.into());
        self
    }

    /// Adds an index on a field, for [`Enqueue::ByIndex`] and [`crate::ListOptions::index`]. The path has dot-separated
    /// names, `['quoted']` ones, and `[*]` for every element.
    #[must_use]
    pub fn index<T: Typed>(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        let (name, path) = (name.into(), path.into());
        self.indexes.push(Index {
            kind: T::KIND.into(),
            name,
            path,
            namespace_path: None,
            options: Vec::new(),
        });
        self
    }
}

impl Watch {
    /// Watches every object of a kind and every change, in the clusters that the operator chose, with [`Enqueue::Primary`].
    #[must_use]
    pub fn new<T: Typed>() -> Self {
        Self::of(T::KIND.into())
    }

    /// As [`Self::new`], for a kind without a type.
    #[must_use]
    pub fn of(kind: GroupVersionKind) -> Self {
        Self {
            kind,
            enqueue: Enqueue::Primary,
            clusters: ClusterScope::AsConfigured,
            label_selector: None,
            field_selector: None,
            changes: Vec::new(),
            metadata_only: false,
            options: Vec::new(),
        }
    }

    /// How an event becomes requests.
    #[must_use]
    pub fn enqueue(self, enqueue: Enqueue) -> Self {
        Self { enqueue, ..self }
    }

    /// The clusters to watch.
    #[must_use]
    pub fn clusters(self, clusters: ClusterScope) -> Self {
        Self { clusters, ..self }
    }

    /// Only objects whose labels match, as kubectl's `-l`.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            label_selector: Some(selector.into()),
            ..self
        }
    }

    /// Only objects whose `metadata.name` or `metadata.namespace` match, as kubectl's `--field-selector`.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            field_selector: Some(selector.into()),
            ..self
        }
    }

    /// Lets only changes of this part count. Call it again to add another part.
    #[must_use]
    pub fn on(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// The paths of all fields that the guest reads of the objects, besides `apiVersion`, `kind` and `metadata`: cached reads and mappers have
    /// no others, so that less is copied and parsed. Objects of the kind cannot be updated then, as an update would remove the others.
    #[must_use]
    pub fn reads(mut self, paths: &[&str]) -> Self {
        self.options.push(("fields".to_owned(), paths.join(",")));
        self
    }

    /// Keeps only `apiVersion`, `kind` and `metadata` in the host's cache.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self {
            metadata_only: true,
            ..self
        }
    }
}
