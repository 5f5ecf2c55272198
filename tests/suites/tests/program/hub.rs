//! A real cluster whose objects the program reads, and its members. Entry point: [`Hub`].

use crate::examples::kubectl;
use crate::project::Project;
use anyhow::{Result, ensure};
use kube_client::Client;
use kube_client::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use serde_json::{Value as Json, json};
use std::fs;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::{Environment, Spec};

pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A real cluster that has the kinds, members beside it, and a folder for the program.
pub(crate) struct Hub {
    pub(crate) environment: Environment,
    pub(crate) project: Project,
    pub(crate) client: Client,
}

impl Hub {
    /// A hub with these namespaces, and members as kubeconfig files of the Provider `fleet`.
    pub(crate) async fn start(members: &[&str], namespaces: &[&str]) -> Result<Self> {
        let specs = ["hub"].iter().chain(members);
        let specs = specs.map(|name| Spec::new(*name).with_controllers());
        Self::of(specs, namespaces).await
    }

    /// The same of servers, of which the first one is the hub `hub`.
    pub(crate) async fn of(
        specs: impl IntoIterator<Item = Spec>,
        namespaces: &[&str],
    ) -> Result<Self> {
        let environment = Environment::start(specs).await?;
        let client = environment.server("hub").client().await?;
        let project = Project::new()?;
        fs::create_dir_all(project.path().join("clusters"))?;
        let hub = environment.server("hub");
        hub.write_kubeconfig(&project.path().join("hub.kubeconfig"))?;
        for server in environment
            .servers()
            .filter(|server| server.name() != "hub")
        {
            let path = format!("clusters/{}.kubeconfig", server.name());
            server.write_kubeconfig(&project.path().join(path))?;
        }
        let this = Self {
            environment,
            project,
            client,
        };
        for name in namespaces {
            let labels = json!({"team": name});
            this.create(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
            }))
            .await?;
        }
        Ok(this)
    }

    /// Creates the definitions, as a user does.
    pub(crate) async fn install(&self) -> Result<()> {
        let printed = Program::run(self.project.path(), ["crds"], SOON).await?;
        let definitions = printed.expect_code(0)?.stdout;
        let server = self.environment.server("hub");
        kubectl(
            &self.environment,
            server,
            &["apply", "-f", "-"],
            &definitions,
        )
        .await?;
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd/providers.windlass.dev",
            "crd/tenants.windlass.dev",
            "crd/reconcilers.windlass.dev",
        ];
        kubectl(&self.environment, server, &established, "").await
    }

    /// The documents of the Manager's file: guests, the local cluster, and more documents.
    pub(crate) fn write_files(&self, more: &str) -> Result<()> {
        self.write_manager("", more)
    }

    /// The same with more fields of the Manager.
    pub(crate) fn write_manager(&self, fields: &str, more: &str) -> Result<()> {
        let (hello, fleet) = (guest("hello"), guest("test-fleet"));
        let text = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec:\n  \
             local: {{kubeconfig: ./hub.kubeconfig}}\n  guests: {{hello: {{path: {hello:?}}}, fleet: {{path: {fleet:?}}}}}\n{fields}\
             ---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: fleet}}\nspec:\n  \
             kubeconfigFiles: {{paths: [./clusters], globs: [\"*.kubeconfig\"]}}\n{more}"
        );
        self.project.write("windlass.yaml", text).map(drop)
    }

    /// Starts the program with the kinds of the cluster.
    pub(crate) fn run(&self) -> Result<Program> {
        let args = [
            "run",
            "--from-cluster",
            "-f",
            "windlass.yaml",
            "--admin",
            "127.0.0.1:0",
        ];
        Program::start(self.project.path(), args)
    }

    /// The API of an object's kind, and the object's name.
    pub(crate) fn api(&self, object: &Json) -> Result<(Api<DynamicObject>, String)> {
        Self::api_with(&self.client, object)
    }

    /// The same for another user.
    pub(crate) fn api_with(client: &Client, object: &Json) -> Result<(Api<DynamicObject>, String)> {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let name = text(&object["metadata"]["name"]);
        let api = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        ensure!(!name.is_empty(), "an object without a name: {object}");
        Ok((api, name))
    }

    /// Creates an object. The error is the server's.
    pub(crate) async fn create(&self, object: Json) -> Result<()> {
        let (api, _) = self.api(&object)?;
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Changes an object by a merge patch of its spec.
    pub(crate) async fn change(&self, object: &Json, spec: Json) -> Result<()> {
        let (api, name) = self.api(object)?;
        let patch = Patch::Merge(json!({"spec": spec}));
        api.patch(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn merge(&self, object: &Json, patch: Json) -> Result<()> {
        let (api, name) = self.api(object)?;
        let patch = Patch::Merge(patch);
        api.patch(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, object: &Json) -> Result<()> {
        let (api, name) = self.api(object)?;
        api.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn status(&self, object: &Json) -> Result<Json> {
        let (api, name) = self.api(object)?;
        Ok(api.get(&name).await?.data["status"].clone())
    }

    /// Waits until a condition of an object has this status and reason, and returns the whole status.
    pub(crate) async fn expect(&self, object: &Json, condition: &str) -> Result<Json> {
        let mut words = condition.split(' ');
        let [kind, status, reason] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let name = &object["metadata"]["name"];
        eventually(SOON, &format!("{name} to be {condition}"), || async {
            let seen = self.status(object).await?;
            let conditions = seen["conditions"].as_array().cloned().unwrap_or_default();
            let is_it =
                |of: &Json| of["type"] == kind && of["status"] == status && of["reason"] == reason;
            Ok(Seen::of(seen, |_| conditions.iter().any(is_it)))
        })
        .await
    }
}

impl Hub {
    /// Waits for an Event about a cluster-scoped object of the name.
    pub(crate) async fn expect_event(&self, kind: &str, name: &str, reason: &str) -> Result<()> {
        let any = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "default", "name": "any"},
        });
        let (events, _) = self.api(&any)?;
        // As `kubectl describe` asks.
        let about = format!(
            "involvedObject.kind={kind},involvedObject.name={name},involvedObject.namespace=,reason={reason}"
        );
        let parameters = ListParams::default().fields(&about);
        eventually(SOON, &format!("an Event {about}"), || async {
            let found = events.list(&parameters).await?.items;
            Ok(Seen::of(found.len(), |count| *count > 0))
        })
        .await?;
        Ok(())
    }
}

pub(crate) fn object(kind: &str, name: &str, spec: Json) -> Json {
    let mut object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    if let Some((namespace, name)) = name.split_once('/') {
        object["metadata"] = json!({"namespace": namespace, "name": name});
    }
    object
}

/// The rules that the guest `hello` needs.
pub(crate) fn rules() -> Json {
    json!([{
        "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"],
        "namespaces": ["*"],
    }])
}

pub(crate) fn tenant(name: &str, namespace: &str, clusters: Json) -> Json {
    let spec =
        json!({"namespaces": {"names": [namespace]}, "rules": rules(), "clusters": clusters});
    object("Tenant", name, spec)
}

pub(crate) fn hello(name: &str) -> Json {
    object(
        "Reconciler",
        name,
        json!({"guest": {"name": "hello"}, "rules": rules()}),
    )
}
