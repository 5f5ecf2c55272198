//! Guests and Reconcilers that change while they run: each change is in effect soon and whole, a bad one is told and changes nothing.

use crate::check::with_greeting_schema;
use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, ask, client_of, fleet, start, table};
use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::{guest, renamed};
use windlass_harness::program::Program;

/// The hello guest with another word for `from` in its greetings, which must be as long: another revision.
pub(crate) fn saying(word: &str) -> Result<Vec<u8>> {
    let component = fs::read(guest("hello"))?;
    Ok(renamed(&component, ", from ", &format!(", {word} ")))
}

/// Puts a component in a file's place at once.
pub(crate) fn replace(file: &Path, component: &[u8]) -> Result<()> {
    let fresh = file.with_extension("fresh");
    fs::write(&fresh, component)?;
    Ok(fs::rename(fresh, file)?)
}

/// A program with one reconciler, whose guest is a file of its own, and a ConfigMap that is greeted.
struct Scene {
    project: Project,
    program: Program,
    address: String,
    alpha: ConfigMaps,
    _server: windlass_apiserver::Server,
}

const FILE: &str = "hello.wasm";
/// The first labels of its metrics.
const OF_HELLO: &str = "{tenant=\"team-a\",reconciler=\"hello\"";

fn hello() -> String {
    reconciler("hello", FILE.as_ref())
}

/// Another tenant.
pub(crate) const TEAM_B: &str =
    "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-b}\n";

impl Scene {
    async fn start() -> Result<Self> {
        Self::with(&fs::read(guest("hello"))?, "hello, world, from ").await
    }

    async fn with(component: &[u8], greeted: &str) -> Result<Self> {
        let project = Project::new()?;
        project.write(FILE, component)?;
        project.write_config(&[hello()])?;
        let server = fleet(&project, &["alpha", "beta"]).await?;
        let (program, address) = start(&project).await?;
        let alpha = client_of(&project, "alpha").await?;
        alpha.ask("a", "world").await?;
        let scene = Self {
            project,
            program,
            address,
            alpha,
            _server: server,
        };
        if !greeted.is_empty() {
            scene.greets("a", greeted).await?;
        }
        Ok(scene)
    }

    fn file(&self) -> std::path::PathBuf {
        self.project.path().join(FILE)
    }

    async fn greets(&self, name: &str, beginning: &str) -> Result<()> {
        greets(&self.alpha, name, beginning).await
    }

    /// What `get reconcilers` says of the one.
    async fn status(&self) -> Result<Json> {
        let answer = ask(&self.project, &self.address, &["get", "reconcilers"]).await?;
        Ok(answer["items"][0].clone())
    }

    async fn status_is(&self, what: &str, holds: impl Fn(&Json) -> bool) -> Result<Json> {
        eventually(SOON, what, || async {
            Ok(Seen::of(self.status().await?, &holds))
        })
        .await
    }

    /// How many reloads ended so.
    async fn reloads(&self, result: &str) -> Result<u64> {
        let series = format!("windlass_guest_reloads_total{OF_HELLO},result=\"{result}\"}}");
        let told = self.http().series(&series).await?;
        Ok(told.first().map_or(0, |(_, count)| *count as u64))
    }

    fn http(&self) -> Http {
        let address = self.address.clone();
        Http { address }
    }

    /// Waits until metric, answer and table say alike whether what is asked for is in effect, and returns the answer.
    async fn told(&self, in_effect: bool) -> Result<Json> {
        let metric = format!("windlass_guest_reload_refused{OF_HELLO}}}");
        let expected = vec![(String::new(), if in_effect { 0.0 } else { 1.0 })];
        eventually(SOON, &format!("{metric} to be {expected:?}"), || async {
            let told = self.http().series(&metric).await?;
            Ok(Seen::of(told, |told| *told == expected))
        })
        .await?;
        let status = self
            .status_is("the answer to say the same", |status| {
                (status["problem"] == "") == in_effect && status["reload"]["inEffect"] == in_effect
            })
            .await?;
        let wide = ["get", "reconcilers", "-o", "wide"];
        let row = &table(&self.project, &self.address, &wide).await?[0];
        assert_eq!(row["STATE"], if in_effect { "Serves" } else { "Stale" });
        assert!(row["RELOAD"].ends_with(" ago"), "{row:?}");
        assert_eq!(row["RELOAD"].starts_with("refused "), !in_effect, "{row:?}");
        assert_eq!(row["PROBLEM"] == "-", in_effect, "{row:?}");
        Ok(status)
    }

    /// The labels that follow those of the reconciler in each series of what serves.
    async fn revisions(&self) -> Result<Vec<(String, f64)>> {
        let beginning = format!("windlass_guest_info{OF_HELLO},");
        self.http().series(&beginning).await
    }
}

pub(crate) async fn greets(of: &ConfigMaps, name: &str, beginning: &str) -> Result<()> {
    let what = format!("{beginning:?} for {name}");
    let greeting = eventually(SOON, &what, || async {
        Ok(Seen::of(of.greeting(name).await?, |seen| {
            seen.as_ref()
                .is_some_and(|seen| seen.starts_with(beginning))
        }))
    });
    greeting.await.map(drop)
}

#[tokio::test]
async fn an_equal_file_in_the_place_of_a_guest_is_no_reload() -> Result<()> {
    let scene = Scene::start().await?;
    let serves = scene.revisions().await?;
    replace(&scene.file(), &fs::read(guest("hello"))?)?;
    // When documents change, the file of every guest is read again.
    let other = reconciler("other", FILE.as_ref());
    scene.project.write_config(&[hello(), other])?;
    eventually(SOON, "the other reconciler", || async {
        let answer = ask(&scene.project, &scene.address, &["get", "reconcilers"]).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        Ok(Seen::of(items, |items| {
            items.len() == 2 && items.iter().all(|item| item["serves"] == true)
        }))
    })
    .await?;
    assert_eq!(scene.reloads("taken").await?, 0);
    assert_eq!(scene.revisions().await?, serves);
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_written_piece_by_piece_is_loaded_whole() -> Result<()> {
    let scene = Scene::start().await?;
    let component = saying("FROM")?;
    let mut file = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(scene.file())?;
    // A slow copy: longer than a change may be quiet, in pieces that follow each other sooner.
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    for piece in component.chunks(component.len() / 20) {
        pace.tick().await;
        file.write_all(piece)?;
        file.flush()?;
    }
    drop(file);
    scene.greets("a", "hello, world, FROM ").await?;
    // Half of it may have been looked at, where writing took long, and was refused then.
    assert_eq!(scene.reloads("taken").await?, 1);
    assert_eq!(scene.status().await?["problem"], "");
    Ok(())
}

#[tokio::test]
async fn half_a_file_is_refused_and_the_whole_one_is_taken_once_it_is_there() -> Result<()> {
    let mut scene = Scene::start().await?;
    let component = saying("FROM")?;
    let before = scene.status().await?["revision"].clone();
    let mark = scene.program.line_count();
    fs::write(scene.file(), &component[..component.len() / 2])?;
    scene
        .program
        .line_with_from(mark, "hello.wasm ends in the middle", SOON)
        .await?;
    let status = scene
        .status_is("the reason in the status", |status| status["problem"] != "")
        .await?;
    assert_eq!(status["revision"], before, "the last good one serves");
    assert_eq!(status["serves"], true);
    assert_eq!(scene.reloads("refused").await?, 1);
    scene.alpha.ask("b", "moon").await?;
    scene.greets("b", "hello, moon, from ").await?;

    let mut file = OpenOptions::new().append(true).open(scene.file())?;
    file.write_all(&component[component.len() / 2..])?;
    drop(file);
    scene.greets("a", "hello, world, FROM ").await?;
    let status = scene.status().await?;
    assert_eq!(
        (&status["problem"], status["revision"] != before),
        (&Json::from(""), true)
    );
    assert_eq!(scene.reloads("taken").await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_is_refused_is_told_alike_everywhere_until_it_is_gone() -> Result<()> {
    let scene = Scene::start().await?;
    let served = fs::read(guest("hello"))?;
    let noise: Vec<u8> = (0..20_000_u32).map(|at| ((at * at) >> 7) as u8).collect();
    let config = "windlass:runtime/config@0.1.0";
    let unheard_of = renamed(&served, config, "windmill:runtime/config@0.1.0");
    let refused = [
        // It is a component, and cannot be linked.
        (&unheard_of, "imports windmill:runtime/config@0.1.0"),
        // It is compiled and linked, and cannot describe itself with this configuration.
        (
            &fs::read(guest("test-describe"))?,
            "the guest refuses to start",
        ),
    ];
    for (content, why) in refused {
        replace(&scene.file(), content)?;
        let status = scene.told(false).await?;
        let problem = status["problem"].as_str().unwrap_or_default();
        assert!(problem.contains(why), "{why:?} in {problem}");
        // What serves is what is asked for again: nothing is loaded, and nothing is refused any more.
        replace(&scene.file(), &served)?;
        scene.told(true).await?;
    }
    assert_eq!(scene.reloads("refused").await?, refused.len() as u64);
    assert_eq!(scene.reloads("taken").await?, 0);

    // One that is not taken, and then another that is.
    replace(&scene.file(), &noise)?;
    scene.told(false).await?;
    replace(&scene.file(), &saying("FROM")?)?;
    scene.told(true).await?;
    scene.greets("a", "hello, world, FROM ").await?;
    Ok(())
}

#[tokio::test]
async fn a_config_that_its_guests_schema_excludes_changes_nothing() -> Result<()> {
    let scene = Scene::with(&with_greeting_schema()?, "hello, world, from ").await?;
    let other = |config: &str| hello().replace("{greeting: hello}", config);
    scene.project.write_config(&[other("{greeting: 3}")])?;
    let status = scene.told(false).await?;
    let problem = status["problem"].as_str().unwrap_or_default();
    let expected =
        "windlass.yaml:18:22: spec.config.greeting of Reconciler hello: expected a text, found 3";
    assert!(problem.ends_with(expected), "{problem}");
    scene.project.write_config(&[other("{greeting: hi}")])?;
    scene.told(true).await?;
    scene.greets("a", "hi, world, from ").await?;

    // A new revision of the guest is held to its own schema: this one knows no such field.
    let schema = "{\"additionalProperties\": false}";
    let other = windlass_sandbox::with_config_schema(fs::read(guest("hello"))?, schema)?;
    replace(&scene.file(), &other)?;
    let status = scene.told(false).await?;
    let problem = status["problem"].as_str().unwrap_or_default();
    assert!(
        problem.contains("unknown field \"greeting\" in spec.config"),
        "{problem}"
    );
    Ok(())
}

#[tokio::test]
async fn a_reconciler_that_never_started_is_told_as_refused() -> Result<()> {
    let project = Project::new()?;
    project.write("other.wasm", "no component")?;
    project.write(FILE, fs::read(guest("hello"))?)?;
    project.write_config(&[hello(), reconciler("other", "other.wasm".as_ref())])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    let metric = "windlass_guest_reload_refused{tenant=\"team-a\",reconciler=";
    let told = http.series(metric).await?;
    assert_eq!(
        told,
        [("\"hello\"}".into(), 0.0), ("\"other\"}".into(), 1.0)]
    );
    // Nothing of it serves.
    let told = http.series("windlass_guest_info{").await?;
    assert_eq!(told.len(), 1, "{told:?}");
    replace(&project.path().join("other.wasm"), &saying("FROM")?)?;
    eventually(SOON, "what it should be", || async {
        Ok(Seen::of(http.series(metric).await?, |told| {
            told.iter().all(|(_, refused)| *refused == 0.0)
        }))
    })
    .await?;
    assert_eq!(http.series("windlass_guest_info{").await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_revision_that_serves_is_among_the_metrics_alone() -> Result<()> {
    let scene = Scene::start().await?;
    let series = |revision: &Json, previous: &Json| {
        let text = |digest: &Json| digest.as_str().unwrap_or_default().to_owned();
        let (revision, previous) = (text(revision), text(previous));
        let labels = format!("revision=\"{revision}\",previous=\"{previous}\"}}");
        vec![(labels, 1.0)]
    };
    let first = scene.status().await?["revision"].clone();
    assert_eq!(first.as_str().map(str::len), Some(64), "{first}");
    assert_eq!(scene.revisions().await?, series(&first, &"".into()));

    // Refused, it is not there.
    fs::write(scene.file(), "no component")?;
    scene.told(false).await?;
    assert_eq!(scene.revisions().await?, series(&first, &"".into()));

    replace(&scene.file(), &saying("FROM")?)?;
    scene.told(true).await?;
    let second = scene.status().await?["revision"].clone();
    assert_ne!(first, second);
    assert_eq!(scene.revisions().await?, series(&second, &first));
    ask(&scene.project, &scene.address, &["rollback", "hello"]).await?;
    assert_eq!(scene.revisions().await?, series(&first, &second));
    Ok(())
}

/// Sets how many descriptors a running program may have.
async fn allow_descriptors(program: &Program, most: &str) -> Result<()> {
    let pid = program.pid().context("it runs")?;
    let status = tokio::process::Command::new("prlimit")
        .args([&format!("--pid={pid}"), &format!("--nofile={most}:")])
        .status()
        .await?;
    ensure!(status.success(), "prlimit: {status}");
    Ok(())
}

#[tokio::test]
async fn what_failed_for_the_hosts_own_reasons_is_tried_again_when_nothing_changes() -> Result<()> {
    let mut scene = Scene::start().await?;
    let mark = scene.program.line_count();
    allow_descriptors(&scene.program, "4").await?;
    replace(&scene.file(), &saying("FROM")?)?;
    scene
        .program
        .line_with_from(
            mark,
            "the guest cannot be read: this process is out of file descriptors",
            SOON,
        )
        .await?;
    allow_descriptors(&scene.program, "1024").await?;
    scene.greets("a", "hello, world, FROM ").await?;
    scene
        .status_is("no problem any more", |status| status["problem"] == "")
        .await?;
    Ok(())
}

#[tokio::test]
async fn of_two_changes_in_a_moment_the_last_one_stays() -> Result<()> {
    let scene = Scene::start().await?;
    for round in 0..5 {
        let last = if round % 2 == 0 { "FROM" } else { "frOm" };
        replace(&scene.file(), &saying("FrOm")?)?;
        replace(&scene.file(), &saying(last)?)?;
        scene.greets("a", &format!("hello, world, {last} ")).await?;
    }
    let settled = scene.status().await?;
    assert_eq!(settled["problem"], "");
    Ok(())
}

#[tokio::test]
async fn a_guest_that_traps_all_the_time_is_replaced_by_one_that_does_not() -> Result<()> {
    let scene = Scene::with(&fs::read(guest("test-panic"))?, "").await?;
    scene
        .status_is("a trap", |status| status["failed"].as_u64() >= Some(3))
        .await?;
    replace(&scene.file(), &fs::read(guest("hello"))?)?;
    scene.greets("a", "hello, world, from ").await?;
    Ok(())
}

#[tokio::test]
async fn a_guest_that_never_returns_delays_no_other_guests_change() -> Result<()> {
    let project = Project::new()?;
    project.write(FILE, fs::read(guest("hello"))?)?;
    let endless = reconciler("endless", &guest("test-loop")).replace(
        "  config: {greeting: hello}",
        "  limits: {timeout: 1h, concurrency: 1}",
    );
    project.write_config(&[endless, hello()])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (program, _) = start(&project).await?;
    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    greets(&alpha, "a", "hello, world, from ").await?;
    // It is taken out while its call goes on, which the drain timeout lets it, and others change meanwhile.
    project.write_config(&[hello().replace("greeting: hello", "greeting: salut")])?;
    let soon = Duration::from_secs(20); // less than a drain
    let changed = tokio::time::timeout(soon, greets(&alpha, "a", "salut, world, from "));
    changed.await??;
    replace(&project.path().join(FILE), &saying("FROM")?)?;
    let changed = tokio::time::timeout(soon, greets(&alpha, "a", "salut, world, FROM "));
    changed.await??;
    drop(program);
    Ok(())
}

#[tokio::test]
async fn each_field_of_a_reconciler_is_in_effect_soon_after_it_changes() -> Result<()> {
    let mut scene = Scene::start().await?;
    let change = |document: &str| scene.project.write_config(&[document.to_owned()]);

    // guest.path
    scene.project.write("other.wasm", saying("FROM")?)?;
    change(&hello().replace("hello.wasm", "other.wasm"))?;
    scene.greets("a", "hello, world, FROM ").await?;
    change(&hello())?;
    scene.greets("a", "hello, world, from ").await?;

    // config
    change(&hello().replace("greeting: hello", "greeting: salut"))?;
    scene.greets("a", "salut, world, from ").await?;

    // clusters: clusters that are left out are not changed, and are repaired when they are back.
    let beta = client_of(&scene.project, "beta").await?;
    let narrow = hello().replace("  config:", "  clusters: {names: [\"*beta\"]}\n  config:");
    change(&narrow)?;
    scene
        .status_is("one cluster", |status| status["clusters"] == 1)
        .await?;
    scene.alpha.ask("left-out", "world").await?;
    beta.ask("b", "world").await?;
    greets(&beta, "b", "hello, world, from ").await?;
    assert_eq!(scene.alpha.greeting("left-out").await?, None);
    change(&hello())?;
    scene.greets("left-out", "hello, world, from ").await?;

    // rules: what is taken away is denied, and done when it is given back.
    let mark = scene.program.line_count();
    change(&hello().replace("create, patch]", "create]"))?;
    scene
        .program
        .line_with_from(mark, "reconciler changed", SOON)
        .await?;
    scene.alpha.ask("denied", "world").await?;
    let denied = |status: &Json| {
        let error = status["lastError"].as_str().unwrap_or_default();
        error.contains("patch")
    };
    scene.status_is("a denial", denied).await?;
    assert_eq!(scene.alpha.greeting("denied").await?, None);
    change(&hello())?;
    scene.greets("denied", "hello, world, from ").await?;

    // limits: one that the guest cannot live with is refused, with the reason.
    change(&hello().replace("  config:", "  limits: {memory: 1Mi}\n  config:"))?;
    let refused = scene
        .status_is("a refusal", |status| status["problem"] != "")
        .await?;
    let problem = refused["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("its memory limit of 1 MiB"), "{problem}");
    let mark = scene.program.line_count();
    let limits = "  limits: {memory: 8Mi, timeout: 5s, concurrency: 1}\n  config:";
    change(&hello().replace("  config:", limits))?;
    scene
        .program
        .line_with_from(mark, "reconciler changed", SOON)
        .await?;

    // tenant: one that is not there changes nothing.
    let moved = hello().replace("tenant: team-a", "tenant: team-b");
    let mark = scene.program.line_count();
    change(&moved)?;
    scene
        .program
        .line_with_from(mark, "does not exist", SOON)
        .await?;
    scene.alpha.ask("stays", "world").await?;
    scene.greets("stays", "hello, world, from ").await?;
    change(&format!("{moved}{TEAM_B}"))?;
    scene
        .status_is("the new tenant", |status| status["tenant"] == "team-b")
        .await?;
    scene.alpha.ask("moved", "world").await?;
    scene.greets("moved", "hello, world, from ").await?;
    Ok(())
}

#[tokio::test]
async fn a_guest_without_end_is_not_read_into_memory() -> Result<()> {
    let mut scene = Scene::start().await?;
    let mark = scene.program.line_count();
    // No such file is in memory anywhere: it is one hole.
    let file = OpenOptions::new().write(true).open(scene.file())?;
    file.set_len(4 << 30)?;
    drop(file);
    let line = scene
        .program
        .line_with_from(mark, "at most 64Mi are loaded", SOON)
        .await?;
    assert!(line.contains("hello.wasm has 4Gi"), "{line}");
    scene.alpha.ask("b", "moon").await?;
    scene.greets("b", "hello, moon, from ").await?;
    Ok(())
}
