//! `windlass plan` over workspaces of kcp: each is copied by itself.

use crate::plan::{planned, run, text};
use crate::project::{HELLO_RULES, Project};
use crate::running::SOON;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value as Json, json};
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::testenv::Kcp;
use windlass_harness::testenv::kcp::{Claim, Client, Export, Workspace};

/// What is said in a workspace: its path and the greeting.
type Said = Vec<(String, Json)>;

/// An export that claims what the hello guest writes, and the workspaces that use it.
struct Stage {
    project: Project,
    client: Client,
    /// They accept the claims.
    consumers: Vec<Workspace>,
    /// It does not.
    refusing: Workspace,
}

const MAPS: &str = "api/v1/namespaces/default/configmaps";

impl Stage {
    /// `kubeconfig`: of the workspace of this path.
    async fn set(client: Client, kubeconfig: impl Fn(&str) -> String) -> Result<Self> {
        let claim = |group, resource| Claim {
            group,
            resource,
            verbs: &["*"],
        };
        let export = Export {
            name: "greetings".to_owned(),
            schemas: Vec::new(),
            claims: vec![claim("", "configmaps"), claim("events.k8s.io", "events")],
        };
        let provider = client.workspace("root", "provider").await?;
        client.publish(&provider, &export).await?;
        let mut all = Vec::new();
        for name in ["blue", "green", "grey"] {
            let workspace = client.workspace("root", name).await?;
            let accepts = name != "grey";
            client.bind(&workspace, &provider, &export, accepts).await?;
            // In all of them it has the same name.
            let asking = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
                "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}});
            client.make(&workspace.at(MAPS), &asking).await?;
            all.push(workspace);
        }
        let project = Project::new()?;
        project.write("kcp.kubeconfig", kubeconfig(&provider.path))?;
        Ok(Self {
            project,
            client,
            refusing: all.pop().context("three workspaces")?,
            consumers: all,
        })
    }

    fn write(&self, greeting: &str) -> Result<()> {
        let head = "---\napiVersion: windlass.dev/v1alpha1\n";
        let documents = format!(
            "{head}kind: Provider\nmetadata: {{name: consumers}}\nspec: {{kcp: {{from: {{kubeconfig: kcp.kubeconfig}}, \
             apiExport: {{endpointSlice: greetings}}, names: path}}}}\n\
             {head}kind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  guest: {{path: {:?}}}\n  config: {{greeting: {greeting}}}\n  \
             rules: {HELLO_RULES}\n",
            guest("hello")
        );
        self.project.write("windlass.yaml", documents).map(drop)
    }

    /// The ConfigMaps of all workspaces.
    async fn maps(&self) -> Result<Vec<Json>> {
        let mut all = Vec::new();
        for workspace in self.consumers.iter().chain([&self.refusing]) {
            let list = self.client.get(&workspace.at(MAPS)).await?.ok()?;
            all.push(list["items"].clone());
        }
        Ok(all)
    }

    /// What a plan is to say in the workspaces that accept the claims.
    fn both(&self, greeting: &str) -> Said {
        let said = self.consumers.iter().map(|workspace| {
            let path = workspace.path.clone();
            let text = format!("{greeting}, world, from {path}");
            (path, text.into())
        });
        said.collect()
    }
}

/// The greetings that a plan says.
fn greetings(report: &Json) -> Result<Said> {
    let mut all = Said::new();
    for change in report["changes"].as_array().context("changes")? {
        ensure!(change["name"] == "a-greeting", "{change}");
        ensure!(change["reconcilers"] == json!(["hello"]), "{change}");
        let fields = change["fields"].as_array().into_iter().flatten();
        let mut greeting = fields.filter(|field| field["path"] == "data.greeting");
        let greeting = greeting.next().map(|field| field["after"].clone());
        let clusters = change["clusters"].as_array().into_iter().flatten();
        all.extend(clusters.map(|cluster| {
            (
                text(cluster).to_owned(),
                greeting.clone().unwrap_or_default(),
            )
        }));
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(all)
}

async fn plans_what_then_happens(stage: &Stage) -> Result<()> {
    let project = &stage.project;
    stage.write("hello")?;
    let before = stage.maps().await?;
    // A moment passes until an endpoint has what is in its workspaces.
    let both = stage.both("hello");
    let report = eventually(SOON, "a plan for both workspaces", || async {
        let report = planned(project, &[]).await?;
        let said = greetings(&report)?;
        Ok(Seen::of((report, said), |(_, said)| *said == both))
    })
    .await?
    .0;
    assert_eq!(report["total"]["create"], 2, "{report}");
    let all = [&*stage.consumers, std::slice::from_ref(&stage.refusing)].concat();
    let all: Vec<&str> = all.iter().map(|workspace| &*workspace.path).collect();
    assert_eq!(report["clusters"], json!(all));
    // One at a time, and one by its path.
    let report = planned(project, &["--parallel", "1"]).await?;
    assert_eq!(greetings(&report)?, both, "{report}");
    let flags = ["--cluster", "*:green", "--server-dry-run"];
    let report = planned(project, &flags).await?;
    assert_eq!(greetings(&report)?, both[1..], "{report}");
    assert!(report["objections"].is_null(), "{report}");
    assert_eq!(stage.maps().await?, before, "a plan changes nothing");

    run(project).await?;
    let report = planned(project, &[]).await?;
    assert_eq!(greetings(&report)?, [], "{report}");
    stage.write("ahoy")?;
    let report = planned(project, &[]).await?;
    assert_eq!(greetings(&report)?, stage.both("ahoy"), "{report}");
    assert_eq!(report["total"]["change"], 2, "{report}");
    Ok(())
}

#[tokio::test]
async fn workspaces_are_planned_and_a_plan_writes_nothing_there() -> Result<()> {
    let server = Server::builder().kcp_shards(2).bind("127.0.0.1:0").await?;
    let url = server.shard_url(0).context("a shard")?;
    let client = Client::plain(url).await?;
    let kubeconfig = |path: &str| {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: kcp, cluster: {{server: \"{}\"}}}}]\nusers: [{{name: me, user: {{}}}}]\n\
             contexts: [{{name: kcp, context: {{cluster: kcp, user: me}}}}]\ncurrent-context: kcp\n",
            server.url(path)
        )
    };
    plans_what_then_happens(&Stage::set(client, kubeconfig).await?).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn real_workspaces_are_planned_and_a_plan_writes_nothing_there() -> Result<()> {
    let kcp = Kcp::start(&[]).await?;
    let stage = Stage::set(kcp.client().await?, |path| kcp.kubeconfig(path));
    plans_what_then_happens(&stage.await?).await
}
