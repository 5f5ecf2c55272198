//! The examples whose guests work on the fleet, `hub-and-spokes`, `scheduler` and `teams`, in all of their languages, while clusters come,
//! go, fail and get other labels; the page that shows the first one; and `dns`, whose guests call a server that is no API server.

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
    pass_with_no_rule_to_spare("hub-and-spokes", LANGUAGES.map(|(folder, _)| folder)).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn workloads_are_placed_on_clusters_that_have_room_in_all_languages() -> Result<()> {
    pass_with_no_rule_to_spare("scheduler", ["rust", "go", "python"]).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn teams_have_their_namespaces_in_all_languages() -> Result<()> {
    pass_with_no_rule_to_spare("teams", ["typescript", "go", "python"]).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn records_are_kept_at_an_api_in_all_languages() -> Result<()> {
    pass_with_no_rule_to_spare("dns", [".", "typescript", "python"]).await
}

/// The guests pass the example's cases with its rules, which are the same for each, and the cases use all of them. The guests run beside each
/// other: a case mostly waits for clusters that fail.
async fn pass_with_no_rule_to_spare<const N: usize>(
    example: &str,
    folders: [&str; N],
) -> Result<()> {
    let example = repository().join("examples").join(example);
    let runs = folders.iter().enumerate().map(|(at, folder)| {
        let folder = example.join(folder);
        async move {
            // The rules are compared once: what lacks none of them passes with them.
            let args: &[&str] = match at {
                0 => &["rules", "--timeout", "900s"],
                _ => &["test", "--timeout", "900s"],
            };
            let run = languages::windlass(&folder, args).await?;
            let run = run.expect_code(0);
            let said = run.with_context(|| folder.display().to_string())?.stdout;
            ensure!(
                at > 0 || said.trim() == "complete: no test needs more rules",
                "{said}"
            );
            Ok(())
        }
    });
    futures::future::try_join_all(runs).await.map(drop)
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
