//! The work with kube-rs: a `Controller` per cluster, with as many keys at once as Windlass has. Entry point: [`run`].

use crate::rivals::subject::Finished;
use crate::rivals::work::Given;
use crate::until::until;
use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config, ResourceExt};
use kube_runtime::controller::Action;
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::{Controller, WatchStreamExt, controller, reflector, watcher};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What every reconcile is given.
struct Reconciles {
    client: Client,
    /// Sources and echoes of the cluster.
    store: Store<ConfigMap>,
    /// Sources that were looked at, until all were.
    seen: Arc<Seen>,
    cluster: usize,
}

struct Seen {
    sources: Mutex<HashSet<String>>,
    all: usize,
}

/// Works until it is killed; says so when everything has been looked at.
pub(crate) async fn run(given: &Given, done: Finished) -> Result<()> {
    let seen = Arc::new(Seen {
        sources: Mutex::default(),
        all: given.kubeconfigs.len() * given.objects,
    });
    let mut controllers = tokio::task::JoinSet::new();
    for (cluster, path) in given.kubeconfigs.iter().enumerate() {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        controllers.spawn(control(client, cluster, seen.clone(), given.slots));
    }
    until("every object to be seen", || {
        seen.sources.lock().len() >= seen.all
    })
    .await?;
    done.say();
    controllers.join_all().await;
    Ok(())
}

/// One watch feeds the store, the sources' trigger and that of their echoes.
async fn control(client: Client, cluster: usize, seen: Arc<Seen>, slots: u16) {
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let (reader, writer) = reflector::store_shared(256);
    let sources = writer.subscribe();
    let echoes = writer.subscribe();
    let (Some(sources), Some(echoes)) = (sources, echoes) else {
        return;
    };
    let watch = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect_shared(writer)
        .for_each(|_| std::future::ready(()));
    let sources =
        sources.filter(|object| std::future::ready(object.labels().contains_key("bench")));
    let given = Arc::new(Reconciles {
        client,
        store: reader.clone(),
        seen,
        cluster,
    });
    let controller = Controller::for_shared_stream(sources, reader)
        .with_config(controller::Config::default().concurrency(slots))
        .owns_shared_stream(echoes)
        .run(
            reconcile,
            |_, _: &kube_client::Error, _| Action::requeue(Duration::from_secs(1)),
            given,
        )
        .for_each(|_| std::future::ready(()));
    tokio::join!(watch, controller);
}

async fn reconcile(
    source: Arc<ConfigMap>,
    given: Arc<Reconciles>,
) -> Result<Action, kube_client::Error> {
    let name = source.name_any();
    let namespace = source.namespace().unwrap_or_default();
    let api = Api::<ConfigMap>::namespaced(given.client.clone(), &namespace);
    let of = |object: &ConfigMap, key: &str| {
        let data = object.data.as_ref();
        data.and_then(|data| data.get(key))
            .cloned()
            .unwrap_or_default()
    };
    let wanted = of(&source, "value");
    let out = format!("{name}-out");
    let present = given.store.get(&ObjectRef::new(&out).within(&namespace));
    match present {
        Some(present) if of(&present, "echo") == wanted => {}
        Some(_) => {
            let patch = Patch::Merge(json!({"data": {"echo": wanted}}));
            api.patch(&out, &PatchParams::default(), &patch).await?;
        }
        None => {
            let echo = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(out),
                    owner_references: kube_client::Resource::controller_owner_ref(&*source, &())
                        .map(|owner| vec![owner]),
                    ..Default::default()
                },
                data: Some([("echo".to_owned(), wanted)].into()),
                ..Default::default()
            };
            match api.create(&PostParams::default(), &echo).await {
                // The store does not know yet what this controller has made.
                Err(kube_client::Error::Api(status)) if status.code == 409 => {}
                made => drop(made?),
            }
        }
    }
    let mut seen = given.seen.sources.lock();
    if seen.len() < given.seen.all {
        seen.insert(format!("{}/{name}", given.cluster));
    }
    Ok(Action::await_change())
}
