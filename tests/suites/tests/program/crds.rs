//! `windlass crds DIR` and `windlass check --crds`: the recipe "A CRD from your types", from types to manifests and back, in Rust and Go.

use crate::languages::{command, windlass};
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use windlass_harness::program::Program;
use windlass_harness::repository;

/// The first build of kube, or of controller-gen.
const BUILD: Duration = Duration::from_secs(900);
/// The manifest that the recipe's types become.
const MANIFEST: &str = "crds/websites.example.windlass.dev.yaml";

/// A language of the recipe.
struct Language {
    /// As its blocks of code are marked.
    block: &'static str,
    /// The file with the types, a field of it, and that field with another type.
    types: &'static str,
    field: &'static str,
    changed: &'static str,
    /// What the definition says of the field then, and said before.
    says: [&'static str; 2],
}

const RUST: Language = Language {
    block: "rust",
    types: "src/website.rs",
    field: "pub replicas: i32,",
    changed: "pub replicas: bool,",
    says: ["boolean", "integer"],
};

const GO: Language = Language {
    block: "go",
    types: "website/website.go",
    field: "Replicas int64 `json",
    changed: "Replicas bool `json",
    says: ["boolean", "integer"],
};

/// Writes the blocks of the recipe into the files that the lines above them name.
fn write_recipe(project: &Project, language: &Language) -> Result<()> {
    let page = fs::read_to_string(repository().join("docs/recipes.md"))?;
    let (_, recipe) = page
        .split_once("\n## A CRD from your types\n")
        .context("the recipe")?;
    let recipe = recipe.split("\n## ").next().unwrap_or_default();
    let mut written = 0;
    for [before, block] in pairs(recipe) {
        let Some(text) = block.strip_prefix(language.block) else {
            continue;
        };
        let file = before
            .trim_end()
            .rsplit('`')
            .nth(1)
            .context("the name of a file")?;
        project.write(file, text.trim_start())?;
        written += 1;
    }
    ensure!(written >= 2, "the recipe has blocks of {}", language.block);
    Ok(())
}

/// The blocks of code of a page, each with the text before it.
fn pairs(page: &str) -> impl Iterator<Item = [&str; 2]> {
    let parts: Vec<&str> = page.split("```").collect();
    let pairs = parts.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    pairs.collect::<Vec<_>>().into_iter()
}

/// The differences that `check --crds` prints for programs.
async fn checked(folder: &Path, code: i32) -> Result<Vec<Json>> {
    let finished = windlass(folder, ["check", "--crds", "-o", "json"]).await?;
    let printed: Json = serde_json::from_str(&finished.expect_code(code)?.stdout)?;
    assert_eq!(printed["definitions"], 1, "{printed}");
    let found = printed["differences"].as_array();
    Ok(found.context("differences")?.clone())
}

/// From types to a manifest, and what is found when one of them changes.
async fn definitions_follow_types(project: &Project, language: &Language) -> Result<()> {
    let folder = project.path();
    let printed = windlass(folder, ["crds", "."])
        .await?
        .expect_code(0)?
        .stdout;
    ensure!(printed.contains("kind: Website"), "{printed}");
    let missing = checked(folder, 1).await?;
    assert_eq!(
        missing[0]["command"], "windlass crds . --write",
        "{missing:?}"
    );
    let written = windlass(folder, ["crds", ".", "--write"]).await?;
    ensure!(written.expect_code(0)?.stdout.contains(MANIFEST));
    assert_eq!(checked(folder, 0).await?, [Json::Null; 0]);

    let web = [
        "types",
        MANIFEST,
        "--language",
        "typescript",
        "--into",
        "web",
    ];
    fs::create_dir(folder.join("web"))?;
    windlass(folder, web).await?.expect_code(0)?;
    assert_eq!(checked(folder, 0).await?, [Json::Null; 0]);

    let manifest = fs::read_to_string(folder.join(MANIFEST))?;
    let around =
        "# Ours.\napiVersion: v1\nkind: Namespace\nmetadata: {name:   odd}\n---\n# The kind.\n";
    project.write(MANIFEST, format!("{around}{manifest}"))?;
    let types = fs::read_to_string(folder.join(language.types))?;
    ensure!(types.contains(language.field), "{types}");
    project.write(
        language.types,
        types.replace(language.field, language.changed),
    )?;
    let found = checked(folder, 1).await?;
    let path = "spec.versions[v1].schema.openAPIV3Schema.properties.spec.properties.replicas.type";
    let of_field = found.iter().find(|one| one["path"] == path);
    let of_field = of_field.with_context(|| format!("{found:?}"))?;
    let [new, old] = language.says;
    assert_eq!(
        (&of_field["types"], &of_field["manifest"]),
        (&json!(new), &json!(old))
    );
    let text = windlass(folder, ["check", ".", "--crds"]).await?;
    let text = text.expect_code(1)?.stdout;
    let line = format!(
        "{MANIFEST}: {path}: the types say {new}, the file says {old}: run windlass crds . --write"
    );
    ensure!(text.contains(&line), "{text}");

    windlass(folder, ["crds", ".", "--write"])
        .await?
        .expect_code(0)?;
    let manifest = fs::read_to_string(folder.join(MANIFEST))?;
    ensure!(
        manifest.starts_with(around) && manifest.contains(new),
        "{manifest}"
    );
    let stale = checked(folder, 1).await?;
    assert_eq!(
        (stale.len(), &stale[0]["file"]),
        (1, &json!("web/website.ts"))
    );
    let command = stale[0]["command"].as_str().context("a command")?;
    windlass(folder, command.split(' ').skip(1))
        .await?
        .expect_code(0)?;
    assert_eq!(checked(folder, 0).await?, [Json::Null; 0]);
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn definitions_follow_types_in_rust() -> Result<()> {
    let project = Project::new()?;
    write_recipe(&project, &RUST)?;
    let page = fs::read_to_string(repository().join("docs/recipes.md"))?;
    let (_, dependencies) = page.split_once("```toml\n").context("the dependencies")?;
    let dependencies = dependencies.split("```").next().unwrap_or_default();
    let manifest = format!(
        "[package]\nname = \"crds-of-types\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\nserde_json = \"1\"\n{dependencies}serde = {{ version = \"1\", features = [\"derive\"] }}\nwindlass-sdk = {{ path = {:?} }}\n",
        repository().join("guest-sdk/rust")
    );
    project.write("Cargo.toml", manifest)?;
    let lock = fs::read(repository().join("Cargo.lock"))?;
    project.write("Cargo.lock", lock)?;
    let guest = "//! Looks at websites.\nmod website;\nuse website::Website;\nuse windlass_sdk::prelude::*;\n\
        struct Guest;\nwindlass_sdk::guest!(Guest);\nimpl Reconciler for Guest {\n    \
        fn describe() -> Result<Description> {\n        Ok(Description::new(\"looks at websites\").primary::<Website>())\n    }\n    \
        fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {\n        \
        if let Some(site) = cluster.get::<Website>(&request.key)? {\n            \
        windlass_sdk::info!(\"a site\", html = site.spec.html);\n        }\n        Ok(Action::Done)\n    }\n}\n";
    project.write("src/lib.rs", guest)?;
    definitions_follow_types(&project, &RUST).await?;
    // The guest has the same types, and nothing of what describes them.
    windlass(project.path(), ["build"]).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn definitions_follow_types_in_go() -> Result<()> {
    let project = Project::new()?;
    write_recipe(&project, &GO)?;
    let sdk = repository().join("guest-sdk/go");
    let module = format!(
        "module example.com/site\n\ngo 1.24.0\n\nrequire windlass.dev/windlass v0.0.0\n\nreplace windlass.dev/windlass => {}\n",
        sdk.display()
    );
    project.write("go.mod", module)?;
    let main = "package main\n\nimport (\n\t\"example.com/site/website\"\n\n\t\"windlass.dev/windlass\"\n)\n\ntype guest struct{}\n\n\
        func init() { windlass.Register(guest{}) }\n\nfunc main() {}\n\n\
        func (guest) Describe() (windlass.Description, error) {\n\
        \twatches := []windlass.Watch{{Kind: website.Website{}.GVK()}}\n\
        \treturn windlass.Description{Title: \"looks at websites\", Watches: watches}, nil\n}\n\n\
        func (guest) Reconcile(req windlass.Request, cluster *windlass.Cluster) (done windlass.Result, err error) {\n\
        \t_, err = windlass.Get[website.Website](cluster, req.ObjectKey)\n\treturn done, err\n}\n";
    project.write("main.go", main)?;
    let page = fs::read_to_string(repository().join("docs/recipes.md"))?;
    let get = page
        .lines()
        .find(|line| line.trim_start().starts_with("go get "));
    let get = get.context("the recipe gets apimachinery")?.trim();
    for line in [get, "go mod tidy"] {
        let args = line.split(' ').skip(1);
        let run = Program::spawn(command(project.path(), "go", args))?;
        run.wait(BUILD).await?.expect_code(0)?;
    }
    definitions_follow_types(&project, &GO).await?;
    // The definitions are no part of the guest.
    windlass(project.path(), ["build"]).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn without_types_that_describe_them_there_are_no_definitions() -> Result<()> {
    let project = Project::new()?;
    project.write("go.mod", "module a\n")?;
    let said = windlass(project.path(), ["crds", "."]).await?;
    let said = said.expect_code(1)?.stderr;
    assert!(said.contains("+groupName=GROUP"), "{said}");
    let equal = windlass(project.path(), ["check", "--crds"]).await?;
    assert!(equal.expect_code(0)?.stdout.contains("0 definitions"));
    fs::rename(
        project.path().join("go.mod"),
        project.path().join("package.json"),
    )?;
    let said = windlass(project.path(), ["crds", "."]).await?;
    let said = said.expect_code(1)?.stderr;
    assert!(
        said.contains("windlass types FILE writes the types"),
        "{said}"
    );
    let own = windlass(project.path(), ["crds", "--write"]).await?;
    own.expect_code(2)?;
    Ok(())
}
