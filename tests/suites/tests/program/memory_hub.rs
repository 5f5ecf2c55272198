//! An in-memory cluster whose objects the program reads. Entry point: [`MemoryHub`].

use crate::hub::{rules, tenant};
use crate::objects::ConfigMaps;
use crate::project::Project;
use crate::running::{SOON, address_in, client_of, fleet};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use windlass_apiserver::{Cluster, Server};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::Program;

/// A hub that has the kinds and the namespace `team-a` of the Tenant `a`, and the cluster `alpha` of a Provider in a file.
pub(crate) struct MemoryHub {
    pub(crate) project: Project,
    pub(crate) hub: Cluster,
    pub(crate) alpha: ConfigMaps,
    _server: Server,
}

/// A running program, and its address.
pub(crate) struct Running {
    pub(crate) program: Program,
    pub(crate) address: String,
}

impl MemoryHub {
    pub(crate) async fn start() -> Result<Self> {
        let project = Project::new()?;
        let server = fleet(&project, &["alpha"]).await?;
        let hub = server.add_cluster("hub");
        project.write("hub.kubeconfig", server.kubeconfig())?;
        let args = ["crds", "-o", "json"];
        let printed = Program::run(project.path(), args, SOON).await?;
        let list: Json = serde_json::from_str(&printed.expect_code(0)?.stdout)?;
        let this = Self {
            alpha: client_of(&project, "alpha").await?,
            project,
            hub,
            _server: server,
        };
        let definitions = list["items"].as_array().context("definitions")?;
        definitions
            .iter()
            .try_for_each(|one| this.put(one.clone()))?;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"},
        });
        this.put(namespace)?;
        this.put(tenant("a", "team-a", json!({"names": ["*"]})))?;
        Ok(this)
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, object: Json) -> Result<()> {
        let put = self.hub.apply(object);
        put.map(drop).map_err(|error| anyhow::anyhow!("{error:?}"))
    }

    /// Writes the file of a process: a Manager with these fields, and the Provider.
    pub(crate) fn write_manager(&self, name: &str, fields: &str) -> Result<()> {
        let text = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec:\n  \
             local: {{kubeconfig: ./hub.kubeconfig, context: hub}}\n  guests: {{hello: {{path: ./guest.wasm}}}}\n{fields}\
             ---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: fleet}}\nspec:\n  \
             kubeconfigFiles: {{paths: [./clusters], globs: [\"*.kubeconfig\"]}}\n"
        );
        self.project.write(name, text).map(drop)
    }

    /// Starts a process with a file and a cache folder.
    pub(crate) async fn run(&self, file: &str, cache: &str) -> Result<Running> {
        let args = format!("run --from-cluster -f {file} --admin 127.0.0.1:0 --cache {cache}");
        let mut program = Program::start(self.project.path(), args.split(' '))?;
        let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
        Ok(Running { program, address })
    }

    /// The status of a Reconciler of the team, once it `holds`.
    pub(crate) async fn status(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Json) -> bool,
    ) -> Result<Json> {
        eventually(SOON, what, || async {
            let found = self
                .hub
                .get("windlass.dev/v1alpha1", "Reconciler", "team-a", name)
                .map_err(|error| anyhow::anyhow!("{error:?}"))?;
            let status = found.context("the Reconciler")?["status"].clone();
            Ok(Seen::of(status, &holds))
        })
        .await
    }
}

/// Whether a status has a condition with this status and reason, `Ready True Reconciling` for instance.
pub(crate) fn has(status: &Json, condition: &str) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let words = |of: &Json| {
        ["type", "status", "reason"]
            .map(|field| of[field].as_str().unwrap_or_default().to_owned())
            .join(" ")
    };
    conditions.into_iter().any(|of| words(of) == condition)
}

/// A Reconciler of the team whose guest is the platform's.
pub(crate) fn of_platform(name: &str, more: Json) -> Json {
    let mut spec = json!({"guest": {"name": "hello"}, "rules": rules()});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    crate::hub::object("Reconciler", &format!("team-a/{name}"), spec)
}
