//! What a test makes in a kcp: workspaces, exports, bindings. Entry points: [`Client::workspace`], [`Client::publish`] and
//! [`Client::bind`].

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Client, ROOT};
use crate::eventually::{DEADLINE, Seen, eventually};

/// What kcp answers where something that an object names is not there, or not yet.
const MAY_PASS: [u16; 5] = [403, 404, 429, 500, 503];

/// A workspace that is ready.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The path: `root:name`.
    pub path: String,
    /// The name of the logical cluster.
    pub cluster: String,
}

impl Workspace {
    /// A path of a request to this workspace: `/clusters/<logical cluster>/<rest>`.
    pub fn at(&self, rest: &str) -> String {
        format!("/clusters/{}/{rest}", self.cluster)
    }
}

/// What a provider offers.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name of the APIExport.
    pub name: String,
    /// The `spec` of an APIResourceSchema for each kind.
    pub schemas: Vec<Value>,
    /// Other kinds that the provider asks for.
    pub claims: Vec<Claim>,
}

/// A kind that a provider asks for, or that a consumer grants or denies.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The plural name of the kind.
    pub resource: &'static str,
    /// What may be done with it; `*` is everything.
    pub verbs: &'static [&'static str],
}

impl Claim {
    fn asked(&self) -> Value {
        json!({"group": self.group, "resource": self.resource, "verbs": self.verbs})
    }

    fn answered(&self, accepted: bool) -> Value {
        let mut claim = self.asked();
        claim["state"] = if accepted { "Accepted" } else { "Rejected" }.into();
        claim["selector"] = json!({"matchAll": true});
        claim
    }
}

impl Client {
    /// Makes a workspace of type `universal` below a path and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be made, or is not ready in time.
    pub async fn workspace(&self, parent: &str, name: &str) -> Result<Workspace> {
        self.make_workspace(parent, name, ROOT, "universal").await?;
        self.ready(parent, name).await
    }

    /// Makes a workspace of a type, and does not wait: one with initializers is not ready before they are done.
    ///
    /// # Errors
    /// When it is still refused after two minutes: kcp refuses a type that it does not know yet.
    pub async fn make_workspace(
        &self,
        parent: &str,
        name: &str,
        type_path: &str,
        type_name: &str,
    ) -> Result<()> {
        let workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
            "spec": {"type": {"path": type_path, "name": type_name}}});
        self.make(&workspace_at(parent, ""), &workspace).await
    }

    /// Waits until a workspace is ready.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn ready(&self, parent: &str, name: &str) -> Result<Workspace> {
        let path = workspace_at(parent, name);
        let what = format!("the workspace {parent}:{name} to be ready");
        let workspace = self
            .until(&what, &path, |workspace| {
                workspace["status"]["phase"] == "Ready"
            })
            .await?;
        let cluster = workspace["spec"]["cluster"].as_str();
        Ok(Workspace {
            path: format!("{parent}:{name}"),
            cluster: cluster.context("a workspace without a cluster")?.to_owned(),
        })
    }

    /// Asks for the end of a workspace, and does not wait: its content goes in seconds, itself in minutes.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn end(&self, parent: &str, name: &str) -> Result<()> {
        let answer = self.delete(&workspace_at(parent, name)).await?;
        answer.ok().map(drop)
    }

    /// Puts an export and its schemas into a workspace.
    ///
    /// # Errors
    /// When the server refuses for two minutes.
    pub async fn publish(&self, workspace: &Workspace, export: &Export) -> Result<()> {
        let mut resources = Vec::new();
        for spec in &export.schemas {
            let (group, plural) = (&spec["group"], &spec["names"]["plural"]);
            let (group, plural) = group
                .as_str()
                .zip(plural.as_str())
                .context("a schema has a group and a plural name")?;
            let name = format!("v1.{plural}.{group}");
            let schema = json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
                "metadata": {"name": name}, "spec": spec});
            let path = workspace.at("apis/apis.kcp.io/v1alpha1/apiresourceschemas");
            self.make(&path, &schema).await?;
            resources.push(
                json!({"group": group, "name": plural, "schema": name, "storage": {"crd": {}}}),
            );
        }
        let claims: Vec<Value> = export.claims.iter().map(Claim::asked).collect();
        let object = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
            "metadata": {"name": export.name},
            "spec": {"resources": resources, "permissionClaims": claims}});
        self.make(
            &workspace.at("apis/apis.kcp.io/v1alpha2/apiexports"),
            &object,
        )
        .await
    }

    /// Binds an export of another workspace under the export's name, accepting or rejecting its claims, and waits until it is bound.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn bind(
        &self,
        consumer: &Workspace,
        provider: &Workspace,
        export: &Export,
        accepted: bool,
    ) -> Result<()> {
        let claims = export.claims.iter().map(|claim| claim.answered(accepted));
        let claims: Vec<Value> = claims.collect();
        let binding = json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
            "metadata": {"name": export.name},
            "spec": {"reference": {"export": {"path": provider.path, "name": export.name}}, "permissionClaims": claims}});
        let path = consumer.at("apis/apis.kcp.io/v1alpha2/apibindings");
        self.make(&path, &binding).await?;
        let what = format!(
            "the export {} to be bound in {}",
            export.name, consumer.path
        );
        self.until(&what, &format!("{path}/{}", export.name), |binding| {
            binding["status"]["phase"] == "Bound" && condition(binding, "Ready")
        })
        .await
        .map(drop)
    }

    /// Deletes a binding and waits until it is gone, and with it the objects of its kinds.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn unbind(&self, consumer: &Workspace, name: &str) -> Result<()> {
        let path = consumer.at(&format!("apis/apis.kcp.io/v1alpha2/apibindings/{name}"));
        self.delete(&path).await?.ok()?;
        let what = format!("the binding {name} to be gone from {}", consumer.path);
        eventually(DEADLINE, &what, || async {
            let answer = self.get(&path).await?;
            Ok(Seen::of(answer.code, |code| *code == 404))
        })
        .await
        .map(drop)
    }

    /// The URLs of an APIExportEndpointSlice now, without scheme and host: one process serves all.
    ///
    /// # Errors
    /// When there is no such slice.
    pub async fn endpoints(&self, provider: &Workspace, slice: &str) -> Result<Vec<String>> {
        let path = provider.at(&format!(
            "apis/apis.kcp.io/v1alpha1/apiexportendpointslices/{slice}"
        ));
        let slice = self.get(&path).await?.ok()?;
        let endpoints = slice["status"]["endpoints"].as_array();
        let urls = endpoints
            .into_iter()
            .flatten()
            .map(|endpoint| endpoint["url"].as_str());
        urls.map(|url| path_of(url.context("an endpoint without a URL")?))
            .collect()
    }

    /// The one endpoint of a slice, when it is there and answers a list of bindings: kcp publishes it a moment before.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn endpoint(&self, provider: &Workspace, slice: &str) -> Result<String> {
        let what = format!("an endpoint of {slice}");
        eventually(DEADLINE, &what, || async {
            let urls = self.endpoints(provider, slice).await?;
            let [url] = urls.as_slice() else {
                return Ok(Seen::NotYet(format!("{urls:?}")));
            };
            let bindings = format!("{url}/clusters/*/apis/apis.kcp.io/v1alpha2/apibindings");
            self.get(&bindings).await?.ok()?;
            Ok(Seen::Yes(url.clone()))
        })
        .await
    }

    /// Waits until an object is as wanted, and returns it.
    ///
    /// # Errors
    /// When it is not in time, with what it was last.
    pub async fn until(
        &self,
        what: &str,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(DEADLINE, what, || async {
            Ok(Seen::of(self.get(path).await?.ok()?, &holds))
        })
        .await
    }

    /// Creates an object, as soon as the server takes it: it learns of types, exports and roles that an object names a moment after
    /// they were made.
    ///
    /// # Errors
    /// When it is still refused after two minutes.
    pub async fn make(&self, path: &str, object: &Value) -> Result<()> {
        let what = format!("{path} to take an object");
        let answer = eventually(DEADLINE, &what, || async {
            let answer = self.post(path, object).await?;
            Ok(Seen::of(answer, |answer| !MAY_PASS.contains(&answer.code)))
        })
        .await?;
        answer.ok().map(drop).context(what)
    }
}

/// The path of a Workspace object, or of all if the name is empty.
fn workspace_at(parent: &str, name: &str) -> String {
    let all = format!("/clusters/{parent}/apis/tenancy.kcp.io/v1alpha1/workspaces");
    if name.is_empty() {
        return all;
    }
    format!("{all}/{name}")
}

/// Whether an object has a condition that is true.
fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut found = conditions.into_iter().flatten();
    found.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The path of a URL.
fn path_of(url: &str) -> Result<String> {
    let (_, rest) = url.split_once("://").with_context(|| url.to_owned())?;
    let (_, path) = rest.split_once('/').with_context(|| url.to_owned())?;
    Ok(format!("/{path}"))
}
