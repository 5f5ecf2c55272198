//! Publishes kinds of a compute cluster in the workspaces of consumers, by configuration alone. Entry point: [`Sync`].
//!
//! A request names an object of a workspace. The local cluster is the compute cluster: there the object has a copy, on which a
//! service acts. What is asked for goes down, the status comes up, and Secrets and ConfigMaps go either way.
//!
//! A request has no kind: it is about the objects of this name of all published kinds.
//!
//! * without calls: `config`, `path`, `template`, `selector`, `digest`, `names`, `mark`, `project`, `status`, `trouble`
//! * with calls: `work`, `copy`, `related`, `end`, `report`

mod config;
mod copy;
mod digest;
mod end;
mod mark;
mod names;
mod path;
mod project;
mod related;
mod report;
mod selector;
mod status;
mod template;
mod trouble;
mod work;

use config::{Config, Published, Scope};
use mark::Origin;
use template::Facts;
use windlass_sdk::prelude::*;
use windlass_sdk::{ClusterScope, GroupVersionKind, Mapper};
use work::Work;

/// The guest.
struct Sync;
windlass_sdk::guest!(Sync, mapper);

impl Reconciler for Sync {
    fn describe() -> Result<Description> {
        let config = Config::read()?;
        let mut description =
            Description::new("publishes kinds of a compute cluster in workspaces");
        let mut watches = Vec::new();
        for (index, published) in config.resources.iter().enumerate() {
            let mut source = Watch::of(published.source_kind()).clusters(ClusterScope::Provider);
            if let Some(selector) = &published.source.selector {
                source = source.labels(selector.text());
            }
            match index {
                0 => description = description.primary_watch(source),
                _ => watches.push(source.enqueue(Enqueue::Mapped)),
            }
            let copies = Watch::of(published.target_kind()).labels(mark::OBJECT);
            watches.push(
                copies
                    .clusters(ClusterScope::Local)
                    .enqueue(Enqueue::Mapped),
            );
            for related in &published.related {
                for scope in [ClusterScope::Provider, ClusterScope::Local] {
                    let related = Watch::of(related.kind.kind()).metadata_only();
                    watches.push(related.clusters(scope).enqueue(Enqueue::Mapped));
                }
            }
        }
        let mut known = Vec::new();
        for watch in watches {
            let same = (watch.kind.clone(), watch.clusters, watch.metadata_only);
            if !known.contains(&same) {
                known.push(same);
                description = description.watch(watch);
            }
        }
        Ok(description)
    }

    fn reconcile(request: &Request, workspace: &Cluster) -> Result<Action> {
        let config = Config::read()?;
        let facts = Facts::of(&config, request)?;
        let scope = match request.key.namespace {
            Some(_) => Scope::Namespaced,
            None => Scope::Cluster,
        };
        let (mut next, mut failed) = (Action::Done, Vec::new());
        for published in &config.resources {
            if published.source.scope != scope {
                continue;
            }
            let work = Work {
                config: &config,
                published,
                workspace,
                origin: Origin::of(request, &published.source_kind()),
                facts: facts.clone(),
            };
            match work.run() {
                Ok(action) => next = sooner(next, action),
                Err(error) => failed.push(error.to_string()),
            }
        }
        if failed.is_empty() {
            Ok(next)
        } else {
            Err(Error::retry(failed.join("; ")))
        }
    }
}

impl Mapper for Sync {
    fn map(cluster: &Cluster, kind: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let config = Config::read()?;
        let is_compute = cluster.name().is_empty();
        let is_kind = |of: &dyn Fn(&Published) -> GroupVersionKind| {
            config
                .resources
                .iter()
                .any(|published| of(published) == *kind)
        };
        let is_copy = is_compute && is_kind(&Published::target_kind);
        let is_source = !is_compute && is_kind(&Published::source_kind);
        let mut requests = Vec::new();
        for object in objects {
            if is_copy {
                requests.extend(mark::request_of(object));
            }
            if is_source {
                requests.push(Request {
                    cluster: cluster.name(),
                    key: object.key(),
                });
            }
            requests.extend(related::asking(&config, cluster, kind, object)?);
        }
        let mut asked = Vec::<Request>::new();
        for request in requests {
            if !asked.iter().any(|one| same(one, &request)) {
                asked.push(request);
            }
        }
        Ok(asked)
    }
}

fn same(one: &Request, other: &Request) -> bool {
    (&one.cluster, &one.key.namespace, &one.key.name)
        == (&other.cluster, &other.key.namespace, &other.key.name)
}

/// The action that runs again first.
fn sooner(one: Action, other: Action) -> Action {
    match (one, other) {
        (Action::RequeueAfterMs(one), Action::RequeueAfterMs(other)) => {
            Action::RequeueAfterMs(one.min(other))
        }
        (Action::Done, other) => other,
        (one, Action::Done) => one,
    }
}

#[cfg(test)]
mod tests;
