//! The example `hub-and-spokes` in all languages: the same copies in clusters that come and go; and the page that shows it.

use crate::languages;
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use std::fs;
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::repository;

/// The folders that have documents, below that of the example, and their sources below the repository.
const LANGUAGES: [(&str, &str); 5] = [
    (".", "guests/spread/src/lib.rs"),
    ("typescript", "examples/hub-and-spokes/typescript/guest.ts"),
    ("python", "examples/hub-and-spokes/python/guest.py"),
    ("go", "examples/hub-and-spokes/go/main.go"),
    ("c", "examples/hub-and-spokes/c/guest.c"),
];

#[test]
fn the_page_about_clusters_shows_what_the_example_does() -> Result<()> {
    let page = fs::read_to_string(repository().join("docs/clusters.md"))?;
    let sources = LANGUAGES.map(|(_, source)| fs::read_to_string(repository().join(source)));
    let sources: Vec<String> = sources.into_iter().collect::<Result<_, _>>()?;
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks: Vec<&str> = blocks
        .map(|block| block.split_once('\n').map_or("", |(_, code)| code))
        .collect();
    ensure!(blocks.len() >= 3, "the page has code of several languages");
    for block in blocks {
        let shown = sources.iter().any(|source| source.contains(block));
        ensure!(shown, "no guest has this code any more:\n{block}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn spokes_are_kept_in_step_in_all_languages() -> Result<()> {
    for (folder, _) in LANGUAGES {
        let folder = repository().join("examples/hub-and-spokes").join(folder);
        let tested = languages::windlass(&folder, ["test", "--timeout", "900s"]).await?;
        tested
            .expect_code(0)
            .with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// Clusters are objects of the local cluster.
#[tokio::test]
async fn a_guest_that_watches_clusters_needs_a_local_one() -> Result<()> {
    let project = Project::new()?;
    let text = fs::read_to_string(repository().join("examples/hub-and-spokes/windlass.yaml"))?;
    let built = guest("spread");
    let built = built.to_str().context("a path")?;
    let text = text
        .replace(
            "  local: {kubeconfig: ./hub/hub.kubeconfig}",
            "  drainTimeout: 1s",
        )
        .replace("../../guests/spread", built);
    ensure!(!text.contains("hub.kubeconfig"), "no local cluster: {text}");
    project.write("windlass.yaml", text)?;
    fs::create_dir(project.path().join("clusters"))?;
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let finished = Program::run(project.path(), args, SOON).await?;
    let told = finished.expect_code(1)?.stderr;
    ensure!(
        told.contains("name it in spec.local of the Manager"),
        "{told}"
    );
    Ok(())
}
