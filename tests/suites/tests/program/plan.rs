//! `windlass plan`: what it says is what then happens, and nothing but reads reaches a cluster.

use crate::examples::kubectl;
use crate::memory_hub::{MemoryHub, of_platform};
use crate::project::{HELLO_RULES, Project};
use crate::running::{SOON, fleet, fleet_with};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use windlass_apiserver::{Cluster, Faults, RequestFault, Rule, Server, Verb};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program, binary};
use windlass_harness::testenv::{self, Environment, Spec};

/// Changes as `action cluster kind namespace/name`, with the fields of data, spec and status that they lead to.
type Changes = BTreeMap<String, BTreeMap<String, Json>>;

/// The objects of clusters, by cluster, kind, namespace and name.
type Objects = BTreeMap<(String, String), Json>;

async fn plan(project: &Project, more: &[&str]) -> Result<Finished> {
    let args = ["plan", "-f", "windlass.yaml"].iter().chain(more);
    Program::run(project.path(), args, SOON).await
}

async fn planned(project: &Project, more: &[&str]) -> Result<Json> {
    let args = [&["-o", "json"], more].concat();
    let finished = plan(project, &args).await?.expect_code(0)?;
    ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
    Ok(serde_json::from_str(&finished.stdout)?)
}

async fn run(project: &Project) -> Result<()> {
    let args = [
        "run",
        "-f",
        "windlass.yaml",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
        "--log",
        "error",
    ];
    let finished = Program::run(project.path(), args, SOON).await?;
    finished.expect_code(0).map(drop)
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_time(value: &Json) -> bool {
    let text = text(value);
    text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}

/// What a plan says.
fn said(plan: &Json) -> Result<Changes> {
    let mut all = Changes::new();
    for change in plan["changes"].as_array().context("changes")? {
        let fields = change["fields"].as_array().into_iter().flatten();
        let fields = fields.filter_map(|field| {
            let path = text(&field["path"]);
            let of = ["data.", "spec.", "status."];
            let counts = of.iter().any(|start| path.starts_with(start)) && !path.contains('[');
            counts.then(|| (path.to_owned(), field["after"].clone()))
        });
        let fields: BTreeMap<String, Json> = fields.collect();
        for cluster in change["clusters"].as_array().into_iter().flatten() {
            let object = format!(
                "{}/{} {}/{}",
                text(&change["api_version"]),
                text(&change["kind"]),
                text(&change["namespace"]),
                text(&change["name"])
            );
            let line = format!("{} {} {object}", text(&change["action"]), text(cluster));
            all.insert(line, fields.clone());
        }
    }
    Ok(all)
}

/// What happened to objects.
fn happened(before: &Objects, after: &Objects) -> Changes {
    let mut all = Changes::new();
    let absent = Json::Null;
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for (cluster, object) in keys {
        let key = (cluster.clone(), object.clone());
        let (one, other) = (before.get(&key), after.get(&key));
        let is_going = |object: Option<&Json>| {
            object.is_some_and(|o| !o["metadata"]["deletionTimestamp"].is_null())
        };
        let action = match (one, other) {
            (None, _) => "create",
            (_, None) => "delete",
            (one, other) if is_going(other) && !is_going(one) => "delete",
            _ => "change",
        };
        let mut fields = BTreeMap::new();
        if other.is_some() {
            for part in ["data", "spec", "status"] {
                let of = |object: Option<&Json>| object.unwrap_or(&absent)[part].clone();
                differ(&of(one), &of(other), part, &mut fields);
            }
        }
        let others = |object: Option<&Json>| {
            let metadata = &object.unwrap_or(&absent)["metadata"];
            [
                &metadata["labels"],
                &metadata["annotations"],
                &metadata["finalizers"],
            ]
            .map(Json::clone)
        };
        let parts = |object: Option<&Json>| {
            let object = object.unwrap_or(&absent);
            ["data", "spec", "status"].map(|part| timeless(&object[part]))
        };
        let same = action == "change" && parts(one) == parts(other) && others(one) == others(other);
        if !same {
            all.insert(format!("{action} {cluster} {object}"), fields);
        }
    }
    all
}

/// A value whose times are all the same.
fn timeless(value: &Json) -> Json {
    match value {
        Json::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), timeless(value)))
                .collect()
        }
        Json::Array(items) => items.iter().map(timeless).collect(),
        time if is_time(time) => json!("a time"),
        value => value.clone(),
    }
}

fn differ(before: &Json, after: &Json, path: &str, fields: &mut BTreeMap<String, Json>) {
    if before == after || is_time(before) && is_time(after) {
        return;
    }
    if before.is_object() || after.is_object() {
        let empty = serde_json::Map::new();
        let of = |value: &Json| value.as_object().unwrap_or(&empty).clone();
        let (before, after) = (of(before), of(after));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        // Other names are in brackets, as the items of lists, which are not compared.
        for name in names.into_iter().filter(|name| !name.contains(['.', '/'])) {
            let of = |fields: &serde_json::Map<String, Json>| fields.get(name).cloned();
            let (one, other) = (of(&before), of(&after));
            let path = format!("{path}.{name}");
            differ(
                &one.unwrap_or_default(),
                &other.unwrap_or_default(),
                &path,
                fields,
            );
        }
    } else if !before.is_array() && !after.is_array() {
        fields.insert(path.to_owned(), after.clone());
    }
}

fn named(cluster: &str, object: Json) -> ((String, String), Json) {
    let metadata = &object["metadata"];
    let name = format!(
        "{}/{} {}/{}",
        text(&object["apiVersion"]),
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    );
    ((cluster.to_owned(), name), object)
}

fn objects(clusters: &[Cluster]) -> Objects {
    let all = clusters.iter().flat_map(|cluster| {
        let objects = cluster.objects().into_iter();
        let objects = objects.filter(|object| object["kind"] != "Event");
        objects.map(|object| named(cluster.name(), object))
    });
    all.collect()
}

fn documents(greeting: &str, guest: &Path) -> String {
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: fleet}\nspec:\n  \
        kubeconfigFiles: {paths: [./clusters], globs: [\"*.kubeconfig\"]}\n---\n";
    format!(
        "{head}apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  \
         guest: {{path: {guest:?}}}\n  config: {{greeting: {greeting}}}\n  rules: {HELLO_RULES}\n"
    )
}

fn clusters_of(server: &Server, names: &[&str]) -> Result<Vec<Cluster>> {
    let found = names
        .iter()
        .map(|name| server.cluster(name).context("a cluster"));
    found.collect()
}

/// Somebody asks for a greeting, asks for another one, does so no longer, or changes what the guest has written.
fn disturb(cluster: &Cluster, rng: &mut Rng) -> Result<()> {
    let name = format!("m-{}", rng.u8(0..6));
    let at = ("v1", "ConfigMap", "default");
    let word = || ["world", "moon", "sea"][fastrand::usize(0..3)];
    let asked = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name,
        "namespace": "default", "labels": {"hello.windlass.dev/greet": word()}}});
    let greeting = format!("{name}-greeting");
    let exists =
        |name: &str| Ok::<_, anyhow::Error>(cluster.get(at.0, at.1, at.2, name)?.is_some());
    match rng.u8(0..5) {
        0 if exists(&name)? => cluster.delete(at.0, at.1, at.2, &name)?,
        1 if exists(&greeting)? => cluster.delete(at.0, at.1, at.2, &greeting)?,
        2 if exists(&greeting)? => {
            let patch = json!({"data": {"greeting": "by hand"}});
            cluster
                .merge(at.0, at.1, at.2, &greeting, &patch)
                .map(drop)?;
        }
        _ => cluster.apply(asked).map(drop)?,
    }
    cluster.settle();
    Ok(())
}

#[tokio::test]
async fn what_a_plan_says_is_what_then_happens() -> Result<()> {
    let project = Project::new()?;
    let names = ["alpha", "beta"];
    let server = fleet(&project, &names).await?;
    let clusters = clusters_of(&server, &names)?;
    let mut rng = Rng::with_seed(7);
    let mut changes = 0;
    for round in 0..20 {
        for cluster in &clusters {
            for _ in 0..rng.u8(0..6) {
                disturb(cluster, &mut rng)?;
            }
        }
        let greeting = ["hello", "ahoy"][rng.usize(0..2)];
        project.write("windlass.yaml", documents(greeting, &guest("hello")))?;
        let before = objects(&clusters);
        let said = said(&planned(&project, &[]).await?)?;
        assert_eq!(objects(&clusters), before, "a plan changes nothing");
        run(&project).await?;
        assert_eq!(
            said,
            happened(&before, &objects(&clusters)),
            "round {round}"
        );
        changes += said.len();
    }
    assert!(changes > 40, "{changes}");
    let writes = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
    let before: u64 = writes
        .iter()
        .map(|verb| clusters[0].count(*verb, "configmaps"))
        .sum();
    plan(&project, &[]).await?.expect_code(0)?;
    let after: u64 = writes
        .iter()
        .map(|verb| clusters[0].count(*verb, "configmaps"))
        .sum();
    assert_eq!(before, after);
    Ok(())
}

/// The manifests in the files of a folder.
fn manifests(folder: &Path) -> Result<Vec<Json>> {
    let mut all = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = fs::read_to_string(&path)?;
            let documents: Vec<Json> = serde_saphyr::from_multiple(&text)?;
            // A document of Windlass describes the cluster, and is no object in it.
            all.extend(
                documents
                    .into_iter()
                    .filter(|it| !text_starts(it, "windlass.dev/")),
            );
        }
    }
    Ok(all)
}

fn text_starts(document: &Json, group: &str) -> bool {
    text(&document["apiVersion"]).starts_with(group)
}

/// An example over its seed, with a local cluster where it has one, before and after its guest has been at work.
async fn example(name: &str, of: &str, clusters: &[&str]) -> Result<usize> {
    let project = Project::new()?;
    let folder = windlass_harness::repository().join("examples").join(name);
    let built = guest(of);
    let documents = fs::read_to_string(folder.join("windlass.yaml"))?;
    let source = format!("../../guests/{of}");
    ensure!(documents.contains(&source), "{name} has the guest {of}");
    let path = built.to_str().context("a path")?;
    project.write("windlass.yaml", documents.replace(&source, path))?;
    let server = fleet(&project, clusters).await?;
    let hub = Server::builder()
        .cluster("(local)")
        .bind("127.0.0.1:0")
        .await?;
    project.write("hub/hub.kubeconfig", hub.kubeconfig())?;
    let mut all = clusters_of(&server, clusters)?;
    all.extend(clusters_of(&hub, &["(local)"])?);
    let seed = folder.join("seed");
    for cluster in &all {
        let (own, everywhere) = match cluster.name() {
            "(local)" => ("local", Vec::new()),
            name => (name, manifests(&seed)?),
        };
        for object in everywhere.into_iter().chain(manifests(&seed.join(own))?) {
            if object["metadata"]["namespace"].is_string() {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": object["metadata"]["namespace"]}});
                cluster.apply(namespace)?;
            }
            cluster.apply(object)?;
        }
    }
    let before = objects(&all);
    let said = said(&planned(&project, &[]).await?)?;
    assert_eq!(objects(&all), before, "a plan changes nothing");
    run(&project).await?;
    assert_eq!(said, happened(&before, &objects(&all)), "{name}");
    Ok(said.len())
}

#[tokio::test]
async fn examples_do_what_their_plans_say() -> Result<()> {
    assert!(example("hello-fleet", "hello", &["alpha", "beta"]).await? > 0);
    assert!(example("two-tenants", "census", &["alpha"]).await? > 0);
    assert!(example("hub-and-spokes", "spread", &["east", "west"]).await? > 0);
    Ok(())
}

/// A revision of the guest that greets in other words.
fn revised(project: &Project) -> Result<()> {
    let component = fs::read(guest("hello"))?;
    let revised = windlass_harness::guests::renamed(&component, ", from ", ", near ");
    project.write("revised.wasm", revised).map(drop)
}

#[tokio::test]
async fn another_guest_and_fewer_clusters_are_planned_by_flags() -> Result<()> {
    let project = Project::new()?;
    let server = fleet(&project, &["alpha", "beta"]).await?;
    let clusters = clusters_of(&server, &["alpha", "beta"])?;
    project.write("windlass.yaml", documents("hello", &guest("hello")))?;
    revised(&project)?;
    for cluster in &clusters {
        cluster.apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
            "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}}),
        )?;
    }
    let detailed = plan(&project, &["--detailed-exitcode"])
        .await?
        .expect_code(2)?;
    let lines: Vec<&str> = detailed.stdout.lines().collect();
    assert_eq!(lines[0], "2 to create, in 2 of 2 clusters");
    assert!(
        lines.contains(&"+ v1/ConfigMap default/a-greeting  by hello  in alpha"),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"    + data.greeting: hello, world, from alpha"),
        "{lines:?}"
    );
    run(&project).await?;
    plan(&project, &["--detailed-exitcode"])
        .await?
        .expect_code(0)?;

    let guest = ["--guest", "hello=revised.wasm"];
    let of = |more: &[&'static str]| [&guest[..], more].concat();
    let report = planned(&project, &of(&["--cluster", "b*"])).await?;
    let expected = json!([{"path": "data.greeting", "before": "hello, world, from beta", "after": "hello, world, near beta"}]);
    assert_eq!(report["changes"][0]["fields"], expected);
    assert_eq!(
        (&report["clusters"], &report["total"]["change"]),
        (&json!(["beta"]), &json!(1))
    );

    // What the guest that serves would do as well is no change of the new one.
    let patch = json!({"metadata": {"labels": {"hello.windlass.dev/greet": "moon"}}});
    clusters[0].merge("v1", "ConfigMap", "default", "a", &patch)?;
    let serving = planned(
        &project,
        &of(&["--baseline", "serving", "--cluster", "alpha"]),
    )
    .await?;
    let expected = json!([{"path": "data.greeting", "before": "hello, moon, from alpha", "after": "hello, moon, near alpha"}]);
    assert_eq!(serving["changes"][0]["fields"], expected);

    let comment = plan(&project, &of(&["-o", "markdown"]))
        .await?
        .expect_code(0)?
        .stdout;
    assert!(
        comment.starts_with("### Plan: 2 to change, in 2 of 2 clusters\n"),
        "{comment}"
    );
    assert!(comment.contains("```diff\n- data.greeting: hello, world, from beta\n+ data.greeting: hello, world, near beta\n```"), "{comment}");
    Ok(())
}

#[tokio::test]
async fn clusters_are_copied_a_few_at_a_time_and_servers_are_asked_without_a_trace() -> Result<()> {
    let project = Project::new()?;
    let names = ["a", "b", "c", "d", "e"];
    let faults = Arc::new(Faults::default());
    let server = fleet_with(&project, &names, Some(faults.clone())).await?;
    for cluster in clusters_of(&server, &names)? {
        cluster.apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x",
            "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}}),
        )?;
    }
    project.write("windlass.yaml", documents("hello", &guest("hello")))?;
    let report = planned(&project, &["--parallel", "2"]).await?;
    assert_eq!(report["total"]["clusters"], json!(names));
    assert_eq!(report["total"]["create"], 5);

    let refused = RequestFault::Status {
        code: 403,
        retry_after: None,
    };
    let refused = Rule::new(refused).cluster("b").verb(Verb::Create);
    faults.add(refused.resource("configmaps"));
    let report = planned(&project, &["--server-dry-run"]).await?;
    let objections = report["objections"].as_array().context("objections")?;
    assert_eq!(objections.len(), 1, "{report}");
    let of = ["cluster", "name"].map(|field| text(&objections[0][field]));
    assert_eq!(of, ["b", "x-greeting"]);
    assert!(objections[0]["refused"].is_string(), "{report}");
    let held = server.cluster("a").context("a cluster")?;
    let found = held.get("v1", "ConfigMap", "default", "x-greeting")?;
    assert_eq!((held.count(Verb::Create, "configmaps"), found), (1, None));
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_lives_as_objects_is_planned_from_outside() -> Result<()> {
    let hub = MemoryHub::start().await?;
    hub.project.write("guest.wasm", fs::read(guest("hello"))?)?;
    hub.write_manager("windlass.yaml", "")?;
    hub.alpha.ask("first", "world").await?;
    hub.put(of_platform(
        "hello",
        json!({"config": {"greeting": "ahoy"}}),
    ))?;
    let flags = ["--context", "hub", "--kubeconfig", "hub.kubeconfig"];
    let before = hub.hub.objects();
    let report = planned(&hub.project, &flags).await?;
    let changes = report["changes"].as_array().context("changes")?;
    assert_eq!(changes.len(), 1, "{report}");
    let of = (text(&changes[0]["name"]), &changes[0]["clusters"]);
    assert_eq!(of, ("first-greeting", &json!(["alpha"])));
    assert_eq!(changes[0]["fields"][0]["after"], "ahoy, world, from alpha");
    assert_eq!(hub.hub.objects(), before, "no status and no Lease either");
    let more = [&flags[..], &["--reconciler", "other"]].concat();
    let wrong = plan(&hub.project, &more).await?.expect_code(1)?;
    assert!(
        wrong.stdout.contains("there is no Reconciler other"),
        "{}",
        wrong.stdout
    );
    Ok(())
}

const FOUND: &str = r#"apiVersion: windlass.dev/v1alpha1
kind: Manager
metadata: {name: manager}
spec: {local: {kubeconfig: ./hub.kubeconfig, context: hub}}
---
apiVersion: windlass.dev/v1alpha1
kind: Provider
metadata: {name: secrets}
spec: {kubeconfigSecrets: {namespaces: [fleet]}, ALLOW}
---
apiVersion: windlass.dev/v1alpha1
kind: Provider
metadata: {name: teams}
spec: {namespaces: {selector: windlass.dev/team}}
"#;

/// The hub is read through its copy, and a namespace of it is a cluster.
#[tokio::test]
async fn clusters_that_a_hub_names_are_planned_and_namespaces_that_are_clusters() -> Result<()> {
    let project = Project::new()?;
    let server = fleet(&project, &["alpha", "hub"]).await?;
    project.write("hub.kubeconfig", server.kubeconfig())?;
    let [alpha, hub] = ["alpha", "hub"].map(|name| server.cluster(name).context("a cluster"));
    let (alpha, hub) = (alpha?, hub?);
    for (name, labels) in [
        ("fleet", json!({})),
        ("team-a", json!({"windlass.dev/team": "a"})),
    ] {
        let metadata = json!({"name": name, "labels": labels});
        hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))?;
    }
    // The current context is that of alpha.
    hub.apply(json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": server.kubeconfig()},
        "metadata": {"name": "prod", "namespace": "fleet",
            "labels": {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}}))?;
    for (cluster, namespace) in [(&alpha, "default"), (&hub, "team-a"), (&hub, "default")] {
        cluster.apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
            "namespace": namespace, "labels": {"hello.windlass.dev/greet": "world"}}}),
        )?;
    }
    let hello = documents("hello", &guest("hello"));
    let (_, hello) = hello.split_once("---").context("two documents")?;
    let refused = format!("{}---{hello}", FOUND.replace(", ALLOW", ""));
    project.write("windlass.yaml", refused)?;
    let finished = plan(&project, &[]).await?.expect_code(1)?;
    assert!(
        finished.stdout.contains("not allowed by allowServers"),
        "{}",
        finished.stdout
    );
    let allowed = FOUND.replace("ALLOW", "allowServers: [127.0.0.1]");
    project.write("windlass.yaml", format!("{allowed}---{hello}"))?;
    let report = planned(&project, &[]).await?;
    let changes = report["changes"].as_array().context("changes")?;
    let found: Vec<_> = changes
        .iter()
        .map(|change| (text(&change["clusters"][0]), text(&change["namespace"])))
        .collect();
    assert_eq!(
        found,
        [("prod", "default"), ("team-a", "team-a")],
        "{report}"
    );
    assert_eq!(
        changes[1]["fields"][0]["after"],
        "hello, world, from team-a"
    );
    assert_eq!(report["problems"], json!([]));
    Ok(())
}

/// The example's script, as the job runs it and the page prints it.
#[tokio::test]
async fn a_pull_request_gets_its_plan_as_a_comment() -> Result<()> {
    let repository = windlass_harness::repository();
    let script = fs::read_to_string(repository.join("examples/hello-fleet/ci/plan"))?;
    let page = fs::read_to_string(repository.join("docs/planning.md"))?;
    let printed = page
        .split("```bash\n")
        .nth(1)
        .and_then(|block| block.split("```").next());
    ensure!(
        script.contains(printed.context("a block")?),
        "the page prints the script"
    );

    let project = Project::new()?;
    let folder = project.path().join("examples/hello-fleet");
    let server = fleet(&project, &["alpha"]).await?;
    let alpha = server.cluster("alpha").context("a cluster")?;
    alpha.apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}}),
    )?;
    project.write("examples/hello-fleet/ci/plan", script)?;
    let documents = fs::read(repository.join("examples/hello-fleet/windlass.yaml"))?;
    project.write("examples/hello-fleet/windlass.yaml", documents)?;
    fs::rename(project.path().join("clusters"), folder.join("clusters"))?;
    std::os::unix::fs::symlink(repository.join("guests"), project.path().join("guests"))?;
    let bin = project.path().join("bin");
    fs::create_dir(&bin)?;
    std::os::unix::fs::symlink(binary()?, bin.join("windlass"))?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let mut command = tokio::process::Command::new("bash");
    let output = command
        .arg(folder.join("ci/plan"))
        .arg("plan.md")
        .env("PATH", path);
    let output = output.output().await?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let comment = fs::read_to_string(folder.join("plan.md"))?;
    assert!(
        comment.starts_with("### Plan: 1 to create, in 1 of 1 cluster\n"),
        "{comment}"
    );
    assert!(
        comment.contains("+ data.greeting: hello, world, from alpha"),
        "{comment}"
    );
    Ok(())
}

#[tokio::test]
async fn what_keeps_a_plan_from_its_end_is_said() -> Result<()> {
    let project = Project::new()?;
    let server = fleet(&project, &["alpha"]).await?;
    project.write("windlass.yaml", documents("hello", &guest("hello")))?;
    let refused = plan(&project, &["--reconciler", "helo"])
        .await?
        .expect_code(1)?;
    assert!(
        refused.stderr.contains("did you mean hello?"),
        "{}",
        refused.stderr
    );
    let refused = plan(&project, &["--guest", "hello=none.wasm"])
        .await?
        .expect_code(1)?;
    assert!(
        refused.stderr.contains("none.wasm: no such file"),
        "{}",
        refused.stderr
    );
    let refused = plan(&project, &["--baseline", "serving"])
        .await?
        .expect_code(1)?;
    assert!(refused.stderr.contains("--guest"), "{}", refused.stderr);

    let alpha = server.cluster("alpha").context("a cluster")?;
    alpha.apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
        "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}}),
    )?;
    let small = plan(&project, &["--memory", "100", "--timeout", "2s"])
        .await?
        .expect_code(1)?;
    assert!(
        small.stdout.contains("the plan is not complete"),
        "{}",
        small.stdout
    );
    assert!(small.stdout.contains("allow more"), "{}", small.stdout);
    alpha.down(true);
    let dead = plan(&project, &["--timeout", "2s"]).await?.expect_code(1)?;
    assert!(
        dead.stdout.contains("the plan is not complete"),
        "{}",
        dead.stdout
    );
    assert!(dead.stdout.contains("alpha"), "{}", dead.stdout);
    alpha.down(false);

    let text = fs::read_to_string(project.path().join("windlass.yaml"))?;
    project.write("windlass.yaml", text.replace(", create, patch]", "]"))?;
    let denied = plan(&project, &["--timeout", "5s"]).await?.expect_code(1)?;
    assert!(
        denied.stdout.contains("verbs: [patch]"),
        "{}",
        denied.stdout
    );
    Ok(())
}

const BOATS: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "boats.x.dev"},
    "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string", "default": "red"}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}"#;

/// A server that notes everything that is asked of it by the administrator, who plans.
fn audited(name: &str, folder: &Path) -> Result<Spec> {
    let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}]});
    let file = folder.join("policy.json");
    fs::write(&file, policy.to_string())?;
    let log = folder.join(format!("{name}.audit"));
    Ok(Spec::new(name)
        .with_controllers()
        .with_arg(format!("--audit-policy-file={}", file.display()))
        .with_arg(format!("--audit-log-path={}", log.display())))
}

/// The verbs of Windlass in a server's notes from a line on, and how many lines there are.
fn verbs(folder: &Path, name: &str, from: usize) -> Result<(BTreeSet<String>, usize)> {
    let notes = fs::read_to_string(folder.join(format!("{name}.audit")))?;
    let lines: Vec<&str> = notes.lines().collect();
    let mut verbs = BTreeSet::new();
    for line in &lines[from.min(lines.len())..] {
        let line: Json = serde_json::from_str(line)?;
        if text(&line["userAgent"]).starts_with("windlass/") {
            verbs.insert(text(&line["verb"]).to_owned());
        }
    }
    Ok((verbs, lines.len()))
}

/// The boats and secrets of servers.
async fn boats(servers: &[&testenv::Server]) -> Result<Objects> {
    let mut all = Objects::new();
    for server in servers {
        let client = server.client().await?;
        let request = http::Request::get("/apis/x.dev/v1/boats").body(Vec::new())?;
        let list: Json = client.request(request).await?;
        let cluster = if server.name() == "compute" {
            "(local)"
        } else {
            server.name()
        };
        let items = list["items"].as_array().into_iter().flatten();
        all.extend(items.map(|item| named(cluster, item.clone())));
    }
    Ok(all)
}

const FLEET: &str = r#"apiVersion: windlass.dev/v1alpha1
kind: Manager
metadata: {name: manager}
spec: {local: {kubeconfig: ./compute.kubeconfig}}
---
apiVersion: windlass.dev/v1alpha1
kind: Provider
metadata: {name: fleet}
spec: {kubeconfigFiles: {paths: [./clusters/consumer.kubeconfig]}}
---
apiVersion: windlass.dev/v1alpha1
kind: Reconciler
metadata: {name: sync}
spec:
  guest: {path: GUEST}
  config: {resources: [{source: {apiVersion: x.dev/v1, kind: Boat}}]}
  rules:
    - {apiGroups: [x.dev], resources: [boats], verbs: [get, list, watch, patch], namespaces: ["*"], clusters: {names: ["*"]}}
    - {apiGroups: [x.dev], resources: [boats/status], verbs: [patch], namespaces: ["*"]}
    - {apiGroups: [x.dev], resources: [boats], verbs: [get, list, watch, create, patch, delete], namespaces: ["*"], clusters: {local: true}}
    - {apiGroups: [""], resources: [namespaces], verbs: [get, create, patch], namespaces: ["*"], clusters: {local: true}}
"#;

/// 200 objects with finalizers, whose statuses come from copies in another cluster, and some of which are being deleted.
#[tokio::test]
#[ignore = "needs real servers"]
async fn real_servers_are_only_read_and_do_what_was_planned() -> Result<()> {
    let project = Project::new()?;
    let folder = project.path();
    let specs = [audited("consumer", folder)?, audited("compute", folder)?];
    let environment = Environment::start(specs).await?;
    let servers = ["consumer", "compute"].map(|name| environment.server(name));
    let [consumer, compute] = servers;
    for server in servers {
        kubectl(&environment, server, &["apply", "-f", "-"], BOATS).await?;
    }
    fs::create_dir(folder.join("clusters"))?;
    consumer.write_kubeconfig(&folder.join("clusters/consumer.kubeconfig"))?;
    compute.write_kubeconfig(&folder.join("compute.kubeconfig"))?;
    let built = guest("sync");
    let path = built.to_str().context("a path")?;
    project.write("windlass.yaml", FLEET.replace("GUEST", path))?;
    let boat = |number: usize, size: usize| {
        json!({"apiVersion": "x.dev/v1", "kind": "Boat", "metadata": {"name": format!("boat-{number}"), "namespace": "default"},
            "spec": {"size": size}})
        .to_string()
    };
    let list = |numbers: std::ops::Range<usize>, size| -> String {
        numbers.map(|number| boat(number, size) + "\n").collect()
    };
    let apply = ["apply", "-f", "-"];
    kubectl(&environment, consumer, &apply, &list(0..150, 1)).await?;
    run(&project).await?;
    // Some are new, some want something else, some go, and a copy has got a status.
    kubectl(&environment, consumer, &apply, &list(150..200, 1)).await?;
    kubectl(&environment, consumer, &apply, &list(0..20, 2)).await?;
    let doomed: Vec<String> = (20..40).map(|number| format!("boat-{number}")).collect();
    let mut delete = vec!["delete", "boats", "--wait=false"];
    delete.extend(doomed.iter().map(String::as_str));
    kubectl(&environment, consumer, &delete, "").await?;
    let copies = boats(&[compute]).await?;
    let copy = copies.values().next().context("a copy")?;
    let (namespace, name) = (
        text(&copy["metadata"]["namespace"]),
        text(&copy["metadata"]["name"]),
    );
    let status = [
        "patch",
        "boat",
        name,
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status": {"afloat": true}}"#,
    ];
    kubectl(&environment, compute, &status, "").await?;

    let before = boats(&servers).await?;
    assert!(before.len() >= 200, "{}", before.len());
    let noted = |from: [usize; 2]| -> Result<[(BTreeSet<String>, usize); 2]> {
        Ok([
            verbs(folder, "consumer", from[0])?,
            verbs(folder, "compute", from[1])?,
        ])
    };
    let start = noted([0, 0])?.map(|(_, lines)| lines);
    let report = planned(&project, &[]).await?;
    for (verbs, _) in noted(start)? {
        let reads = ["get", "list"].map(str::to_owned);
        assert_eq!(verbs, BTreeSet::from(reads));
    }
    assert_eq!(boats(&servers).await?, before, "with every resourceVersion");
    let asked = planned(&project, &["--server-dry-run"]).await?;
    assert_eq!(boats(&servers).await?, before, "dry runs leave no trace");
    let (one, other) = (said(&report)?, said(&asked)?);
    let differing = one
        .iter()
        .filter(|(line, fields)| other.get(*line) != Some(*fields));
    let differing: Vec<_> = differing.collect();
    assert!(
        differing.is_empty() && one.len() == other.len(),
        "{differing:?}"
    );
    let new = "its namespace exists only in the plan";
    let objections = asked["objections"].as_array().into_iter().flatten();
    for objection in objections {
        let refused = text(&objection["refused"]);
        assert!(refused.starts_with(new), "{objection}");
    }
    let mut said = said(&report)?;
    // The namespaces of copies are not among the objects that are compared.
    said.retain(|line, _| line.contains("/Boat "));
    run(&project).await?;
    let happened = happened(&before, &boats(&servers).await?);
    assert_eq!(said, happened);
    let count = |start: &str| said.keys().filter(|line| line.starts_with(start)).count();
    assert!(
        count("create (local)") >= 50 && count("delete consumer") >= 20,
        "{said:?}"
    );
    Ok(())
}
