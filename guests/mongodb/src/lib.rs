//! A service of databases: what consumers ask for in their workspaces runs on a compute cluster. Entry point: [`Service`].
//!
//! A request names a `MongoDBCommunity` of a workspace. The local cluster is the compute cluster: there the same object, its copy, is what
//! an operator acts on. Spec and passwords go down; status and connection strings come up.
//!
//! `kinds` has the objects, `place` says where a copy is, `down` and `up` move things, `account` makes what the operator's pods run as,
//! `condition` is what a consumer reads.

mod account;
mod condition;
mod down;
mod kinds;
mod place;
mod up;

use condition::{Progress, Trouble};
use kinds::{Database, Secret};
use place::Place;
use windlass_sdk::prelude::*;
use windlass_sdk::{ClusterScope, GroupVersionKind, Mapper, fleet};

/// Holds an object of a consumer until its copy is gone.
const FINALIZER: &str = "mongodb.windlass.dev/copy";
/// An annotation of a consumer's object that is being deleted: with the value `true` the copy is not waited for.
const ABANDON: &str = "mongodb.windlass.dev/abandon";

/// The guest.
struct Service;
windlass_sdk::guest!(Service, mapper);

impl Reconciler for Service {
    fn describe() -> Result<Description> {
        let secrets = |clusters| {
            let watch = Watch::new::<Secret>().metadata_only();
            watch.clusters(clusters).enqueue(Enqueue::Mapped)
        };
        let copies = Watch::new::<Database>().labels(place::WORKSPACE);
        let copies = copies.clusters(ClusterScope::Local);
        Ok(
            Description::new("runs the databases of workspaces on a compute cluster")
                .primary_watch(Watch::new::<Database>().clusters(ClusterScope::Provider))
                .watch(secrets(ClusterScope::Provider))
                .watch(copies.enqueue(Enqueue::Mapped))
                .watch(secrets(ClusterScope::Local)),
        )
    }

    fn reconcile(request: &Request, workspace: &Cluster) -> Result<Action> {
        let place = Place::of(&request.cluster, &request.key);
        let Some(database) = workspace.get::<Database>(&request.key)? else {
            return forget(workspace, &place);
        };
        if database.metadata.is_deleting() {
            return end(workspace, &place, &database);
        }
        hold(workspace, &database)?;
        let outcome = provide(workspace, &place, &database);
        tell(workspace, &database, outcome)
    }
}

impl Mapper for Service {
    /// An event of a database, or of its copy, is about itself; one of a Secret is about the databases that use it.
    fn map(cluster: &Cluster, kind: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let Some(changed) = objects.last() else {
            return Ok(Vec::new());
        };
        let key = changed.key();
        if kind.kind != "Secret" {
            let workspace = changed.label(place::WORKSPACE);
            let namespace = changed.label(place::NAMESPACE);
            return Ok(place::asking(&key.name, workspace, namespace)
                .into_iter()
                .collect());
        }
        let is_compute = cluster.name().is_empty();
        let mut all = ListOptions::default().namespace(key.namespace.unwrap_or_default());
        if is_compute {
            all = all.labels(place::WORKSPACE);
        }
        let using = cluster.list::<Database>(&all)?.into_iter();
        let using = using.filter(|database| database.uses(&key.name));
        let requests = using.filter_map(|database| {
            let (labels, key) = (&database.metadata.labels, database.key());
            if is_compute {
                let label = |name| labels.get(name).map(String::as_str);
                return place::asking(&key.name, label(place::WORKSPACE), label(place::NAMESPACE));
            }
            let cluster = cluster.name();
            Some(Request { cluster, key })
        });
        Ok(requests.collect())
    }
}

/// Brings the copy in line with what the consumer wants, and what came of it back to the consumer.
fn provide(workspace: &Cluster, place: &Place, database: &Database) -> Result<Progress, Trouble> {
    let wanted = database.wanted(place)?;
    let passwords = down::passwords(workspace, database)?;
    let compute = fleet::local().map_err(Trouble::compute)?;
    let copy = down::copy(workspace, &compute, place, &wanted, &passwords)?;
    account::keep(&compute, place, &copy)?;
    let missing = up::connections(workspace, &compute, place, database)?;
    down::sweep_passwords(workspace, &compute, place)?;
    Ok(Progress { copy, missing })
}

/// Deletes the copy of an object that is being deleted, and lets the object go once the copy is gone.
fn end(workspace: &Cluster, place: &Place, database: &Database) -> Result<Action> {
    if !database.is_held() {
        return Ok(Action::Done);
    }
    let annotations = &database.metadata.annotations;
    if annotations
        .get(ABANDON)
        .is_some_and(|value| value == "true")
    {
        warn!("let go though its copy may be there", key = place.copy);
        return release(workspace, database);
    }
    let removed = fleet::local()
        .map_err(Trouble::compute)
        .and_then(|compute| down::remove(workspace, &compute, place));
    match removed {
        Ok(true) => {
            match up::remove_connections(workspace, database, &[]) {
                // A claim that is not accepted any more. They go with their owner.
                Err(error) if matches!(error.code, ApiCode::Denied | ApiCode::Forbidden) => {}
                other => other?,
            }
            release(workspace, database)
        }
        Ok(false) => tell(workspace, database, Err(Trouble::Ending(None))),
        Err(trouble) => tell(workspace, database, Err(trouble.while_ending())),
    }
}

/// Deletes a copy whose object went without waiting for it.
fn forget(workspace: &Cluster, place: &Place) -> Result<Action> {
    // A cache may not have it yet.
    if workspace.get_live::<Database>(&place.original)?.is_none() {
        down::remove(workspace, &fleet::local()?, place).map_err(Error::from)?;
    }
    Ok(Action::Done)
}

fn tell(
    workspace: &Cluster,
    database: &Database,
    outcome: Result<Progress, Trouble>,
) -> Result<Action> {
    up::report(workspace, database, &outcome)?;
    outcome.map_or_else(Trouble::next, |_| Ok(Action::Done))
}

fn hold(workspace: &Cluster, database: &Database) -> Result<()> {
    workspace.ensure_finalizer(database, FINALIZER)?;
    Ok(())
}

fn release(workspace: &Cluster, database: &Database) -> Result<Action> {
    workspace.remove_finalizer(database, FINALIZER)?;
    info!("let go", key = database.key());
    Ok(Action::Done)
}

#[cfg(test)]
mod tests;
