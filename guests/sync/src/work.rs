//! The work on one object of a consumer. Entry point: [`Work::run`].

use crate::config::{Config, Deletion, Published, Side};
use crate::copy;
use crate::mark::Origin;
use crate::project::wanted;
use crate::related::{Flow, rewrite};
use crate::report::report;
use crate::template::Facts;
use crate::trouble::Trouble;
use serde_json::json;
use windlass_sdk::fleet;
use windlass_sdk::prelude::*;

/// Holds an object of a consumer until its copy is gone.
pub(crate) const FINALIZER: &str = "sync.windlass.dev/copy";

/// An object of a consumer, of a published kind.
pub(crate) struct Work<'a> {
    pub(crate) config: &'a Config,
    pub(crate) published: &'a Published,
    pub(crate) workspace: &'a Cluster,
    pub(crate) origin: Origin,
    pub(crate) facts: Facts,
}

impl Facts {
    /// Of a request.
    ///
    /// # Errors
    /// If the clusters cannot be read, where a template needs what the provider says of them.
    pub(crate) fn of(config: &Config, request: &Request) -> Result<Self> {
        let cluster = request.cluster.clone();
        let mut facts = Self {
            logical_cluster: cluster.clone(),
            path: cluster.clone(),
            cluster,
            namespace: request.key.namespace.clone().unwrap_or_default(),
            name: request.key.name.clone(),
        };
        if config.needs_properties() {
            let all = fleet::clusters()?.into_iter();
            let mut all = all.filter(|info| info.name == facts.cluster);
            let properties = all.next().map(|info| info.properties);
            for (name, value) in properties.into_iter().flatten() {
                match &*name {
                    "logicalCluster" => facts.logical_cluster = value,
                    "path" => facts.path = value,
                    _ => {}
                }
            }
        }
        Ok(facts)
    }
}

impl Work<'_> {
    /// Brings the copy in line with the object, and the object's status in line with the copy's.
    ///
    /// # Errors
    /// If it is tried again.
    pub(crate) fn run(&self) -> Result<Action> {
        let of_kind = self.workspace.of(self.published.source_kind());
        let Some(source) = of_kind.get(&self.origin.key)? else {
            // A cache may not have it yet.
            return match of_kind.get_live(&self.origin.key)? {
                None => self.forget(),
                Some(_) => Ok(Action::requeue_after(std::time::Duration::from_secs(1))),
            };
        };
        if source.is_deleting() || !self.published.selects(&source) {
            return self.end(&source);
        }
        self.hold(&source, self.published.deletion == Deletion::Delete)?;
        match self.provide(&source) {
            Ok((copy, trouble)) => {
                report(self, &source, Some(&copy), trouble.as_ref())?;
                trouble.map_or(Ok(Action::Done), Trouble::next)
            }
            Err(trouble) => {
                report(self, &source, None, Some(&trouble))?;
                trouble.next()
            }
        }
    }

    /// Returns the copy, and what does not concern the copy and is in the way.
    fn provide(&self, source: &Object) -> Result<(Object, Option<Trouble>), Trouble> {
        let mut body = wanted(self.published, source, &self.facts)?;
        rewrite(self, Side::Consumer, &mut body);
        let compute = fleet::local().map_err(Trouble::compute)?;
        let located = copy::locate(self, &compute, source)?;
        let namespace = located.key.namespace.clone();
        if let (None, Some(name)) = (&located.there, &namespace) {
            copy::namespace(self, &compute, name)?;
        }
        let namespace = namespace.unwrap_or_default();
        let down = Flow::down(self, source, &compute, &namespace);
        let missing = down.run(source)?;
        let copy = copy::keep(self, &compute, source, located, &body)?;
        let up = Flow::up(self, source, &compute, &namespace);
        let in_the_way = up.run(&copy)?;
        let trouble = if copy.is_deleting() {
            Some(Trouble::Replacing)
        } else {
            missing.or(in_the_way)
        };
        Ok((copy, trouble))
    }

    pub(crate) fn is_held(&self, source: &Object) -> bool {
        let finalizers = source.0["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER))
    }

    /// Puts the finalizer on, or takes it off.
    pub(crate) fn hold(&self, source: &Object, hold: bool) -> Result<()> {
        if self.is_held(source) == hold {
            return Ok(());
        }
        let finalizers = source.0["metadata"]["finalizers"].as_array();
        let mut finalizers = finalizers.cloned().unwrap_or_default();
        if hold {
            finalizers.push(json!(FINALIZER))
        } else {
            finalizers.retain(|one| one != FINALIZER)
        }
        // Only if nobody has changed the object since: other finalizers are in the list too.
        let version = &source.0["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        let of_kind = self.workspace.of(self.published.source_kind());
        of_kind.patch(&self.origin.key, &patch)?;
        Ok(())
    }
}
