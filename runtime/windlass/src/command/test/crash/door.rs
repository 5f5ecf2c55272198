//! Who stands at the door of the sandbox in a crash test: notes every call of guests, and lets faults strike. Entry point:
//! [`CrashDoor`].

use crate::command::test::answers::answer;
use parking_lot::Mutex;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_author::cases::{CallName, Effect, Fault, HttpAnswers};
use windlass_author::seed::LOCAL;
use windlass_author::simulated::Simulated;
use windlass_fleet::api::{ApiCode, ApiError, ListOptions, Operation};
use windlass_fleet::controller::ReconcileId;
use windlass_fleet::outbound::HttpRequest;
use windlass_fleet::{ClusterName, GroupVersionKind, ObjectKey};
use windlass_sandbox::{Asked, Door, Ending, Fate, HostCall, HttpFate};

/// Most calls that are noted: faults at later ones are not tried.
const NOTED: usize = 10_000;

/// A call that was made.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) name: CallName,
    /// Which one of these it is, from 1.
    pub(super) number: u32,
    pub(super) run: ReconcileId,
    pub(super) sort: Sort,
    /// What it writes or reads, as `v1/ConfigMap default/a`, if that was there before it.
    pub(super) object: Option<String>,
}

/// What a call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Get,
    List,
    Create,
    /// Any other write.
    Write,
}

impl Sort {
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Write)
    }
}

/// Notes calls, and lets faults strike, each once.
pub(super) struct CrashDoor {
    fleet: Arc<Simulated>,
    http: HttpAnswers,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each with whether it has struck.
    faults: Vec<(Fault, bool)>,
    counts: HashMap<CallName, u32>,
    made: Vec<Made>,
    /// The steps are over: what follows is no part of the run.
    is_over: bool,
    /// In how many places somebody changed an object.
    changes: usize,
    /// Ends the process that runs now.
    process: CancellationToken,
    /// The process has to end: none of its calls has an effect any more.
    is_ending: bool,
}

impl CrashDoor {
    pub(super) fn new(fleet: Arc<Simulated>, faults: &[Fault], http: HttpAnswers) -> Self {
        let faults = faults.iter().map(|fault| (fault.clone(), false));
        Self {
            fleet,
            http,
            state: Mutex::new(State {
                faults: faults.collect(),
                ..State::default()
            }),
        }
    }

    /// A process begins, which this token ends. Returns whether the one before ended for a fault.
    pub(super) fn begin(&self, process: CancellationToken) {
        let mut state = self.state.lock();
        (state.process, state.is_ending) = (process, false);
    }

    /// Whether the process ended for a fault, and another one is to begin.
    pub(super) fn restarts(&self) -> bool {
        self.state.lock().is_ending
    }

    /// The steps are over: further calls are not noted, and no fault strikes.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
    }

    /// All calls so far.
    pub(super) fn made(&self) -> Vec<Made> {
        self.state.lock().made.clone()
    }

    /// How many faults have struck.
    pub(super) fn struck(&self) -> usize {
        let state = self.state.lock();
        state.faults.iter().filter(|(_, struck)| *struck).count()
    }

    /// In how many places somebody changed an object.
    pub(super) fn changes(&self) -> usize {
        self.state.lock().changes
    }
}

impl Door for CrashDoor {
    fn outside(&self, request: &HttpRequest) -> HttpFate {
        HttpFate::Ended(answer(&self.http, request))
    }

    fn decide(&self, call: &HostCall<'_>) -> Fate {
        let description = Description::of(call.asked);
        let cluster = self.name(call.cluster);
        let there = description.object.as_deref();
        let there = there.filter(|object| self.fleet.has(&cluster, object));
        let at = match there.and_then(|object| self.fleet.name_of(&cluster, object)) {
            Some(generated) => description.renamed(&generated),
            None => description.text.clone(),
        };
        let request = if call.request.cluster == *call.cluster {
            call.request.key.to_string()
        } else {
            format!("{}: {}", self.name(&call.request.cluster), call.request.key)
        };
        let called = CallName {
            cluster,
            reconciler: call.reconciler.to_string(),
            request,
            at,
        };
        let mut state = self.state.lock();
        if state.is_ending {
            return end(false, Ending::Kill);
        }
        if state.is_over {
            return Fate::Pass;
        }
        let number = state.counts.entry(called.clone()).or_default();
        *number += 1;
        let number = *number;
        if state.made.len() < NOTED {
            state.made.push(Made {
                name: called.clone(),
                number,
                run: call.run,
                sort: description.sort,
                object: there.map(str::to_owned),
            });
        }
        self.strike(&mut state, &called, number)
    }
}

impl CrashDoor {
    /// What steps call a cluster.
    fn name(&self, cluster: &ClusterName) -> String {
        if cluster.is_local() {
            LOCAL.to_owned()
        } else {
            self.fleet.called(cluster.as_str())
        }
    }

    /// Lets all faults at a call strike. The last one that ends the call decides how.
    fn strike(&self, state: &mut State, call: &CallName, number: u32) -> Fate {
        let mut fate = Fate::Pass;
        for at in 0..state.faults.len() {
            let (fault, struck) = &mut state.faults[at];
            if *struck || fault.number != number || !fault.is_at(call) {
                continue;
            }
            *struck = true;
            let fault = fault.clone();
            let object = fault.object.as_deref().unwrap_or_default();
            match fault.fault {
                Effect::KillBefore => fate = end(false, Ending::Kill),
                Effect::KillAfter => fate = end(true, Ending::Kill),
                Effect::Conflict => fate = end(false, Ending::Error(conflict())),
                Effect::Timeout => fate = end(false, Ending::Error(timeout())),
                Effect::TimeoutDone => fate = end(true, Ending::Error(timeout())),
                Effect::Error => fate = end(false, Ending::Error(internal())),
                Effect::Change => {
                    state.changes += self.fleet.change_as_somebody(&fault.cluster, object);
                }
                Effect::Delete => {
                    self.fleet.delete_as_somebody(&fault.cluster, object);
                }
                Effect::Restart | Effect::RestartAfter => {
                    if let Some(behind) = fault.behind {
                        let resource = fault.resource.as_deref();
                        self.fleet
                            .begin_in_the_past(&fault.cluster, resource, behind);
                    }
                    state.is_ending = true;
                    state.process.cancel();
                    fate = end(fault.fault == Effect::RestartAfter, Ending::Kill);
                }
                // The world's matter.
                Effect::Merge => {}
            }
        }
        fate
    }
}

fn end(done: bool, ending: Ending) -> Fate {
    Fate::End { done, ending }
}

fn error(code: ApiCode, http_status: u16, reason: &str, message: &str) -> ApiError {
    ApiError {
        http_status,
        reason: reason.to_owned(),
        ..ApiError::host(code, message)
    }
}

fn conflict() -> ApiError {
    let message = "the object has been modified: apply your changes to the latest version and try again (a fault of this test)";
    error(ApiCode::Conflict, 409, "Conflict", message)
}

fn timeout() -> ApiError {
    let message = "no answer in time (a fault of this test)";
    error(ApiCode::Timeout, 504, "Timeout", message)
}

fn internal() -> ApiError {
    let message = "an internal error occurred (a fault of this test)";
    error(ApiCode::Unavailable, 500, "InternalError", message)
}

/// What a call asks for, in words.
struct Description {
    sort: Sort,
    /// As `create v1/ConfigMap default/a`.
    text: String,
    /// As `v1/ConfigMap default/a`. None: it is about a collection.
    object: Option<String>,
}

impl Description {
    fn of(asked: Asked<'_>) -> Self {
        let operation = match asked {
            Asked::Operation(operation) => operation,
            Asked::DeleteCollection(kind, selection) => {
                let options = ListOptions {
                    namespace: selection.namespace.clone(),
                    label_selector: selection.label_selector.clone(),
                    field_selector: selection.field_selector.clone(),
                    ..ListOptions::default()
                };
                return Self {
                    sort: Sort::Write,
                    text: format!("delete all {}", collection(kind, &options)),
                    object: None,
                };
            }
        };
        match operation {
            Operation::Get(kind, key, options) => {
                Self::of_key("get", Sort::Get, kind, options.subresource.as_deref(), key)
            }
            Operation::Create(kind, body, _) => {
                Self::of_body("create", Sort::Create, kind, None, body)
            }
            Operation::Update(kind, body, options) => {
                let part = options.subresource.as_deref();
                Self::of_body("update", Sort::Write, kind, part, body)
            }
            Operation::Apply(kind, body, options) => {
                let part = options.subresource.as_deref();
                Self::of_body("apply", Sort::Write, kind, part, body)
            }
            Operation::Patch(kind, key, _, _, options) => {
                let part = options.subresource.as_deref();
                Self::of_key("patch", Sort::Write, kind, part, key)
            }
            Operation::Delete(kind, key, _) => Self::of_key("delete", Sort::Write, kind, None, key),
            Operation::List(kind, options) => Self {
                sort: Sort::List,
                text: format!("list {}", collection(kind, options)),
                object: None,
            },
        }
    }

    fn of_key(
        verb: &str,
        sort: Sort,
        kind: &GroupVersionKind,
        part: Option<&str>,
        key: &ObjectKey,
    ) -> Self {
        let part = part.map(|part| format!("/{part}")).unwrap_or_default();
        let kind = version_kind(kind);
        Self {
            sort,
            text: format!("{verb} {kind}{part} {key}"),
            object: Some(format!("{kind} {key}")),
        }
    }

    fn of_body(
        verb: &str,
        sort: Sort,
        kind: &GroupVersionKind,
        part: Option<&str>,
        body: &[u8],
    ) -> Self {
        let body: Json = serde_json::from_slice(body).unwrap_or_default();
        let text = |field: &str| {
            let text = body["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let generate_name = text("generateName");
        let is_generated = name.is_empty() && !generate_name.is_empty();
        let name = if is_generated {
            format!("{generate_name}*")
        } else {
            name
        };
        let key = if namespace.is_empty() {
            name
        } else {
            format!("{namespace}/{name}")
        };
        let part = part.map(|part| format!("/{part}")).unwrap_or_default();
        let kind = version_kind(kind);
        Self {
            sort,
            text: format!("{verb} {kind}{part} {key}"),
            object: (!is_generated).then(|| format!("{kind} {key}")),
        }
    }

    /// The text with another name of the object.
    fn renamed(&self, name: &str) -> String {
        let end = self.text.rfind(['/', ' ']).map_or(0, |at| at + 1);
        format!("{}{name}", &self.text[..end])
    }
}

/// As `apps/v1/Deployment`.
fn version_kind(kind: &GroupVersionKind) -> String {
    if kind.group.is_empty() {
        format!("{}/{}", kind.version, kind.kind)
    } else {
        format!("{}/{}/{}", kind.group, kind.version, kind.kind)
    }
}

/// As `v1/ConfigMap in default, labels a=b`.
fn collection(kind: &GroupVersionKind, options: &ListOptions) -> String {
    let mut text = version_kind(kind);
    if let Some(namespace) = &options.namespace {
        text += &format!(" in {namespace}");
    }
    if let Some(labels) = &options.label_selector {
        text += &format!(", labels {labels}");
    }
    if let Some(fields) = &options.field_selector {
        text += &format!(", fields {fields}");
    }
    if let Some((name, value)) = &options.index {
        text += &format!(", index {name} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::api::{GetOptions, WriteOptions};

    #[test]
    fn a_call_is_named_by_what_it_asks_for() {
        let map = GroupVersionKind::new("", "v1", "ConfigMap");
        let created = Operation::Create(
            map.clone(),
            r#"{"metadata": {"namespace": "default", "generateName": "a-"}}"#.into(),
            WriteOptions::default(),
        );
        let created = Description::of(Asked::Operation(&created));
        assert_eq!(created.text, "create v1/ConfigMap default/a-*");
        assert_eq!(created.object, None);
        let site = GroupVersionKind::new("example.dev", "v1", "Website");
        let key = ObjectKey::namespaced("default", "a-x7f");
        let got = Operation::Get(site, key, GetOptions::default());
        let got = Description::of(Asked::Operation(&got));
        assert_eq!(got.text, "get example.dev/v1/Website default/a-x7f");
        assert_eq!(got.renamed("a-*"), "get example.dev/v1/Website default/a-*");
        let options = ListOptions {
            namespace: Some("default".into()),
            label_selector: Some("a=b".into()),
            ..ListOptions::default()
        };
        let listed = Operation::List(map, options);
        let listed = Description::of(Asked::Operation(&listed)).text;
        assert_eq!(listed, "list v1/ConfigMap in default, labels a=b");
    }
}
