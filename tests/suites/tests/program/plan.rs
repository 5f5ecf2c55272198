//! `windlass plan`: what it says is what then happens, and nothing but reads reaches a cluster.

use crate::examples::kubectl;
use crate::project::{HELLO_RULES, Project};
use crate::running::fleet;
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_apiserver::{Cluster, Server, Verb};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};
use windlass_harness::testenv::{self, Environment, Spec};

/// Guests in five languages are compiled first, on a machine that runs other tests beside.
const LOADED: Duration = Duration::from_secs(300);

/// Changes as `action cluster kind namespace/name`, with the fields of data, spec and status that they lead to.
pub(crate) type Changes = BTreeMap<String, BTreeMap<String, Json>>;

/// The objects of clusters, by cluster, kind, namespace and name.
pub(crate) type Objects = BTreeMap<(String, String), Json>;

pub(crate) async fn plan(project: &Project, more: &[&str]) -> Result<Finished> {
    plan_files(project, &["windlass.yaml"], more).await
}

/// Plans with the documents of these files.
pub(crate) async fn plan_files(
    project: &Project,
    files: &[&str],
    more: &[&str],
) -> Result<Finished> {
    let files = files.iter().flat_map(|file| ["-f", file]);
    let args = ["plan"].into_iter().chain(files);
    Program::run(project.path(), args.chain(more.iter().copied()), LOADED).await
}

pub(crate) async fn planned(project: &Project, more: &[&str]) -> Result<Json> {
    let args = [&["-o", "json"], more].concat();
    let finished = plan(project, &args).await?.expect_code(0)?;
    ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
    Ok(serde_json::from_str(&finished.stdout)?)
}

pub(crate) async fn run(project: &Project) -> Result<()> {
    run_files(project, &["windlass.yaml"]).await
}

/// Runs with the documents of these files until nothing is left to do.
pub(crate) async fn run_files(project: &Project, files: &[&str]) -> Result<()> {
    let files = files.iter().flat_map(|file| ["-f", file]);
    let until_idle = "--admin 127.0.0.1:0 --exit-when-idle --log error";
    let args = ["run"].into_iter().chain(files);
    let args = args.chain(until_idle.split(' '));
    let finished = Program::run(project.path(), args, LOADED).await?;
    finished.expect_code(0).map(drop)
}

pub(crate) fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_time(value: &Json) -> bool {
    let text = text(value);
    text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}

/// What a plan says.
pub(crate) fn said(plan: &Json) -> Result<Changes> {
    let mut all = Changes::new();
    for change in plan["changes"].as_array().context("changes")? {
        let fields = change["fields"].as_array().into_iter().flatten();
        let fields = fields.filter_map(|field| {
            let path = text(&field["path"]);
            let of = ["data.", "spec.", "status."];
            let counts = of.iter().any(|start| path.starts_with(start)) && !path.contains('[');
            // Of a map each field is one of these, and lists are not compared.
            let is_one = !field["after"].is_object() && !field["after"].is_array();
            (counts && is_one).then(|| (path.to_owned(), field["after"].clone()))
        });
        let fields: BTreeMap<String, Json> = fields.collect();
        for cluster in change["clusters"].as_array().into_iter().flatten() {
            let object = format!(
                "{}/{} {}/{}",
                text(&change["apiVersion"]),
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
pub(crate) fn happened(before: &Objects, after: &Objects) -> Changes {
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
        // A plan leaves out what only a server assigns.
        fields.remove("spec.clusterIP");
        if object.starts_with("v1/Secret ") {
            fields.values_mut().for_each(hide);
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

/// Replaces a value of a Secret as a plan does.
fn hide(value: &mut Json) {
    if let Ok(bytes) = STANDARD.decode(text(value)) {
        *value = json!(format!("(secret, {} bytes)", bytes.len()));
    }
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
    let all = clusters.iter();
    all.flat_map(|cluster| objects_of(cluster.name(), cluster))
        .collect()
}

/// The objects of a cluster that reconcilers know by a name.
pub(crate) fn objects_of(name: &str, cluster: &Cluster) -> Objects {
    let objects = cluster.objects().into_iter();
    let objects = objects.filter(|object| object["kind"] != "Event");
    objects.map(|object| named(name, object)).collect()
}

pub(crate) fn documents(greeting: &str, guest: &Path) -> String {
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: fleet}\nspec:\n  \
        kubeconfigFiles: {paths: [./clusters], globs: [\"*.kubeconfig\"]}\n---\n";
    format!(
        "{head}apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  \
         guest: {{path: {guest:?}}}\n  config: {{greeting: {greeting}}}\n  rules: {HELLO_RULES}\n"
    )
}

pub(crate) fn clusters_of(server: &Server, names: &[&str]) -> Result<Vec<Cluster>> {
    let found = names
        .iter()
        .map(|name| server.cluster(name).context("a cluster"));
    found.collect()
}

/// What a round plans and then runs: one that greets, one that greets in other words, and one that does something else.
fn revisions(project: &Project) -> Result<[PathBuf; 3]> {
    let component = fs::read(guest("hello"))?;
    let revised = windlass_harness::guests::renamed(&component, ", from ", ", near ");
    let revised = project.write("revised.wasm", revised)?;
    Ok([guest("hello"), revised, guest("echo")])
}

/// Somebody asks for a greeting, asks for another one, does so no longer, or changes what the guest has written.
fn disturb(cluster: &Cluster, rng: &mut Rng) -> Result<()> {
    let name = format!("m-{}", rng.u8(0..6));
    let at = ("v1", "ConfigMap", "default");
    let word = || ["world", "moon", "sea"][fastrand::usize(0..3)];
    let asked = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name,
        "namespace": "default", "labels": {"hello.windlass.dev/greet": word(), "bench": "in"}},
        "data": {"value": word()}});
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
    let revisions = revisions(&project)?;
    let (mut rng, mut serving) = (Rng::with_seed(7), &revisions[0]);
    let (mut changes, mut swaps) = (0, 0);
    for round in 0..20 {
        for cluster in &clusters {
            for _ in 0..rng.u8(0..6) {
                disturb(cluster, &mut rng)?;
            }
        }
        let greeting = ["hello", "ahoy"][rng.usize(0..2)];
        // Most rounds have another guest than the one before: in the documents that are planned, or by a flag at first.
        let revision = &revisions[rng.usize(0..revisions.len())];
        let by_flag = format!("hello={}", revision.display());
        let flags = ["--guest", &by_flag];
        let flags = &flags[..if rng.bool() { 2 } else { 0 }];
        let planned_of = if flags.is_empty() { revision } else { serving };
        project.write("windlass.yaml", documents(greeting, planned_of))?;
        let before = objects(&clusters);
        let said = said(&planned(&project, flags).await?)?;
        assert_eq!(objects(&clusters), before, "a plan changes nothing");
        project.write("windlass.yaml", documents(greeting, revision))?;
        swaps += usize::from(revision != serving);
        serving = revision;
        run(&project).await?;
        assert_eq!(
            said,
            happened(&before, &objects(&clusters)),
            "round {round}"
        );
        changes += said.len();
    }
    assert!(changes > 40 && swaps >= 10, "{changes}, {swaps}");
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
