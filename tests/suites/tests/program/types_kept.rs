//! Objects that real servers stored, and one with everything a schema can have, survive the types that `windlass types` writes: a guest
//! changes one field, and no other differs. C is in `types_in_c.rs`.

use crate::project::Project;
use crate::types::typescript;
use crate::types_written::{sdk, succeeds, write};
use anyhow::{Context, Result, ensure};
use std::fs;
use windlass_harness::repository;

/// A project with types and objects.
async fn project(language: &str) -> Result<Project> {
    let project = Project::new()?;
    fs::create_dir_all(project.path().join("src"))?;
    write(project.path(), language).await?;
    Ok(project)
}

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn objects_survive_types_in_rust() -> Result<()> {
    let project = Project::new()?;
    let manifest = format!(
        "[package]\nname = \"odd\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         windlass-sdk = {{ path = {:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\"\n",
        sdk("rust")
    );
    project.write("Cargo.toml", manifest)?;
    write(project.path(), "rust").await?;
    let locked = project.path().join("Cargo.lock");
    fs::copy(repository().join("Cargo.lock"), locked)?;
    let lib = project.path().join("types/src/lib.rs");
    let strict = format!(
        "#![deny(warnings, missing_docs)]\n{}",
        fs::read_to_string(&lib)?
    );
    fs::write(lib, strict)?;
    let stored = include_str!("types_kept/stored.rs");
    project.write("src/stored.rs", stored)?;
    let lib = include_str!("types_kept/lib.rs");
    project.write("src/lib.rs", format!("{lib}#[cfg(test)]\nmod stored;\n"))?;
    let target = repository().join("target/tmp/types").display().to_string();
    let args = ["test", "--quiet", "--target-dir", &target];
    succeeds(project.path(), "cargo", &args).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn objects_survive_types_in_go() -> Result<()> {
    let project = project("go").await?;
    let version = fs::read_to_string(sdk("go").join("go.mod"))?;
    let version = version.lines().find(|line| line.starts_with("go "));
    let module = format!(
        "module odd\n\n{}\n\nrequire windlass.dev/windlass v0.0.0\n\nreplace windlass.dev/windlass => {}\n",
        version.context("a version")?,
        sdk("go").display()
    );
    project.write("go.mod", module)?;
    let sums = fs::read(sdk("go").join("go.sum")).unwrap_or_default();
    fs::write(project.path().join("go.sum"), sums)?;
    let unformatted = succeeds(project.path(), "gofmt", &["-l", "."]).await?;
    ensure!(unformatted.is_empty(), "{unformatted}");
    project.write("main.go", "package main\n\nfunc main() {}\n")?;
    project.write("kept_test.go", include_str!("types_kept/kept_test.go"))?;
    let stored = include_str!("types_kept/stored_test.go");
    project.write("stored_test.go", stored)?;
    succeeds(project.path(), "go", &["vet", "./..."]).await?;
    succeeds(project.path(), "go", &["test", "./..."]).await?;
    Ok(())
}

/// Runs the program that esbuild made of `kept.ts`. Numbers of the object that JavaScript cannot write are those that it can.
const RUN: &str = "globalThis.read = (file) => JSON.parse(require('fs').readFileSync(file, 'utf8').replaceAll('9223372036854775807', '7'));\n\
    import('./kept.mjs');\n";

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn objects_survive_types_in_typescript() -> Result<()> {
    let (tsc, project) = typescript()?;
    write(project.path(), "typescript").await?;
    project.write("kept.ts", include_str!("types_kept/kept.ts"))?;
    succeeds(project.path(), &tsc, &["-p", "."]).await?;
    let esbuild = repository().join("guests/js/node_modules/.bin/esbuild");
    let esbuild = esbuild.display().to_string();
    let sdk = repository().join("guests/js/node_modules");
    std::os::unix::fs::symlink(sdk, project.path().join("node_modules"))?;
    let args = ["kept.ts", "--bundle", "--format=esm", "--platform=node"];
    let args = [&args[..], &["--outfile=kept.mjs"]].concat();
    succeeds(project.path(), &esbuild, &args).await?;
    succeeds(project.path(), "node", &["-e", RUN]).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn objects_survive_types_in_python() -> Result<()> {
    let project = project("python").await?;
    let windlass = sdk("python").join("windlass");
    std::os::unix::fs::symlink(windlass, project.path().join("windlass"))?;
    project.write("kept.py", include_str!("types_kept/kept.py"))?;
    succeeds(project.path(), "python3", &["kept.py"]).await?;
    Ok(())
}
