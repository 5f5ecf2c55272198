//! What the real servers say of the objects of a plan. Entry point: [`ask`].
//!
//! Each write is sent with `dryRun=All`: the server admits it, with its webhooks and quotas, and keeps nothing.

use super::difference::{Action, Difference, Field};
use super::forks::{ClusterChange, Forks};
use super::result::is_event;
use futures::StreamExt;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use windlass_apiserver::Change;
use windlass_fleet::api::{ApiCode, ApiError, DeleteOptions, Json, WriteOptions};
use windlass_fleet::{Client, GroupVersionKind, ObjectKey};

/// Calls at once.
const WIDTH: usize = 16;

/// What a server makes of an object otherwise than the plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Objection {
    pub(super) cluster: String,
    #[serde(flatten)]
    pub(super) difference: Difference,
    /// Why the server refuses it; none: it takes it with other fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<String>,
    /// What the server would keep in place of what is planned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) instead: Vec<Field>,
}

/// Asks the servers about changes.
pub(super) async fn ask(forks: &Forks, changes: &[ClusterChange]) -> Vec<Objection> {
    let is_new = |at: &ClusterChange, kind: &str| {
        let change = &at.change;
        change.kind == kind && change.before.is_none()
    };
    let new = |kind| -> BTreeSet<(&str, &str)> {
        let new = changes.iter().filter(|at| is_new(at, kind));
        new.map(|at| (at.cluster.as_str(), at.change.name.as_str()))
            .collect()
    };
    let (namespaces, definitions) = (new("Namespace"), new("CustomResourceDefinition"));
    let counted = changes.iter().filter(|at| !is_event(&at.change));
    let asked = counted.filter_map(|at| {
        let difference = Difference::of(&at.change)?;
        let (change, cluster) = (&at.change, at.cluster.as_str());
        let definition = format!("{}.{}", change.plural, change.group);
        let obstacle = if namespaces.contains(&(cluster, change.namespace.as_str())) {
            Some("its namespace exists only in the plan, so that the server was not asked")
        } else if definitions.contains(&(cluster, definition.as_str())) {
            Some("its kind exists only in the plan, so that the server was not asked")
        } else if !change.has_schema {
            Some("another server may be behind its kind and take a dry run for a write, so it was not asked")
        } else {
            None
        };
        Some(async move { one(forks, at, difference, obstacle).await })
    });
    let answers = futures::stream::iter(asked).buffered(WIDTH);
    answers.filter_map(std::future::ready).collect().await
}

async fn one(
    forks: &Forks,
    at: &ClusterChange,
    difference: Difference,
    obstacle: Option<&str>,
) -> Option<Objection> {
    let objection = |refused, instead| Objection {
        cluster: at.cluster.clone(),
        difference: Difference {
            fields: Vec::new(),
            ..difference.clone()
        },
        refused,
        instead,
    };
    if let Some(why) = obstacle {
        return Some(objection(Some(why.to_owned()), Vec::new()));
    }
    let is_replaced = difference.action == Action::Replace;
    let Some(client) = forks.writer(at) else {
        let why = "the cluster is gone".to_owned();
        return Some(objection(Some(why), Vec::new()));
    };
    match sent(&client, &at.change, is_replaced).await {
        Err(error) => Some(objection(Some(error.to_string()), Vec::new())),
        Ok(None) => None,
        Ok(Some(kept)) => {
            let instead = fields(&at.change, kept);
            (!instead.is_empty()).then(|| objection(None, instead))
        }
    }
}

/// Sends a change, and returns what the server would keep; `None` for a deletion, and for what it cannot be asked.
async fn sent(
    client: &Client,
    change: &Change,
    is_replaced: bool,
) -> Result<Option<Value>, ApiError> {
    let kind = GroupVersionKind::new(&change.group, &change.version, &change.kind);
    let key = ObjectKey {
        namespace: Some(change.namespace.as_str().into()).filter(|_| !change.namespace.is_empty()),
        name: change.name.as_str().into(),
    };
    let is_going = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let (before, after) = match (&change.before, &change.after) {
        (Some(before), after)
            if is_replaced
                || after
                    .as_ref()
                    .is_none_or(|after| is_going(after) && !is_going(before)) =>
        {
            let options = DeleteOptions {
                uid: before["metadata"]["uid"].as_str().map(str::to_owned),
                dry_run: true,
                ..DeleteOptions::default()
            };
            let deleted = client.delete(&kind, &key, &options).await;
            return match deleted {
                // Another part of the plan may have taken it along.
                Err(error) if error.code == ApiCode::NotFound => Ok(None),
                deleted => deleted.map(|()| None),
            };
        }
        (before, Some(after)) => (before, after),
        (_, None) => return Ok(None),
    };
    let mut options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let written = match before {
        None => {
            let object = bare(after, None);
            client.create(&kind, object, &options).await?
        }
        Some(before) => {
            if same_but_status(before, after) {
                options.subresource = Some("status".to_owned());
            }
            let object = bare(after, Some(before));
            client.update(&kind, object, &options).await?
        }
    };
    Ok(serde_json::from_slice(&written).ok())
}

fn same_but_status(before: &Value, after: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in ["status", "metadata"] {
            object.as_object_mut().map(|object| object.remove(field));
        }
        object
    };
    let metadata = ["labels", "annotations", "finalizers", "ownerReferences"];
    let same = |field| before["metadata"][field] == after["metadata"][field];
    without(before) == without(after) && metadata.into_iter().all(same)
}

/// An object as a client writes it, over the state before.
fn bare(object: &Value, before: Option<&Value>) -> Json {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let made = [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ];
        made.into_iter()
            .for_each(|field| drop(metadata.remove(field)));
        if let Some(before) = before {
            let version = &before["metadata"]["resourceVersion"];
            metadata.insert("resourceVersion".to_owned(), version.clone());
        }
    }
    object.to_string().into()
}

/// What the server would keep otherwise. A status is its own matter.
fn fields(change: &Change, kept: Value) -> Vec<Field> {
    let without = |mut object: Value| {
        object.as_object_mut().map(|object| object.remove("status"));
        object
    };
    let difference = Difference::of(&Change {
        before: change.after.clone().map(without),
        after: Some(without(kept)),
        ..change.clone()
    });
    difference
        .map(|difference| difference.fields)
        .unwrap_or_default()
}
