//! `windlass test` and `windlass new`.

use crate::project::{HELLO_RULES, Project};
use anyhow::Result;
use serde_json::Value as Json;
use std::time::Duration;
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};

const SOON: Duration = Duration::from_secs(120);

const ASKING: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\n  labels: {hello.windlass.dev/greet: world}\n";

fn greeting(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a-greeting\n  namespace: default\n  \
         ownerReferences: [{{kind: ConfigMap, name: a}}]\ndata: {{greeting: {text:?}}}\n"
    )
}

/// A project of the hello guest, that greets in these words.
fn documents(greeting: &str) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: hello}}\nspec:\n  guest: {{path: {:?}}}\n  \
         config: {{greeting: {greeting}}}\n  rules: {HELLO_RULES}\n",
        guest("hello")
    )
}

fn project() -> Result<Project> {
    let project = Project::new()?;
    project.write("windlass.yaml", documents("hello"))?;
    Ok(project)
}

async fn test(project: &Project, more: &[&str]) -> Result<Finished> {
    Program::run(project.path(), ["test"].iter().chain(more), SOON).await
}

#[tokio::test]
async fn cases_pass_when_every_cluster_holds_what_is_expected() -> Result<()> {
    let project = project()?;
    project.write("tests/everywhere/seed/a.yaml", ASKING)?;
    project.write(
        "tests/everywhere/expect/beta/a.yaml",
        greeting("hello, world, from beta"),
    )?;
    project.write(
        "tests/everywhere/absent/b.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b-greeting}\n",
    )?;
    project.write("tests/one/seed/eu/a.yaml", ASKING)?;
    project.write("tests/one/expect/a.yaml", greeting("ahoy, world, from eu"))?;
    project.write("tests/one/windlass.yaml", documents("ahoy"))?;
    let finished = test(&project, &[]).await?.expect_code(0)?;
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(
        lines.len() == 3
            && lines[0].starts_with("ok      everywhere")
            && lines[1].starts_with("ok      one"),
        "{lines:?}"
    );
    assert_eq!(lines[2], "passed 2 tests");
    Ok(())
}

/// Steps in which an object comes, changes and goes.
const LIFE: &str = r#"
clusters: [eu, us]
steps:
- apply: [../manifests/a.yaml]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from eu"}}]
  in: [eu]
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {hello.windlass.dev/greet: moon}}}]
  in: [us]
- wait: 10ms
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, moon, from us"}}]
  in: [us]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from eu"}}]
  in: [eu]
- expectEvents: [{involvedObject: {kind: ConfigMap, name: a}, message: "moon is greeted by a-greeting"}]
  in: [us]
- delete: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]
  in: [us]
- absent: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}}]
  in: [us]
"#;

#[tokio::test]
async fn steps_follow_each_other_when_nothing_is_left_to_do() -> Result<()> {
    let project = project()?;
    project.write("manifests/a.yaml", ASKING)?;
    project.write("tests/life.yaml", LIFE)?;
    let finished = test(&project, &["--junit", "results.xml"]).await?;
    finished.expect_code(0)?;
    let results = std::fs::read_to_string(project.path().join("results.xml"))?;
    assert!(results.contains("name=\"life\""), "{results}");
    assert!(results.contains("failures=\"0\""), "{results}");
    Ok(())
}

#[tokio::test]
async fn a_step_that_differs_is_told_by_its_number_and_nothing_is_changed_after_it() -> Result<()> {
    let project = project()?;
    project.write("manifests/a.yaml", ASKING)?;
    let wrong = LIFE.replace("hello, moon, from us", "hello, sun, from us");
    // It would fail, if it were done.
    let wrong = wrong.replace(
        "kind: ConfigMap, metadata: {name: a}}",
        "kind: Nothing, metadata: {name: a}}",
    );
    project.write("tests/life.yaml", wrong)?;
    let said = test(&project, &["--junit", "results.xml"])
        .await?
        .expect_code(1)?
        .stdout;
    for part in [
        "tests/life.yaml:10: step 5, cluster us, v1/ConfigMap a-greeting",
        "expected \"hello, sun, from us\"",
        "found    \"hello, moon, from us\"",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("Nothing"), "{said}");
    let results = std::fs::read_to_string(project.path().join("results.xml"))?;
    assert!(
        results.contains("life.yaml:10: step 5, cluster us"),
        "{results}"
    );

    // The error names a step that cannot be done.
    project.write(
        "tests/life.yaml",
        LIFE.replace("metadata: {name: a}}]", "metadata: {name: b}}]"),
    )?;
    let said = test(&project, &[]).await?.expect_code(1)?.stdout;
    assert!(
        said.contains("tests/life.yaml:16: step 8: cluster us: ConfigMap b: it is not there"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_difference_is_told_with_object_path_expected_and_found() -> Result<()> {
    let project = project()?;
    project.write("tests/wrong/seed/eu/a.yaml", ASKING)?;
    project.write(
        "tests/wrong/expect/eu/a.yaml",
        greeting("hello, moon, from eu"),
    )?;
    project.write(
        "tests/wrong/expect/eu/c.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n",
    )?;
    project.write("tests/wrong/absent/a.yaml", ASKING)?;
    let said = test(&project, &[]).await?.expect_code(1)?.stdout;
    for expected in [
        "FAILED  wrong",
        "cluster eu, v1/ConfigMap default/a-greeting\n          data.greeting\n            expected \"hello, moon, from eu\"\n            found    \"hello, world, from eu\"",
        "cluster eu, v1/ConfigMap default/c: it is not there",
        "cluster eu, v1/ConfigMap default/a: it is there and should not be",
        "failed 1 of 1 test",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
    let told = test(&project, &["--output", "json"])
        .await?
        .expect_code(1)?
        .stdout;
    let told: Json = serde_json::from_str(&told)?;
    assert_eq!(
        (&told["passed"], &told["failed"]),
        (&Json::from(0), &Json::from(1))
    );
    let difference = &told["cases"][0]["differences"][0];
    assert_eq!(difference["path"], "data.greeting");
    assert_eq!(difference["found"], "hello, world, from eu");
    assert_eq!(difference["cluster"], "eu");
    Ok(())
}

#[tokio::test]
async fn a_key_that_fails_fails_its_case() -> Result<()> {
    let project = project()?;
    // Without the verb patch the greeting cannot be applied.
    let documents = documents("hello").replace(", patch", "");
    project.write("windlass.yaml", documents)?;
    project.write("tests/denied/seed/eu/a.yaml", ASKING)?;
    project.write(
        "tests/denied/absent/a.yaml",
        greeting("hello, world, from eu"),
    )?;
    let said = test(&project, &["-o", "json"])
        .await?
        .expect_code(1)?
        .stdout;
    let said: Json = serde_json::from_str(&said)?;
    let case = &said["cases"][0];
    let problems = case["problems"].to_string();
    assert!(
        problems.contains("cluster://eu/default/a") && problems.contains("denied"),
        "{said}"
    );
    // Ten failures take some seconds, and a case at most a minute.
    assert!(case["seconds"].as_f64() < Some(45.0), "{said}");
    Ok(())
}

#[tokio::test]
async fn one_case_can_be_chosen_and_none_is_told() -> Result<()> {
    let project = project()?;
    let said = test(&project, &[]).await?.expect_code(1)?.stderr;
    assert!(
        said.contains("there is no test") && said.contains("tests/NAME/expect"),
        "{said}"
    );
    project.write("tests/good/seed/eu/a.yaml", ASKING)?;
    project.write(
        "tests/good/expect/a.yaml",
        greeting("hello, world, from eu"),
    )?;
    project.write("tests/bad/expect/us/a.yaml", ASKING)?;
    let said = test(&project, &["--case", "good"])
        .await?
        .expect_code(0)?
        .stdout;
    assert!(said.ends_with("passed 1 test\n"), "{said}");
    let said = test(&project, &["--case", "bad"])
        .await?
        .expect_code(1)?
        .stderr;
    assert!(said.contains("cluster \"us\""), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_project_is_not_written_over_anything() -> Result<()> {
    let project = Project::new()?;
    project.write("demo/notes.txt", "mine")?;
    let said = Program::run(project.path(), ["new", "demo", "--lang", "rust"], SOON)
        .await?
        .expect_code(1)?
        .stderr;
    assert!(said.contains("demo: there is something already"), "{said}");
    assert_eq!(std::fs::read_dir(project.path().join("demo"))?.count(), 1);
    let said = Program::run(project.path(), ["new", "Demo", "--lang", "rust"], SOON)
        .await?
        .expect_code(1)?
        .stderr;
    assert!(
        said.contains("\"Demo\" cannot be the name of a guest"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_save_runs_the_tests_again() -> Result<()> {
    let project = project()?;
    project.write("tests/one/seed/eu/a.yaml", ASKING)?;
    let expected = "tests/one/expect/a.yaml";
    project.write(expected, greeting("hello, moon, from eu"))?;
    let mut program = Program::start(project.path(), ["test", "--watch"])?;
    program.line_with("failed 1 of 1", SOON).await?;
    program.line_with("waiting for a change", SOON).await?;
    project.write(expected, greeting("hello, world, from eu"))?;
    program.line_with("passed 1 test", SOON).await?;
    program.signal("INT")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn the_sdk_of_a_project_is_upgraded() -> Result<()> {
    let project = Project::new()?;
    let run = async |args: &[&str]| Program::run(project.path(), args, SOON).await;
    run(&["new", "demo", "--lang", "python"])
        .await?
        .expect_code(0)?;
    std::fs::remove_file(project.path().join("demo/sdk/windlass/fleet.py"))?;
    let said = run(&["upgrade", "demo"]).await?.expect_code(0)?.stdout;
    let version = run(&["--version"]).await?.expect_code(0)?.stdout;
    let version = version.split_whitespace().nth(1).unwrap_or_default();
    assert!(
        said.contains("1 file changed") && said.contains(version),
        "{said}"
    );
    let file = project.path().join("demo/sdk/windlass/fleet.py");
    std::fs::write(&file, "# mine\n")?;
    let said = run(&["upgrade", "demo"]).await?.expect_code(1)?.stderr;
    assert!(said.contains("windlass/fleet.py: with --force"), "{said}");
    Ok(())
}

/// The tests run with all rights to find the rules, and pass with the rules that were found.
#[tokio::test]
async fn rules_that_the_tests_need_are_found_and_written() -> Result<()> {
    let project = project()?;
    let some = r#"[{apiGroups: [""], resources: [configmaps], verbs: [get], namespaces: ["*"]}]"#;
    let in_lines = format!("\n  # for reads\n  - {}", &some[1..some.len() - 1]);
    let documents = documents("hello");
    project.write("windlass.yaml", documents.replace(HELLO_RULES, &in_lines))?;
    project.write("tests/greets/seed/eu/a.yaml", ASKING)?;
    project.write(
        "tests/greets/expect/a.yaml",
        greeting("hello, world, from eu"),
    )?;
    test(&project, &["--timeout", "2s"]).await?.expect_code(1)?;

    let rules = ["rules"];
    let found = Program::run(project.path(), rules, SOON).await?;
    let lacking = "{apiGroups: [\"\"], resources: [configmaps], verbs: [list, watch, create, patch], namespaces: [\"*\"]}";
    let stdout = &found.expect_code(1)?.stdout;
    assert!(
        stdout.contains(&format!(
            "Reconciler hello lacks 1 rule:\n    - {lacking}\n"
        )),
        "{stdout}"
    );
    // Documents may be shared by a link.
    let (file, shared) = (
        project.path().join("windlass.yaml"),
        project.path().join("shared.yaml"),
    );
    std::fs::rename(&file, &shared)?;
    std::os::unix::fs::symlink("shared.yaml", &file)?;
    let args = ["rules", "--write", "-o", "json"];
    let told = Program::run(project.path(), args, SOON).await?;
    let told: Json = serde_json::from_str(&told.expect_code(0)?.stdout)?;
    assert_eq!(told["missing"][0]["rules"], serde_json::json!([lacking]));
    let now = std::fs::read_to_string(shared)?;
    let expected = in_lines.replace("  - {", &format!("  - {lacking}\n  - {{"));
    assert!(now.contains(&expected), "{now}");

    test(&project, &[]).await?.expect_code(0)?;
    let complete = Program::run(project.path(), rules, SOON).await?;
    let stdout = &complete.expect_code(0)?.stdout;
    assert!(stdout.contains("no test needs more rules"), "{stdout}");
    Ok(())
}

#[tokio::test]
async fn what_a_run_was_denied_is_named_once_and_known_to_check() -> Result<()> {
    let project = Project::new()?;
    let calls = guest("test-calls");
    let documents = |more: &str| {
        format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: calls}}\nspec:\n  guest: {{path: {calls:?}}}\n  \
             config: {{steps: [{{do: get, kind: [v1, Secret], key: [default, a]}}, {{do: get, kind: [v1, Service], key: [default, a]}}, {{do: get, kind: [apps/v1, Deploymnet], key: [default, a]}}]}}\n  \
             rules:\n  - {{apiGroups: [\"\"], resources: [configmaps], verbs: [\"*\"], namespaces: [\"*\"]}}\n{more}"
        )
    };
    project.write("windlass.yaml", documents(""))?;
    let run = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {test.windlass.dev/run: a}}\n";
    for name in ["one", "two"] {
        project.write(&format!("tests/{name}/seed/eu/a.yaml"), run)?;
        project.write(&format!("tests/{name}/expect/a.yaml"), run)?;
    }
    let denied = test(&project, &["--timeout", "10s"]).await?;
    let denied = denied.expect_code(1)?;
    let stdout = &denied.stdout;
    let rules = ["secrets", "services"].map(|resource| {
        format!("    - {{apiGroups: [\"\"], resources: [{resource}], verbs: [get], namespaces: [default]}}\n")
    });
    let lacks = format!("Reconciler calls lacks:\n{}", rules.concat());
    let said = format!("{stdout}{}", denied.stderr);
    assert_eq!(stdout.matches(&lacks).count(), 1, "{said}");
    assert_eq!(stdout.matches("lacks").count(), 1, "{stdout}");
    // No rule would help where a kind is misspelt.
    let hint = "does not serve apps/v1/Deploymnet: did you mean apps/v1/Deployment?";
    assert!(denied.stderr.contains(hint), "{said}");
    assert!(!stdout.contains("deploymnets"), "{said}");
    // The log is at `warn` unless told otherwise. Its lines say whose they are.
    let is_whole = |line: &str| {
        [
            "\"reconciler\":\"calls\"",
            "\"cluster\":\"eu\"",
            "\"name\":\"a\"",
        ]
        .iter()
        .all(|field| line.contains(field))
    };
    assert!(denied.stderr.lines().any(is_whole), "{}", denied.stderr);

    let args = [
        "check".as_ref(),
        calls.as_os_str(),
        "-f".as_ref(),
        "windlass.yaml".as_ref(),
    ];
    let told = Program::run(project.path(), args, SOON).await?;
    let told = told.expect_code(0)?.stdout;
    assert!(told.contains(&lacks), "{told}");
    let found = Program::run(project.path(), ["rules"], SOON).await?;
    let asks = "Reconciler calls asks for apps/v1/Deploymnet, which the clusters of the tests do not serve: did you mean apps/v1/Deployment?\n";
    assert!(found.stdout.contains(asks), "{}", found.stdout);
    assert!(!found.stdout.contains("deploymnets"), "{}", found.stdout);
    // Once they are granted, as they are printed, nothing is lacking.
    let printed = rules.concat().replace("    - ", "  - ");
    project.write("windlass.yaml", documents(&printed))?;
    let ran = test(&project, &[]).await?;
    assert!(!ran.stdout.contains("lacks"), "{}", ran.stdout);
    let told = Program::run(project.path(), args, SOON).await?;
    let told = told.expect_code(0)?.stdout;
    assert!(!told.contains("lacks"), "{told}");
    Ok(())
}

/// An original in the hub, and its copies in two clusters, until it goes.
const SPREADING: &str = r#"
clusters: [eu, us]
steps:
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, labels: {hub.windlass.dev/spread: ""}}, data: {x: one}}]
  in: [local]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: one}}]
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, labels: {hub.windlass.dev/spread: ""}}, data: {x: two}}]
  in: [local]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: two}}]
- delete: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]
  in: [local]
- absent: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]
"#;

/// A guest whose mapper asks for requests in other clusters, with a rule that it has no use for.
#[tokio::test]
async fn rules_of_a_mapper_are_found_from_none_and_unused_ones_are_removed() -> Result<()> {
    let project = Project::new()?;
    let pods = "{apiGroups: [\"\"], resources: [pods], verbs: [get], namespaces: [\"*\"]}";
    let documents = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: spread}}\nspec:\n  guest: {{path: {:?}}}\n  rules:\n  - {pods}\n",
        guest("spread")
    );
    project.write("windlass.yaml", &documents)?;
    project.write("tests/spreads.yaml", SPREADING)?;
    let found = Program::run(project.path(), ["rules", "--write"], SOON).await?;
    let found = found.expect_code(0)?.stdout;
    let rule = |resources: &str, verbs: &str, clusters: &str| {
        format!(
            "    - {{apiGroups: [\"\"], resources: [{resources}], verbs: [{verbs}], namespaces: [\"*\"]{clusters}}}\n"
        )
    };
    let expected = [
        rule("configmaps", "get, list, watch, create, update, delete", ""),
        // This one opens the clusters of the mapper's requests too.
        "    - {apiGroups: [fleet.windlass.dev], resources: [clusters], verbs: [list, watch], namespaces: [\"*\"], clusters: {local: true, names: [\"*\"]}}\n".to_owned(),
        rule("configmaps", "get", ", clusters: {local: true}"),
    ];
    let lacks = format!("Reconciler spread gets 3 rules:\n{}", expected.concat());
    assert!(found.starts_with(&lacks), "{found}");
    let unused = format!("Reconciler spread has 1 rule that no test uses:\n    - {pods}\n");
    assert!(found.contains(&unused), "{found}");
    test(&project, &[]).await?.expect_code(0)?;

    let pruned = Program::run(project.path(), ["rules", "--prune"], SOON).await?;
    let pruned = pruned.expect_code(0)?.stdout;
    assert!(pruned.contains("complete"), "{pruned}");
    let now = std::fs::read_to_string(project.path().join("windlass.yaml"))?;
    assert!(
        !now.contains("pods") && now.contains("fleet.windlass.dev"),
        "{now}"
    );
    Ok(())
}

/// Clusters that come, change and go, and the greetings in them.
const CHANGES: &str = r#"
clusters: [eu]
steps:
- apply: [../manifests/a.yaml]
- join: {us: {labels: {env: prod}}, ap: {labels: {env: dev}}}
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from us"}}]
  in: [us]
- absent: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}}]
  in: [eu, ap]
- label: {ap: {env: prod, tier: one}, us: {env: null}}
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from ap"}}]
  in: [ap]
- fail: {ap: unreachable}
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {hello.windlass.dev/greet: moon}}}]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from ap"}}]
  in: [ap]
- heal: [ap]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, moon, from ap"}}]
  in: [ap]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from us"}}]
  in: [us]
- fail: {ap: errors}
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {hello.windlass.dev/greet: sun}}}]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, moon, from ap"}}]
  in: [ap]
- heal: [ap]
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, sun, from ap"}}]
  in: [ap]
- leave: [ap]
- delete: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}}]
  in: [ap]
- absent: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}}]
  in: [ap]
- join: {ap: {labels: {env: prod}}}
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a-greeting}, data: {greeting: "hello, world, from ap"}}]
  in: [ap]
"#;

#[tokio::test]
async fn clusters_join_leave_change_labels_fail_and_heal_in_steps() -> Result<()> {
    let project = project()?;
    let selecting = "  clusters: {selector: env=prod}\n  rules:";
    let documents = documents("hello").replace("  rules:", selecting);
    project.write("windlass.yaml", &documents)?;
    project.write("manifests/a.yaml", ASKING)?;
    project.write("tests/changes.yaml", CHANGES)?;
    test(&project, &[]).await?.expect_code(0)?;

    // A step that cannot be done, and one about a cluster that never comes.
    project.write(
        "tests/changes.yaml",
        CHANGES.replace("leave: [ap]", "join: {ap: {}}"),
    )?;
    let said = test(&project, &[]).await?.expect_code(1)?.stdout;
    let place = "tests/changes.yaml:29: step 18: cluster ap is in the fleet already";
    assert!(said.contains(place), "{said}");
    project.write(
        "tests/changes.yaml",
        CHANGES.replace("leave: [ap]", "leave: [sa]"),
    )?;
    let said = test(&project, &[]).await?.expect_code(1)?.stderr;
    let known = "tests/changes.yaml:29: step 18: test changes names the cluster \"sa\" in a step, which is not one for it: there are ap, eu, us";
    assert!(said.contains(known), "{said}");
    Ok(())
}

/// A guest that waits for an hour, by the clock that it reads and by a delayed requeue.
const WAITING: &str = r#"
clusters: [eu]
steps:
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]
- clock: 30m
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {test.windlass.dev/over: null}}}]
- clock: 31m
- expect: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {test.windlass.dev/over: "yes"}}}]
"#;

#[tokio::test]
async fn the_clock_of_guests_and_what_is_due_later_move_together() -> Result<()> {
    let project = Project::new()?;
    let documents = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: waits}}\nspec:\n  guest: {{path: {:?}}}\n  \
         config: {{due: 3600}}\n  rules:\n  - {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, patch], namespaces: [\"*\"]}}\n",
        guest("test-requeue")
    );
    project.write("windlass.yaml", documents)?;
    project.write("tests/waits.yaml", WAITING)?;
    // Each case begins with the machine's time.
    project.write("tests/waits-too.yaml", WAITING)?;
    test(&project, &[]).await?.expect_code(0)?;
    Ok(())
}
