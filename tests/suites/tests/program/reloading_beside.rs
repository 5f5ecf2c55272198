//! A tenant that works while the guest of another one is replaced again and again: by what is no guest, and by better ones in the
//! middle of their runs.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::reloading::{TEAM_B, replace, saying};
use crate::running::{Http, SOON, client_of, start};
use crate::witness::writer;
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{Call, Hook, RequestVerdict, Server};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

/// What the one guest writes takes its time, so that it is in the middle of runs whenever it is replaced.
struct SlowAlpha;

impl Hook for SlowAlpha {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        match writer(call) {
            Some(_) if cluster == "alpha" => RequestVerdict::Delay(Duration::from_millis(200)),
            _ => RequestVerdict::Proceed,
        }
    }
}

/// A program with a reconciler of `team-a` in the cluster alpha, which is replaced, and one of `team-b` in the cluster beta.
struct Beside {
    project: Project,
    http: Http,
    alpha: ConfigMaps,
    beta: ConfigMaps,
    _program: Program,
    _server: Server,
}

impl Beside {
    async fn start() -> Result<Self> {
        let project = Project::new()?;
        project.write("hello.wasm", fs::read(guest("hello"))?)?;
        let at = |cluster: &str| format!("  clusters: {{names: [\"*{cluster}\"]}}\n  config:");
        // The one is told how it is to describe itself, should it be the guest that does so badly.
        let replaced = reconciler("replaced", "hello.wasm".as_ref());
        let replaced = replaced
            .replace("  config:", &at("alpha"))
            .replace("greeting: hello", "greeting: hello, way: trap");
        let steady = reconciler("steady", &guest("hello"));
        let steady = steady
            .replace("  config:", &at("beta"))
            .replace("tenant: team-a", "tenant: team-b");
        project.write_config(&[replaced, steady, TEAM_B.to_owned()])?;
        let server = Server::builder().hook(Arc::new(SlowAlpha));
        let server = server.cluster("alpha").cluster("beta");
        let server = server.bind("127.0.0.1:0").await?;
        project.write("clusters/fleet.kubeconfig", server.kubeconfig())?;
        let (program, address) = start(&project).await?;
        let (alpha, beta) = (
            client_of(&project, "alpha").await?,
            client_of(&project, "beta").await?,
        );
        for maps in [&alpha, &beta] {
            maps.ask("a", "world").await?;
            maps.expect_greeted("a").await?;
        }
        Ok(Self {
            project,
            http: Http { address },
            alpha,
            beta,
            _program: program,
            _server: server,
        })
    }

    fn file(&self) -> PathBuf {
        self.project.path().join("hello.wasm")
    }

    async fn status(&self, name: &str) -> Result<Json> {
        let (_, body) = self.http.get("/api/v1/reconcilers").await?;
        let answer: Json = serde_json::from_str(&body)?;
        let items = answer["items"].as_array().context("reconcilers")?;
        let item = items.iter().find(|item| item["name"] == name);
        Ok(item.cloned().unwrap_or_default())
    }

    async fn reloads(&self, result: &str) -> Result<u64> {
        let (_, metrics) = self.http.get("/metrics").await?;
        let series = format!(
            "windlass_guest_reloads_total{{tenant=\"team-a\",reconciler=\"replaced\",result=\"{result}\"}} "
        );
        let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
        Ok(line.map_or(Ok(0), str::parse)?)
    }

    /// Has the neighbour greet one after the other until it is stopped.
    fn load(&self) -> Load {
        let (stop, beta) = (CancellationToken::new(), self.beta.clone());
        let stopped = stop.clone();
        let asking = tokio::spawn(async move {
            let mut times = Vec::new();
            while !stopped.is_cancelled() {
                let who = format!("n{}", times.len());
                let asked = Instant::now();
                beta.ask_again("a", &who).await?;
                let greeting = format!("hello, {who}, from ");
                eventually(SOON, &greeting, || async {
                    let seen = beta.greeting("a").await?;
                    Ok(Seen::of(seen, |seen| {
                        seen.as_ref()
                            .is_some_and(|seen| seen.starts_with(&greeting))
                    }))
                })
                .await?;
                times.push(asked.elapsed());
            }
            Ok(times)
        });
        Load { stop, asking }
    }

    /// Ends the neighbour's load: each of its updates was answered, none failed, and none took long.
    async fn served(&self, load: Load) -> Result<()> {
        load.stop.cancel();
        let mut times = load.asking.await??;
        assert!(times.len() >= 20, "{} updates", times.len());
        times.sort();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        // The machine is shared: a reload that held the neighbour up would do so each time, or until the reload has ended.
        assert!(median < Duration::from_secs(1), "{median:?}");
        assert!(longest < Duration::from_secs(10), "{longest:?}");
        let steady = self.status("steady").await?;
        assert_eq!(steady["failed"], 0, "{steady}");
        assert_eq!(steady["problem"], "", "{steady}");
        Ok(())
    }
}

/// A load that runs.
struct Load {
    stop: CancellationToken,
    asking: tokio::task::JoinHandle<Result<Vec<Duration>>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_guest_is_refused_as_often_as_it_comes_and_disturbs_no_other_tenant()
-> Result<()> {
    let scene = Beside::start().await?;
    let revision = scene.status("replaced").await?["revision"].clone();
    let hello = fs::read(guest("hello"))?;
    let mut traps = fs::read(guest("test-describe"))?;
    let load = scene.load();
    for round in 0..3_u8 {
        // Each time other bytes: what was refused once is not looked at again.
        let truncated = hello[..hello.len() / 2 + usize::from(round)].to_vec();
        let mut random = fastrand::Rng::with_seed(round.into());
        let random: Vec<u8> = (0..50_000).map(|_| random.u8(..)).collect();
        // A custom section, empty, of another name.
        traps.extend([0, 2, 1, b'a' + round]);
        for (what, bytes) in [
            ("ends in the middle", truncated),
            ("", random),
            ("no words for it", traps.clone()),
        ] {
            let before = scene.reloads("refused").await?;
            replace(&scene.file(), &bytes)?;
            let status = eventually(SOON, "a refusal", || async {
                let refused = scene.reloads("refused").await?;
                let status = scene.status("replaced").await?;
                Ok(Seen::of((refused, status), |(refused, status)| {
                    *refused > before && status["problem"] != ""
                }))
            })
            .await?
            .1;
            let problem = status["problem"].as_str().unwrap_or_default();
            assert!(problem.contains(what), "{problem}");
            assert_eq!(status["revision"], revision, "the last good one serves");
            assert_eq!(status["serves"], true, "{status}");
        }
        let name = format!("round-{round}");
        scene.alpha.ask(&name, "world").await?;
        scene.alpha.expect_greeted(&name).await?;
    }
    assert_eq!(scene.reloads("taken").await?, 0);
    scene.served(load).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_is_replaced_in_the_middle_of_its_runs_disturbs_no_other_tenant() -> Result<()>
{
    let scene = Beside::start().await?;
    let load = scene.load();
    for round in 0..6 {
        let name = format!("round-{round}");
        for at in 0..5 {
            scene.alpha.ask(&format!("{name}-{at}"), "world").await?;
        }
        eventually(SOON, "a run", || async {
            let status = scene.status("replaced").await?;
            Ok(Seen::of(status, |of| of["running"].as_u64() > Some(0)))
        })
        .await?;
        let word = if round % 2 == 0 { "FROM" } else { "frOm" };
        let before = scene.reloads("taken").await?;
        replace(&scene.file(), &saying(word)?)?;
        eventually(SOON, "the reload", || async {
            Ok(Seen::of(scene.reloads("taken").await?, |taken| {
                *taken > before
            }))
        })
        .await?;
        // Every key has run on the new one, those that were in the middle of a run too.
        for at in 0..5 {
            let wanted = format!("hello, world, {word} ");
            let object = format!("{name}-{at}");
            eventually(SOON, &format!("{wanted:?} for {object}"), || async {
                Ok(Seen::of(scene.alpha.greeting(&object).await?, |seen| {
                    seen.as_ref().is_some_and(|seen| seen.starts_with(&wanted))
                }))
            })
            .await?;
        }
    }
    let replaced = scene.status("replaced").await?;
    assert_eq!(replaced["failed"], 0, "{replaced}");
    assert_eq!(scene.reloads("refused").await?, 0);
    scene.served(load).await
}
