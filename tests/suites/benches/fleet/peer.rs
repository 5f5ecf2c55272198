//! kube-rs's `Controller` on the same clusters: one per cluster, as it has no notion of several. Entry point: [`Peers::start`].

use super::simulated::Simulated;
use crate::until::until;
use anyhow::Result;
use futures::StreamExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, Config, ResourceExt};
pub(crate) use kube_runtime::controller::Action;
use kube_runtime::{Controller, controller, watcher};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// What is done with an object.
pub(crate) type Work = Arc<dyn Fn(Arc<ConfigMap>) -> BoxFuture<'static, Action> + Send + Sync>;

/// Running controllers; they end with this value.
pub(crate) struct Peers {
    seen: Arc<Seen>,
    _controllers: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    ran: AtomicUsize,
    /// Which objects have been looked at as of an update sent at this time or later.
    objects: Mutex<(u64, HashSet<String>)>,
}

/// What every reconcile is given.
struct Given {
    cluster: usize,
    work: Work,
    seen: Arc<Seen>,
}

impl Peers {
    /// Starts a controller for each cluster, each running so many keys at once.
    pub(crate) fn start(
        server: &Simulated,
        clusters: usize,
        concurrency: usize,
        work: Work,
    ) -> Result<Self> {
        let seen = Arc::new(Seen::default());
        let mut controllers = JoinSet::new();
        for cluster in 0..clusters {
            let client = Client::try_from(Config::new(server.url(cluster).parse()?))?;
            let given = Arc::new(Given {
                cluster,
                work: work.clone(),
                seen: seen.clone(),
            });
            let bounds = controller::Config::default().concurrency(u16::try_from(concurrency)?);
            let running =
                Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
                    .with_config(bounds)
                    .run(reconcile, |_, never: &Infallible, _| match *never {}, given);
            controllers.spawn(running.for_each(|_| std::future::ready(())));
        }
        Ok(Self {
            seen,
            _controllers: controllers,
        })
    }

    /// Forgets what was seen, and counts objects from now on whose update was sent at this time or later.
    pub(crate) fn expect(&self, since: u64) {
        *self.seen.objects.lock() = (since, HashSet::new());
        self.seen.ran.store(0, Ordering::Relaxed);
    }

    /// Waits until so many objects have been seen.
    pub(crate) async fn all_seen(&self, objects: usize) -> Result<()> {
        until("every object to be seen", || {
            self.seen.objects.lock().1.len() >= objects
        })
        .await
    }

    /// Reconciles since [`Peers::expect`].
    pub(crate) fn ran(&self) -> usize {
        self.seen.ran.load(Ordering::Relaxed)
    }
}

async fn reconcile(object: Arc<ConfigMap>, given: Arc<Given>) -> Result<Action, Infallible> {
    let action = (given.work)(object.clone()).await;
    given.seen.ran.fetch_add(1, Ordering::Relaxed);
    let mut objects = given.seen.objects.lock();
    if sent(&object) >= objects.0 {
        let name = format!("{}/{}", given.cluster, object.name_any());
        objects.1.insert(name);
    }
    Ok(action)
}

/// When the object's last update was to be made, in nanoseconds since the epoch.
pub(crate) fn sent(object: &ConfigMap) -> u64 {
    let data = object.data.as_ref().and_then(|data| data.get("sent"));
    data.and_then(|sent| sent.parse().ok()).unwrap_or(0)
}
