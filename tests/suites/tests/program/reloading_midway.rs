//! A guest that is replaced in the middle of its runs: what runs ends on the old revision, and each key runs once on the new one.

use crate::project::{Project, reconciler};
use crate::reloading::replace;
use crate::running::{Http, SOON, create_watched, fleet, start};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::PathBuf;
use windlass_apiserver::{Cluster, Server};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::{guest, renamed};
use windlass_harness::program::{Output, Program};

const KEYS: usize = 8;
/// What the guest logs at the end of a run, which takes three seconds; and what the other revision of it does.
const OLD: &str = "rested";
const NEW: &str = "RESTED";

/// A program with one reconciler whose runs take their time, and write nothing.
struct Scene {
    project: Project,
    program: Program,
    http: Http,
    alpha: Cluster,
    _server: Server,
}

impl Scene {
    async fn start(component: &[u8]) -> Result<Self> {
        let project = Project::new()?;
        project.write("naps.wasm", component)?;
        let document = reconciler("naps", "naps.wasm".as_ref());
        let document = document.replace("{greeting: hello}", "{way: nap}");
        project.write_config(&[format!(
            "{document}  limits: {{concurrencyPerCluster: {KEYS}, timeout: 60s}}\n"
        )])?;
        let server = fleet(&project, &["alpha"]).await?;
        let alpha = server.cluster("alpha").context("alpha")?;
        for at in 0..KEYS {
            create_watched(&alpha, &name(at))?;
        }
        let (program, address) = start(&project).await?;
        Ok(Self {
            project,
            program,
            http: Http { address },
            alpha,
            _server: server,
        })
    }

    fn file(&self) -> PathBuf {
        self.project.path().join("naps.wasm")
    }

    async fn status(&self) -> Result<Json> {
        let (_, body) = self.http.get("/api/v1/reconcilers").await?;
        let answer: Json = serde_json::from_str(&body)?;
        Ok(answer["items"][0].clone())
    }

    async fn runs(&self, keys: usize) -> Result<()> {
        eventually(SOON, &format!("{keys} keys to run"), || async {
            Ok(Seen::of(self.status().await?, |of| of["running"] == keys))
        })
        .await
        .map(drop)
    }

    /// Waits until so many runs have ended well, nothing runs and nothing is left to be run.
    async fn rests(&self, runs: usize) -> Result<()> {
        eventually(
            SOON,
            &format!("nothing to do after {runs} runs"),
            || async {
                let (_, keys) = self.http.get("/api/v1/keys").await?;
                let keys: Json = serde_json::from_str(&keys)?;
                let status = self.status().await?;
                Ok(Seen::of((status, keys), |(status, keys)| {
                    let ended = status["succeeded"].as_u64() >= Some(runs as u64);
                    ended
                        && status["running"] == 0
                        && keys["items"].as_array().is_some_and(Vec::is_empty)
                }))
            },
        )
        .await
        .map(drop)
    }

    /// How often each key has run to its end so far, on the old revision and on the new one.
    fn rested(&self) -> ([usize; KEYS], [usize; KEYS]) {
        let written = self.program.written(Output::Stderr);
        let (mut old, mut new) = ([0; KEYS], [0; KEYS]);
        for line in written.lines() {
            let line: Json = serde_json::from_str(line).unwrap_or_default();
            let counts = match line["message"].as_str() {
                Some(OLD) => &mut old,
                Some(NEW) => &mut new,
                _ => continue,
            };
            if let Some(at) = (0..KEYS).find(|at| line["name"] == name(*at)) {
                counts[at] += 1;
            }
        }
        (old, new)
    }

    fn touch(&self, name: &str) -> Result<()> {
        let annotations = json!({"test.windlass.dev/touched": "yes"});
        let patch = json!({"metadata": {"annotations": annotations}});
        let merged = self.alpha.merge("v1", "ConfigMap", "default", name, &patch);
        merged
            .map(drop)
            .map_err(|error| anyhow::anyhow!("{error:?}"))
    }

    async fn replace(&self, component: &[u8]) -> Result<()> {
        let before = self.status().await?["revision"].clone();
        replace(&self.file(), component)?;
        eventually(SOON, "the reload", || async {
            Ok(Seen::of(self.status().await?, |of| {
                of["revision"] != before && of["reload"]["inEffect"] == true
            }))
        })
        .await
        .map(drop)
    }
}

fn name(at: usize) -> String {
    format!("m{at}")
}

#[tokio::test]
async fn what_runs_ends_on_the_old_revision_and_each_key_runs_once_on_the_new_one() -> Result<()> {
    let old = fs::read(guest("test-wasi"))?;
    let new = renamed(&old, OLD, NEW);
    // Both are compiled by then, so that a reload takes far less than a run, on a busy machine too.
    let scene = Scene::start(&new).await?;
    scene.rests(KEYS).await?;
    scene.replace(&old).await?;
    scene.rests(2 * KEYS).await?;
    assert_eq!(scene.rested(), ([1; KEYS], [1; KEYS]));

    for at in 0..KEYS {
        scene.touch(&name(at))?;
    }
    scene.runs(KEYS).await?;
    scene.replace(&new).await?;
    let running = scene.status().await?["running"].clone();
    assert_eq!(running, KEYS, "in the middle of its runs");
    scene.rests(4 * KEYS).await?;
    // What ran has ended on the old one, and nothing more.
    assert_eq!(scene.rested(), ([2; KEYS], [2; KEYS]));
    assert_eq!(scene.status().await?["failed"], 0);
    Ok(())
}
