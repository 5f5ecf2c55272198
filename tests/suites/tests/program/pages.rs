//! The guests that pages print are guests, in every language. Entry point: [`guests`].

use crate::languages::run;
use crate::project::Project;
use crate::types::typescript;
use crate::types_written::{sdk, succeeds};
use anyhow::{Context, Result, ensure};
use std::fs;
use windlass_harness::repository;

/// Pages with whole guests.
const PAGES: [&str; 8] = [
    "README.md",
    "docs/recipes.md",
    "docs/mappers.md",
    "docs/testing.md",
    "docs/from-controller-runtime.md",
    "docs/from-kopf.md",
    "docs/from-kube-rs.md",
    "docs/from-josdk.md",
];

/// The blocks of a language in the pages that have this text, as only whole guests have it. There are at least so many.
fn guests(language: &str, mark: &str, least: usize) -> Result<Vec<String>> {
    let fence = format!("```{language}\n");
    let mut found = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(repository().join(page)).context(page)?;
        let blocks = text.split(&fence).skip(1);
        let blocks = blocks.filter_map(|block| block.split("```").next());
        found.extend(
            blocks
                .filter(|block| block.contains(mark))
                .map(str::to_owned),
        );
    }
    ensure!(found.len() >= least, "{} guests in {language}", found.len());
    Ok(found)
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn guests_of_pages_in_typescript_are_guests() -> Result<()> {
    let (tsc, project) = typescript()?;
    for (number, guest) in guests("ts", "defineReconciler(", 8)?.iter().enumerate() {
        project.write(&format!("guest{number}.ts"), guest)?;
    }
    succeeds(project.path(), &tsc, &["-p", "."]).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn guests_of_pages_in_rust_are_guests() -> Result<()> {
    let project = Project::new()?;
    let manifest = format!(
        "[package]\nname = \"guests-of-pages\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\"\nwindlass-sdk = {{ path = {:?} }}\n",
        sdk("rust")
    );
    project.write("Cargo.toml", manifest)?;
    project.write("Cargo.lock", fs::read(repository().join("Cargo.lock"))?)?;
    let mut modules = String::new();
    for (number, guest) in guests("rust", "windlass_sdk::guest!(", 2)?
        .iter()
        .enumerate()
    {
        project.write(&format!("src/guest{number}.rs"), guest)?;
        modules += &format!("mod guest{number};\n");
    }
    project.write("src/lib.rs", modules)?;
    let checked = run(project.path(), "cargo", ["check"]).await?;
    checked.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn guests_of_pages_in_go_are_guests() -> Result<()> {
    let project = Project::new()?;
    let module = format!(
        "module example.com/guests\n\ngo 1.24.0\n\nrequire windlass.dev/windlass v0.0.0\n\nreplace windlass.dev/windlass => {}\n",
        sdk("go").display()
    );
    project.write("go.mod", module)?;
    for (number, guest) in guests("go", "windlass.Register(", 2)?.iter().enumerate() {
        project.write(&format!("guest{number}/main.go"), guest)?;
    }
    succeeds(project.path(), "go", &["vet", "./..."]).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn guests_of_pages_in_python_are_guests() -> Result<()> {
    let project = Project::new()?;
    let path = format!("import sys; sys.path.insert(0, {:?})\n", sdk("python"));
    for (number, guest) in guests("python", "from windlass import", 2)?
        .iter()
        .enumerate()
    {
        project.write(&format!("guest{number}.py"), guest)?;
        let describe = format!("{path}import guest{number}; guest{number}.Guest().describe()");
        succeeds(project.path(), "python3", &["-c", &describe]).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn guests_of_pages_in_c_are_guests() -> Result<()> {
    let project = Project::new()?;
    let include = format!("-I{}", sdk("c").join("include").display());
    for (number, guest) in guests("c", "_RECONCILER(describe", 1)?.iter().enumerate() {
        let file = format!("guest{number}.c");
        project.write(&file, guest)?;
        let args = [
            "-std=c17",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            &include,
            &file,
        ];
        succeeds(project.path(), "cc", &args).await?;
    }
    Ok(())
}
