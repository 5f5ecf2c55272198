//! Events about objects, recorded in the background. Entry point: [`Recorder::record`].
//!
//! As client-go: equal events within [`AGGREGATE_FOR`] become one with a count; each caller has a burst and a slow refill for each
//! object. What is
//! too much, not granted or refused by the server is counted and logged, and never fails a reconcile.

use super::Cluster;
use super::client::Client;
use super::scope::{CallScope, Caller};
use crate::api::{Event, GetOptions, PatchType, ReadMode, WriteOptions};
use crate::grant::{Grant, Verb};
use crate::json::Object;
use crate::kind::GroupVersionKind;
use crate::request::ObjectKey;
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Equal events within this time are one event with a count.
const AGGREGATE_FOR: Duration = Duration::from_secs(600);
/// Events of one object that may come at once, and how long one more takes to earn.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// Most series and objects that are remembered per cluster.
const MAX_SERIES: usize = 4096;
/// Most events that wait to be written per cluster.
const MAX_WAITING: usize = 1024;
/// Room among these that stays free for events in [`EventRoom::Reserved`].
const RESERVED: usize = 128;
/// Bytes of an object's name that the names of its events take over: 253 are allowed in all.
const MAX_NAME: usize = 200;
const MAX_REASON: usize = 128;
const MAX_NOTE: usize = 1024;

/// What room an event of the program has where many wait to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRoom {
    /// The same as the events of controllers, which may fill it: for what their reconcilers bring about.
    Shared,
    /// Some more, which those cannot fill: for what has to be told whatever they do.
    Reserved,
}

/// Records the events of one cluster.
pub(crate) struct Recorder {
    queue: mpsc::Sender<Waiting>,
    dropped: Arc<AtomicU64>,
}

struct Waiting {
    event: Event,
    caller: Caller,
    client: Client,
    /// Which process reports it by itself, if no controller does.
    own: Option<Arc<str>>,
}

impl Recorder {
    /// The recorder, and the task that writes, which ends when the recorder is dropped.
    pub(crate) fn new(cluster: Weak<Cluster>) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            cluster,
            series: HashMap::new(),
            budgets: HashMap::new(),
            dropped: dropped.clone(),
        };
        (Self { queue, dropped }, writer.run(waiting))
    }

    /// Queues an event; one too many is dropped and counted. With `own`, the name of this process, it is reported by that, and is
    /// about something that the server need not have: nothing is looked up.
    pub(crate) fn record(
        &self,
        client: &Client,
        mut event: Event,
        own: Option<&str>,
        room: EventRoom,
    ) {
        // Cut before it waits: what waits is bounded in number and so must be each.
        for (text, limit) in [
            (&mut event.reason, MAX_REASON),
            (&mut event.action, MAX_REASON),
            (&mut event.note, MAX_NOTE),
        ] {
            text.truncate(cut(text, limit).len());
            text.shrink_to_fit();
        }
        let waiting = Waiting {
            caller: client.caller().clone(),
            client: client.clone(),
            event,
            own: own.map(|process| cut(process, MAX_REASON).into()),
        };
        let kept_free = match room {
            EventRoom::Shared => RESERVED,
            EventRoom::Reserved => 0,
        };
        if self.queue.capacity() <= kept_free || self.queue.try_send(waiting).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events dropped since the cluster was engaged.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct SeriesKey {
    manager: Arc<str>,
    kind: GroupVersionKind,
    key: ObjectKey,
    text: String,
}

/// Who records, and about what: nobody uses up what another may record. The program's own reasons are few, and each has a budget:
/// storms, which guests bring about, leave room for what is refused.
type BudgetKey = (Arc<str>, GroupVersionKind, ObjectKey, Option<String>);

struct Series {
    name: String,
    count: u32,
    last: Instant,
}

struct Budget {
    left: u32,
    refilled: Instant,
}

struct Writer {
    cluster: Weak<Cluster>,
    /// Events written lately; at most [`MAX_SERIES`].
    series: HashMap<SeriesKey, Series>,
    /// What each caller may still record of each object; at most [`MAX_SERIES`].
    budgets: HashMap<BudgetKey, Budget>,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
        while let Some(next) = waiting.recv().await {
            let Some(cluster) = self.cluster.upgrade() else {
                return;
            };
            if !self.write(&cluster, next).await {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Writes one event; `false` when it was dropped.
    async fn write(&mut self, cluster: &Arc<Cluster>, waiting: Waiting) -> bool {
        let Waiting {
            event,
            caller,
            client,
            own,
        } = waiting;
        // Nobody has anything to record more urgently in a cluster that was never reached.
        let Ok(backend) = cluster.connected().await else {
            return false;
        };
        let readable = || {
            let kind = backend.discovery.get(&event.kind);
            kind.is_some_and(|kind| client.may(&kind, Verb::Get, &event.key))
        };
        if !(own.is_some() || readable())
            || !self.afford(budget_key(&caller, &event, own.is_some()), Instant::now())
        {
            tracing::debug!(tenant = %caller.tenant, cluster = %cluster.name(), reason = event.reason, "event not recorded");
            return false;
        }
        let fence = client.fence().cloned();
        let scope = CallScope::of_run(caller.clone(), CancellationToken::new(), None, fence, None);
        let grant = Grant::all().in_the_name_of(client.identity());
        let grant = Arc::new(grant);
        let writer = Client::new(cluster.clone(), grant, scope, true);
        let outcome = self.publish(&writer, &caller, event, own.as_deref()).await;
        if let Err(error) = &outcome {
            tracing::debug!(tenant = %caller.tenant, cluster = %cluster.name(), code = error.code.as_str(), "event refused by the server");
        }
        outcome.is_ok()
    }

    fn afford(&mut self, key: BudgetKey, now: Instant) -> bool {
        if self.budgets.len() >= MAX_SERIES {
            self.budgets
                .retain(|_, budget| now.duration_since(budget.refilled) < REFILL);
            if self.budgets.len() >= MAX_SERIES {
                self.budgets.clear();
            }
        }
        let budget = self.budgets.entry(key).or_insert(Budget {
            left: BURST,
            refilled: now,
        });
        let earned =
            u32::try_from(now.duration_since(budget.refilled).as_secs() / REFILL.as_secs())
                .unwrap_or(BURST);
        if earned > 0 {
            budget.left = (budget.left + earned).min(BURST);
            budget.refilled = now;
        }
        budget.left = match budget.left.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }

    async fn publish(
        &mut self,
        client: &Client,
        caller: &Caller,
        event: Event,
        own: Option<&str>,
    ) -> Result<(), crate::api::ApiError> {
        let now = Instant::now();
        self.series
            .retain(|_, series| now.duration_since(series.last) < AGGREGATE_FOR);
        if self.series.len() >= MAX_SERIES {
            self.series.clear();
        }
        let kind = GroupVersionKind::new("", "v1", "Event");
        let namespace = event
            .key
            .namespace
            .as_deref()
            .unwrap_or("default")
            .to_owned();
        let text = format!(
            "{}\n{}\n{}\n{}",
            event.event_type.as_str(),
            event.reason,
            event.action,
            event.note
        );
        let series_key = SeriesKey {
            manager: caller.field_manager.clone(),
            kind: event.kind.clone(),
            key: event.key.clone(),
            text,
        };
        let time = now_rfc3339();
        if let Some(series) = self.series.get_mut(&series_key) {
            series.count += 1;
            series.last = now;
            let key = ObjectKey::namespaced(&namespace, &series.name);
            let patch = json!({"count": series.count, "lastTimestamp": time})
                .to_string()
                .into();
            let done = client
                .patch(
                    &kind,
                    &key,
                    PatchType::Merge,
                    patch,
                    &WriteOptions::default(),
                )
                .await;
            if !matches!(&done, Err(error) if error.code == crate::api::ApiCode::NotFound) {
                return done.map(drop);
            }
            self.series.remove(&series_key);
        }
        let uid = match own {
            Some(_) => String::new(),
            None => uid(client, &event).await?,
        };
        let name = name_of(&event.key.name, fastrand::u64(..));
        let mut object = body(&event, &name, &namespace, &uid, &time, caller);
        if let Some(process) = own {
            object["source"]["host"] = process.into();
            object["reportingInstance"] = process.into();
        }
        client
            .create(&kind, object.to_string().into(), &WriteOptions::default())
            .await?;
        self.series.insert(
            series_key,
            Series {
                name,
                count: 1,
                last: now,
            },
        );
        Ok(())
    }
}

fn budget_key(caller: &Caller, event: &Event, own: bool) -> BudgetKey {
    let manager = caller.field_manager.clone();
    let reason = own.then(|| event.reason.clone());
    (manager, event.kind.clone(), event.key.clone(), reason)
}

/// The uid of the object that an event is about, without bringing up a cache for it; empty when it is absent.
async fn uid(client: &Client, event: &Event) -> Result<String, crate::api::ApiError> {
    if let Some(object) = client.held(&event.kind, &event.key) {
        return Ok(object.uid().into_owned());
    }
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let about = client.get(&event.kind, &event.key, &live).await?;
    Ok(about
        .and_then(|json| Object::parse(json).ok())
        .map(|object| object.uid().into_owned())
        .unwrap_or_default())
}

fn body(
    event: &Event,
    name: &str,
    namespace: &str,
    uid: &str,
    time: &str,
    caller: &Caller,
) -> serde_json::Value {
    let component = caller
        .controller
        .as_ref()
        .map_or("windlass", |c| c.as_str());
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": event.kind.api_version(), "kind": &*event.kind.kind, "name": &*event.key.name,
            "namespace": event.key.namespace.as_deref().unwrap_or(""), "uid": uid,
        },
        "type": event.event_type.as_str(),
        "reason": event.reason,
        "action": event.action,
        "message": event.note,
        "count": 1, "firstTimestamp": time, "lastTimestamp": time,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": &*caller.field_manager,
    })
}

/// A name that an Event may have, about an object whose own may have other characters: those of RBAC hold colons and capitals.
fn name_of(object: &str, salt: u64) -> String {
    let lower = object.to_lowercase();
    let labels = cut(&lower, MAX_NAME).split('.').map(|label| {
        let plain = label.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        plain.trim_matches('-').to_owned()
    });
    let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
    let labels = if labels.is_empty() {
        "object".to_owned()
    } else {
        labels.join(".")
    };
    format!("{labels}.{salt:016x}")
}

fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0);
    &text[..end]
}

fn now_rfc3339() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_valid_whatever_the_object_is_called() {
        let named = |object: &str| name_of(object, 1).replace(".0000000000000001", "");
        assert_eq!(named("web-1.prod"), "web-1.prod");
        assert_eq!(named("system:Node-Proxier"), "system-node-proxier");
        assert_eq!(named("a:.-b-..C:"), "a.b.c");
        assert_eq!(named(":é:"), "object");
        let long = name_of(&"ü".repeat(300), 1);
        assert!(long.len() <= 253 && long.starts_with("object."), "{long}");
        assert!(name_of(&"x".repeat(253), 1).len() <= 253);
    }
}
