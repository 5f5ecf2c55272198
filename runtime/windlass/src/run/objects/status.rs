//! Writes the `status` of the objects, in the process that leads. Entry points: [`write()`] and [`leave`].
//!
//! A status is written when it differs from the one that the object has: once a second at most, after a change of numbers alone once in
//! ten seconds, and without a change once in five minutes. Of many, changed conditions are written first, and then each object has its turn.
//! So a new leader goes on where the last one ended, and what somebody else has changed is corrected.

mod desired;
mod turns;

use super::{Outcomes, Watches};
use crate::app::App;
use crate::config::kinds::status::{
    Condition, ProviderStatus, ReconcilerStatus as Status, TenantStatus,
};
use crate::config::kinds::{API_VERSION, Identity, Kind};
use crate::config::objects::{Object, Verdict};
use desired::{Sources, provider, reconciler, tenant};
use futures::StreamExt;
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use turns::{Change, Turns};
use windlass_fleet::api::{ApiCode, ApplyOptions};
use windlass_fleet::{Client, ClusterName, GroupVersionKind, ObjectKey};

/// Time between two rounds: an object is written once in a round at most.
const ROUND: Duration = Duration::from_secs(1);
/// Time between two writes of an object of which numbers alone have changed.
const NUMBERS: Duration = Duration::from_secs(10);
/// Time between two writes of an object in which nothing has changed: it shows that a process runs.
const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);
/// Time until a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(15);
/// Writes at once.
const WIDTH: usize = 8;

/// When objects were written, and when they may be written again.
#[derive(Default)]
struct Written {
    at: Option<Instant>,
    not_before: Option<Instant>,
    /// The hash of the status that was taken last, without its heartbeat; none: it was not.
    hash: Option<u64>,
}

/// A write that is due.
struct Write {
    identity: Identity,
    kind: Kind,
    body: Json,
    hash: u64,
}

/// Writes until the manager drains.
pub(in crate::run) async fn write(app: Arc<App>, outcomes: Arc<Outcomes>) {
    let mut written: BTreeMap<Identity, Written> = BTreeMap::new();
    let mut turns = Turns::default();
    let mut round = tokio::time::interval(ROUND);
    round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        round.tick().await;
        let verdicts = outcomes.verdicts.lock().clone();
        let local = app.manager.fleet().cluster(&ClusterName::local());
        let client = local.and_then(|local| app.manager.leading_client(&local));
        let (Some(client), Some(watches)) = (client, outcomes.watches.load_full()) else {
            continue;
        };
        let identities = verdicts.iter().map(|verdict| verdict.object.identity());
        let known: std::collections::BTreeSet<Identity> = identities.collect();
        written.retain(|identity, _| known.contains(identity));
        let writes = due(&app, &verdicts, &watches, &written, &mut turns);
        let results = futures::stream::iter(writes).map(|one| one.send(client.clone()));
        let results: Vec<_> = results.buffer_unordered(WIDTH).collect().await;
        for (identity, hash, is_done) in results {
            let now = Instant::now();
            let entry = written.entry(identity).or_default();
            (entry.at, entry.hash) = (Some(now), is_done.then_some(hash));
            entry.not_before = (!is_done).then(|| now + AGAIN);
        }
    }
}

/// Takes the name of this process from the objects, so that one that waits for it begins at once. For a process without an election: those of
/// an election follow each other.
pub(in crate::run) async fn leave(app: &App, outcomes: &Outcomes) {
    let verdicts = outcomes.verdicts.lock().clone();
    let local = app.manager.fleet().cluster(&ClusterName::local());
    let client = local.and_then(|local| app.manager.leading_client(&local));
    let (Some(client), Some(watches)) = (client, outcomes.watches.load_full()) else {
        return;
    };
    let sources = Sources::of(app);
    let writes = verdicts.iter().filter_map(|verdict| {
        let object = &*verdict.object;
        let status = match object.kind {
            Kind::Provider => without_owner(&watches, object, provider(&sources, verdict)),
            Kind::Tenant => without_owner(&watches, object, tenant(&sources, verdict)),
            _ => without_owner(&watches, object, reconciler(&sources, verdict)),
        }?;
        Some(Write {
            hash: hash(&status),
            body: body(object, status),
            kind: object.kind,
            identity: object.identity(),
        })
    });
    let writes: Vec<Write> = writes.collect();
    let results = futures::stream::iter(writes).map(|one| one.send(client.clone()));
    results.buffer_unordered(WIDTH).for_each(async |_| ()).await;
}

/// The writes of a round.
fn due(
    app: &App,
    verdicts: &[Verdict],
    watches: &Watches,
    written: &BTreeMap<Identity, Written>,
    turns: &mut Turns,
) -> Vec<Write> {
    let sources = Sources::of(app);
    let now = Instant::now();
    turns.take(verdicts.len(), |index| {
        let verdict = &verdicts[index];
        let identity = verdict.object.identity();
        let last = written.get(&identity);
        if last.is_some_and(|last| last.not_before.is_some_and(|at| now < at)) {
            return None;
        }
        let object = &*verdict.object;
        let (change, status) = match object.kind {
            Kind::Provider => differs(watches, object, provider(&sources, verdict)),
            Kind::Tenant => differs(watches, object, tenant(&sources, verdict)),
            _ => differs(watches, object, reconciler(&sources, verdict)),
        }?;
        let hash = hash(&status);
        // The server did not keep what was sent: its definitions may be older than this process, and then it never does.
        let is_sent = last.is_some_and(|last| last.hash == Some(hash));
        let change = if is_sent { Change::Numbers } else { change };
        let is_fresh = last.and_then(|last| last.at);
        let is_fresh = is_fresh.is_some_and(|at| now.duration_since(at) < NUMBERS);
        if change == Change::Numbers && is_fresh {
            return None;
        }
        let write = Write {
            body: body(object, status),
            kind: object.kind,
            identity,
            hash,
        };
        Some((change, write))
    })
}

/// A status, whatever the kind is.
trait AnyStatus: Serialize + DeserializeOwned + PartialEq + Clone + Default {
    fn conditions(&mut self) -> &mut Vec<Condition>;

    /// The time of the last heartbeat.
    fn heartbeat(&mut self) -> &mut String;

    /// Who handles the object.
    fn owner(&mut self) -> &mut String;

    /// The status without numbers and heartbeat.
    fn quiet(&self) -> Self;

    /// The status without the fields that others write.
    fn own(self) -> Self {
        self
    }
}

impl AnyStatus for Status {
    fn conditions(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    fn heartbeat(&mut self) -> &mut String {
        &mut self.last_heartbeat_time
    }

    fn owner(&mut self) -> &mut String {
        &mut self.owner
    }

    fn quiet(&self) -> Self {
        Self {
            keys: Default::default(),
            clusters: 0,
            last_failure: None,
            last_heartbeat_time: String::new(),
            ..self.clone()
        }
    }

    fn own(self) -> Self {
        Self {
            rollback: None,
            ..self
        }
    }
}

impl AnyStatus for TenantStatus {
    fn conditions(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    fn heartbeat(&mut self) -> &mut String {
        &mut self.last_heartbeat_time
    }

    fn owner(&mut self) -> &mut String {
        &mut self.owner
    }

    fn quiet(&self) -> Self {
        Self {
            namespaces: 0,
            reconcilers: 0,
            last_heartbeat_time: String::new(),
            ..self.clone()
        }
    }
}

impl AnyStatus for ProviderStatus {
    fn conditions(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    fn heartbeat(&mut self) -> &mut String {
        &mut self.last_heartbeat_time
    }

    fn owner(&mut self) -> &mut String {
        &mut self.owner
    }

    fn quiet(&self) -> Self {
        Self {
            found: 0,
            engaged: 0,
            refused: 0,
            last_heartbeat_time: String::new(),
            ..self.clone()
        }
    }
}

/// The status with no owner. None: the object is gone, or another's.
fn without_owner<S: AnyStatus>(watches: &Watches, object: &Object, mut status: S) -> Option<Json> {
    let mut present = present::<S>(watches, object)?;
    if present.owner() != status.owner() {
        return None;
    }
    keep_times(status.conditions(), present.conditions());
    status.owner().clear();
    serde_json::to_value(&status).ok()
}

#[derive(Deserialize)]
struct Present<S> {
    #[serde(default)]
    status: Option<S>,
}

/// The status that an object has. None: the object is gone.
fn present<S: AnyStatus>(watches: &Watches, object: &Object) -> Option<S> {
    let watched = watches.kinds.get(&object.kind)?.get(&key(object))?;
    if watched.uid() != object.uid {
        return None;
    }
    // A status of another shape is replaced.
    let present: Option<Present<S>> = watched.parse().ok();
    let present = present.and_then(|present| present.status);
    Some(present.unwrap_or_default().own())
}

/// The status to write, and how it differs from the present one. None: the object is gone, or has this status already.
fn differs<S: AnyStatus>(
    watches: &Watches,
    object: &Object,
    mut status: S,
) -> Option<(Change, Json)> {
    let mut present = present::<S>(watches, object)?;
    keep_times(status.conditions(), present.conditions());
    let now = std::mem::take(status.heartbeat());
    if is_recent(present.heartbeat(), &now) {
        status.heartbeat().clone_from(present.heartbeat());
    }
    if status == present {
        return None;
    }
    *status.heartbeat() = now;
    let change = if status.quiet() == present.quiet() {
        Change::Numbers
    } else {
        Change::Conditions
    };
    Some((change, serde_json::to_value(&status).ok()?))
}

fn hash(status: &Json) -> u64 {
    let mut status = status.clone();
    status["lastHeartbeatTime"].take();
    let mut hasher = DefaultHasher::new();
    status.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Whether a heartbeat is young enough to stay.
fn is_recent(heartbeat: &str, now: &str) -> bool {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let (Some(heartbeat), Some(now)) = (parse(heartbeat), parse(now)) else {
        return false;
    };
    let age = now.duration_since(heartbeat);
    !age.is_negative() && age < HEARTBEAT
}

/// Keeps the times of conditions whose status is as it was.
fn keep_times(conditions: &mut [Condition], before: &[Condition]) {
    for condition in conditions {
        let same = before
            .iter()
            .find(|before| before.kind == condition.kind && before.status == condition.status);
        if let Some(same) = same {
            condition
                .last_transition_time
                .clone_from(&same.last_transition_time);
        }
    }
}

fn key(object: &Object) -> ObjectKey {
    match &object.namespace {
        Some(namespace) => ObjectKey::namespaced(namespace, &object.name),
        None => ObjectKey::cluster_scoped(&object.name),
    }
}

fn body(object: &Object, status: Json) -> Json {
    // With the uid, so that no other object of the name gets it.
    let mut metadata = json!({"name": object.name, "uid": object.uid});
    if let Some(namespace) = &object.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": API_VERSION, "kind": object.kind, "metadata": metadata, "status": status,
    })
}

impl Write {
    async fn send(self, client: Client) -> (Identity, u64, bool) {
        let kind = GroupVersionKind::from_api_version(API_VERSION, self.kind.as_str());
        let options = ApplyOptions {
            subresource: Some("status".to_owned()),
            force: true,
            dry_run: false,
        };
        let sent = client.apply(&kind, self.body.to_string().into(), &options);
        let is_done = match sent.await {
            Ok(_) => true,
            // It was deleted, or this process does not lead any more.
            Err(error) if matches!(error.code, ApiCode::NotFound | ApiCode::Cancelled) => true,
            Err(error) => {
                tracing::warn!(object = %self.identity, %error, "the status is not written");
                false
            }
        };
        (self.identity, self.hash, is_done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_stays_for_five_minutes() {
        let now = "2026-01-01T00:10:00Z";
        for (heartbeat, stays) in [
            ("2026-01-01T00:05:01Z", true),
            ("2026-01-01T00:05:00Z", false),
            // Of a process whose clock is wrong.
            ("2026-01-01T00:10:01Z", false),
            ("", false),
        ] {
            assert_eq!(is_recent(heartbeat, now), stays, "{heartbeat:?}");
        }
    }
}
