//! `windlass test --crash`: mistakes that only a fault shows are found, and what is right passes.

use crate::plan::{planned, text};
use crate::project::Project;
use crate::recordings::kept;
use crate::running::{fleet, start};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value as Json, json};
use std::time::Duration;
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};

const SOON: Duration = Duration::from_secs(120);

/// The kind of the guest `test-crash`.
pub(crate) const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crashes.test.windlass.dev}
spec:
  group: test.windlass.dev
  scope: Namespaced
  names: {kind: Crash, plural: crashes, singular: crash, listKind: CrashList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// A step that applies a Crash.
fn crash(name: &str, text: &str) -> String {
    format!(
        "- apply: [{{apiVersion: test.windlass.dev/v1, kind: Crash, metadata: {{name: {name}, namespace: default}}, spec: {{text: {text}}}}}]\n"
    )
}

/// A step that expects a ConfigMap, or its absence.
fn map(step: &str, name: &str) -> String {
    format!("- {step}: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}]\n")
}

/// The steps of a pattern.
fn steps(pattern: &str) -> String {
    let first = crash("a", "one");
    let rest = match pattern {
        "name" => {
            "- expect: [{apiVersion: test.windlass.dev/v1, kind: Crash, metadata: {name: a}}]\n"
                .to_owned()
        }
        "finalizer" => {
            let delete =
                "- delete: [{apiVersion: test.windlass.dev/v1, kind: Crash, metadata: {name: a}}]\n";
            [&map("expect", "a-outside"), delete, &map("absent", "a-outside")].concat()
        }
        "status" => {
            let ready = |text: &str| {
                format!(
                    "- expect: [{{apiVersion: test.windlass.dev/v1, kind: Crash, metadata: {{name: a}}, \
                     status: {{conditions: [{{type: Ready, message: {text}}}]}}}}]\n"
                )
            };
            [ready("one"), crash("a", "two"), ready("two")].concat()
        }
        "list" => [
            map("expect", "a-outside"),
            crash("b", "one"),
            map("expect", "b-outside"),
        ]
        .concat(),
        "pair" => [map("expect", "a-left"), map("expect", "a-right")].concat(),
        "owner" => [map("expect", "a-child"), crash("a", "two"), map("expect", "a-child")].concat(),
        _ => [
            &map("expect", "a-child"),
            &crash("a", "two"),
            &map("expect", "a-child"),
            "- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-child, namespace: default}, data: {of: somebody}}]\n",
            &map("expect", "a-child"),
        ]
        .concat(),
    };
    format!("clusters: [eu]\nsteps:\n- apply: [../crd.yaml]\n{first}{rest}")
}

/// A project with one case of a pattern, with or without its mistake.
fn project(pattern: &str, mistake: bool) -> Result<Project> {
    let project = Project::new()?;
    project.write("crd.yaml", DEFINITION)?;
    project.write("windlass.yaml", documents(pattern, mistake))?;
    project.write("tests/life.yaml", steps(pattern))?;
    Ok(project)
}

fn documents(pattern: &str, mistake: bool) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: crash}}\nspec:\n  guest: {{path: {:?}}}\n  \
         config: {{pattern: {pattern}, mistake: {mistake}}}\n  rules:\n  \
         - {{apiGroups: [\"\"], resources: [configmaps], verbs: [\"*\"], namespaces: [\"*\"]}}\n  \
         - {{apiGroups: [test.windlass.dev], resources: [crashes, crashes/status], verbs: [\"*\"], namespaces: [\"*\"]}}\n",
        guest("test-crash")
    )
}

async fn test(project: &Project, more: &[&str]) -> Result<Finished> {
    Program::run(project.path(), ["test"].iter().chain(more), SOON).await
}

/// The failure that a search prints: what was found, and a case file.
struct Found {
    text: String,
    file: String,
}

async fn find(pattern: &str) -> Result<(Project, Found)> {
    let project = project(pattern, true)?;
    // Without faults nothing is wrong.
    test(&project, &[]).await?.expect_code(0)?;
    let found = search(&project, &["--crash", "--seed", "1"]).await?;
    Ok((project, found))
}

async fn search(project: &Project, flags: &[&str]) -> Result<Found> {
    let searched = test(project, flags).await?;
    let text = searched.expect_code(1)?.stdout;
    let (_, rest) = text
        .split_once("which shows it again:\n")
        .with_context(|| text.clone())?;
    let lines = rest
        .lines()
        .map_while(|line| line.strip_prefix("          "));
    let file = lines.map(|line| format!("{line}\n")).collect();
    Ok(Found { text, file })
}

/// Each line of the table is a mistake, and what it leaves over.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_that_only_a_fault_shows_are_found() -> Result<()> {
    for (pattern, left) in [
        (
            "finalizer",
            "default/a-outside: it is there and should not be",
        ),
        ("status", "status.conditions"),
        ("list", "-outside: it is not there"),
        ("owner", "metadata.ownerReferences"),
        ("replace", "data.of"),
    ] {
        let (_, Found { text, .. }) = find(pattern).await?;
        assert!(text.contains(left), "{pattern}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_finding_is_a_test_of_the_project_from_then_on() -> Result<()> {
    let (project, Found { file, .. }) = find("name").await?;
    project.write("tests/found.yaml", &file)?;
    let said = test(&project, &["--case", "found"])
        .await?
        .expect_code(1)?
        .stdout;
    assert!(
        said.contains("default/a-* (2)") && said.contains("failed 1 of 1"),
        "{said}"
    );
    // The corrected guest makes other calls.
    let file = "case: life\nfaults: [{fault: kill-after, in: eu, at: create v1/ConfigMap default/a-child}]\n";
    project.write("tests/found.yaml", file)?;
    project.write("windlass.yaml", documents("name", false))?;
    test(&project, &[]).await?.expect_code(0)?;
    project.write("tests/found.yaml", file.replace("a-child", "b-child"))?;
    let said = test(&project, &[]).await?.expect_code(1)?.stdout;
    assert!(said.contains("its faults did not strike"), "{said}");
    project.write("tests/found.yaml", file.replace("life", "death"))?;
    let error = test(&project, &[]).await?.expect_code(1)?.stderr;
    assert!(error.contains("there is no test \"death\""), "{error}");
    Ok(())
}

/// As somebody goes who meets a mistake: finds it, sees what it would do to the fleet, records it there, corrects it, and keeps both recordings as
/// tests.
#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_found_seen_recorded_corrected_and_kept_as_a_test() -> Result<()> {
    let (project, _) = find("name").await?;
    let wrong = recorded(&project, true).await?;
    let differ = wrong.replacen('{', "{\n  \"must\": \"differ\",", 1);
    project.write("tests/recordings/second-child.json", differ)?;
    let kept = ["--case", "recordings/second-child"];
    let said = test(&project, &kept).await?.expect_code(1)?.stdout;
    assert!(said.contains("it still goes as it was recorded"), "{said}");

    let right = recorded(&project, false).await?;
    project.write("tests/recordings/second-child.json", right)?;
    test(&project, &kept).await?.expect_code(0)?;
    Ok(())
}

/// Plans and then records the run that a crash leaves to do, with or without the mistake: there is a child of which its Crash knows nothing.
async fn recorded(project: &Project, mistake: bool) -> Result<String> {
    let server = fleet(project, &["alpha"]).await?;
    let cluster = server.cluster("alpha").context("a cluster")?;
    let crash = json!({"apiVersion": "test.windlass.dev/v1", "kind": "Crash",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"text": "one"}});
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a-child", "namespace": "default"}, "data": {"text": "before"}});
    let definition: Json = serde_saphyr::from_str(DEFINITION)?;
    for object in [definition, crash, child] {
        let applied = cluster.apply(object);
        applied.map_err(|error| anyhow!("{error:?}"))?;
    }
    let provider = "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: fleet}\nspec: {kubeconfigFiles: {paths: \
         [./clusters/fleet.kubeconfig]}}\n---\n";
    let record = "  record: {sample: 1, every: 1s}\n";
    let documents = [provider, &documents("name", mistake), record].concat();
    project.write("windlass.yaml", documents)?;
    let plan = planned(project, &[]).await?;
    let changes = plan["changes"].as_array().context("changes")?;
    let mut creates = changes.iter().map(|change| text(&change["action"]));
    assert_eq!(creates.any(|action| action == "create"), mistake, "{plan}");

    let (_program, address) = start(project).await?;
    let writes = |item: &Json| item["calls"].as_u64() > Some(1);
    let item = kept(project, &address, writes).await?;
    let id = item["id"].as_str().context("an id")?;
    let show = ["get", "recordings", id, "--admin", &address];
    let file = Program::run(project.path(), show, SOON).await?;
    Ok(file.expect_code(0)?.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_that_takes_two_faults_is_found_by_two() -> Result<()> {
    let project = project("pair", true)?;
    // With this seed it is found early.
    let flags = ["--crash", "--seed", "5", "--depth", "2"];
    let Found { text, file } = search(&project, &flags).await?;
    // No single fault shows it: `52 of 52 faults and 7 combinations`.
    let (tried, combined) = text
        .split_once(" faults and ")
        .with_context(|| text.clone())?;
    let mut tried = tried.rsplit(' ');
    let (all, tried) = (tried.next(), tried.nth(1));
    assert!(
        tried == all && combined.contains("a-left: it is not there"),
        "{text}"
    );
    assert_eq!(file.matches("- fault: ").count(), 2, "{file}");
    project.write("tests/found.yaml", &file)?;
    let found = ["--case", "found"];
    test(&project, &found).await?.expect_code(1)?;
    project.write("windlass.yaml", documents("pair", false))?;
    test(&project, &found).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_right_passes_under_all_faults() -> Result<()> {
    let project = project("status", false)?;
    let search = ["--crash", "--seed", "1", "-o", "json"];
    let finished = test(&project, &search).await?.expect_code(0)?;
    let report: Json = serde_json::from_str(&finished.stdout)?;
    let crash = &report["cases"][0]["crash"];
    assert_eq!(crash["tried"], crash["faults"], "{report}");
    assert!(
        crash["tried"].as_u64() > Some(20) && report["seed"] == 1,
        "{report}"
    );
    // A search needs its flag.
    let error = test(&project, &["--seed", "1"])
        .await?
        .expect_code(2)?
        .stderr;
    assert!(error.contains("--crash"), "{error}");
    Ok(())
}
