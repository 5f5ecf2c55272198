//! Where exceptions of guests are thrown, as logs tell it.

use crate::languages::has_tools;
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;
use windlass_harness::program::Program;

/// npm installs packages.
const BUILD: Duration = Duration::from_secs(600);

#[tokio::test]
async fn an_exception_in_typescript_is_logged_with_the_line_of_its_file() -> Result<()> {
    if !has_tools(&["npm"], "positions in TypeScript") {
        return Ok(());
    }
    let project = Project::new()?;
    let new = ["new", "odd", "--lang", "typescript"];
    Program::run(project.path(), new, SOON)
        .await?
        .expect_code(0)?;
    let folder = project.path().join("odd");
    let file = folder.join("src/reconciler.ts");
    let text = fs::read_to_string(&file)?;
    let throwing = "interface Unused { a: string }\nexport function checked(name: string): string {\n  \
                    if (name !== '') throw new Error(`boom of ${name}`);\n  return name;\n}\n";
    fs::write(folder.join("src/checked.ts"), throwing)?;
    let at = "    const asking = ";
    let text = text.replace(at, &format!("    checked(key.name);\n{at}"));
    fs::write(
        &file,
        format!("import {{ checked }} from './checked';\n{text}"),
    )?;
    let line = fs::read_to_string(&file)?
        .lines()
        .position(|line| line.contains("checked(key.name)"))
        .context("the call")?
        + 1;

    let tested = Program::run(&folder, ["test", "--log", "error"], BUILD).await?;
    let finished = tested.expect_code(1)?;
    assert!(
        finished.stdout.contains("boom of crew"),
        "{}",
        finished.stdout
    );
    let frames = format!("checked src/checked.ts:3, reconcile src/reconciler.ts:{line}");
    assert!(
        finished.stderr.contains(&frames),
        "{frames} in {}",
        finished.stderr
    );
    Ok(())
}
