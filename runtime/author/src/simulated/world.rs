//! What goes wrong in the world of an in-memory fleet: caches that begin in the past, events that come late, objects that somebody
//! changes. Entry point: [`World`].
//!
//! It is asked about every request and every event of every cluster. While nothing is armed that costs a look at two empty lists.

use super::Simulated;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Weak;
use std::time::Duration;
use tokio::time::Instant;
use windlass_apiserver::{
    AnswerVerdict, Call, Cluster, Faults, FrameVerdict, Hook, RequestVerdict, Verb,
};

/// The annotation of an object that somebody has changed in a test.
pub(crate) const SOMEBODY: &str = "test.windlass.dev/somebody";

/// The type of the condition that somebody has added in a test.
pub(crate) const CONDITION: &str = "ChangedBySomebody";

/// The annotation by which kcp says which logical cluster an object is in.
const WORKSPACE: &str = "kcp.io/cluster";

/// How long the events are held back that caches from the past do not know. Long enough for a run on what they hold.
const PAST: Duration = Duration::from_millis(150);

/// How long an event is held back for one that replaces it.
const LATE: Duration = Duration::from_millis(150);

/// How often a held event is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Most events that are noted.
const NOTED: usize = 20_000;

/// The hook of all clusters of a fleet: the faults of steps, and those of tests under faults.
#[derive(Default)]
pub(crate) struct World {
    /// Those of steps.
    pub(crate) faults: Faults,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    past: Option<Past>,
    /// Whether events are counted, by the text of an event and its cluster.
    watched: Option<Watched>,
}

/// Caches that begin in the past.
struct Past {
    cluster: String,
    resource: Option<String>,
    behind: u64,
    /// The collections that were listed since.
    listed: BTreeSet<String>,
    until: Instant,
}

#[derive(Default)]
struct Watched {
    counts: HashMap<(String, String), u32>,
    /// All of them, in their order.
    seen: Vec<SeenEvent>,
    late: Vec<Late>,
    /// Weak, because its clusters hold this hook.
    fleet: Weak<Simulated>,
}

/// An event that a watch sends: its cluster, its text as `event v1/ConfigMap default/a`, and which one of these it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEvent {
    /// The cluster.
    pub cluster: String,
    /// The event.
    pub at: String,
    /// From 1.
    pub number: u32,
}

/// An event that is to be late.
struct Late {
    event: SeenEvent,
    /// The version of its object, and until when it is held, once it is there.
    held: Option<(String, Instant)>,
}

impl World {
    /// Begins to note events. These are to come late, and not at all if their object has changed once more by then.
    pub(crate) fn watch_events(&self, late: Vec<SeenEvent>, fleet: Weak<Simulated>) {
        let late = late.into_iter().map(|event| Late { event, held: None });
        self.state.lock().watched = Some(Watched {
            late: late.collect(),
            fleet,
            ..Watched::default()
        });
    }

    /// Ends that, and returns the events since then.
    pub(crate) fn events(&self) -> Vec<SeenEvent> {
        let watched = self.state.lock().watched.take();
        watched.map_or_else(Vec::new, |watched| watched.seen)
    }

    /// How long the caches still are in the past that have begun there. None: there are none.
    pub(crate) fn behind(&self) -> Option<Duration> {
        let state = self.state.lock();
        let past = state.past.as_ref().filter(|past| !past.listed.is_empty())?;
        past.until.checked_duration_since(Instant::now())
    }

    /// Makes the next lists of a cluster, or of one of its collections, those of so many changes ago.
    pub(crate) fn begin_in_the_past(&self, cluster: &str, resource: Option<&str>, behind: u64) {
        self.state.lock().past = Some(Past {
            cluster: cluster.to_owned(),
            resource: resource.map(str::to_owned),
            behind,
            listed: BTreeSet::new(),
            until: Instant::now() + Duration::from_secs(60),
        });
    }
}

/// As `configmaps` or `websites.example.dev`.
fn resource(call: &Call) -> String {
    if call.group.is_empty() {
        call.resource.clone()
    } else {
        format!("{}.{}", call.resource, call.group)
    }
}

impl Past {
    fn is_about(&self, cluster: &str, call: &Call) -> bool {
        let wanted = self.resource.as_ref();
        self.cluster == cluster && wanted.is_none_or(|wanted| *wanted == resource(call))
    }
}

impl Hook for World {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let verdict = self.faults.request(cluster, call);
        if !matches!(verdict, RequestVerdict::Proceed) || call.verb != Verb::List {
            return verdict;
        }
        let mut state = self.state.lock();
        let Some(past) = &mut state.past else {
            return verdict;
        };
        // The first list of a collection is that of its cache. Others compare it with the server, or are a guest's own.
        let collection = format!("{} {}", call.service, call.path);
        if past.is_about(cluster, call) && past.listed.insert(collection) {
            past.until = Instant::now() + PAST;
            return RequestVerdict::BehindLiving(past.behind);
        }
        verdict
    }

    fn received(&self, cluster: &str, call: &Call, body: &Bytes) {
        self.faults.received(cluster, call, body);
    }

    fn answer(&self, cluster: &str, call: &Call, body: &Bytes) -> AnswerVerdict {
        self.faults.answer(cluster, call, body)
    }

    fn frame(&self, cluster: &str, call: &Call, frame: &Bytes) -> FrameVerdict {
        let verdict = self.faults.frame(cluster, call, frame);
        if !matches!(verdict, FrameVerdict::Send) {
            return verdict;
        }
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(past) = &state.past
            && past.is_about(cluster, call)
            && past.until > now
        {
            return FrameVerdict::Later(LOOK);
        }
        let watched = state.watched.as_mut();
        watched.map_or(verdict, |watched| watched.frame(cluster, frame, now))
    }
}

impl Watched {
    fn frame(&mut self, cluster: &str, frame: &Bytes, now: Instant) -> FrameVerdict {
        let Some(Sent {
            at,
            version,
            is_deletion,
            workspace,
        }) = event(frame)
        else {
            return FrameVerdict::Send;
        };
        let fleet = self.fleet.upgrade();
        // A watch of a shard has the events of all its workspaces.
        let called = fleet.as_ref().zip(workspace);
        let called = called.map(|(fleet, workspace)| fleet.called(&workspace));
        let cluster = called.as_deref().unwrap_or(cluster);
        let held = |late: &&mut Late| {
            let is_it = |held: &(String, Instant)| held.0 == version;
            late.event.cluster == cluster
                && late.event.at == at
                && late.held.as_ref().is_some_and(is_it)
        };
        if let Some(late) = self.late.iter_mut().find(|late| held(late)) {
            let until = late.held.as_ref().map_or(now, |held| held.1);
            let there = fleet.and_then(|fleet| fleet.cluster(cluster));
            let there = there.and_then(|there| find(&there, at.trim_start_matches("event ")));
            let is_gone = there.is_none() && !is_deletion;
            let is_newer = there.is_some_and(|it| it["metadata"]["resourceVersion"] != *version);
            return if is_gone || is_newer {
                FrameVerdict::Drop
            } else if now < until {
                FrameVerdict::Later(LOOK)
            } else {
                FrameVerdict::Send
            };
        }
        let key = (cluster.to_owned(), at);
        let number = self.counts.entry(key.clone()).or_default();
        *number += 1;
        let event = SeenEvent {
            cluster: key.0,
            at: key.1,
            number: *number,
        };
        let late = self.late.iter_mut().find(|late| late.event == event);
        let verdict = match late {
            Some(late) => {
                late.held = Some((version, now + LATE));
                FrameVerdict::Later(LOOK)
            }
            None => FrameVerdict::Send,
        };
        if self.seen.len() < NOTED {
            self.seen.push(event);
        }
        verdict
    }
}

/// An event, as a watch sends it.
struct Sent {
    /// Its text.
    at: String,
    /// The version of its object.
    version: String,
    /// Whether it is the end of its object.
    is_deletion: bool,
    /// The logical cluster of its object, in a kcp.
    workspace: Option<String>,
}

fn event(frame: &Bytes) -> Option<Sent> {
    let line: Json = serde_json::from_slice(frame).ok()?;
    let kind = line["type"].as_str()?;
    if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED") {
        return None;
    }
    let object = &line["object"];
    let metadata = &object["metadata"];
    // These cannot be found again by the text of their event.
    if object["kind"] == "PartialObjectMetadata" || metadata["generateName"].is_string() {
        return None;
    }
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let key = if namespace.is_empty() {
        name
    } else {
        format!("{namespace}/{name}")
    };
    let at = format!(
        "event {}/{} {key}",
        text(&object["apiVersion"]),
        text(&object["kind"])
    );
    let workspace = metadata["annotations"][WORKSPACE].as_str();
    Some(Sent {
        at,
        version: text(&metadata["resourceVersion"]),
        is_deletion: kind == "DELETED",
        workspace: workspace.map(str::to_owned),
    })
}

/// An object by its text, as `v1/ConfigMap default/a`.
struct Named<'a> {
    version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

fn named(text: &str) -> Option<Named<'_>> {
    let (kind, key) = text.split_once(' ')?;
    let (version, kind) = kind.rsplit_once('/')?;
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Some(Named {
        version,
        kind,
        namespace,
        name,
    })
}

/// The object of a text, as `v1/ConfigMap default/a`.
pub(crate) fn find(cluster: &Cluster, object: &str) -> Option<Json> {
    let Named {
        version,
        kind,
        namespace,
        name,
    } = named(object)?;
    cluster.get(version, kind, namespace, name).ok().flatten()
}

/// Changes an object as somebody else would: an annotation, and a condition if its status has a list of them. Returns
/// how many of these it has then.
pub(crate) fn change(cluster: &Cluster, object: &str) -> usize {
    let (Some(there), Some(named)) = (find(cluster, object), named(object)) else {
        return 0;
    };
    let Named {
        version,
        kind,
        namespace,
        name,
    } = named;
    let patch = json!({"metadata": {"annotations": {SOMEBODY: "changed"}}});
    drop(cluster.merge(version, kind, namespace, name, &patch));
    if let Some(conditions) = there["status"]["conditions"].as_array() {
        let mut conditions = conditions.clone();
        conditions.push(json!({
            "type": CONDITION, "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }));
        let patch = json!({"status": {"conditions": conditions}});
        // A schema may not allow such a condition.
        drop(cluster.merge_status(version, kind, namespace, name, &patch));
    }
    let now = find(cluster, object).unwrap_or_default();
    let has_annotation = now["metadata"]["annotations"][SOMEBODY].is_string();
    let conditions = now["status"]["conditions"].as_array().into_iter().flatten();
    let has_condition = conditions.into_iter().any(|it| it["type"] == CONDITION);
    usize::from(has_annotation) + usize::from(has_condition)
}

/// Deletes an object. Returns whether it was there.
pub(crate) fn delete(cluster: &Cluster, object: &str) -> bool {
    let Some(Named {
        version,
        kind,
        namespace,
        name,
    }) = named(object)
    else {
        return false;
    };
    let is_gone = cluster.delete(version, kind, namespace, name).is_ok();
    // What belonged to it goes too, as it would soon.
    cluster.settle();
    is_gone
}
