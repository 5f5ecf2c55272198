//! The needs and the interfaces of a component. Entry point: [`Revision::inspect`].

use crate::component::revision::{LoadError, Revision};
use crate::description::kinds::CustomResource;
use crate::description::{Description, WatchSpec, needed_rules};
use crate::engine::Sandbox;
use crate::guest::code::Code;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::Digest;
use windlass_fleet::Rule;
use windlass_fleet::source::{ClusterFilter, EnqueueRule, WatchClusters};

/// The needs and the interfaces of a component, for people.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Its digest.
    pub digest: Digest,
    /// Bytes of the component.
    pub size: usize,
    /// How long it took to compile. `None`: it was in the cache.
    pub compiling: Option<Duration>,
    /// Memory of an instance after `describe`, in bytes: every reconcile takes at least this much.
    pub memory: usize,
    /// The smallest world of the contract that it fits, for example `windlass:runtime/reconcile@0.1.0`.
    pub world: String,
    /// Interfaces that it imports, sorted.
    pub imports: Vec<String>,
    /// Interfaces that it exports, sorted.
    pub exports: Vec<String>,
    /// Functions of the resource `cluster` that it calls: `get`, `apply`, …
    pub functions: Vec<String>,
    /// The guest's own title.
    pub title: String,
    /// The kind that requests name, as `v1/ConfigMap`.
    pub primary: Option<String>,
    /// A line for each watch: `v1/ConfigMap, enqueued by primary, where hello.windlass.dev/greet`.
    pub watches: Vec<String>,
    /// Which clusters each watch engages, and which of the provider's.
    pub scopes: Vec<(WatchClusters, ClusterFilter)>,
    /// Whether the guest's code maps a watch to requests, which may name other clusters.
    pub maps: bool,
    /// A line for each index.
    pub indexes: Vec<String>,
    /// An estimate of the rules that it needs.
    pub rules: Vec<Rule>,
    /// The same as YAML, to paste below `rules:`. A guessed resource has a comment.
    pub rules_yaml: String,
}

impl Revision {
    /// Asks the guest to describe itself, with this `config` (JSON) and without a grant. The resource of a kind that is neither built in
    /// nor among `customs` is a guess.
    ///
    /// # Errors
    /// [`LoadError`] when `describe()` fails or returns an invalid description.
    pub async fn inspect(
        &self,
        sandbox: &Sandbox,
        config: &str,
        customs: &[CustomResource],
    ) -> Result<Inspection, LoadError> {
        let code = Arc::new(Code::bind(sandbox, self, true)?);
        let (description, memory) = code.describe_alone(config).await?;
        let needed = needed_rules(&description, self.functions(), customs);
        Ok(Inspection {
            digest: self.digest(),
            size: self.size(),
            compiling: self.compiling(),
            memory,
            world: self.world(),
            imports: self.imports().to_vec(),
            exports: self.exports().to_vec(),
            functions: self.functions().to_vec(),
            rules_yaml: needed.yaml,
            rules: needed.rules,
            primary: description.primary.as_ref().map(ToString::to_string),
            watches: watches(&description),
            scopes: description
                .watches
                .iter()
                .map(|watch| (watch.clusters, watch.only.clone()))
                .collect(),
            maps: description
                .watches
                .iter()
                .any(|watch| watch.enqueue == EnqueueRule::Mapped),
            indexes: indexes(&description),
            title: description.title,
        })
    }
}

fn watches(description: &Description) -> Vec<String> {
    let line = |watch: &WatchSpec| {
        let mut line = format!("{}, enqueued by {}", watch.kind, watch.enqueue.as_str());
        if let EnqueueRule::ByIndex(index) = &watch.enqueue {
            line.push_str(&format!(" {index:?}"));
        }
        if let Some(selector) = &watch.label_selector {
            line.push_str(&format!(", labels {selector}"));
        }
        if let Some(selector) = &watch.field_selector {
            line.push_str(&format!(", fields {selector}"));
        }
        if let Some(fields) = &watch.fields {
            let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
            line.push_str(&format!(", of which {} are read", fields.join(", ")));
        }
        if watch.projection == windlass_fleet::api::Projection::Metadata {
            line.push_str(", metadata only");
        }
        line
    };
    description.watches.iter().map(line).collect()
}

fn indexes(description: &Description) -> Vec<String> {
    description
        .indexes
        .iter()
        .map(|index| format!("{:?} of {}", index.name, index.kind))
        .collect()
}
