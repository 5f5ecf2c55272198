//! What is wrong is told in one line: where, what, and what to do next; the exit code says so too.

use crate::project::{Project, reconciler};
use anyhow::{Result, ensure};
use std::net::TcpListener;
use std::time::Duration;
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

const SOON: Duration = Duration::from_secs(60);

/// The smallest component: valid, and of no world of ours.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// What `run` says of a file of documents that cannot start.
async fn run_fails(project: &Project) -> Result<String> {
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(1)?;
    assert_eq!(finished.stdout, "", "errors belong to the other output");
    Ok(finished.stderr)
}

#[track_caller]
fn assert_says(said: &str, expected: &str) {
    assert!(said.contains(expected), "{expected:?} is not in\n{said}");
}

#[tokio::test]
async fn wrong_documents_are_told_with_file_line_column_and_the_right_word() -> Result<()> {
    let project = Project::new()?;
    project.write(
        "windlass.yaml",
        "apiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {name: hello}\nspec:\n  guest: {path: x.wasm}\n  tenat: team-a\n\
         ---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciller\nmetadata: {name: hello}\n",
    )?;
    let said = run_fails(&project).await?;
    assert_says(
        &said,
        "windlass.yaml:6:3: unknown field \"tenat\" in spec of Reconciler hello: did you mean \"tenant\"?",
    );
    assert_says(
        &said,
        "windlass.yaml:9:7: kind \"Reconciller\" is not known: did you mean \"Reconciler\"?",
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_guest_is_told() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", "./nope.wasm".as_ref())])?;
    let said = run_fails(&project).await?;
    assert_says(&said, "Reconciler hello");
    assert_says(&said, "nope.wasm: no such file");
    Ok(())
}

#[tokio::test]
async fn a_source_folder_that_was_not_built_is_told() -> Result<()> {
    let project = Project::new()?;
    project.write("guest/Cargo.toml", "[package]\nname = \"x\"\n")?;
    project.write_config(&[reconciler("hello", "./guest".as_ref())])?;
    assert_says(&run_fails(&project).await?, "windlass build guest");
    Ok(())
}

#[tokio::test]
async fn a_component_of_another_world_is_told() -> Result<()> {
    let project = Project::new()?;
    project.write("empty.wasm", EMPTY_COMPONENT)?;
    project.write_config(&[reconciler("hello", "./empty.wasm".as_ref())])?;
    let said = run_fails(&project).await?;
    assert_says(&said, "empty.wasm");
    assert_says(&said, "windlass:runtime/reconciler");
    Ok(())
}

#[tokio::test]
async fn what_is_no_component_is_told() -> Result<()> {
    let project = Project::new()?;
    project.write("text.wasm", "hello")?;
    project.write("module.wasm", b"\0asm\x01\0\0\0")?;
    project.write_config(&[
        reconciler("a", "./text.wasm".as_ref()),
        reconciler("b", "./module.wasm".as_ref()),
    ])?;
    let said = run_fails(&project).await?;
    assert_says(&said, "text.wasm");
    assert_says(&said, "module.wasm");
    Ok(())
}

#[tokio::test]
async fn a_rule_that_the_guest_needs_and_does_not_have_is_told_as_yaml() -> Result<()> {
    let project = Project::new()?;
    let poor = reconciler("hello", &guest("hello"))
        .replace("verbs: [get, list, watch, create, patch]", "verbs: [get]");
    project.write_config(&[poor])?;
    let said = run_fails(&project).await?;
    assert_says(&said, "Reconciler hello");
    assert_says(&said, "configmaps");
    assert_says(&said, "watch");
    Ok(())
}

#[tokio::test]
async fn a_wrong_config_of_a_guest_is_told_in_the_guests_words() -> Result<()> {
    let project = Project::new()?;
    let wrong = reconciler("hello", &guest("hello")).replace("{greeting: hello}", "{greeting: 7}");
    project.write_config(&[wrong])?;
    assert_says(
        &run_fails(&project).await?,
        "config: greeting: expected a string",
    );
    Ok(())
}

#[tokio::test]
async fn a_local_kubeconfig_that_cannot_be_read_is_told() -> Result<()> {
    let project = Project::new()?;
    let manager = "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: m}\nspec: {local: {kubeconfig: ./hub.kubeconfig}}\n";
    project.write_config(&[manager.to_owned(), reconciler("hello", &guest("hello"))])?;
    assert_says(&run_fails(&project).await?, "hub.kubeconfig: no such file");
    project.write("hub.kubeconfig", "clusters: [")?;
    assert_says(&run_fails(&project).await?, "hub.kubeconfig");
    project.write(
        "hub.kubeconfig",
        "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    )?;
    assert_says(&run_fails(&project).await?, "context");
    Ok(())
}

/// A Manager whose local cluster is that of `hub.kubeconfig`, with these fields too.
fn manager(fields: &str) -> String {
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: m}}\nspec: {{local: {{kubeconfig: ./hub.kubeconfig}}, {fields}}}\n"
    )
}

/// A project with one cluster, which is the local one too, and notes whether anything connects to it.
fn watched_cluster() -> Result<(Project, TcpListener)> {
    let project = Project::new()?;
    let cluster = TcpListener::bind("127.0.0.1:0")?;
    cluster.set_nonblocking(true)?;
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{{name: x, cluster: {{server: \"http://{}\"}}}}]\n\
         users: [{{name: x, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n",
        cluster.local_addr()?
    );
    project.write("hub.kubeconfig", &kubeconfig)?;
    project.write("clusters/x.kubeconfig", &kubeconfig)?;
    Ok((project, cluster))
}

#[tokio::test]
async fn a_manager_that_is_refused_ends_the_start_before_a_cluster_is_reached() -> Result<()> {
    let (project, cluster) = watched_cluster()?;
    let hello = reconciler("hello", &guest("hello"));
    let good = manager("leaderElection: {enabled: true}");
    for (documents, expected) in [
        (
            vec![manager(
                "leaderElection: {enabled: true}, concurency: {global: 5}",
            )],
            "unknown field \"concurency\" in spec of Manager m: did you mean \"concurrency\"?",
        ),
        (
            vec![manager(
                "leaderElection: {enabled: true}, drainTimeout: soon",
            )],
            "\"soon\" is not a duration",
        ),
        (
            vec![good.clone(), good.replace("name: m", "name: n")],
            "there is a Manager already",
        ),
        (
            vec![good.replace("kind: Manager", "kind: Manger")],
            "did you mean \"Manager\"?",
        ),
        (vec!["---\nkind: [\n".to_owned()], "not valid YAML"),
    ] {
        let documents = [documents, vec![hello.clone()]].concat();
        project.write_config(&documents)?;
        let said = run_fails(&project).await?;
        assert_says(&said, expected);
        assert_says(&said, "nothing starts with defaults in its place");
        let dev = Program::run(project.path(), ["dev"], SOON)
            .await?
            .expect_code(1)?;
        assert_says(&dev.stderr, expected);
    }
    project.write_config(&[hello])?;
    let args = ["run", "-f", "windlass.yaml", "-f", "manager.yaml"];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(1)?;
    assert_says(&finished.stderr, "manager.yaml: no such file");
    let touched = cluster.accept();
    ensure!(
        touched.is_err(),
        "a process that ends connected: {touched:?}"
    );
    Ok(())
}

#[tokio::test]
async fn another_document_that_is_refused_at_a_start_is_left_out_in_true_words() -> Result<()> {
    let (project, _cluster) = watched_cluster()?;
    let broken = reconciler("broken", &guest("hello")).replace("tenant:", "tenat:");
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(&[hello, broken])?;
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let mut program = Program::start(project.path(), args)?;
    let line = program.line_with("unknown field", SOON).await?;
    assert_says(&line, "left out until it is corrected");
    ensure!(!line.contains("last good"), "there is none: {line}");
    // Once there is an earlier version, that stays.
    project.write_config(&[reconciler("hello", &guest("hello")).replace("config:", "confg:")])?;
    let line = program.line_with("confg", SOON).await?;
    assert_says(&line, "its last good version stays in effect");
    Ok(())
}

#[tokio::test]
async fn nothing_to_run_is_an_error() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[])?;
    assert_says(&run_fails(&project).await?, "no Reconciler");
    Ok(())
}

#[tokio::test]
async fn an_admin_address_that_is_taken_is_told_with_the_flag_to_change() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    let args = ["run", "-f", "windlass.yaml", "--admin", &address];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(1)?;
    assert_says(&finished.stderr, &address);
    assert_says(&finished.stderr, "--admin");
    Ok(())
}

#[tokio::test]
async fn a_wrong_command_line_ends_with_two() -> Result<()> {
    let project = Project::new()?;
    for args in [
        &["runn"][..],
        &["run"],
        &["dev", "--idle-timeout", "5s"],
        &["get", "pods"],
        &[],
    ] {
        Program::run(project.path(), args, SOON)
            .await?
            .expect_code(2)?;
    }
    let said = Program::run(project.path(), ["runn"], SOON).await?.stderr;
    assert_says(&said, "'run'");
    let help = Program::run(project.path(), ["--help"], SOON)
        .await?
        .expect_code(0)?
        .stdout;
    assert_says(&help, "Exit codes:");
    Ok(())
}
