//! Every example does what its plan says. Entry points: [`EXAMPLES`], which has all their folders, and [`Stage::compare`].

use crate::examples_built::documents;
use crate::plan::{Changes, Objects, happened, objects_of, plan_files, run_files, said, text};
use crate::project::Project;
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use windlass_apiserver::{Cluster, Verb};
use windlass_author::seed::{Asked, Seed};
use windlass_author::simulated::Simulated;
use windlass_harness::outside::Outside;

/// An example.
struct Example {
    /// Its folder.
    name: &'static str,
    /// The files with its documents. One of `dev` alone has a guest that plays an operator, so that more happens.
    files: &'static [&'static str],
    /// The workspace of a kcp that its Provider reads.
    workspace: Option<&'static str>,
    /// What building its guests needs.
    needs: Needs,
}

#[derive(PartialEq, Eq)]
enum Needs {
    /// Nothing more than what the tests build anyway.
    Nothing,
    Tools,
}

const fn of(name: &'static str) -> Example {
    Example {
        name,
        files: &["windlass.yaml"],
        workspace: None,
        needs: Needs::Nothing,
    }
}

const fn with_tools(name: &'static str, files: &'static [&'static str]) -> Example {
    Example {
        files,
        needs: Needs::Tools,
        ..of(name)
    }
}

const fn of_kcp(
    name: &'static str,
    files: &'static [&'static str],
    workspace: &'static str,
) -> Example {
    Example {
        files,
        workspace: Some(workspace),
        ..of(name)
    }
}

/// All examples.
const EXAMPLES: [Example; 12] = [
    of("dns"),
    of("hello-fleet"),
    of_kcp("httpbin", &["windlass.yaml", "dev.yaml"], "root:httpbin"),
    of("hub-and-spokes"),
    of("inventory"),
    of_kcp("mongodb", &["windlass.yaml", "dev.yaml"], "root:mongodb"),
    with_tools("polyglot", &["windlass.yaml"]),
    with_tools("scheduler", &["rust/windlass.yaml"]),
    with_tools("teams", &["typescript/windlass.yaml"]),
    of("two-tenants"),
    with_tools("website", &["windlass.yaml"]),
    of_kcp("workspace-setup", &["windlass.yaml"], "root:platform"),
];

/// An example over its seed, as `dev` serves it.
struct Stage {
    example: &'static Example,
    project: Project,
    fleet: Simulated,
    /// With the names by which reconcilers know them.
    clusters: Vec<(String, Cluster)>,
}

impl Stage {
    async fn set(example: &'static Example) -> Result<Self> {
        let project = Project::new()?;
        let folder = windlass_harness::repository()
            .join("examples")
            .join(example.name);
        let mut all = String::new();
        for file in example.files {
            let documents = documents(&folder.join(file)).await?;
            project.write(file, &documents)?;
            all += &documents;
        }
        let asked = Asked {
            local: all.contains("local: {kubeconfig"),
            kcp: example.workspace.is_some(),
            no_clusters: example.workspace.is_some(),
        };
        let seed = Seed::of(&folder.join("seed"), asked)?;
        let fleet = Simulated::start(&seed, 0, project.path()).await?;
        let stage = Self {
            example,
            clusters: clusters(&fleet),
            project,
            fleet,
        };
        let members = stage.clusters.iter().filter(|(name, _)| name != "(local)");
        for (name, _) in members {
            stage.write_kubeconfig(&format!("clusters/{name}.kubeconfig"), name)?;
        }
        for hub in ["hub/hub", "clusters/compute", "clusters/register"] {
            // Where it is no Provider's, and is read only if the documents name it.
            if asked.local && (hub.starts_with("hub") || asked.no_clusters) {
                stage.write_kubeconfig(&format!("{hub}.kubeconfig"), "local")?;
            }
        }
        if let Some(workspace) = example.workspace {
            stage.write_kubeconfig("clusters/kcp.kubeconfig", workspace)?;
        }
        Ok(stage)
    }

    /// The kubeconfig of a cluster or workspace.
    fn kubeconfig(&self, of: &str) -> String {
        let url = self.fleet.server().url(of);
        let name = of.trim_start_matches("root:");
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: it, cluster: {{server: \"{url}\"}}}}]\nusers: [{{name: me, user: {{}}}}]\n\
             contexts: [{{name: {name}, context: {{cluster: it, user: me}}}}]\ncurrent-context: {name}\n"
        )
    }

    fn write_kubeconfig(&self, file: &str, of: &str) -> Result<()> {
        self.project.write(file, self.kubeconfig(of)).map(drop)
    }

    fn objects(&self) -> Objects {
        let all = self.clusters.iter();
        all.flat_map(|(name, cluster)| objects_of(name, cluster))
            .collect()
    }

    /// From now on a workspace has the name by which the Provider of a prefix knows it.
    fn call(&mut self, workspace: &Cluster, prefix: &str) {
        let own = workspace.name();
        for (known, _) in &mut self.clusters {
            if known.rsplit('#').next() == Some(own) {
                *known = format!("{prefix}#{own}");
            }
        }
    }

    /// How many requests there were that read nothing.
    fn writes(&self) -> usize {
        let reads = |verb| matches!(verb, Verb::Get | Verb::List | Verb::Watch | Verb::Other);
        let all = self.clusters.iter();
        let requests = all.flat_map(|(_, cluster)| cluster.requests());
        requests.filter(|call| !reads(call.verb)).count()
    }

    /// Plans, runs, and compares. Returns what happened.
    async fn compare(&self, flags: &[&str], code: i32) -> Result<Changes> {
        let (said, happened) = self.both(flags, code).await?;
        assert_eq!(said, happened, "{}", self.example.name);
        Ok(happened)
    }

    /// Plans and runs. Returns what the plan says, and what happened.
    async fn both(&self, flags: &[&str], code: i32) -> Result<(Changes, Changes)> {
        let name = self.example.name;
        let (before, writes) = (self.objects(), self.writes());
        let flags = [&["-o", "json"], flags].concat();
        let planned = plan_files(&self.project, self.example.files, &flags).await?;
        let planned = planned.expect_code(code).context(name)?;
        let said = said(&serde_json::from_str(&planned.stdout)?)?;
        assert_eq!(self.objects(), before, "a plan changes nothing");
        assert_eq!(self.writes(), writes, "a plan only reads");
        run_files(&self.project, self.example.files).await?;
        let happened = happened(&before, &self.objects());
        Ok((without_kcp(said), without_kcp(happened)))
    }
}

/// The clusters of a fleet, with the names by which reconcilers know them.
fn clusters(fleet: &Simulated) -> Vec<(String, Cluster)> {
    let server = fleet.server();
    let names = server.clusters().into_iter();
    let all = names.filter_map(|name| {
        let cluster = server.cluster(&name)?;
        let known = if name == "local" {
            "(local)".to_owned()
        } else {
            name.clone()
        };
        Some((known, cluster))
    });
    all.collect()
}

#[test]
fn every_example_is_among_those_that_are_compared() -> Result<()> {
    let folder = windlass_harness::repository().join("examples");
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        folders.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let named = EXAMPLES.iter().map(|example| example.name.to_owned());
    assert_eq!(named.collect::<BTreeSet<_>>(), folders);
    Ok(())
}

#[tokio::test]
async fn examples_do_what_their_plans_say() -> Result<()> {
    for example in &EXAMPLES {
        if example.needs == Needs::Nothing {
            compared(example).await.context(example.name)?;
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn examples_in_other_languages_do_what_their_plans_say() -> Result<()> {
    for example in &EXAMPLES {
        if example.needs == Needs::Tools {
            compared(example).await.context(example.name)?;
        }
    }
    Ok(())
}

async fn compared(example: &'static Example) -> Result<()> {
    let stage = Stage::set(example).await?;
    let changes = match example.name {
        "dns" => compared_with_its_server(&stage).await?,
        "inventory" => compared_with_its_hub(stage).await?,
        "workspace-setup" => compared_with_its_workspaces(stage).await?,
        "scheduler" => {
            // Two Workloads share the clusters by who is decided about first, which a plan cannot know.
            let mut clusters = stage.clusters.iter();
            let (_, local) = clusters
                .find(|(name, _)| name == "(local)")
                .context("a local cluster")?;
            let (version, kind) = ("example.windlass.dev/v1", "Workload");
            let deleted = local.delete(version, kind, "default", "ledger");
            deleted.map_err(|error| anyhow!("{error:?}"))?;
            stage.compare(&[], 0).await?
        }
        _ => stage.compare(&[], 0).await?,
    };
    ensure!(!changes.is_empty(), "nothing happened");
    Ok(())
}

/// What kcp does once a guest is done is in no plan: no controller of anybody else runs over a copy.
fn without_kcp(mut changes: Changes) -> Changes {
    changes.retain(|line, _| !line.contains(" tenancy.kcp.io/v1alpha1/Workspace "));
    for (line, fields) in &mut changes {
        if line.contains(" core.kcp.io/v1alpha1/LogicalCluster ") {
            fields.remove("status.phase");
        }
    }
    changes
}

/// Two workspaces begin, and one of them ends. Its Providers know it by two names.
async fn compared_with_its_workspaces(mut stage: Stage) -> Result<Changes> {
    let server = stage.fleet.server();
    let at = |path: &str| server.workspace(path).context(path.to_owned());
    let green = fs::read_to_string(
        windlass_harness::repository().join("examples/workspace-setup/green.yaml"),
    )?;
    at("root:projects")?.apply(serde_saphyr::from_str(&green)?)?;
    server.settle_workspaces();
    let (blue, green) = (at("root:projects:blue")?, at("root:projects:green")?);
    stage.clusters = clusters(&stage.fleet);
    stage.call(&blue, "new");
    stage.call(&green, "new");
    let begun = stage.compare(&[], 0).await?;
    let created = begun.keys().filter(|line| line.starts_with("create "));
    assert_eq!(created.count(), 8, "in each three, and an entry: {begun:?}");

    let server = stage.fleet.server();
    ensure!(server.remove_workspace("root:projects:blue"), "no blue");
    stage.call(&blue, "old");
    let (said, mut happened) = stage.both(&[], 0).await?;
    // With the workspace all goes that is in it, which is kcp's work. The guest lets it go.
    let own = format!(" old#{} ", blue.name());
    happened.retain(|line, _| !line.contains(&own));
    let let_go = format!("change{own}core.kcp.io/v1alpha1/LogicalCluster /cluster");
    happened.insert(let_go, BTreeMap::new());
    assert_eq!(said, happened);
    let server = stage.fleet.server();
    ensure!(server.workspace("root:projects:blue").is_none(), "it stays");
    ensure!(server.workspace("root:projects:green").is_some(), "it goes");
    Ok(begun)
}

async fn compared_with_its_server(stage: &Stage) -> Result<Changes> {
    let server = Outside::start().await?;
    let file = "windlass.yaml";
    let path = stage.project.path().join(file);
    let port = server.port;
    let documents = fs::read_to_string(path)?
        .replace("localhost:8053", &format!("localhost:{port}/kept"))
        .replace("[8053]", &format!("[{port}]"))
        .replace("[/v1/zones]", "[/kept/v1/zones]");
    stage.project.write(file, documents)?;
    // The plan may not write the record, which is why it is not complete.
    let flags = ["--allow-http", "localhost"];
    let first = stage.compare(&flags, 1).await?;
    // What is right at the server already is planned to its end.
    server.keep(
        "/kept/v1/zones/example.com/records/mail",
        r#"{"address": "192.0.2.2"}"#,
    );
    let (_, alpha) = stage.clusters.first().context("a cluster")?;
    alpha.apply(json!({"apiVersion": "example.windlass.dev/v1", "kind": "DnsRecord", "metadata": {"namespace": "default", "name": "mail"},
        "spec": {"zone": "example.com", "name": "mail", "address": "192.0.2.2"}}))?;
    let second = stage.compare(&flags, 0).await?;
    ensure!(!first.is_empty(), "nothing happened at first");
    Ok(second)
}

/// A kind of the hub whose fields nobody checks.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Json {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// The hub has an object for each cluster, as its three inventories do, and the Secrets with their kubeconfigs.
async fn compared_with_its_hub(mut stage: Stage) -> Result<Changes> {
    let secret = |namespace: &str, name: &str, labels: Json, key: &str, kubeconfig: String| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "stringData": {key: kubeconfig}})
    };
    let [eu, us, edge] = ["prod-eu", "prod-us", "edge"].map(|name| stage.kubeconfig(name));
    let objects = [
        definition(
            "multicluster.x-k8s.io",
            "v1alpha1",
            "ClusterProfile",
            "clusterprofiles",
        ),
        definition("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inventory"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "by-hand"}}),
        json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
            "metadata": {"namespace": "inventory", "name": "prod-eu"},
            "status": {"conditions": [{"type": "ControlPlaneHealthy", "status": "True"}]}}),
        secret(
            "inventory",
            "prod-eu",
            json!({"x-k8s.io/cluster-inventory-consumer": "windlass", "x-k8s.io/cluster-profile": "prod-eu"}),
            "Config",
            eu,
        ),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "default", "name": "prod-us", "labels": {"team": "fleet"}},
            "status": {"initialization": {"controlPlaneInitialized": true}}}),
        secret(
            "default",
            "prod-us-kubeconfig",
            json!({"cluster.x-k8s.io/cluster-name": "prod-us"}),
            "value",
            us,
        ),
        secret(
            "by-hand",
            "edge",
            json!({"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}),
            "kubeconfig",
            edge,
        ),
    ];
    let hub = stage.fleet.server().cluster("local").context("the hub")?;
    for object in objects {
        let what = text(&object["kind"]).to_owned();
        hub.apply(object).context(what)?;
    }
    for (known, _) in &mut stage.clusters {
        match known.as_str() {
            "prod-eu" => *known = "profiles#inventory/prod-eu".to_owned(),
            "prod-us" => *known = "capi#default/prod-us".to_owned(),
            _ => {}
        }
    }
    // Their servers are on this machine, which a Secret may name only where a Provider says so.
    let path = stage.project.path().join("windlass.yaml");
    let mut documents = fs::read_to_string(path)?.replace("10.20.0.0/16", "127.0.0.0/8");
    for prefix in ["  prefix: profiles\n", "  prefix: capi\n"] {
        let allowed = format!("{prefix}  allowServers: [127.0.0.0/8]\n");
        documents = documents.replace(prefix, &allowed);
    }
    stage.project.write("windlass.yaml", documents)?;
    stage.compare(&[], 0).await
}
