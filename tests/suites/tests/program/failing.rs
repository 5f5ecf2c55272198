//! What the log says of a key that fails again and again.

use crate::project::{Project, reconciler};
use crate::running::{SOON, client_of, fleet, start};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use windlass_harness::guests::guest;
use windlass_harness::program::Output;

#[tokio::test]
async fn equal_failures_of_a_key_are_one_line_in_a_while() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("panics", &guest("test-panic"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let maps = client_of(&project, "alpha").await?;
    maps.ask("a", "world").await?;
    let (mut program, _) = start(&project).await?;
    program.line_with("\"repeats\"", SOON).await?;

    let written = program.written(Output::Stderr);
    let lines = written
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let failures: Vec<Json> = lines
        .filter(|line| line["message"] == "reconcile finished" && line["result"] == "error")
        .collect();
    let at = |level: &str| {
        let lines = failures.iter().filter(|line| line["level"] == level);
        lines.collect::<Vec<_>>()
    };
    let [first, second] = at("WARN")[..] else {
        anyhow::bail!("two lines of warning in\n{written}");
    };
    assert!(first["repeats"].is_null(), "{first}");
    let repeats = second["repeats"].as_u64().context("a number")?;
    let folded = at("DEBUG").len() as u64;
    assert!(repeats == folded && folded >= 3, "{folded} in {second}");
    assert_eq!(first["error"], second["error"]);
    Ok(())
}
