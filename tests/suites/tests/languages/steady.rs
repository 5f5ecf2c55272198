//! Desired objects on a real server: written once, never again, and repaired. Entry point: [`is_steady`].
//!
//! A real server keeps many things in another form than they are sent. Only it can show that nothing is applied again because of that.

use crate::book::{Book, Entry, listen};
use crate::components;
use crate::subject::{Component, Subject, parts, rules};
use anyhow::{Context as _, Result, ensure};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube_client::{Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use windlass_fleet::cluster::KubeconfigPolicy;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, Manager, Reconciler, TenantName,
};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::fleet::RunningManager;
use windlass_harness::testenv::{Environment, Spec};

const RUNS: usize = 50;
/// A real server takes some seconds to start, and more on a loaded machine.
const SOON: Duration = Duration::from_secs(90);
/// Longest run.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The resources that the case writes.
const RESOURCES: [&str; 3] = ["configmaps", "deployments", "secrets"];
/// The request whose object asks for the case.
const PRIMARY: &str = "case";

/// Runs a language's conformance reconciler on a real server.
pub(crate) async fn is_steady(language: &'static str) -> Result<()> {
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let alpha = environment.server("alpha");
    let client = alpha.client().await?;
    let subject = Subject::Guest(Component::new(language, components::load(language).await?));
    let (again, manager) = start(&subject).await?;
    manager.add_from("alpha", &alpha.kubeconfig(), &KubeconfigPolicy::file())?;
    ask(&client).await?;

    again.run(1).await?;
    let before = writes(&client).await?;
    again.run(RUNS).await?;
    let written = writes(&client).await? - before;
    ensure!(
        written == 0,
        "{written} writes in {RUNS} runs that had nothing to do, the last of {:?}",
        again.last_written()
    );

    for change in CHANGES {
        change_is_repaired(&client, &again, &change).await?;
    }
    Ok(())
}

/// A change by another, of a field that is kept in another form than it was sent, and of one that is kept as it is.
struct Change {
    kind: &'static str,
    name: &'static str,
    pointer: &'static str,
    /// A strategic merge patch.
    patch: &'static str,
}

const CHANGES: [Change; 5] = [
    Change {
        kind: "Deployment",
        name: "cpu-milli",
        pointer: "/spec/template/spec/containers/0/resources/limits/cpu",
        patch: r#"{"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "2"}}}]}}}}"#,
    },
    Change {
        kind: "Deployment",
        name: "env-empty",
        pointer: "/spec/template/spec/containers/0/env/0/value",
        patch: r#"{"spec": {"template": {"spec": {"containers": [{"name": "app", "env": [{"name": "A", "value": "another"}]}]}}}}"#,
    },
    Change {
        kind: "Deployment",
        name: "env-empty",
        pointer: "/spec/template/spec/containers/0/env/1/value",
        patch: r#"{"spec": {"template": {"spec": {"containers": [{"name": "app", "env": [{"name": "B", "value": "another"}]}]}}}}"#,
    },
    Change {
        kind: "ConfigMap",
        name: "value-empty",
        pointer: "/data/a",
        patch: r#"{"data": {"a": "another"}}"#,
    },
    Change {
        kind: "Secret",
        name: "texts",
        pointer: "/data/password",
        patch: r#"{"data": {"password": "YW5vdGhlcg=="}}"#,
    },
];

async fn change_is_repaired(client: &Client, again: &Again, change: &Change) -> Result<()> {
    let group = match change.kind {
        "Deployment" => "apps",
        _ => "",
    };
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", change.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let before = api.get(change.name).await?;
    let was = before.data.pointer(change.pointer).cloned();
    let patch: Value = serde_json::from_str(change.patch)?;
    let params = PatchParams::default();
    let changed = api
        .patch(change.name, &params, &Patch::Strategic(patch))
        .await?;
    ensure!(changed.resource_version() != before.resource_version());
    let what = format!("{} {}{}", change.kind, change.name, change.pointer);
    eventually(SOON, &format!("the repair of {what}"), || async {
        again.run(1).await?;
        let now = api.get(change.name).await?;
        Ok(Seen::of(now.data.pointer(change.pointer).cloned(), |now| {
            *now == was
        }))
    })
    .await?;
    let before = writes(client).await?;
    again.run(2).await?;
    let written = writes(client).await? - before;
    ensure!(written == 0, "{written} writes after the repair of {what}");
    Ok(())
}

/// Asks for the case `ensure`, with the objects of `guests/conformance/desired.json`.
async fn ask(client: &Client) -> Result<()> {
    let path = windlass_harness::repository().join("guests/conformance/desired.json");
    let objects = std::fs::read_to_string(path)?;
    let case = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": PRIMARY, "labels": {"conformance.windlass.dev/case": "ensure"}},
        "data": {"objects": objects},
    });
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let params = PatchParams::apply("test").force();
    maps.patch(PRIMARY, &params, &Patch::Apply(case)).await?;
    Ok(())
}

/// The writes that the server has had to the resources of the case.
async fn writes(client: &Client) -> Result<u64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = client.request_text(request).await?;
    let is_write = |line: &&str| {
        let has = |label: &str, values: &[&str]| {
            values
                .iter()
                .any(|value| line.contains(&format!("{label}=\"{value}\"")))
        };
        line.starts_with("apiserver_request_total{")
            && has("verb", &["APPLY", "PATCH", "POST", "PUT", "DELETE"])
            && has("resource", &RESOURCES)
    };
    let counts = text.lines().filter(is_write).map(|line| {
        let (_, count) = line.rsplit_once(' ').context("a sample")?;
        Ok(count.parse::<u64>()?)
    });
    counts.sum()
}

async fn start(subject: &Subject) -> Result<(Arc<Again>, RunningManager)> {
    let book = Arc::new(Book::default());
    listen(&subject.tenant(TIMEOUT), &book);
    let parts = parts(subject, &book, Arc::default(), TIMEOUT).await?;
    let again = Arc::new(Again {
        subject: parts.reconciler,
        permits: Semaphore::new(0),
        runs: watch::Sender::new(0),
        failure: Mutex::default(),
        book,
    });
    let options = ControllerOptions {
        timeout: TIMEOUT,
        ..ControllerOptions::default()
    };
    let mut controller = Controller::builder(ControllerName::new("conformance")?)
        .tenant(TenantName::new(subject.tenant(TIMEOUT))?)
        .grant(Arc::new(Grant::new(rules())))
        .options(options);
    if let Some(primary) = parts.primary {
        controller = controller.primary(primary);
    }
    for each in parts.watches {
        controller = controller.watch(each);
    }
    for index in parts.indexes {
        controller = controller.index(index);
    }
    let reconciler: Arc<dyn Reconciler> = again.clone();
    let builder = Manager::builder().controller(controller.build(reconciler)?);
    Ok((again, RunningManager::start(builder)?))
}

/// Runs the request of the case a given number of times, also when its object has not changed.
struct Again {
    subject: Arc<dyn Reconciler>,
    permits: Semaphore,
    runs: watch::Sender<usize>,
    failure: Mutex<Option<String>>,
    book: Arc<Book>,
}

impl Again {
    /// What was written lately, as the log has it.
    fn last_written(&self) -> Vec<String> {
        let entries = self.book.of("default").into_iter().rev().take(100);
        let lines = entries.filter_map(|entry| match entry {
            Entry::Line(line) => Some(line),
            Entry::Request(_) => None,
        });
        lines.filter(|line| !line.ends_with("unchanged")).collect()
    }

    async fn run(&self, times: usize) -> Result<()> {
        let until = *self.runs.borrow() + times;
        self.permits.add_permits(times);
        let mut runs = self.runs.subscribe();
        let ended = runs.wait_for(|runs| *runs >= until);
        tokio::time::timeout(SOON, ended)
            .await
            .context("the runs")??;
        match self.failure.lock().take() {
            Some(failure) => Err(anyhow::anyhow!("a run failed: {failure}")),
            None => Ok(()),
        }
    }
}

impl Reconciler for Again {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        Box::pin(async move {
            if &*context.request.key.name != PRIMARY {
                return Ok(Action::Done);
            }
            if let Ok(permit) = self.permits.acquire().await {
                permit.forget();
            }
            if let Err(failure) = self.subject.reconcile(context).await {
                self.failure.lock().replace(failure.message);
            }
            self.runs.send_modify(|runs| *runs += 1);
            Ok(Action::RequeueAfter(Duration::ZERO))
        })
    }
}
