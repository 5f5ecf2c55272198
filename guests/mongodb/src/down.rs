//! What goes down to the compute cluster: passwords and the copy. Entry points: [`copy`] and [`remove`].

use crate::condition::Trouble;
use crate::kinds::{Binding, Database, Namespace, Secret};
use crate::place::{PATH, Place, WORKSPACE};
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_sdk::prelude::*;

/// Where kcp notes a workspace's path.
const KCP_PATH: &str = "kcp.io/path";

/// Secrets with passwords, by name.
type Secrets = BTreeMap<String, BTreeMap<String, String>>;

/// The passwords that a database names, from its workspace.
pub(crate) fn passwords(workspace: &Cluster, database: &Database) -> Result<Secrets, Trouble> {
    let mut found = Secrets::new();
    for password in database.passwords()? {
        let key = database.key().sibling(&*password.secret);
        let secret = workspace
            .get_live::<Secret>(&key)
            .map_err(Trouble::workspace)?;
        let missing = |what: &str| {
            let namespace = key.namespace.as_deref().unwrap_or_default();
            let message = format!(
                "{what}: user {} gets its password from the key {:?} of the Secret {:?} in namespace {namespace}: put it there",
                password.user, password.key, password.secret
            );
            Trouble::consumer("PasswordMissing", message)
        };
        let secret = secret.ok_or_else(|| missing("there is no such Secret"))?;
        if !secret.data.contains_key(&password.key) {
            return Err(missing("the Secret has no such key"));
        }
        found.insert(password.secret, secret.data);
    }
    Ok(found)
}

/// Makes the copy, or corrects it, and the passwords before it. Returns it.
pub(crate) fn copy(
    workspace: &Cluster,
    compute: &Cluster,
    place: &Place,
    wanted: &Value,
    passwords: &Secrets,
) -> Result<Database, Trouble> {
    let there = compute
        .get::<Database>(&place.copy)
        .map_err(Trouble::compute)?;
    if there.is_none() {
        namespace(workspace, compute, place)?;
    }
    for (name, data) in passwords {
        password(compute, place, name, data)?;
    }
    let kept = match there {
        None => {
            let copy = Database {
                metadata: place.label(Metadata::of(&place.copy)),
                spec: wanted.clone(),
                status: Value::Null,
            };
            info!("made", key = place.copy);
            compute.create(&copy)
        }
        Some(there) if !place.owns(&there.metadata) => {
            return Err(taken("MongoDBCommunity", place));
        }
        Some(there) if there.spec == *wanted || there.metadata.is_deleting() => Ok(there),
        Some(there) => {
            let spec = wanted.clone();
            info!("corrected", key = place.copy);
            compute.update(&Database { spec, ..there })
        }
    };
    kept.map_err(Trouble::compute)
}

/// Makes the namespace of the copy.
fn namespace(workspace: &Cluster, compute: &Cluster, place: &Place) -> Result<(), Trouble> {
    let key = ObjectKey::cluster_scoped(place.namespace());
    let there = compute
        .get_live::<Namespace>(&key)
        .map_err(Trouble::compute)?;
    match there {
        Some(there) if place.owns(&there.metadata) => return Ok(()),
        Some(_) => return Err(taken("Namespace", place)),
        None => {}
    }
    let mut metadata = place.label(Metadata::of(&key));
    // The manager has the metadata of bindings already: it finds the workspaces by them.
    let bindings = workspace.list::<Binding>(&ListOptions::default().metadata_only());
    let bindings = bindings.map_err(Trouble::workspace)?;
    let path = bindings
        .iter()
        .find_map(|one| one.metadata.annotations.get(KCP_PATH));
    if let Some(path) = path {
        metadata = metadata.annotation(PATH, &**path);
    }
    let made = compute.create(&Namespace { metadata });
    made.map(drop).map_err(Trouble::compute)
}

/// Keeps a Secret with passwords in the namespace of the copy.
fn password(
    compute: &Cluster,
    place: &Place,
    name: &str,
    data: &BTreeMap<String, String>,
) -> Result<(), Trouble> {
    let key = place.copy.sibling(name);
    let there = compute.get_live::<Secret>(&key).map_err(Trouble::compute)?;
    let data = data.clone();
    let kept = match there {
        None => {
            let metadata = place.label(Metadata::of(&key));
            compute.create(&Secret {
                metadata,
                kind: None,
                data,
            })
        }
        Some(there) if !place.owns(&there.metadata) => {
            let message = format!(
                "the name of the Secret {name:?} is in use by the database: put passwords into another one"
            );
            return Err(Trouble::consumer("PasswordMissing", message));
        }
        Some(there) if there.data == data => return Ok(()),
        Some(there) => compute.update(&Secret { data, ..there }),
    };
    kept.map(drop).map_err(Trouble::compute)
}

/// The databases of the consumer's namespace that are to stay. Their copies share the namespace and the passwords with this one, and may
/// be at work in other runs: those that have no copy yet count.
fn beside(workspace: &Cluster, place: &Place, live: bool) -> Result<Vec<Database>, Trouble> {
    let namespace = place.original.namespace.clone().unwrap_or_default();
    let mut all = ListOptions::default().namespace(namespace);
    if live {
        all = all.live();
    }
    let all = workspace
        .list::<Database>(&all)
        .map_err(Trouble::workspace)?;
    let all = all.into_iter();
    Ok(all.filter(|one| !one.metadata.is_deleting()).collect())
}

/// Deletes passwords that no database and no copy of the namespace uses any more.
pub(crate) fn sweep_passwords(
    workspace: &Cluster,
    compute: &Cluster,
    place: &Place,
) -> Result<(), Trouble> {
    let of_workspace = || {
        ListOptions::default()
            .namespace(place.namespace())
            .labels(WORKSPACE)
    };
    let secrets = compute
        .list::<Secret>(&of_workspace().metadata_only())
        .map_err(Trouble::compute)?;
    let copies = compute
        .list::<Database>(&of_workspace())
        .map_err(Trouble::compute)?;
    // After the Secrets: what made one of them had its database from the cache.
    let wanted = beside(workspace, place, false)?;
    for secret in secrets {
        let name = &secret.metadata.name;
        if !copies.iter().chain(&wanted).any(|one| one.uses(name)) {
            compute.delete_object(&secret).map_err(Trouble::compute)?;
        }
    }
    Ok(())
}

/// Deletes the copy, and once it is gone what only it needed. Returns whether it is gone.
pub(crate) fn remove(
    workspace: &Cluster,
    compute: &Cluster,
    place: &Place,
) -> Result<bool, Trouble> {
    // Of a cluster that was away, a cache may tell what was.
    let there = compute
        .get_live::<Database>(&place.copy)
        .map_err(Trouble::compute)?;
    if let Some(there) = there.filter(|there| place.owns(&there.metadata)) {
        if !there.metadata.is_deleting() {
            compute.delete_object(&there).map_err(Trouble::compute)?;
        }
        let still = compute
            .get_live::<Database>(&place.copy)
            .map_err(Trouble::compute)?;
        if still.is_some() {
            return Ok(false);
        }
        info!("removed", key = place.copy);
    }
    let left = ListOptions::default().namespace(place.namespace()).live();
    let left = compute.list::<Database>(&left).map_err(Trouble::compute)?;
    if !left.is_empty() || !beside(workspace, place, true)?.is_empty() {
        sweep_passwords(workspace, compute, place)?;
        return Ok(true);
    }
    let key = ObjectKey::cluster_scoped(place.namespace());
    let namespace = compute
        .get_live::<Namespace>(&key)
        .map_err(Trouble::compute)?;
    if let Some(namespace) = namespace.filter(|namespace| place.owns(&namespace.metadata)) {
        compute
            .delete_object(&namespace)
            .map_err(Trouble::compute)?;
    }
    Ok(true)
}

/// Something that is not ours has the name. That is nothing that a consumer can correct.
fn taken(what: &str, place: &Place) -> Trouble {
    let key = &place.copy;
    Trouble::Provider(Error::retry(format!(
        "{what} of {key} is on the compute cluster and has no label {WORKSPACE}: delete or rename it"
    )))
}
