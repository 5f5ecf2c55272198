//! Clusters in memory for the tests of native reconcilers. Entry point: [`TestFleet::start`].
//!
//! The servers are those of `windlass-apiserver`, which answer as kube-apiserver does; the manager, its caches and its queue are the real ones.
//!
//! ```
//! use serde_json::json;
//! use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
//! use windlass_fleet::{Action, Context, Controller, ObjectKey, Result};
//! use windlass_testing::TestFleet;
//!
//! /// Paints ConfigMaps blue.
//! async fn paint(context: Context) -> Result<Action> {
//!     let blue = json!({"data": {"color": "blue"}});
//!     context.typed_client().patch::<ConfigMap>(&context.request.key, &blue).await?;
//!     Ok(Action::Done)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let painter = Controller::of::<ConfigMap>("painter").labels("paint").build(paint)?;
//!     let fleet = TestFleet::start(&["alpha", "beta"], [painter]).await?;
//!     fleet.put("beta", &json!({
//!         "apiVersion": "v1", "kind": "ConfigMap",
//!         "metadata": {"namespace": "default", "name": "wall", "labels": {"paint": "yes"}},
//!     }))?;
//!     fleet.idle().await?;
//!     let wall = fleet.client("beta")?.get_live::<ConfigMap>(&ObjectKey::namespaced("default", "wall")).await?;
//!     assert_eq!(wall.and_then(|wall| wall.data).unwrap_or_default()["color"], "blue");
//!     fleet.stop().await?;
//!     Ok(())
//! }
//! ```

use futures::future::BoxFuture;
use http::Uri;
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_apiserver::{Entrance, Server};
use windlass_fleet::cluster::{Cluster, ClusterConfig, ConfigError, OpenStream, Stream};
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::{Idle, KeyStatus, ManagerError, ManagerHandle, ManagerOptions};
use windlass_fleet::name::NameError;
use windlass_fleet::provider::clusters::Clusters;
use windlass_fleet::{
    ClusterName, Controller, Grant, GroupVersionKind, Manager, Object, ObjectKey, TypedClient,
};

/// How long [`TestFleet::idle`] waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the manager is asked.
const INTERVAL: Duration = Duration::from_millis(20);

/// How many times in a row the manager must be idle: the servers' garbage collectors work a moment later.
const STEADY: u32 = 3;

/// Failures in a row after which a key is not waited for any more.
const FAILURES: u32 = 3;

/// Why a test's fleet cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// A cluster has no name that a cluster can have.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The server's address is no address of a cluster.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The manager cannot be built, or it failed.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// The manager's task panicked.
    #[error("the manager ended: {0}")]
    Ended(#[from] tokio::task::JoinError),
    /// A cluster has no name, or the name of another one.
    #[error("there is a cluster {0:?} without a name of its own: give each another name")]
    Repeated(String),
    /// There is no cluster of this name.
    #[error("there is no cluster {0:?}: name it when the fleet starts")]
    NoCluster(String),
    /// The object is not JSON.
    #[error("the object cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The server refused the object, or does not serve its kind.
    #[error("cluster {cluster:?} refuses the object: {reason}")]
    Refused {
        /// The cluster.
        cluster: String,
        /// The server's reason.
        reason: String,
    },
    /// Keys fail again and again, or failed for good.
    #[error("reconciles fail: {}", .0.join("; "))]
    Failing(Vec<String>),
    /// Something is left to do after a minute.
    #[error("not idle after {PATIENCE:?}: {}", .0.join("; "))]
    Busy(Vec<String>),
}

impl TestError {
    fn refused(cluster: &str, reason: &windlass_apiserver::ApiError) -> Self {
        Self::Refused {
            cluster: cluster.to_owned(),
            reason: reason.message.clone(),
        }
    }
}

/// Clusters in memory, and a manager over them that runs. The manager drains when this value is dropped.
pub struct TestFleet {
    server: Server,
    handle: ManagerHandle,
    stop: DropGuard,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl TestFleet {
    /// Starts empty clusters of these names, and controllers over them. A namespace `default` is in each.
    ///
    /// # Errors
    /// [`TestError`] if a name is none, or two clusters or two controllers have one name.
    pub async fn start(
        clusters: &[&str],
        controllers: impl IntoIterator<Item = Controller>,
    ) -> Result<Self, TestError> {
        Self::start_with(clusters, &[], controllers).await
    }

    /// As [`TestFleet::start`], over clusters that have these objects from the beginning: the CustomResourceDefinitions of your kinds.
    ///
    /// # Errors
    /// As [`TestFleet::start`]; [`TestError::Refused`].
    pub async fn start_with(
        clusters: &[&str],
        objects: &[Value],
        controllers: impl IntoIterator<Item = Controller>,
    ) -> Result<Self, TestError> {
        for (count, name) in clusters.iter().enumerate() {
            if name.is_empty() || clusters[..count].contains(name) {
                return Err(TestError::Repeated((*name).to_owned()));
            }
        }
        let named = clusters
            .iter()
            .fold(Server::builder(), |server, name| server.cluster(*name));
        let server = named.in_process();
        let provider = Clusters::new("test");
        for name in clusters {
            for object in objects {
                put(&server, name, object.clone())?;
            }
            let config = ClusterConfig::from_url(&server.url(name))?;
            provider.put(ClusterSpec::new(ClusterName::new(name)?, config));
        }
        let mut options = ManagerOptions::default();
        options.transport.streams = Some(Arc::new(InMemory(server.entrance())));
        let builder = Manager::builder()
            .options(options)
            .provider(Arc::new(provider));
        let builder = controllers
            .into_iter()
            .fold(builder, |builder, controller| {
                builder.controller(controller)
            });
        let bound = builder.build()?.bind();
        let (handle, stop) = (bound.handle(), CancellationToken::new());
        let running = tokio::spawn(bound.run(stop.clone()));
        // The provider engages them at once, before they are reached.
        let until = Instant::now() + PATIENCE;
        while handle.fleet().clusters().len() < clusters.len() && !running.is_finished() {
            if Instant::now() > until {
                return Err(TestError::Busy(vec!["not all clusters are engaged".into()]));
            }
            sleep(INTERVAL).await;
        }
        Ok(Self {
            server,
            handle,
            stop: stop.drop_guard(),
            running,
        })
    }

    /// Creates an object, or changes it, as another writer does: a forced server-side apply. The object has `apiVersion` and `kind`.
    ///
    /// # Errors
    /// [`TestError::Refused`], [`TestError::NoCluster`].
    pub fn put(&self, cluster: &str, object: &impl Serialize) -> Result<(), TestError> {
        put(&self.server, cluster, serde_json::to_value(object)?)
    }

    /// An object as the server has it; `None` if there is none.
    ///
    /// # Errors
    /// [`TestError::Refused`] for a kind that is not served, [`TestError::NoCluster`].
    pub fn object(
        &self,
        cluster: &str,
        kind: &GroupVersionKind,
        key: &ObjectKey,
    ) -> Result<Option<Object>, TestError> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let found = simulated(&self.server, cluster)?.get(
            &kind.api_version(),
            &kind.kind,
            namespace,
            &key.name,
        );
        let found = found.map_err(|error| TestError::refused(cluster, &error))?;
        Ok(found.map(Object))
    }

    /// A client of a cluster with all rights. [`TypedClient::get_live`] asks the server and no cache.
    ///
    /// # Errors
    /// [`TestError::NoCluster`].
    pub fn client(&self, cluster: &str) -> Result<TypedClient, TestError> {
        let found = self.handle.fleet().cluster(&ClusterName::new(cluster)?);
        let found: Arc<Cluster> = found.ok_or_else(|| TestError::NoCluster(cluster.to_owned()))?;
        Ok(found.client(Grant::all()).typed())
    }

    /// The server's side of a cluster: what it was asked, and how it is made to fail.
    ///
    /// # Errors
    /// [`TestError::NoCluster`].
    pub fn simulated(&self, cluster: &str) -> Result<windlass_apiserver::Cluster, TestError> {
        simulated(&self.server, cluster)
    }

    /// The manager.
    #[must_use]
    pub fn manager(&self) -> &ManagerHandle {
        &self.handle
    }

    /// Waits until every cluster is ready, every kind that a controller watches is served in one of them, every event has been reconciled,
    /// and nothing is left to do. A delayed requeue is not waited for.
    ///
    /// # Errors
    /// [`TestError::Failing`] if a key failed for good, or three times in a row with nothing else left to do. [`TestError::Busy`] after a
    /// minute.
    pub async fn idle(&self) -> Result<(), TestError> {
        let until = Instant::now() + PATIENCE;
        let mut steady = 0;
        loop {
            let now = self.handle.idle().await;
            if gave_up(&now) {
                let failing = now.failing.iter().chain(&now.terminal);
                return Err(TestError::Failing(failing.map(described).collect()));
            }
            steady = if now.idle && now.unwatched.is_empty() {
                steady + 1
            } else {
                0
            };
            if steady >= STEADY {
                return Ok(());
            }
            if Instant::now() > until {
                let unwatched = now.busy.into_iter().chain(now.unwatched);
                return Err(TestError::Busy(unwatched.collect()));
            }
            sleep(INTERVAL).await;
        }
    }

    /// Drains the manager and waits for its end.
    ///
    /// # Errors
    /// [`TestError::Manager`].
    pub async fn stop(self) -> Result<(), TestError> {
        drop(self.stop);
        Ok(self.running.await??)
    }
}

/// Reaches the server without sockets, whatever the host.
#[derive(Debug)]
struct InMemory(Entrance);

impl OpenStream for InMemory {
    fn open(&self, _: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let stream: Box<dyn Stream> = Box::new(self.0.connect());
        Box::pin(std::future::ready(Ok(stream)))
    }
}

fn put(server: &Server, cluster: &str, object: Value) -> Result<(), TestError> {
    let applied = simulated(server, cluster)?.apply(object);
    applied
        .map(drop)
        .map_err(|error| TestError::refused(cluster, &error))
}

fn simulated(server: &Server, cluster: &str) -> Result<windlass_apiserver::Cluster, TestError> {
    let found = server.cluster(cluster);
    found.ok_or_else(|| TestError::NoCluster(cluster.to_owned()))
}

/// Whether nothing is left but keys that fail.
fn gave_up(now: &Idle) -> bool {
    now.idle && !now.terminal.is_empty()
        || now.least_failures.is_some_and(|least| least >= FAILURES)
}

fn described(key: &KeyStatus) -> String {
    let failure = key.queued.last_failure.as_ref();
    let message = failure.map_or("no message is kept", |failure| &*failure.message);
    format!("{} of {}: {message}", key.queued.request, key.controller)
}

/// The programs of the page for authors of native reconcilers.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/native.md")]
struct Page;

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use kube::Api;
    use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
    use serde_json::json;
    use windlass_fleet::k8s_openapi::api::core::v1::ConfigMap;
    use windlass_fleet::{Action, Context, Failure};

    /// Fails as the ConfigMap says.
    async fn fail(context: Context) -> windlass_fleet::Result<Action> {
        let cluster = context.typed_client();
        let map = cluster.get::<ConfigMap>(&context.request.key).await?;
        let data = map.and_then(|map| map.data).unwrap_or_default();
        match data.get("fail").map(String::as_str) {
            Some("once more") => Err(Failure::retry("it fails")),
            Some("for good") => Err(Failure::terminal("it is over")),
            _ => Ok(Action::Done),
        }
    }

    async fn fleet() -> TestFleet {
        let failing = Controller::of::<ConfigMap>("failing").build(fail).unwrap();
        TestFleet::start(&["alpha"], [failing]).await.unwrap()
    }

    fn map(fail: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}, "data": {"fail": fail}})
    }

    #[tokio::test]
    async fn a_fleet_without_objects_is_idle_and_its_clusters_are_there() {
        let fleet = fleet().await;
        fleet.idle().await.unwrap();
        assert!(fleet.client("alpha").is_ok());
        assert!(matches!(fleet.client("beta"), Err(TestError::NoCluster(_))));
        fleet.stop().await.unwrap();
    }

    #[tokio::test]
    async fn reconciles_that_fail_are_told() {
        let fleet = fleet().await;
        for (fail, message) in [("once more", "it fails"), ("for good", "it is over")] {
            fleet.put("alpha", &map(fail)).unwrap();
            let error = fleet.idle().await.unwrap_err().to_string();
            assert!(error.starts_with("reconciles fail: cluster://alpha/default/a of failing: "));
            assert!(error.ends_with(message), "{error}");
        }
        fleet.put("alpha", &map("no more")).unwrap();
        fleet.idle().await.unwrap();
        fleet.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_client_of_kube_watches_writes_and_reads_errors() {
        let fleet = TestFleet::start(&["alpha"], []).await.unwrap();
        let service = fleet.client("alpha").unwrap().raw().http_service();
        let client = kube::Client::new(service.unwrap(), "default");
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let events = maps.watch(&WatchParams::default(), "0").await.unwrap();
        let mut events = std::pin::pin!(events);
        fleet.put("alpha", &map("no more")).unwrap();
        let named = async {
            loop {
                let event = events.next().await.unwrap().unwrap();
                if let WatchEvent::Added(map) = event
                    && map.metadata.name.as_deref() == Some("a")
                {
                    return map;
                }
            }
        };
        let seen = tokio::time::timeout(PATIENCE, named).await.unwrap();
        assert_eq!(seen.data.unwrap()["fail"], "no more");
        let merge = Patch::Merge(json!({"data": {"color": "blue"}}));
        let patched = maps.patch("a", &PatchParams::default(), &merge).await;
        assert_eq!(patched.unwrap().data.unwrap()["color"], "blue");
        let missing = maps.get("b").await.unwrap_err();
        assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
        fleet.stop().await.unwrap();
    }

    #[tokio::test]
    async fn an_object_that_the_server_refuses_is_no_object() {
        let fleet = fleet().await;
        let unknown = json!({"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "a"}});
        let refused = fleet.put("alpha", &unknown).unwrap_err();
        assert!(matches!(refused, TestError::Refused { .. }));
        fleet.stop().await.unwrap();
    }
}
