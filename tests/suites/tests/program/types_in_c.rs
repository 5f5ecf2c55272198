//! `windlass types` for C: what it writes compiles without warnings, its names lead to the fields, and a misspelt one fails the build.

use crate::project::Project;
use crate::running::SOON;
use crate::types_written::{object, succeeds, write};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use windlass_harness::program::Program;

const GUEST: &str = include_str!("types_in_c/guest.c");
const TEST: &str = include_str!("types_in_c/guest_test.c");

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn objects_survive_names_of_fields_in_c_and_a_misspelt_one_fails_the_build() -> Result<()> {
    let project = Project::new()?;
    let new = ["new", "odd", "--lang", "c"];
    Program::run(project.path(), new, SOON)
        .await?
        .expect_code(0)?;
    let folder = project.path().join("odd");
    write(&folder, "c").await?;
    fs::write(folder.join("headers.h"), headers(&folder)?)?;
    fs::write(folder.join("guest.c"), GUEST)?;
    fs::write(folder.join("guest_test.c"), TEST)?;
    let mut changed = object();
    changed["spec"]["host"] = "other".into();
    changed["spec"]["class"] = "plain".into();
    changed["spec"]["ports"][0]["port"] = 8080.into();
    changed["spec"]["ports"][1]["port"] = 8081.into();
    fs::write(folder.join("changed.json"), changed.to_string())?;
    let make = ["-c", "CFLAGS=-Werror make test"];
    let said = succeeds(&folder, "sh", &make).await?;
    ensure!(said.contains("3 tests passed"), "{said}");

    let misspelt = GUEST.replace("ODD_SPEC_HOST", "ODD_SPEC_HOTS");
    fs::write(folder.join("guest.c"), misspelt)?;
    let error = succeeds(&folder, "sh", &make).await;
    let error = error.err().context("an unknown name")?.to_string();
    ensure!(
        error.contains("guest.c:23:") && error.contains("ODD_SPEC_HOTS"),
        "{error}"
    );
    Ok(())
}

/// A header with all that were written.
fn headers(folder: &Path) -> Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with("_types.h") {
            text += &format!("#include \"{name}\"\n");
        }
    }
    Ok(text)
}
