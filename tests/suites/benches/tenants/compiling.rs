//! How long a component takes from its file to a guest that can be called, compiled and from the cache. Entry point: [`measure`].

use super::stage::component;
use crate::compiler::engine;
use crate::figures::median;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result};
use std::time::Instant;

/// Each with a cache of its own.
const ROUNDS: usize = 5;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "compiling",
    title: "from a component's file to a revision that can be called, in a compiler's process, and from the cache at a later start; middle of 5, ms",
    heads: &[
        "guest         ",
        "component KiB",
        "compiled",
        "from the cache",
    ],
    runs: &[&["hello"], &["js/hello"]],
};

pub(crate) async fn measure(guest: &str) -> Result<()> {
    let path = component(guest);
    let size = std::fs::metadata(&path).context("the component")?.len();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir()?;
        for times in &mut times {
            let sandbox = engine(Some(&folder.path().join("cache")))?;
            let began = Instant::now();
            sandbox.load(path.as_path()).await?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    let mut row = vec![guest.to_owned(), (size / 1024).to_string()];
    row.extend(times.map(|times| format!("{:.1}", median(&times))));
    tell(row)
}
