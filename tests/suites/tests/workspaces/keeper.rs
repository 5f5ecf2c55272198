//! A reconciler that has something to keep right: [`Keeper`] holds a ConfigMap `NAME-out` to the colour of every widget `NAME`.

use anyhow::Result;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::api::{ApplyOptions, GetOptions};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::source::Index;
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind, ObjectKey,
    Request,
};

pub(crate) fn widget_kind() -> GroupVersionKind {
    GroupVersionKind::new("things.example.com", "v1", "Widget")
}

pub(crate) fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

/// What is known of the runs of one key.
#[derive(Default)]
struct Runs {
    running: usize,
    /// Whether it ran while it was running.
    overlapped: bool,
}

/// Reconciles, and counts the runs of each key.
#[derive(Default)]
pub(crate) struct Keeper {
    runs: Mutex<BTreeMap<Request, Runs>>,
}

impl Keeper {
    /// The controller, with an index `colour` of the widgets.
    pub(crate) fn controller(self: &Arc<Self>) -> Result<Controller> {
        let keeper = self.clone();
        let reconcile = move |context: Context| {
            let keeper = keeper.clone();
            async move {
                let _running = keeper.begin(&context.request);
                keep(context).await
            }
        };
        let by_colour = Index {
            kind: widget_kind(),
            name: "colour".into(),
            path: "spec.colour".parse()?,
            namespace_path: None,
        };
        let options = ControllerOptions {
            concurrency: Some(16),
            ..ControllerOptions::default()
        };
        let controller = Controller::builder(ControllerName::new("keeper")?)
            .for_kind(widget_kind())
            .owns_kind(config_map())
            .index(by_colour)
            .options(options);
        Ok(controller.build(Arc::new(reconcile))?)
    }

    fn begin(self: &Arc<Self>, request: &Request) -> Running {
        let mut runs = self.runs.lock();
        let of_key = runs.entry(request.clone()).or_default();
        of_key.overlapped |= of_key.running > 0;
        of_key.running += 1;
        Running(self.clone(), request.clone())
    }

    /// Names of the clusters in which a widget of this name was reconciled.
    pub(crate) fn clusters_of(&self, name: &str) -> Vec<String> {
        let runs = self.runs.lock();
        let of_name = runs.keys().filter(|request| &*request.key.name == name);
        of_name.map(|request| request.cluster.to_string()).collect()
    }

    /// Keys that ran while they were running.
    pub(crate) fn overlaps(&self) -> Vec<Request> {
        let runs = self.runs.lock();
        let twice = runs.iter().filter(|(_, runs)| runs.overlapped);
        twice.map(|(request, _)| request.clone()).collect()
    }
}

/// A run that goes on until it is dropped, as one that is cut off is.
struct Running(Arc<Keeper>, Request);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runs) = self.0.runs.lock().get_mut(&self.1) {
            runs.running -= 1;
        }
    }
}

async fn keep(context: Context) -> Result<Action, Failure> {
    let client = context.client(&Arc::new(Grant::all()));
    let key = &context.request.key;
    let read = async |kind: GroupVersionKind, name: &str| -> Result<Option<Value>, Failure> {
        let key = ObjectKey {
            namespace: key.namespace.clone(),
            name: name.into(),
        };
        let json = client.get(&kind, &key, &GetOptions::default()).await?;
        let parse = |json: Bytes| serde_json::from_slice(&json);
        json.map(parse)
            .transpose()
            .map_err(|error| Failure::terminal(error.to_string()))
    };
    let Some(widget) = read(widget_kind(), &key.name).await? else {
        return Ok(Action::Done);
    };
    if widget["metadata"].get("deletionTimestamp").is_some() {
        return Ok(Action::Done);
    }
    let child = read(config_map(), &format!("{}-out", key.name)).await?;
    let colour = &widget["spec"]["colour"];
    if child.is_some_and(|child| child["data"]["colour"] == *colour) {
        return Ok(Action::Done);
    }
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    let (name, uid) = (&key.name, &widget["metadata"]["uid"]);
    let owner = json!({"apiVersion": "things.example.com/v1", "kind": "Widget", "controller": true, "name": name, "uid": uid});
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{name}-out"), "namespace": key.namespace, "ownerReferences": [owner]},
        "data": {"colour": colour}});
    client
        .apply(&config_map(), wanted.to_string().into(), &options)
        .await?;
    Ok(Action::Done)
}
