//! The page about a running manager, used in a browser as a person uses it.

use crate::get::denied;
use crate::languages::command;
use crate::project::Project;
use crate::running::{SOON, client_of, fleet, key, start};
use anyhow::{Context as _, Result};
use std::fs;
use windlass_harness::program::Program;
use windlass_harness::repository;

#[tokio::test]
#[ignore = "needs Chromium and python3"]
async fn a_person_finds_the_failing_cluster_and_runs_a_failing_key_again() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[denied()])?;
    let server = fleet(&project, &["alpha"]).await?;
    let away = server.kubeconfig().replace("alpha", "down");
    let port = server.address().port().to_string();
    // Nobody listens there.
    let away = away.replace(&format!(":{port}"), ":1");
    project.write("clusters/down.kubeconfig", away)?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let (_program, address) = start(&project).await?;

    let args = ["console", "--admin", &address];
    let printed = Program::run(project.path(), args, SOON).await?;
    let printed = printed.expect_code(0)?.stdout;
    let (page, token) = printed
        .trim()
        .split_once("/console/#token=")
        .context(printed.clone())?;
    assert_eq!(page, format!("http://{address}"));
    let pictures = repository().join("target/console");
    fs::create_dir_all(&pictures)?;
    let look = repository().join("tests/console/look");
    let (look, pictures) = (look.display().to_string(), pictures.display().to_string());
    let of_key = key("alpha", "a")?;
    let looked = command(
        project.path(),
        "python3",
        [&look, page, token, &of_key, &pictures],
    );
    Program::spawn(looked)?
        .wait(2 * SOON)
        .await?
        .expect_code(0)?;
    Ok(())
}
