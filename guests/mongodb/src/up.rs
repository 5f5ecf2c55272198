//! What comes back to the consumer: connection strings and the status. Entry points: [`connections`] and [`report`].

use crate::condition::{Progress, Trouble};
use crate::kinds::{Database, Secret};
use crate::place::Place;
use serde_json::Map;
use windlass_sdk::prelude::*;

/// A label of Secrets in a workspace that were brought there: the name of their database.
const DATABASE: &str = "mongodb.windlass.dev/database";

/// Fields of the copy's status that the consumer gets.
const STATUS: [&str; 4] = ["phase", "version", "mongoUri", "currentMongoDBMembers"];

/// Brings the Secrets with connection strings to the workspace. Returns the names of those that the operator has not made yet.
pub(crate) fn connections(
    workspace: &Cluster,
    compute: &Cluster,
    place: &Place,
    database: &Database,
) -> Result<Vec<String>, Trouble> {
    let (mut missing, wanted) = (Vec::new(), database.connections());
    for name in &wanted {
        let made = compute.get_live::<Secret>(&place.copy.sibling(&**name));
        match made.map_err(Trouble::compute)? {
            Some(made) => connection(workspace, database, name, made)?,
            None => missing.push(name.clone()),
        }
    }
    remove_connections(workspace, database, &wanted).map_err(Trouble::workspace)?;
    Ok(missing)
}

fn connection(
    workspace: &Cluster,
    database: &Database,
    name: &str,
    made: Secret,
) -> Result<(), Trouble> {
    let key = database.key().sibling(name);
    let there = workspace
        .get_live::<Secret>(&key)
        .map_err(Trouble::workspace)?;
    let kept = match there {
        None => {
            let metadata = Metadata::of(&key)
                .label(DATABASE, &*database.metadata.name)
                .owner(database.controller_reference());
            workspace.create(&Secret {
                metadata,
                kind: None,
                data: made.data,
            })
        }
        Some(there) if there.metadata.labels.get(DATABASE) != Some(&database.metadata.name) => {
            let message = format!(
                "the Secret {name:?} is yours and in the way of connection strings: delete it, or name another in users[].connectionStringSecretName"
            );
            return Err(Trouble::consumer("SecretInTheWay", message));
        }
        Some(there) if there.data == made.data => return Ok(()),
        Some(there) => workspace.update(&Secret {
            data: made.data,
            ..there
        }),
    };
    kept.map(drop).map_err(Trouble::workspace)
}

/// Deletes the Secrets with connection strings but these.
pub(crate) fn remove_connections(
    workspace: &Cluster,
    database: &Database,
    wanted: &[String],
) -> Result<(), ApiError> {
    let namespace = database.metadata.namespace.clone().unwrap_or_default();
    let name = &database.metadata.name;
    let brought = ListOptions::default()
        .namespace(namespace)
        .labels(format!("{DATABASE}={name}"))
        .metadata_only();
    for secret in workspace.list::<Secret>(&brought)? {
        if !wanted.contains(&secret.metadata.name) {
            workspace.delete_object(&secret)?;
        }
    }
    Ok(())
}

/// Writes the status of the consumer's object, where it says something else.
pub(crate) fn report(
    workspace: &Cluster,
    database: &Database,
    outcome: &Result<Progress, Trouble>,
) -> Result<()> {
    let condition = match outcome {
        Ok(progress) => Some(progress.condition()),
        Err(trouble) => trouble.condition(),
    };
    let Some(condition) = condition else {
        return Ok(());
    };
    let mut status = Map::new();
    if let Ok(progress) = outcome {
        for field in STATUS {
            let value = progress.copy.status.get(field).cloned();
            status.insert(field.to_owned(), value.unwrap_or_default());
        }
    }
    let mut next = database.clone();
    next.set_condition(condition)?;
    status.insert("conditions".to_owned(), next.status["conditions"].take());
    workspace.set_status::<Database>(&database.key(), &status)?;
    Ok(())
}
