//! A running manager whose controller feeds the animals of a test, in every cluster. Entry point: [`Play::start`].

use crate::stage::SOON;
use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use windlass_fleet::api::{ListOptions, WriteOptions};
use windlass_fleet::cluster::{Cluster, ClusterState};
use windlass_fleet::manager::Builder;
use windlass_fleet::provider::{Problem, Provider};
use windlass_fleet::source::{Enqueue, Index, Watch};
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind, Request,
};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::fleet::RunningManager;

/// The label with the name of the test that an object belongs to.
const MARK: &str = "animal-of";

pub(crate) fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

/// An object that a controller has to feed.
pub(crate) fn marked(mark: &str, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {MARK: mark}},
        "data": {"species": name}})
}

/// Puts food into every object of a test that has none.
#[derive(Default)]
pub(crate) struct Feeder {
    /// How many objects the index had of the last animal's species, in the request's cluster and namespace.
    alike: Mutex<BTreeMap<Request, usize>>,
}

impl Feeder {
    /// The controller, with an index of the animals by species.
    pub(crate) fn controller(self: &Arc<Self>, mark: &str) -> Controller {
        let mut animals = Watch::new(config_map(), Enqueue::Primary);
        let selector = format!("{MARK}={mark}");
        animals.label_selector = Some(selector.parse().expect("a valid selector"));
        let by_species = Index {
            kind: config_map(),
            name: "species".into(),
            path: "data.species".parse().expect("a valid path"),
            namespace_path: None,
        };
        let feeder = self.clone();
        let reconcile = move |context: Context| {
            let feeder = feeder.clone();
            async move {
                let request = context.request.clone();
                let alike = alike(&context).await?;
                feeder.alike.lock().insert(request, alike);
                feed(context).await
            }
        };
        Controller::builder(ControllerName::new("feeder").expect("a valid name"))
            .watch(animals)
            .index(by_species)
            .build(Arc::new(reconcile))
            .expect("a valid controller")
    }

    /// How many objects the index had of the species of an animal, when it was last looked at.
    pub(crate) fn alike(&self, request: &Request) -> Option<usize> {
        self.alike.lock().get(request).copied()
    }
}

/// How many objects the index of the controller has of a species, which is the name of the request's object.
async fn alike(context: &Context) -> Result<usize, Failure> {
    let key = &context.request.key;
    let by_species = ListOptions {
        namespace: key.namespace.as_ref().map(ToString::to_string),
        index: Some(("species".into(), key.name.to_string())),
        ..ListOptions::default()
    };
    let client = context.client(&Arc::new(Grant::all()));
    Ok(client.list(&config_map(), &by_species).await?.items.len())
}

/// The reconciler, which knows nothing of providers.
pub(crate) async fn feed(context: Context) -> Result<Action, Failure> {
    let client = context.typed_client();
    let key = &context.request.key;
    let Some(animal) = client.get::<ConfigMap>(key).await? else {
        return Ok(Action::Done);
    };
    let stomach = |map: &ConfigMap| map.data.as_ref()?.get("stomach").cloned();
    if stomach(&animal).as_deref() == Some("food") {
        return Ok(Action::Done);
    }
    let fed = ConfigMap {
        metadata: ObjectMeta {
            name: animal.metadata.name,
            namespace: animal.metadata.namespace,
            ..ObjectMeta::default()
        },
        data: Some([("stomach".to_owned(), "food".to_owned())].into()),
        ..ConfigMap::default()
    };
    client.force_apply(&fed).await?;
    Ok(Action::Done)
}

/// A running manager. Its parts are used through `Deref`.
pub(crate) struct Play {
    manager: RunningManager,
    pub(crate) feeder: Arc<Feeder>,
}

impl Deref for Play {
    type Target = RunningManager;

    fn deref(&self) -> &RunningManager {
        &self.manager
    }
}

impl Play {
    /// Starts a manager with these providers and a [`Feeder`] of the test.
    pub(crate) fn start(
        builder: Builder,
        mark: &str,
        providers: Vec<Arc<dyn Provider>>,
    ) -> Result<Self> {
        let feeder = Arc::new(Feeder::default());
        let builder = builder.controller(feeder.controller(mark));
        let builder = providers.into_iter().fold(builder, Builder::provider);
        Ok(Self {
            manager: RunningManager::start(builder)?,
            feeder,
        })
    }

    /// Names of the clusters that are engaged, the local one left out.
    pub(crate) fn names(&self) -> Vec<String> {
        let clusters = self.handle.clusters().into_iter();
        let names = clusters.map(|cluster| cluster.name.to_string());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Waits until exactly these clusters are engaged, whatever their state.
    pub(crate) async fn has(&self, wanted: &[&str]) -> Result<()> {
        eventually(SOON, &format!("the clusters {wanted:?}"), || async {
            let problems = self.handle.provider_problems();
            Ok(Seen::of((self.names(), problems), |(names, _)| {
                names == wanted
            }))
        })
        .await
        .map(drop)
    }

    /// Waits until exactly these clusters are engaged, and all of them are ready.
    pub(crate) async fn engaged(&self, wanted: &[&str]) -> Result<()> {
        self.has(wanted).await?;
        for cluster in wanted {
            self.ready_soon(cluster).await?;
        }
        Ok(())
    }

    /// Waits until a cluster is ready, and returns it.
    pub(crate) async fn ready_soon(&self, cluster: &str) -> Result<Arc<Cluster>> {
        eventually(SOON, &format!("{cluster} to be ready"), || async {
            let status = self.status(cluster)?;
            Ok(Seen::of(status, |now| now.state == ClusterState::Ready))
        })
        .await?;
        self.manager
            .engaged(cluster)
            .context("not engaged any more")
    }

    /// Waits until a problem with this subject is reported.
    pub(crate) async fn problem(&self, subject: &str) -> Result<String> {
        eventually(SOON, &format!("a problem of {subject}"), || async {
            let all = self.handle.provider_problems();
            let found = all.iter().find(|problem| problem.subject == subject);
            Ok(match found {
                Some(problem) => Seen::Yes(problem.message.clone()),
                None => Seen::NotYet(format!("{all:?}")),
            })
        })
        .await
    }

    /// Waits until a problem is reported whose message has this text.
    pub(crate) async fn problem_that_holds(&self, text: &str) -> Result<()> {
        eventually(SOON, &format!("a problem with {text:?}"), || async {
            let all = self.handle.provider_problems();
            Ok(Seen::of(all, |all| {
                all.iter().any(|problem| problem.message.contains(text))
            }))
        })
        .await
        .map(drop)
    }

    /// Waits until nothing is reported.
    pub(crate) async fn no_problem(&self) -> Result<()> {
        eventually(SOON, "no problem", || async {
            let all: Vec<Problem> = self.handle.provider_problems();
            Ok(Seen::of(all, Vec::is_empty))
        })
        .await
        .map(drop)
    }

    /// Whether a cluster is still the very one that it was.
    pub(crate) fn is_still(&self, before: &Arc<Cluster>) -> bool {
        let now = self.manager.engaged(before.name().as_str());
        now.is_some_and(|now| Arc::ptr_eq(&now, before))
    }

    /// Ends the manager.
    pub(crate) async fn end(self) -> Result<()> {
        self.manager.stop().await
    }
}

/// Waits until a cluster is used as this user.
pub(crate) async fn is_user(cluster: &Arc<Cluster>, user: &str) -> Result<()> {
    let kind = GroupVersionKind::new("authentication.k8s.io", "v1", "SelfSubjectReview");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let client = cluster.client(Grant::all());
    eventually(SOON, &format!("a cluster to be used as {user}"), || async {
        let body = bytes::Bytes::from(review.to_string());
        let answer = client
            .create(&kind, body, &WriteOptions::default())
            .await
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let name = answer["status"]["userInfo"]["username"].clone();
        Ok(Seen::of(name, |name| name == user))
    })
    .await
    .map(drop)
}
