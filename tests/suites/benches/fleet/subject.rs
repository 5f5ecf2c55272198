//! The engine under test: a manager with one controller on simulated clusters. Entry points: [`controller`] and [`synced`].

use crate::rig;
use crate::until::until;
use anyhow::Result;
use bytes::Bytes;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;
use windlass_fleet::api::GetOptions;
use windlass_fleet::controller::{Builder, ControllerOptions};
use windlass_fleet::source::{Enqueue, Watch};
use windlass_fleet::{Client, Context, Controller, ControllerName, Failure, Grant, Reconciler};
use windlass_harness::fleet::RunningManager;

/// Keys of a controller that run at once, in one cluster or in many.
pub(crate) const CONCURRENCY: usize = 64;

/// A controller of ConfigMaps, of those that a label selector names if one is given.
pub(crate) fn watching(name: &str, selector: Option<&str>, concurrency: usize) -> Result<Builder> {
    let options = ControllerOptions {
        concurrency: Some(concurrency),
        concurrency_per_cluster: concurrency,
        ..ControllerOptions::default()
    };
    Ok(named(name, selector)?.options(options))
}

/// A controller of all ConfigMaps, of which as much runs at once as by default.
pub(crate) fn with_defaults() -> Result<Builder> {
    named("subject", None)
}

fn named(name: &str, selector: Option<&str>) -> Result<Builder> {
    let mut watch = Watch::new(rig::config_map(), Enqueue::Primary);
    watch.label_selector = selector.map(str::parse).transpose()?;
    Ok(Controller::builder(ControllerName::new(name)?).watch(watch))
}

/// The controller of all ConfigMaps.
pub(crate) fn controller(reconciler: Arc<dyn Reconciler>) -> Result<Controller> {
    Ok(watching("subject", None, CONCURRENCY)?.build(reconciler)?)
}

/// What reconcilers look at.
#[derive(Deserialize)]
pub(crate) struct Sent<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, default)]
    seen: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    sent: Cow<'a, str>,
}

impl Sent<'_> {
    /// Reads an object.
    pub(crate) fn of(object: &Bytes) -> Result<Sent<'_>, Failure> {
        serde_json::from_slice(object).map_err(|error| Failure::terminal(error.to_string()))
    }

    /// When the last update was to be made, in nanoseconds since the epoch.
    pub(crate) fn at(&self) -> u64 {
        self.data.sent.parse().unwrap_or(0)
    }

    /// Whether the update has been answered.
    pub(crate) fn is_answered(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.seen == self.data.sent)
    }
}

/// The request's object from the cache, and a client to write with.
pub(crate) async fn read(context: &Context) -> Result<(Client, Option<Bytes>), Failure> {
    let client = context.client(&Arc::new(Grant::all()));
    let (kind, key) = (rig::config_map(), &context.request.key);
    let object = client.get(&kind, key, &GetOptions::default()).await?;
    Ok((client, object))
}

/// Waits until caches have come to these versions of their clusters.
pub(crate) async fn synced(manager: &RunningManager, versions: &[u64]) -> Result<()> {
    let behind = || {
        let clusters = manager.handle.clusters();
        clusters.iter().any(|cluster| {
            let number = cluster.name.trim_start_matches('c').parse::<usize>();
            let wanted = number.ok().and_then(|number| versions.get(number).copied());
            let version = |store: &windlass_fleet::cluster::StoreStatus| store.version.parse().ok();
            let seen = cluster.stores.iter().filter_map(version).min();
            seen < wanted
        })
    };
    until("the caches to be in step", || !behind()).await
}

/// Waits until no key is ready or runs.
pub(crate) async fn settled(manager: &RunningManager) -> Result<()> {
    let busy = || {
        let controllers = manager.handle.controllers();
        controllers
            .iter()
            .any(|c| c.ready + c.running + c.backoff > 0)
    };
    until("an idle queue", || !busy()).await
}
