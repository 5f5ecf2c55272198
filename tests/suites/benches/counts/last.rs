//! The last figures, which are a file in the repository. Entry point: [`Last::read`].

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::path::PathBuf;

/// The figures of all architectures.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Last(BTreeMap<String, Figures>);

/// Those of one architecture.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Figures {
    /// What else they depend on.
    with: String,
    instructions: BTreeMap<String, u64>,
}

impl Last {
    /// Reads the file.
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string(path()).context("the last figures")?;
        serde_json::from_str(&text).context("the last figures")
    }

    /// What this architecture's were counted with. `None`: there are none.
    pub(crate) fn with(&self) -> Option<&str> {
        self.0.get(ARCH).map(|figures| figures.with.as_str())
    }

    /// A figure of this architecture.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.0.get(ARCH)?.instructions.get(name).copied()
    }

    /// Writes the file with new figures of this architecture. Returns its path.
    pub(crate) fn keep(mut self, with: String, counted: &[(&str, u64)]) -> Result<PathBuf> {
        let counted = counted
            .iter()
            .map(|&(name, count)| (name.to_owned(), count));
        let instructions = counted.collect();
        self.0
            .insert(ARCH.to_owned(), Figures { with, instructions });
        let text = serde_json::to_string_pretty(&self)?;
        fs::write(path(), text + "\n").context("keep the figures")?;
        Ok(path())
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/counts/figures.json")
}
