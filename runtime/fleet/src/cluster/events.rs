//! Events about objects, recorded in the background. Entry point: [`Recorder::record`].
//!
//! As in client-go, equal events within [`AGGREGATE_FOR`] become one event with a count, and an object has a [budget](budget). Each
//! tenant has a queue, budgets and a writer of its own, so that its events never delay or evict those of another tenant or of the
//! program. A controller's events are written under the limits of its calls and in its request slots, and queued events are charged to
//! its tenant. Events that are too many, not granted or refused by the server are counted, and never fail a reconcile.

mod budget;
mod publish;

use super::Cluster;
use super::call_policy::MemoryCharge;
use super::call_scope::CallScope;
use super::client::{Client, check_reference};
use crate::api::{ApiCode, ApiError, Event, PatchType, WriteOptions};
use crate::grant::Verb;
use crate::http::transport::Owner;
use crate::kind::GroupVersionKind;
use crate::name::TenantName;
use crate::request::ObjectKey;
use budget::{Budgets, Recent};
use parking_lot::Mutex;
use publish::{body, cut, name_of, now_rfc3339, salt_of, uid};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Equal events within this time are one event with a count.
const AGGREGATE_FOR: Duration = Duration::from_secs(600);
/// Series of equal events of each tenant. One takes 40 bytes; an evicted one begins again.
const MAX_SERIES: usize = 512;
/// Queued events of one tenant: the bursts of a few objects, in less than half a megabyte.
const MAX_QUEUED: usize = 128;
/// How long an event waits for the limits of its caller. The run that recorded it may have ended.
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_REASON: usize = 128;
const MAX_NOTE: usize = 1024;

/// Records the events of one cluster.
pub(crate) struct Recorder {
    /// Where writers run.
    host: Handle,
    flows: Mutex<Flows>,
    /// Makes the keys of budgets and series: hashes have a fixed size, and with a random seed guests cannot make them collide.
    hasher: RandomState,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Flows {
    /// Set when the cluster is gone: nothing is queued any more.
    closed: bool,
    of: HashMap<Owner, Flow>,
}

/// The events of one tenant, or of the program.
struct Flow {
    /// At most [`MAX_QUEUED`].
    queued: VecDeque<Queued>,
    /// Whether a task writes the queued events. There is at most one, because an event's count is patched only after its creation.
    has_writer: bool,
    budgets: Budgets,
    series: Recent<Series>,
    used: Instant,
}

struct Queued {
    recorded: Recorded,
    /// Charged to the tenant while it is queued.
    _charge: Option<MemoryCharge>,
}

/// An event, and the client that recorded it.
struct Recorded {
    event: Event,
    client: Client,
    /// The reporting process, if the program itself recorded the event.
    process: Option<Arc<str>>,
    /// Whether the same event of an object is written once, whichever process records it.
    once: bool,
}

struct Series {
    /// Part of the event's name, after the object's.
    salt: u64,
    count: u32,
    last: Instant,
}

impl Recorder {
    /// A recorder whose writers run on the host's runtime.
    pub(crate) fn new(host: Handle) -> Self {
        Self {
            host,
            flows: Mutex::default(),
            hasher: RandomState::new(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Where its writers run.
    pub(crate) fn host(&self) -> &Handle {
        &self.host
    }

    /// Queues an event of a client's caller. An event that is not valid, or for which a budget or the tenant's memory is used up, is
    /// dropped and counted.
    pub(crate) fn record(&self, client: &Client, event: Event) {
        self.enqueue(client, event, client.owner(), None, false);
    }

    /// As [`Recorder::record`], for an event that is written once: processes that record the same texts about the same object make one Event,
    /// as long as the server keeps it.
    pub(crate) fn record_once(&self, client: &Client, event: Event) {
        self.enqueue(client, event, client.owner(), None, true);
    }

    /// As [`Recorder::record`], for an event of the program itself, reported by `process`. Its object is looked for in caches only. With a tenant, it
    /// counts as one of the tenant's.
    pub(crate) fn record_own(
        &self,
        client: &Client,
        event: Event,
        process: &str,
        tenant: Option<&TenantName>,
    ) {
        let owner = tenant.map_or(Owner::Program, |tenant| Owner::Tenant(tenant.clone()));
        let process = cut(process, MAX_REASON).into();
        self.enqueue(client, event, owner, Some(process), false);
    }

    /// Events dropped since the cluster was engaged.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn enqueue(
        &self,
        client: &Client,
        mut event: Event,
        owner: Owner,
        process: Option<Arc<str>>,
        once: bool,
    ) {
        // Before it is queued: the queue is bounded in number, so each event must be bounded in size.
        for (text, limit) in [
            (&mut event.reason, MAX_REASON),
            (&mut event.action, MAX_REASON),
            (&mut event.note, MAX_NOTE),
        ] {
            text.truncate(cut(text, limit).len());
            text.shrink_to_fit();
        }
        let queued = check_reference(&event.kind, &event.key).is_ok()
            && self.try_enqueue(client, event, owner, process, once);
        if !queued {
            client.event_refused();
            self.count_dropped(client);
        }
    }

    fn try_enqueue(
        &self,
        client: &Client,
        event: Event,
        owner: Owner,
        process: Option<Arc<str>>,
        once: bool,
    ) -> bool {
        let (caller, object) = self.budgets_of(client, &event, process.is_some());
        let Ok(charge) = client.charge(size(&event)) else {
            return false;
        };
        let now = Instant::now();
        let mut flows = self.flows.lock();
        if flows.closed {
            return false;
        }
        let flow = flows.flow(&owner, now);
        if flow.queued.len() >= MAX_QUEUED || !flow.budgets.spend(caller, object, now) {
            return false;
        }
        flow.queued.push_back(Queued {
            recorded: Recorded {
                event,
                client: client.clone(),
                process,
                once,
            },
            _charge: charge,
        });
        if !std::mem::replace(&mut flow.has_writer, true) {
            drop(flows);
            self.begin_to_write(client.cluster().clone(), owner);
        }
        true
    }

    fn begin_to_write(&self, cluster: Arc<Cluster>, owner: Owner) {
        let token = cluster.token().clone();
        let writer = cluster.clone();
        let write = async move {
            if token
                .run_until_cancelled(write_all(&writer, &owner))
                .await
                .is_none()
            {
                writer.events().close();
            }
        };
        cluster.tasks().spawn_on(write, &self.host);
    }

    /// Drops all queued events: they hold the cluster in memory, and are never written once the cluster is gone.
    fn close(&self) {
        let mut flows = self.flows.lock();
        flows.closed = true;
        let gone = std::mem::take(&mut flows.of);
        drop(flows);
        drop(gone);
    }

    /// The next queued event; `None` ends the writer.
    fn next(&self, owner: &Owner) -> Option<Queued> {
        let mut flows = self.flows.lock();
        let flow = flows.of.get_mut(owner)?;
        let next = flow.queued.pop_front();
        if next.is_none() {
            flow.queued = VecDeque::new();
            flow.has_writer = false;
        }
        next
    }

    fn count_dropped(&self, client: &Client) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        let tenant = &client.caller().tenant;
        tracing::debug!(%tenant, cluster = %client.cluster_name(), "event not recorded");
    }

    /// Keys of the budgets of a caller and of an object. The program's own events have a budget for each reason, of which there are few:
    /// otherwise hot keys, which guests cause, would use up the budget for refused documents.
    fn budgets_of(&self, client: &Client, event: &Event, own: bool) -> (u64, u64) {
        let manager = &client.caller().field_manager;
        let reason = own.then_some(&event.reason);
        let object = (manager, &event.kind, &event.key, reason);
        (self.hasher.hash_one(manager), self.hasher.hash_one(object))
    }

    fn series_of(&self, client: &Client, event: &Event) -> u64 {
        let text = (
            event.event_type.as_str(),
            &event.reason,
            &event.action,
            &event.note,
        );
        let manager = &client.caller().field_manager;
        self.hasher
            .hash_one((manager, &event.kind, &event.key, text))
    }

    /// Counts an event of a series, and returns its salt and its count. A series that was evicted or is old begins again.
    fn count_up(&self, owner: &Owner, series: u64) -> (u64, u32) {
        let now = Instant::now();
        let begun = || Series {
            salt: fastrand::u64(..),
            count: 0,
            last: now,
        };
        let mut flows = self.flows.lock();
        let series = flows.flow(owner, now).series.entry(series, begun);
        if now.duration_since(series.last) >= AGGREGATE_FOR {
            *series = begun();
        }
        series.count += 1;
        series.last = now;
        (series.salt, series.count)
    }

    fn forget(&self, owner: &Owner, series: u64) {
        if let Some(flow) = self.flows.lock().of.get_mut(owner) {
            flow.series.remove(series);
        }
    }
}

impl Flows {
    fn flow(&mut self, owner: &Owner, now: Instant) -> &mut Flow {
        if !self.of.contains_key(owner) {
            // Tenants come and go. A flow whose budgets are full again has no information left.
            let lives = |flow: &Flow| flow.has_writer || now < flow.used + Budgets::FULL_AFTER;
            self.of.retain(|_, flow| lives(flow));
        }
        let flow = self.of.entry(owner.clone()).or_insert_with(|| Flow {
            queued: VecDeque::new(),
            has_writer: false,
            budgets: Budgets::new(),
            series: Recent::new(MAX_SERIES),
            used: now,
        });
        flow.used = now;
        flow
    }
}

/// Bytes of a queued event.
fn size(event: &Event) -> usize {
    let (kind, key) = (&event.kind, &event.key);
    let names = kind.group.len() + kind.version.len() + kind.kind.len() + key.name.len();
    let texts = event.reason.len() + event.action.len() + event.note.len();
    size_of::<Queued>() + names + key.namespace.as_ref().map_or(0, |n| n.len()) + texts
}

async fn write_all(cluster: &Arc<Cluster>, owner: &Owner) {
    while let Some(next) = cluster.events().next(owner) {
        if !write(cluster, owner, &next.recorded).await {
            cluster.events().count_dropped(&next.recorded.client);
        }
    }
}

/// Writes one event; `false` when it was not written.
async fn write(cluster: &Arc<Cluster>, owner: &Owner, recorded: &Recorded) -> bool {
    let Recorded { event, client, .. } = recorded;
    // Nothing else can be written to a cluster before it has connected, so the writer may wait.
    let Ok(backend) = cluster.connected().await else {
        return false;
    };
    let readable = || {
        let kind = backend.resource(&event.kind);
        kind.is_some_and(|kind| client.may(&kind, Verb::Get, &event.key))
    };
    if recorded.process.is_none() && !readable() {
        return false;
    }
    let until = tokio::time::Instant::now() + PATIENCE;
    let (caller, fence) = (client.caller().clone(), client.fence().cloned());
    let scope = CallScope::of_run(caller, CancellationToken::new(), Some(until), fence);
    let outcome = publish(cluster.events(), owner, &client.for_events(scope), recorded).await;
    if let Err(error) = &outcome {
        let tenant = &client.caller().tenant;
        tracing::debug!(%tenant, cluster = %cluster.name(), code = error.code.as_str(), "event refused");
    }
    outcome.is_ok()
}

async fn publish(
    recorder: &Recorder,
    owner: &Owner,
    client: &Client,
    recorded: &Recorded,
) -> Result<(), ApiError> {
    let event = &recorded.event;
    let kind = GroupVersionKind::new("", "v1", "Event");
    let namespace = event.key.namespace.as_deref().unwrap_or("default");
    if recorded.once {
        return create_once(client, event, namespace).await;
    }
    let series = recorder.series_of(client, event);
    let (mut salt, count) = recorder.count_up(owner, series);
    let time = now_rfc3339();
    if count > 1 {
        let key = ObjectKey::namespaced(namespace, &name_of(&event.key.name, salt));
        let patch = json!({"count": count, "lastTimestamp": time});
        let patch = patch.to_string().into();
        let options = WriteOptions::default();
        let counted = client.patch(&kind, &key, PatchType::Merge, patch, &options);
        match counted.await {
            Err(error) if error.code == ApiCode::NotFound => {}
            counted => return counted.map(drop),
        }
        recorder.forget(owner, series);
        (salt, _) = recorder.count_up(owner, series);
    }
    let made = async {
        let uid = match recorded.process {
            // It may be a document of a file, which no server knows.
            Some(_) => {
                let held = client.held(&event.kind, &event.key);
                held.map_or_else(String::new, |object| object.uid().into_owned())
            }
            None => uid(client, event).await?,
        };
        let name = name_of(&event.key.name, salt);
        let mut object = body(event, &name, namespace, &uid, &time, client.caller());
        if let Some(process) = recorded.process.as_deref() {
            object["source"]["host"] = process.into();
            object["reportingInstance"] = process.into();
        }
        let object = object.to_string().into();
        client.create(&kind, object, &WriteOptions::default()).await
    };
    let made = made.await;
    if made.is_err() {
        recorder.forget(owner, series);
    }
    made.map(drop)
}

/// Creates an event under a name that every process gives it.
async fn create_once(client: &Client, event: &Event, namespace: &str) -> Result<(), ApiError> {
    let kind = GroupVersionKind::new("", "v1", "Event");
    let uid = uid(client, event).await?;
    let name = name_of(&event.key.name, salt_of(&uid, event));
    let object = body(
        event,
        &name,
        namespace,
        &uid,
        &now_rfc3339(),
        client.caller(),
    );
    let object = object.to_string().into();
    match client.create(&kind, object, &WriteOptions::default()).await {
        Err(error) if error.code == ApiCode::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}
