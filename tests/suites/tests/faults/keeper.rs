//! A reconciler that has something to keep right: [`Keeper`] holds `NAME-out` equal to every ConfigMap `NAME` that is marked.

use fastrand::Rng;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_fleet::api::{ApplyOptions, GetOptions};
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind, ObjectKey,
    Request,
};

/// The label of the objects that have a child.
pub(crate) const MARK: &str = "source";

/// The value of objects whose runs fail.
pub(crate) const FAIL: &str = "fail";

pub(crate) fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

pub(crate) fn child_of(name: &str) -> String {
    format!("{name}-out")
}

/// A marked object.
pub(crate) fn source(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {MARK: ""}}, "data": data})
}

/// One run of a key.
struct Run {
    start: Instant,
    end: Option<Instant>,
}

/// Reconciles, and remembers every run.
#[derive(Default)]
pub(crate) struct Keeper {
    runs: Mutex<BTreeMap<Request, Vec<Run>>>,
    /// How long runs take between what they read and what they write, at random. `None`: no time.
    slow: Option<Mutex<Rng>>,
}

/// The longest that a slow run takes beside its calls.
pub(crate) const SLOW: Duration = Duration::from_secs(4);

impl Keeper {
    /// One whose runs take up to [`SLOW`].
    pub(crate) fn slow(seed: u64) -> Self {
        Self {
            slow: Some(Mutex::new(Rng::with_seed(seed))),
            ..Self::default()
        }
    }

    fn pause(&self) -> Option<Duration> {
        let rng = self.slow.as_ref()?;
        Some(SLOW.mul_f64(rng.lock().f64()))
    }

    /// The controller, with bounds of its own.
    pub(crate) fn controller(self: &Arc<Self>, options: ControllerOptions) -> Controller {
        let mut marked = Watch::new(config_map(), Enqueue::Primary);
        marked.label_selector = Some(MARK.parse().expect("a valid selector"));
        let keeper = self.clone();
        let reconcile = move |context: Context| {
            let keeper = keeper.clone();
            async move {
                let _running = keeper.begin(&context.request);
                reconcile(context, keeper.pause()).await
            }
        };
        Controller::builder(ControllerName::new("keeper").expect("a valid name"))
            .watch(marked)
            .owns_kind(config_map())
            .options(options)
            .build(Arc::new(reconcile))
            .expect("a valid controller")
    }

    fn begin(self: &Arc<Self>, request: &Request) -> Running {
        let run = Run {
            start: Instant::now(),
            end: None,
        };
        let mut runs = self.runs.lock();
        let of_key = runs.entry(request.clone()).or_default();
        of_key.push(run);
        Running {
            keeper: self.clone(),
            request: request.clone(),
            at: of_key.len() - 1,
        }
    }

    /// Runs of one key so far.
    pub(crate) fn count(&self, request: &Request) -> usize {
        self.runs.lock().get(request).map_or(0, Vec::len)
    }

    /// Runs of all keys so far.
    pub(crate) fn total(&self) -> usize {
        self.runs.lock().values().map(Vec::len).sum()
    }

    /// Runs so far in the clusters of these names.
    pub(crate) fn count_in(&self, clusters: &BTreeSet<String>) -> usize {
        let runs = self.runs.lock();
        let of_clusters = runs
            .iter()
            .filter(|(request, _)| clusters.contains(request.cluster.as_str()));
        of_clusters.map(|(_, runs)| runs.len()).sum()
    }

    /// Keys that ran while they were running.
    pub(crate) fn overlaps(&self) -> Vec<Request> {
        let runs = self.runs.lock();
        // Runs of a key stand in the order in which they began.
        let twice = |runs: &[Run]| {
            runs.windows(2)
                .any(|pair| pair[0].end.is_none_or(|end| end > pair[1].start))
        };
        runs.iter()
            .filter(|(_, runs)| twice(runs))
            .map(|(request, _)| request.clone())
            .collect()
    }
}

/// A run that goes on until it is dropped, as a run that is cut off is.
struct Running {
    keeper: Arc<Keeper>,
    request: Request,
    at: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut runs = self.keeper.runs.lock();
        let run = runs
            .get_mut(&self.request)
            .and_then(|runs| runs.get_mut(self.at));
        if let Some(run) = run {
            run.end = Some(Instant::now());
        }
    }
}

async fn reconcile(context: Context, pause: Option<Duration>) -> Result<Action, Failure> {
    let client = context.client(&Arc::new(Grant::all()));
    let key = &context.request.key;
    let read = async |name: &str| -> Result<Option<Value>, Failure> {
        let key = ObjectKey {
            namespace: key.namespace.clone(),
            name: name.into(),
        };
        let json = client
            .get(&config_map(), &key, &GetOptions::default())
            .await?;
        let parse = |json: bytes::Bytes| serde_json::from_slice(&json);
        json.map(parse)
            .transpose()
            .map_err(|error| Failure::terminal(error.to_string()))
    };
    let Some(source) = read(&key.name).await? else {
        return Ok(Action::Done);
    };
    if source["metadata"].get("deletionTimestamp").is_some() {
        return Ok(Action::Done);
    }
    if source["data"]["value"] == FAIL {
        return Err(Failure::retry("the object has the value that fails"));
    }
    let child = read(&child_of(&key.name)).await?;
    if child.is_some_and(|child| is_right(&source, &child)) {
        return Ok(Action::Done);
    }
    if let Some(pause) = pause {
        // Not a wait: it makes the run slow.
        tokio::time::sleep(pause).await;
    }
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    let wanted = bytes::Bytes::from(wanted(&source).to_string());
    client.apply(&config_map(), wanted, &options).await?;
    Ok(Action::Done)
}

fn wanted(source: &Value) -> Value {
    let (name, uid) = (&source["metadata"]["name"], &source["metadata"]["uid"]);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "controller": true, "name": name, "uid": uid});
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": child_of(name.as_str().unwrap_or_default()), "namespace": source["metadata"]["namespace"],
            "ownerReferences": [owner]},
        "data": source["data"]})
}

/// Whether a child is what its source wants it to be.
pub(crate) fn is_right(source: &Value, child: &Value) -> bool {
    let owners = &child["metadata"]["ownerReferences"];
    child["data"] == source["data"] && owners[0]["uid"] == source["metadata"]["uid"]
}
