//! Makes the objects, updates them, and watches for their echoes. Entry point: [`Driver::start`].

use crate::latency::Latency;
use crate::rivals::work::{OBJECT, Place, Work};
use crate::until::until;
use anyhow::{Context as _, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{ListParams, WatchEvent, WatchParams};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use windlass_harness::eventually::{Seen, eventually};

/// Bytes of ballast in each object.
const FILLER: usize = 1_800;
/// Objects that are made or deleted at once.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_secs(600);
/// How long the last echoes of a load may take.
const LAST: Duration = Duration::from_secs(5);

/// What one load showed.
pub(crate) struct Load {
    pub(crate) updates: usize,
    /// From when an update was due to the watch event of its echo.
    pub(crate) latency: Arc<Latency>,
    /// Updates without an echo: one that came before its forerunner's echo is answered together with it.
    pub(crate) unanswered: usize,
}

/// The objects of all clusters, and what their watches tell.
pub(crate) struct Driver {
    places: Vec<Place>,
    objects: usize,
    told: Arc<Told>,
    updates: usize,
    /// Ends with the driver.
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Told {
    /// By watch and UID; what is gone is not in it.
    echoes: Mutex<HashMap<(usize, String), String>>,
    /// Where latencies go, while there is a load.
    load: Mutex<Option<Arc<Latency>>>,
    /// Whether sources are timed in place of echoes.
    sources: std::sync::atomic::AtomicBool,
}

impl Told {
    /// Lists and watches until the watch ends.
    async fn follow(&self, watch: usize, api: &Api<ConfigMap>) -> Result<(), kube_client::Error> {
        let list = api.list(&ListParams::default()).await?;
        // What went between two watches is in no event.
        let uids = list
            .items
            .iter()
            .filter_map(|object| object.metadata.uid.as_deref());
        let present: HashSet<&str> = uids.collect();
        let is_there = |(of, uid): &(usize, String)| *of != watch || present.contains(uid.as_str());
        self.echoes.lock().retain(|echo, _| is_there(echo));
        for object in &list.items {
            self.applied(watch, object);
        }
        let version = list.metadata.resource_version.unwrap_or_default();
        let events = api.watch(&WatchParams::default(), &version).await?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.applied(watch, &object);
                }
                WatchEvent::Deleted(object) => {
                    let uid = object.metadata.uid.unwrap_or_default();
                    self.echoes.lock().remove(&(watch, uid));
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(kube_client::Error::Api(status)),
            }
        }
        Ok(())
    }

    fn applied(&self, watch: usize, object: &ConfigMap) {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let data = |key: &str| object.data.as_ref().and_then(|data| data.get(key));
        let sources = self.sources.load(std::sync::atomic::Ordering::Relaxed);
        if let Some(echo) = data("echo") {
            let known = self.echoes.lock().insert((watch, uid), echo.clone());
            if !sources && known.as_ref() != Some(echo) {
                self.time(echo);
            }
        } else if sources && let Some(value) = data("value") {
            self.time(value);
        }
    }

    /// A value is the time when its update was due.
    fn time(&self, value: &str) {
        let due: u64 = value.parse().unwrap_or(0);
        if let Some(latency) = &*self.load.lock()
            && due > 0
        {
            latency.record(Duration::from_nanos(now().saturating_sub(due)));
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl Driver {
    /// Fills the clusters and watches them.
    pub(crate) async fn start(work: &Work) -> Result<Self> {
        let (places, objects) = (work.places.clone(), work.given.objects);
        let all = (0..objects).flat_map(|n| places.iter().map(move |place| (place, n)));
        let made = all.map(|(place, n)| async move {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("{OBJECT}{n}"), "labels": {"bench": "in"}},
                "data": {"value": "0", "ballast": "x".repeat(FILLER)}});
            place.create(&object).await.context("make an object")
        });
        at_once(made).await?;
        let told = Arc::new(Told::default());
        let mut watches = JoinSet::new();
        for (watch, api) in work.watched.iter().enumerate() {
            let (api, told) = (api.clone(), told.clone());
            watches.spawn(async move {
                // After a watch that ends or fails, the next one begins with a list.
                loop {
                    if let Err(error) = told.follow(watch, &api).await {
                        eprintln!("the driver's watch broke: {error}");
                    }
                }
            });
        }
        Ok(Self {
            places,
            objects,
            told,
            updates: 0,
            _watches: watches,
        })
    }

    /// Takes every echo away, and waits until the watches have told so.
    pub(crate) async fn remove_echoes(&self) -> Result<()> {
        at_once(self.places.iter().map(|place| place.delete("!bench"))).await?;
        eventually(PATIENCE, "no echo to be left", || async {
            Ok(Seen::of(self.told.echoes.lock().len(), |n| *n == 0))
        })
        .await
        .map(drop)
    }

    /// The time from a start until every object has its echo.
    pub(crate) async fn all_echoed(&self, since: Instant) -> Result<Duration> {
        eventually(PATIENCE, "an echo of every object", || async {
            let echoes = self.told.echoes.lock().len();
            let all = self.places.len() * self.objects;
            Ok(Seen::of(echoes, |n| *n >= all))
        })
        .await?;
        Ok(since.elapsed())
    }

    /// From when a patch was due to its own watch event, with no subject.
    pub(crate) async fn floor(&mut self, rate: f64, time: Duration) -> Result<Arc<Latency>> {
        let sources = &self.told.clone().sources;
        sources.store(true, std::sync::atomic::Ordering::Relaxed);
        let load = self.load(rate, time).await?;
        sources.store(false, std::sync::atomic::Ordering::Relaxed);
        Ok(load.latency)
    }

    /// Updates objects of all clusters in turn, at random times that make this many a second.
    pub(crate) async fn load(&mut self, rate: f64, time: Duration) -> Result<Load> {
        let latency = Arc::new(Latency::default());
        *self.told.load.lock() = Some(latency.clone());
        // One clock for waiting and for what updates say: two may drift apart by more than a latency within a load.
        let began = now();
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut due, mut updates) = (0.0, 0);
        let mut patches = JoinSet::new();
        loop {
            due += -(1.0 - rng.f64()).ln() / rate;
            if due > time.as_secs_f64() {
                break;
            }
            let due_at = began + (due * 1e9) as u64;
            // Not a wait: it keeps the rate.
            tokio::time::sleep(Duration::from_nanos(due_at.saturating_sub(now()))).await;
            let places = self.places.len();
            let place = self.places[self.updates % places].clone();
            let name = format!("{OBJECT}{}", self.updates / places % self.objects);
            let value = due_at.to_string();
            self.updates += 1;
            updates += 1;
            patches.spawn(async move {
                let patch = json!({"data": {"value": value}});
                place.patch(&name, &patch).await
            });
            while let Some(done) = patches.try_join_next() {
                done?.context("update an object")?;
            }
        }
        while let Some(done) = patches.join_next().await {
            done?.context("update an object")?;
        }
        let last = until("every echo", || latency.count() >= updates);
        let _ = tokio::time::timeout(LAST, last).await;
        *self.told.load.lock() = None;
        Ok(Load {
            updates,
            unanswered: updates.saturating_sub(latency.count()),
            latency,
        })
    }
}

/// Makes many calls, some of them at once.
async fn at_once(calls: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let mut calls = futures::stream::iter(calls).buffer_unordered(AT_ONCE);
    while let Some(done) = calls.next().await {
        done?;
    }
    Ok(())
}
