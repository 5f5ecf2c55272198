//! What shells and `man` know of the program.

use crate::running::SOON;
use anyhow::Result;
use tokio::process::Command;
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
async fn there_is_a_completion_for_every_shell() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let finished = Program::run(folder.path(), ["completion", shell], SOON).await?;
        let script = finished.expect_code(0)?.stdout;
        assert!(script.contains("preflight"), "{shell}: {script}");
    }
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
