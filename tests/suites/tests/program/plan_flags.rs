//! The flags of `windlass plan`, where configurations and clusters come from, and what keeps a plan from its end.

use crate::memory_hub::{MemoryHub, of_platform};
use crate::plan::{clusters_of, documents, plan, planned, run, text};
use crate::project::{HELLO_RULES, Project};
use crate::running::{SOON, fleet, fleet_with};
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_harness::guests::guest;
use windlass_harness::program::{Program, binary};

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

/// A Reconciler with a part of its specification.
fn reconciler(name: &str, of: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: {name}}}\nspec:\n  \
         guest: {{path: {:?}}}\n  rules: {HELLO_RULES}\n  {spec}\n",
        guest(of)
    )
}

#[tokio::test]
async fn one_of_several_reconcilers_is_planned_and_keys_that_ask_for_a_later_run_are_counted()
-> Result<()> {
    let project = Project::new()?;
    let server = fleet(&project, &["alpha", "beta"]).await?;
    for cluster in clusters_of(&server, &["alpha", "beta"])? {
        cluster.apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
            "namespace": "default", "labels": {"hello.windlass.dev/greet": "world"}}}),
        )?;
    }
    let hello = documents("hello", &guest("hello"));
    let (provider, _) = hello.split_once("---").context("a provider")?;
    let greets = |name: &str, cluster: &str| {
        let spec = format!("config: {{greeting: {name}}}\n  clusters: {{names: [{cluster}]}}");
        reconciler(name, "hello", &spec)
    };
    let waits = reconciler("waits", "test-requeue", "config: {after: 3600000}");
    let all = [
        provider,
        &greets("hello", "alpha"),
        &greets("ahoy", "beta"),
        &waits,
    ];
    project.write("windlass.yaml", all.concat())?;

    let one = planned(&project, &["--reconciler", "ahoy"]).await?;
    assert_eq!(one["reconcilers"].as_object().map(|all| all.len()), Some(1));
    assert_eq!(one["reconcilers"]["ahoy"]["clusters"], json!(["beta"]));
    assert_eq!(
        (&one["total"]["create"], &one["later"]),
        (&json!(1), &json!({}))
    );
    // Both ConfigMaps of each cluster.
    let report = planned(&project, &[]).await?;
    assert_eq!(report["total"]["create"], 2, "{report}");
    assert_eq!(report["later"], json!({"waits": 4}), "{report}");
    let flags = [
        "--reconciler",
        "hello",
        "--reconciler",
        "waits",
        "--cluster",
        "alpha",
    ];
    let said = plan(&project, &flags).await?.expect_code(0)?.stdout;
    assert!(
        said.contains("2 keys of waits asked for a later run"),
        "{said}"
    );
    Ok(())
}

/// The program `script` is part of every Linux.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_sees_how_far_a_plan_is_until_it_ends() -> Result<()> {
    let project = Project::new()?;
    let _server = fleet(&project, &["alpha"]).await?;
    project.write("windlass.yaml", documents("hello", &guest("hello")))?;
    let planning = format!("{} plan -f windlass.yaml", binary()?.display());
    let mut command = tokio::process::Command::new("script");
    command.args(["-qec", &planning, "/dev/null"]);
    command.current_dir(project.path());
    let shown = Program::spawn(command)?.wait(SOON).await?.expect_code(0)?;
    let shown = shown.stdout;
    let clear = "\r\u{1b}[2K";
    let progress = format!("{clear}1 cluster, 0.0 MiB copied");
    let (_, end) = shown.rsplit_once(clear).with_context(|| shown.clone())?;
    assert!(shown.contains(&progress), "{shown:?}");
    assert!(end.contains("nothing to change in 1 cluster"), "{shown:?}");
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
    // A right that the credentials lack is named, with the cluster.
    let unread = RequestFault::Status {
        code: 403,
        retry_after: None,
    };
    let unread = Rule::new(unread).cluster("c").verb(Verb::List);
    faults.add(unread.resource("configmaps"));
    let lacking = plan(&project, &["--timeout", "3s"]).await?.expect_code(1)?;
    let lacking = lacking.stdout;
    let line = lacking.lines().find(|line| line.contains("\"c\""));
    let line = line.with_context(|| lacking.clone())?;
    assert!(line.contains("v1/ConfigMap: forbidden"), "{lacking}");
    assert!(
        lacking.starts_with("4 to create, in 4 of 5 clusters"),
        "{lacking}"
    );
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
    // Labels of the namespace are those of its cluster, and labels of the Secret those of the other one.
    let some = planned(&project, &["-l", "windlass.dev/team in (a, b)"]).await?;
    assert_eq!(some["clusters"], json!(["(local)", "team-a"]), "{some}");
    let others = planned(&project, &["-l", "!windlass.dev/team"]).await?;
    assert_eq!(
        others["changes"][0]["clusters"],
        json!(["prod"]),
        "{others}"
    );
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

    // Somebody does not want to wait.
    let args = ["plan", "-f", "windlass.yaml", "--log", "info"];
    let mut waiting = Program::start(project.path(), args)?;
    let token = waiting.line_with("callers of the API need", SOON).await?;
    let token: Json = serde_json::from_str(&token)?;
    let token = Path::new(text(&token["path"]));
    assert!(token.is_file(), "{token:?}");
    waiting.line_with("cluster engaged", SOON).await?;
    waiting.signal("INT")?;
    let ended = waiting.wait(SOON).await?.expect_code(1)?;
    assert!(
        ended.stderr.contains("nothing was changed"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "");
    assert!(!token.exists(), "{token:?}");
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
