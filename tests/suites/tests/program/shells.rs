//! What shells, `man` and readers of logs are given.

use crate::project::{Project, reconciler};
use crate::running::{SOON, client_of, fleet};
use anyhow::Result;
use tokio::process::Command;
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

#[tokio::test]
async fn bash_completes_the_commands() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let finished = Program::run(folder.path(), ["completion", "bash"], SOON).await?;
    let script = finished.expect_code(0)?.stdout;
    let ask = format!(
        "{script}\nCOMP_WORDS=(windlass pre) COMP_CWORD=1\n_windlass windlass pre windlass\necho \"${{COMPREPLY[*]}}\""
    );
    let output = Command::new("bash").args(["-c", &ask]).output().await?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "preflight\n");
    Ok(())
}

#[tokio::test]
async fn every_command_has_a_manual_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    Program::run(folder.path(), ["man", "pages/man1"], SOON)
        .await?
        .expect_code(0)?;
    for page in ["windlass", "windlass-run", "windlass-kcp-publish"] {
        let path = folder.path().join(format!("pages/man1/{page}.1"));
        let text = std::fs::read_to_string(path)?;
        assert!(text.contains(".SH SYNOPSIS"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_log_is_for_people_where_that_is_asked_for() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let args = [
        "run",
        "-f",
        "windlass.yaml",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
        "--log-format",
        "text",
    ];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?;
    let said = r#"guest: greeted fields="who=world greeting=default/a-greeting""#;
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    Ok(())
}
