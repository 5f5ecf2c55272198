//! One process of a shared fleet: the program, its API and what it uses. Entry point: [`Member::start`].

use crate::usage::Usage;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use windlass_harness::http::Http;
use windlass_harness::program::Program;

/// More than a start or an end takes.
const SOON: Duration = Duration::from_secs(120);

pub(crate) struct Member {
    program: Program,
    http: Option<Http>,
}

impl Member {
    /// Starts the program with a file of a folder, as a pod of this name.
    pub(crate) fn start(folder: &Path, file: &str, pod: &str) -> Result<Self> {
        let args = ["run", "-f", file, "--admin", "127.0.0.1:0"];
        let program = Program::start_with(folder, args, &[("POD_NAME", pod)])?;
        Ok(Self {
            program,
            http: None,
        })
    }

    /// Waits until it serves its API.
    pub(crate) async fn serve(&mut self) -> Result<()> {
        let line = self.program.line_with("admin endpoints", SOON).await?;
        let line: Value = serde_json::from_str(&line)?;
        let address = line["address"].as_str().context("an address")?.to_owned();
        self.http = Some(Http { address });
        Ok(())
    }

    /// The value of a series without labels.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let http = self.http.as_ref().context("it serves")?;
        let series = http.series(name).await?;
        Ok(series.iter().map(|(_, value)| value).sum())
    }

    /// Reads a list of the API to its end.
    pub(crate) async fn list(&self, of: &str) -> Result<()> {
        let http = self.http.as_ref().context("it serves")?;
        let (status, answer) = http.get(&format!("/api/v1/{of}")).await?;
        ensure!(status == 200, "{answer}");
        Ok(())
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.program.pid().context("it runs")?)
    }

    pub(crate) fn kill(self) -> Result<()> {
        self.program.signal("KILL")
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.program.signal("TERM")?;
        self.program.wait(SOON).await.map(drop)
    }
}
