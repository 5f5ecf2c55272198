//! `windlass dev`.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use anyhow::Result;
use serde_json::Value as Json;
use std::fs;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};
use windlass_harness::testenv::free_port;

/// Builds wait for each other.
const BUILD: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(60);

const SEED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\n  labels: {hello.windlass.dev/greet: world}\n";

async fn until_idle(project: &Project, more: &[&str]) -> Result<Finished> {
    let args = ["dev", "--admin", "127.0.0.1:0", "--exit-when-idle"]
        .iter()
        .chain(more);
    Program::run(project.path(), args, BUILD).await
}

#[tokio::test]
async fn a_kind_that_no_cluster_has_is_no_success() -> Result<()> {
    let project = Project::new()?;
    let file = guest("test-describe");
    project.write(
        "windlass.yaml",
        format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: shepherd}}\nspec:\n  guest: {{path: {file:?}}}\n  \
             config: {{way: watch-geese}}\n  \
             rules: [{{apiGroups: [example.dev], resources: [geese], verbs: [list, watch], namespaces: [\"*\"]}}]\n"
        ),
    )?;
    let definition = |kind: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: geese.example.dev}}\nspec:\n  \
             group: example.dev\n  scope: Namespaced\n  names: {{kind: {kind}, plural: geese}}\n  versions:\n    \
             - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
        )
    };
    let args = ["dev", "--admin", "127.0.0.1:0", "--exit-when-idle"];
    project.write("seed/eu/geese.yaml", definition("Gooose"))?;
    project.write("seed/us/none.yaml", "")?;
    let failed = Program::run(project.path(), args, SOON).await?;
    let said = failed.expect_code(1)?.stdout;
    // The same in a test of it.
    project.write("tests/herd/seed/eu/geese.yaml", definition("Gooose"))?;
    project.write("tests/herd/seed/us/none.yaml", "")?;
    project.write("tests/herd/absent/a.yaml", SEED)?;
    let tested = Program::run(project.path(), ["test"], SOON).await?;
    for said in [said, tested.expect_code(1)?.stdout] {
        for part in [
            "reconciler shepherd watches nothing",
            "did you mean example.dev/v1/Gooose?",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
    // The run succeeds if one cluster serves the kind.
    project.write("seed/eu/geese.yaml", definition("Goose"))?;
    let done = Program::run(project.path(), args, SOON).await?;
    done.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn the_clusters_are_at_the_port_that_is_asked_for() -> Result<()> {
    let project = Project::new()?;
    let documents = reconciler("hello", &guest("hello")).replace("tenant: team-a", "");
    project.write("windlass.yaml", documents)?;
    let port = free_port()?.to_string();
    let args = ["dev", "--admin", "127.0.0.1:0", "--port", &port];
    let mut program = Program::start(project.path(), args)?;
    program.line_with("admin endpoints", SOON).await?;
    let kubeconfig = fs::read_to_string(project.path().join(".windlass/kubeconfig"))?;
    let server = format!("http://127.0.0.1:{port}/");
    assert!(kubeconfig.contains(&server), "{server} in {kubeconfig}");
    let second = Program::run(project.path(), args, SOON).await?;
    let said = second.expect_code(1)?.stderr;
    let refusal =
        format!("cannot serve the in-memory fleet at 127.0.0.1:{port}: choose another port");
    assert!(said.contains(&refusal), "{said}");
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn the_example_ends_when_idle_and_tells_what_it_did_in_each_cluster() -> Result<()> {
    let args = [
        "dev",
        "examples/hello-fleet",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
    ];
    let finished = Program::run(&windlass_harness::repository(), args, BUILD)
        .await?
        .expect_code(0)?;
    for cluster in ["alpha", "beta", "gamma"] {
        let row = finished
            .stdout
            .lines()
            .find(|line| line.trim_start().starts_with(cluster) && line.contains(" 0"));
        assert!(row.is_some(), "no row of {cluster} in\n{}", finished.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn the_hub_of_an_example_is_in_its_spokes_when_idle() -> Result<()> {
    let repository = windlass_harness::repository();
    let mut program = Program::start(
        &repository,
        ["dev", "examples/hub-and-spokes", "--admin", "127.0.0.1:0"],
    )?;
    program.line_with("admin endpoints", BUILD).await?;
    let kubeconfig = repository.join("examples/hub-and-spokes/.windlass/kubeconfig");
    for spoke in ["east", "west"] {
        let maps = ConfigMaps::in_context(&kubeconfig, spoke).await?;
        maps.expect_value("settings", "colour", Some("blue"))
            .await?;
        maps.expect_value("dropped", "text", None).await?;
        maps.expect_value("private", "text", None).await?;
    }
    let hub = ConfigMaps::in_context(&kubeconfig, "local").await?;
    hub.delete("settings").await?;
    let west = ConfigMaps::in_context(&kubeconfig, "west").await?;
    west.expect_value("settings", "colour", None).await?;
    let east = ConfigMaps::in_context(&kubeconfig, "east").await?;
    east.expect_value("own", "text", Some("mine")).await?;
    Ok(())
}

#[tokio::test]
async fn the_stand_ins_of_an_inventory_have_what_its_hub_has() -> Result<()> {
    let repository = windlass_harness::repository();
    let args = [
        "dev",
        "examples/inventory",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
    ];
    let finished = Program::run(&repository, args, BUILD).await?;
    let finished = finished.expect_code(0)?;
    for cluster in ["edge", "prod-eu", "prod-us"] {
        let mut lines = finished.stdout.lines();
        let ready = lines.any(|line| line.starts_with(cluster) && line.contains("Ready"));
        assert!(ready, "no row of {cluster} in\n{}", finished.stdout);
    }
    Ok(())
}

#[tokio::test]
async fn two_tenants_of_an_example_have_nothing_left_to_do() -> Result<()> {
    let args = [
        "dev",
        "examples/two-tenants",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
    ];
    let repository = windlass_harness::repository();
    let finished = Program::run(&repository, args, BUILD).await?;
    finished.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn what_was_done_is_told_to_programs_too() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    project.write("seed/a.yaml", SEED)?;
    project.write("seed/eu/b.yaml", SEED.replace("name: a", "name: b"))?;
    fs::create_dir(project.path().join("seed/us"))?;
    let finished = until_idle(&project, &["-o", "json"])
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    let clusters = told["clusters"].as_array().unwrap();
    let names: Vec<_> = clusters
        .iter()
        .map(|cluster| cluster["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(names, ["eu", "us"], "{told}");
    assert!(
        clusters
            .iter()
            .all(|cluster| cluster["succeeded"].as_u64() >= Some(1) && cluster["failed"] == 0),
        "{told}"
    );
    assert!(clusters[0]["succeeded"].as_u64() >= Some(2), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_key_that_keeps_failing_is_listed_with_its_error() -> Result<()> {
    let project = Project::new()?;
    // The guest may look, and may not write.
    let poor = reconciler("hello", &guest("hello"))
        .replace("[get, list, watch, create, patch]", "[get, list, watch]");
    project.write_config(&[poor])?;
    project.write("seed/only/a.yaml", SEED)?;
    let finished = until_idle(&project, &["--idle-timeout", "1s"])
        .await?
        .expect_code(1)?;
    let told = format!("{}{}", finished.stdout, finished.stderr);
    for expected in ["cluster://only/default/a", "hello", "patch"] {
        assert!(told.contains(expected), "{expected:?} is not in\n{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_document_that_is_left_out_is_not_done_when_idle() -> Result<()> {
    let project = Project::new()?;
    let bad = reconciler("bad", &guest("hello")).replace("config:", "confg:");
    project.write_config(&[reconciler("hello", &guest("hello")), bad])?;
    let finished = until_idle(&project, &["-o", "json"])
        .await?
        .expect_code(1)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    assert_eq!(told["done"], false);
    assert!(
        told["problems"][0].as_str().unwrap().contains("confg"),
        "{told}"
    );
    Ok(())
}

#[tokio::test]
async fn there_is_a_local_cluster_where_the_seed_has_one() -> Result<()> {
    let project = Project::new()?;
    let local = reconciler("hello", &guest("hello")).replace(
        "  config:",
        "  clusters: {local: true, provider: false}\n  config:",
    );
    project.write_config(&[local])?;
    project.write("seed/local/a.yaml", SEED)?;
    let finished = until_idle(&project, &["-o", "json"])
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    let clusters = told["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 4, "{told}");
    for cluster in clusters {
        let is_local = cluster["name"] == "";
        assert_eq!(cluster["attempts"].as_u64() > Some(0), is_local, "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_reconciler_selects_in_memory_clusters_by_the_labels_that_the_seed_gives_them()
-> Result<()> {
    let project = Project::new()?;
    let selective = reconciler("hello", &guest("hello"))
        .replace("  config:", "  clusters: {selector: env=prod}\n  config:");
    project.write_config(&[selective])?;
    project.write("seed/a.yaml", SEED)?;
    for (cluster, env) in [("eu", "prod"), ("us", "test")] {
        let described = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{labels: {{env: {env}}}}}\nproperties: {{zone: a}}\n"
        );
        project.write(&format!("seed/{cluster}/cluster.yaml"), described)?;
    }
    let finished = until_idle(&project, &["-o", "json"])
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    for cluster in told["clusters"].as_array().unwrap() {
        let is_prod = cluster["name"] == "eu";
        assert_eq!(cluster["attempts"].as_u64() > Some(0), is_prod, "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn where_the_only_provider_has_no_clusters_the_local_one_is_alone() -> Result<()> {
    let project = Project::new()?;
    let provider = "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: none}\nspec: {none: {}}\n";
    let hello = reconciler("hello", &guest("hello")).replace("  tenant: team-a\n", "");
    project.write("windlass.yaml", format!("{provider}{hello}"))?;
    project.write("seed/local/a.yaml", SEED)?;
    let finished = until_idle(&project, &["-o", "json"])
        .await?
        .expect_code(0)?;
    let told: Json = serde_json::from_str(&finished.stdout)?;
    assert_eq!(told["clusters"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told["clusters"][0]["name"], "", "{told}");
    assert!(told["clusters"][0]["attempts"].as_u64() > Some(0), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_seed_that_cannot_be_read_is_told_before_anything_starts() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    project.write("seed/a.yaml", "kind: ConfigMap\n")?;
    let finished = until_idle(&project, &[]).await?.expect_code(1)?;
    assert!(
        finished
            .stderr
            .contains("seed/a.yaml:1:1: this is no manifest"),
        "{}",
        finished.stderr
    );
    Ok(())
}

#[tokio::test]
async fn a_guest_that_does_not_build_is_not_done_when_idle_though_one_was_built_before()
-> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", "./guest".as_ref())])?;
    project.write("guest/.windlass/guest.wasm", fs::read(guest("hello"))?)?;
    project.write("guest/go.mod", "module demo\n")?;
    project.write("guest/windlass.toml", "wolrd = \"reconcile\"\n")?;
    let finished = until_idle(&project, &[]).await?.expect_code(1)?;
    assert!(
        finished.stderr.contains("error: ") && finished.stderr.contains("wolrd"),
        "{}",
        finished.stderr
    );
    Ok(())
}

#[tokio::test]
async fn a_folder_without_documents_is_told() -> Result<()> {
    let project = Project::new()?;
    let finished = until_idle(&project, &[]).await?.expect_code(1)?;
    assert!(
        finished.stderr.contains("windlass.yaml: no such file"),
        "{}",
        finished.stderr
    );
    Ok(())
}

#[tokio::test]
async fn it_stays_up_repairs_what_is_deleted_and_an_edited_guest_takes_over_after_a_save()
-> Result<()> {
    let project = Project::new()?;
    let file = project.copy_hello("saved")?.join("src/lib.rs");
    let text = fs::read_to_string(&file)?;
    let broken = text.replace("fn hello()", "fn hello(");
    fs::write(&file, &broken)?;
    project.write_config(&[reconciler("hello", "./guest".as_ref())])?;
    project.write("seed/a.yaml", SEED)?;

    // If a person can correct it, a guest that does not build is no reason to end.
    let mut program = Program::start(project.path(), ["dev", ".", "--admin", "127.0.0.1:0"])?;
    program.line_with("does not build", BUILD).await?;
    let line = program.line_with("kubectl --kubeconfig", BUILD).await?;
    assert!(line.contains(".windlass/kubeconfig"), "{line}");
    program.line_with("reconciler not started", BUILD).await?;
    let kubeconfig = project.path().join(".windlass/kubeconfig");
    let mark = program.line_count();
    fs::write(&file, &text)?;
    program
        .line_with_from(mark, "reconciler changed", BUILD)
        .await?;

    // Every cluster is served, and a deleted child comes back.
    for cluster in ["alpha", "beta", "gamma"] {
        let objects = ConfigMaps::in_context(&kubeconfig, cluster).await?;
        objects
            .expect_greeting("a", Some(&format!("hello, world, from {cluster}")))
            .await?;
        objects.delete("a-greeting").await?;
        objects
            .expect_greeting("a", Some(&format!("hello, world, from {cluster}")))
            .await?;
    }

    // A save that does not build is told, and the guest before it goes on.
    let mark = program.line_count();
    fs::write(&file, &broken)?;
    program
        .line_with_from(mark, "does not build", BUILD)
        .await?;
    let alpha = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
    alpha.ask("b", "moon").await?;
    alpha
        .expect_greeting("b", Some("hello, moon, from alpha"))
        .await?;

    // One that does takes over, by itself and for what was there before.
    fs::write(
        &file,
        text.replace(
            "{}, {who}, from {cluster}",
            "{}, dear {who}, from {cluster}",
        ),
    )?;
    eventually(BUILD, "the edited guest to take over", || async {
        Ok(Seen::of(alpha.greeting("b").await?, |seen| {
            seen.as_deref() == Some("hello, dear moon, from alpha")
        }))
    })
    .await?;

    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// The names of the clusters that `windlass get` shows in a folder, without a flag that says where to ask.
async fn clusters_from(folder: &std::path::Path) -> Result<Vec<String>> {
    let args = ["get", "clusters", "-o", "json"];
    let shown = Program::run(folder, args, SOON).await?.expect_code(0)?;
    let shown: Json = serde_json::from_str(&shown.stdout)?;
    let items = shown["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

#[tokio::test]
async fn a_bare_fleet_is_found_from_below_its_folder_and_its_clusters_come_and_go() -> Result<()> {
    let project = Project::new()?;
    let provider = "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {name: fleet}\nspec: {kubeconfigFiles: {}}\n";
    project.write("windlass.yaml", provider)?;
    project.write("seed/eu/a.yaml", SEED)?;
    let below = project.write("guest/src/lib.rs", "")?;
    let below = below.parent().unwrap_or(project.path());
    let mut program = Program::start(project.path(), ["dev", "--admin", "127.0.0.1:0"])?;
    program
        .line_with("there is no Reconciler yet", SOON)
        .await?;
    program.line_with("admin endpoints", SOON).await?;
    let become_ = async |expected: &[&str]| {
        let what = format!("the clusters to be {expected:?}");
        let named = eventually(SOON, &what, || async {
            let names = clusters_from(below).await?;
            Ok(Seen::of(names, |names| names == expected))
        });
        named.await.map(drop)
    };
    become_(&["eu"]).await?;
    project.write("seed/us/a.yaml", SEED)?;
    become_(&["eu", "us"]).await?;

    // The first Reconciler works in both.
    let hello = reconciler("hello", &guest("hello")).replace("tenant: team-a", "");
    project.write("windlass.yaml", format!("{provider}{hello}"))?;
    let kubeconfig = project.path().join(".windlass/kubeconfig");
    for cluster in ["eu", "us"] {
        let objects = ConfigMaps::in_context(&kubeconfig, cluster).await?;
        let greeting = format!("hello, world, from {cluster}");
        objects.expect_greeting("a", Some(&greeting)).await?;
    }
    fs::remove_dir_all(project.path().join("seed/us"))?;
    become_(&["eu"]).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    assert!(!project.path().join(".windlass/admin").exists());
    Ok(())
}
