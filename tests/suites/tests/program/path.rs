//! The path of an author in each language: `new`, `types`, an edit that uses them, `rules`, `test`, `dev`, and a save while that runs.

use crate::languages::{self, BUILD, Language, command, has_tools, windlass};
use crate::objects::ConfigMaps;
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Program, binary};

/// The kind, and an object of it, which the guests label.
const SHELVES: &str = include_str!("path/shelves.yaml");
/// A story about a shelf.
const LIFE: &str = include_str!("path/life.yaml");
/// How the guests label, and how they do after the save.
const LABEL: &str = "room for ";
const SAVED: &str = "space for ";

/// What an author writes in a language.
struct Guest {
    language: Language,
    /// Uses the types.
    source: &'static str,
    /// The unit tests of the project, which are about the guest that was there before.
    unit_tests: &'static str,
    /// The file that the types are in.
    written: &'static str,
}

#[tokio::test]
async fn a_guest_in_rust_is_made_typed_edited_tested_run_and_saved() -> Result<()> {
    walk(&Guest {
        language: languages::RUST,
        source: include_str!("path/guest.rs"),
        unit_tests: "src/tests.rs",
        written: "src/shelf.rs",
    })
    .await
}

#[tokio::test]
async fn a_guest_in_typescript_is_made_typed_edited_tested_run_and_saved() -> Result<()> {
    walk(&Guest {
        language: languages::TYPESCRIPT,
        source: include_str!("path/guest.ts"),
        unit_tests: "src/reconciler.test.ts",
        written: "src/shelf.ts",
    })
    .await
}

#[tokio::test]
async fn a_guest_in_javascript_is_made_typed_edited_tested_run_and_saved() -> Result<()> {
    walk(&Guest {
        language: languages::JAVASCRIPT,
        source: include_str!("path/guest.js"),
        unit_tests: "src/reconciler.test.js",
        written: "src/shelf.ts",
    })
    .await
}

#[tokio::test]
async fn a_guest_in_python_is_made_typed_edited_tested_run_and_saved() -> Result<()> {
    walk(&Guest {
        language: languages::PYTHON,
        source: include_str!("path/guest.py"),
        unit_tests: "test_guest.py",
        written: "shelf.py",
    })
    .await
}

#[tokio::test]
async fn a_guest_in_go_is_made_typed_edited_tested_run_and_saved() -> Result<()> {
    walk(&Guest {
        language: languages::GO,
        source: include_str!("path/main.go"),
        unit_tests: "main_test.go",
        written: "shelf.go",
    })
    .await
}

#[tokio::test]
async fn a_guest_in_c_is_made_typed_edited_tested_run_and_saved() -> Result<()> {
    walk(&Guest {
        language: languages::C,
        source: include_str!("path/guest.c"),
        unit_tests: "guest_test.c",
        written: "shelf_types.h",
    })
    .await
}

async fn walk(guest: &Guest) -> Result<()> {
    let lang = guest.language.lang;
    if !has_tools(guest.language.tools, &format!("the path in {lang}")) {
        return Ok(());
    }
    let outside = Project::new()?;
    // Not the name of another test's project: builds in Rust share a folder.
    let new = ["new", "shelves", "--lang", lang];
    windlass(outside.path(), new).await?.expect_code(0)?;
    let folder = outside.path().join("shelves");
    put_the_kind_in_place_of_greetings(&folder, guest)?;

    let types = ["types", "seed/shelves.yaml"];
    windlass(&folder, types).await?.expect_code(0)?;
    ensure!(folder.join(guest.written).is_file(), "{}", guest.written);
    let source = folder.join(guest.language.source);
    fs::write(&source, guest.source)?;
    windlass(&folder, ["rules", "--write"])
        .await?
        .expect_code(0)?;
    windlass(&folder, ["test"]).await?.expect_code(0)?;
    serve_a_save(&folder, &source, guest.source).await
}

/// Removes what is about greetings, and puts the kind, an object of it, and a test there.
fn put_the_kind_in_place_of_greetings(folder: &Path, guest: &Guest) -> Result<()> {
    fs::remove_file(folder.join("seed/crew.yaml"))?;
    fs::remove_dir_all(folder.join("tests/greets"))?;
    fs::remove_file(folder.join(guest.unit_tests))?;
    fs::write(folder.join("seed/shelves.yaml"), SHELVES)?;
    fs::write(folder.join("tests/life.yaml"), LIFE)?;
    Ok(())
}

/// That `dev` serves the guest, and after a save what was saved, for an object that was there before; the program goes on all the time.
async fn serve_a_save(folder: &Path, source: &Path, text: &str) -> Result<()> {
    let args = ["dev", "--admin", "127.0.0.1:0"];
    let mut dev = Program::spawn(command(folder, binary()?, args))?;
    dev.line_with("admin endpoints", BUILD).await?;
    let kubeconfig = folder.join(".windlass/kubeconfig");
    let alpha = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
    expect_label(&alpha, LABEL).await?;
    if let Some((mistake, told)) = mistake(source) {
        let before = text.replace(LABEL, "wrong-");
        fs::write(source, format!("{before}\n{mistake}\n"))?;
        let line = before.lines().count() + 2;
        let told = told.replace("LINE", &line.to_string());
        dev.line_with(&told, BUILD).await?;
        dev.line_with("build failed", BUILD).await?;
        expect_label(&alpha, LABEL).await?;
    }
    fs::write(source, text.replace(LABEL, SAVED))?;
    expect_label(&alpha, SAVED).await?;
    dev.signal("TERM")?;
    dev.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// A mistake with a type, and what the build says of its line.
fn mistake(source: &Path) -> Option<(&'static str, &'static str)> {
    match source.extension()?.to_str()? {
        "ts" => Some((
            "const wrong: number = 'text';",
            "reconciler.ts(LINE,7): error TS2322",
        )),
        "py" => Some(("WRONG: int = 'text'", "guest.py:LINE:")),
        "rs" => Some(("const WRONG: u32 = \"text\";", "src/lib.rs:LINE:20")),
        "go" => Some((
            "var wrong int = \"text\"",
            "main.go:LINE:17: cannot use \"text\"",
        )),
        "c" => Some((
            "const char *wrong = SHELF_SPEC_SIEZ;",
            "guest.c:LINE:21: error",
        )),
        _ => None,
    }
}

async fn expect_label(alpha: &ConfigMaps, label: &str) -> Result<()> {
    let expected = format!("{label}3");
    eventually(BUILD, &format!("the label {expected:?}"), || async {
        let value = alpha.value("books", "text").await?;
        Ok(Seen::of(value, |value| value.as_ref() == Some(&expected)))
    })
    .await?;
    Ok(())
}
