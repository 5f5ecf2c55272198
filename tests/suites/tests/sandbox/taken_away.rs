//! Calls whose cluster or controller is taken away under them, at moments all over the call: the instance goes with the call, a write
//! that is on its way lands before anything else is done for the key, and nothing of the call comes after it.

use crate::fixture::{RunningGuest, Stage, config_map};
use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::{AnswerVerdict, Call, Hook, RequestVerdict, Verb};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::request;
use windlass_sandbox::{Isolation, Reuse};

/// Calls that are cut off, each at a moment of its own.
const MOMENTS: u32 = 20;
/// For each, after how many requests and answers of [`script`] it is cut off: most often during a write. A little later than that, by
/// up to three times [`STEP`].
const AFTER: [usize; MOMENTS as usize] =
    [1, 2, 3, 3, 3, 3, 4, 5, 6, 7, 7, 7, 7, 8, 9, 9, 9, 9, 9, 9];
const STEP: Duration = Duration::from_millis(20);
/// Of these, in the last write, which takes longest.
const IN_THE_LAST: usize = 6;
/// How long the server takes for each.
const READ: Duration = Duration::from_millis(30);
const WRITE: Duration = Duration::from_millis(100);
/// For the last write of a call, so that none ends before it is cut off.
const LAST: Duration = Duration::from_millis(1200);

const ISOLATIONS: [(&str, Isolation); 2] = [
    ("fresh", Isolation::Fresh),
    (
        "reuse",
        Isolation::Reuse(Reuse {
            calls: 100,
            age: Duration::from_secs(3600),
            memory: 32 << 20,
            idle: 100,
        }),
    ),
];

/// What is taken away.
#[derive(Clone, Copy, PartialEq)]
enum Removed {
    Cluster,
    Controller,
}

/// One call that is to be cut off.
struct Target<'a> {
    running: &'a RunningGuest,
    cluster: &'a str,
    number: u32,
}

impl Target<'_> {
    /// Takes away what it runs for, and gives it back at once if it is to come `back`. Returns when the run was told to end; `None`: none
    /// was under way.
    async fn cut(&self, stage: &Stage, removed: Removed, back: bool) -> Result<Option<Instant>> {
        let run = self.running.run_of(&request(self.cluster, "a"));
        let told = async {
            let run = run?;
            run.cancelled().await;
            Some(Instant::now())
        };
        match removed {
            Removed::Cluster => {
                stage.leave(self.cluster)?;
                let told = told.await;
                if back {
                    stage.join(self.cluster)?;
                }
                Ok(told)
            }
            Removed::Controller => {
                let then = async {
                    let told = told.await;
                    if back {
                        self.running.put(stage)?;
                    }
                    Ok(told)
                };
                tokio::join!(self.running.leave(stage), then).1
            }
        }
    }

    async fn is_under_way(&self) -> Result<CancellationToken> {
        let run = request(self.cluster, "a");
        wait("a run under way", || match self.running.run_of(&run) {
            Some(run) => Seen::Yes(run),
            None => Seen::NotYet("no run".into()),
        })
        .await
    }
}

async fn later(time: Duration) {
    // Not a wait: this is when something is taken away.
    tokio::time::sleep(time).await;
}

/// Clusters of a stage, and guests on it: either one guest in a cluster for each target, or a guest for each in one cluster.
fn places(removed: Removed) -> Vec<String> {
    match removed {
        Removed::Cluster => (0..MOMENTS).map(|number| format!("c{number}")).collect(),
        Removed::Controller => vec!["alpha".to_owned()],
    }
}

fn targets<'a>(guests: &'a [RunningGuest], clusters: &'a [String]) -> Vec<Target<'a>> {
    let pairs = (0..MOMENTS).zip(guests.iter().cycle().zip(clusters.iter().cycle()));
    pairs
        .map(|(number, (running, cluster))| Target {
            running,
            cluster,
            number,
        })
        .collect()
}

async fn guests(
    stage: &Stage,
    removed: Removed,
    of: &str,
    (word, isolation): (&str, Isolation),
) -> Result<Vec<RunningGuest>> {
    let count = match removed {
        Removed::Cluster => 1,
        Removed::Controller => MOMENTS,
    };
    let mut guests: Vec<RunningGuest> = Vec::new();
    for number in 0..count {
        let builder = stage
            .guest(of)
            .name(&format!("{of}-{number}-{word}"))
            .config(script(number))
            .isolation(isolation)
            .limits(|limits| limits.timeout = Duration::from_secs(60))
            .controller(|options| options.concurrency_per_cluster = MOMENTS as usize);
        // Of one tenant, so that other tests have their share of the processors.
        let builder = match guests.first() {
            Some(first) => builder.tenant_of(first),
            None => builder,
        };
        guests.push(builder.run().await?);
    }
    Ok(guests)
}

/// No run is under way, nothing is kept for another call, and all memory is back.
async fn nothing_is_left(guests: &[RunningGuest]) -> Result<()> {
    wait("no run, no idle instance and no memory in use", || {
        let left: Vec<_> = guests
            .iter()
            .map(|running| {
                let status = running.guest.status();
                (
                    running.under_way(),
                    status.idle_instances,
                    status.tenant_memory,
                )
            })
            .filter(|left| *left != (0, 0, 0))
            .collect();
        Seen::of(left, Vec::is_empty)
    })
    .await?;
    Ok(())
}

/// Half of them in the first milliseconds after their object has come, whether or not they have begun; the others while they compute.
async fn loops(removed: Removed, isolation: (&str, Isolation)) -> Result<()> {
    let clusters = places(removed);
    let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let stage = Stage::start(&names).await?;
    stage.handle.set_drain_timeout(Duration::ZERO);
    let guests = guests(&stage, removed, "test-loop", isolation).await?;
    for cluster in &clusters {
        stage.apply(cluster, config_map("a", json!({})))?;
    }
    let targets = targets(&guests, &clusters);
    let cut = targets.iter().map(async |target| {
        if target.number % 2 == 1 {
            target.is_under_way().await?;
        }
        later(Duration::from_millis(target.number.into())).await;
        target.cut(&stage, removed, false).await
    });
    let cut = try_join_all(cut).await?;
    let under_way = cut.iter().flatten().count();
    assert!(under_way >= 10, "{under_way} calls were cut off");
    nothing_is_left(&guests).await?;
    let computed: f64 = guests.iter().map(|a| a.guest.status().cpu_seconds).sum();
    assert!(computed > 0.0, "they looped");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_loop_leave_nothing_when_their_cluster_goes() -> Result<()> {
    try_join_all(ISOLATIONS.map(|isolation| loops(Removed::Cluster, isolation))).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_loop_leave_nothing_when_their_controller_goes() -> Result<()> {
    try_join_all(ISOLATIONS.map(|isolation| loops(Removed::Controller, isolation))).await?;
    Ok(())
}

/// What a call does: reads and writes of ConfigMaps of its own, `w<number>-<step>`.
fn script(number: u32) -> Value {
    let kind = json!(["v1", "ConfigMap"]);
    let name = |step: u32| format!("w{number}-{step}");
    let read = json!({"do": "get", "kind": kind, "key": ["default", name(1)], "options": {"mode": "live"}});
    let write = |step: u32| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(step), "namespace": "default"}, "data": {"step": "done"}});
        json!({"do": "apply", "kind": kind, "object": object})
    };
    json!({"steps": [read, write(1), read, write(2), write(3)]})
}

/// A request of a guest at the server, or its answer.
#[derive(Debug, Clone, Copy)]
struct Note {
    /// Of a write; none for a read.
    step: Option<u32>,
    begins: bool,
    at: Instant,
}

/// Takes its time for what guests do to `w…`, and keeps account of it: by cluster and number, in the order in which it came.
#[derive(Default)]
struct Slow(Mutex<BTreeMap<(String, u32), Vec<Note>>>);

impl Slow {
    /// Returns how long the request takes.
    fn note(&self, cluster: &str, call: &Call, begins: bool) -> Option<Duration> {
        let (number, step) = call.name.strip_prefix('w')?.split_once('-')?;
        let step = match call.verb {
            Verb::Patch => Some(step.parse().ok()?),
            Verb::Get => None,
            _ => return None,
        };
        let note = Note {
            step,
            begins,
            at: Instant::now(),
        };
        let of = (cluster.to_owned(), number.parse().ok()?);
        self.0.lock().entry(of).or_default().push(note);
        Some(match step {
            None => READ,
            Some(3) => LAST,
            Some(_) => WRITE,
        })
    }

    fn of(&self, target: &Target<'_>) -> Vec<Note> {
        let all = self.0.lock();
        let mut of = all.iter().filter(|((cluster, number), _)| {
            // A guest of several clusters has one script for all of them.
            *cluster == target.cluster && (*number == target.number || *number == 0)
        });
        of.next_back()
            .map(|(_, notes)| notes.clone())
            .unwrap_or_default()
    }
}

impl Hook for Slow {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        match self.note(cluster, call, true) {
            Some(time) => RequestVerdict::Delay(time),
            None => RequestVerdict::Proceed,
        }
    }

    fn answer(&self, cluster: &str, call: &Call, _: &bytes::Bytes) -> AnswerVerdict {
        self.note(cluster, call, false);
        AnswerVerdict::Send
    }
}

/// Writes that have begun and not been answered; an error when anything of the same key began meanwhile.
fn writes_under_way(notes: &[Note]) -> Result<usize> {
    let mut under_way = 0;
    for note in notes {
        if note.begins {
            ensure!(under_way == 0, "something began during a write: {notes:?}");
        }
        match (note.step, note.begins) {
            (Some(_), true) => under_way += 1,
            (Some(_), false) => under_way -= 1,
            (None, _) => {}
        }
    }
    Ok(under_way)
}

/// A stage with a slow server, and a guest for each target that is about to work through its script.
struct Scene {
    slow: Arc<Slow>,
    stage: Stage,
    clusters: Vec<String>,
    guests: Vec<RunningGuest>,
    removed: Removed,
}

impl Scene {
    async fn set(removed: Removed, isolation: (&str, Isolation)) -> Result<Self> {
        let (slow, clusters) = (Arc::new(Slow::default()), places(removed));
        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
        let stage = Stage::hooked(&names, slow.clone()).await?;
        stage.handle.set_drain_timeout(Duration::ZERO);
        let guests = guests(&stage, removed, "test-calls", isolation).await?;
        for cluster in &clusters {
            stage.apply(cluster, config_map("a", json!({})))?;
        }
        Ok(Self {
            slow,
            stage,
            clusters,
            guests,
            removed,
        })
    }

    /// Cuts a call off at its moment.
    async fn cut(&self, target: &Target<'_>, back: bool) -> Result<Instant> {
        let after = AFTER[target.number as usize];
        wait("as many requests and answers", || {
            Seen::of(self.slow.of(target).len(), |notes| *notes >= after)
        })
        .await?;
        later(STEP * (target.number % 4)).await;
        let cut = target.cut(&self.stage, self.removed, back).await?;
        cut.context("the call is under way: its last write takes long")
    }

    async fn landed(&self, target: &Target<'_>) -> Result<Vec<Note>> {
        wait("the write on its way to land", || {
            let notes = self.slow.of(target);
            match writes_under_way(&notes) {
                Ok(0) => Seen::Yes(notes),
                seen => Seen::NotYet(format!("{seen:?}")),
            }
        })
        .await
    }
}

/// Takes all away, and none comes back.
async fn writes(removed: Removed, isolation: (&str, Isolation)) -> Result<()> {
    let scene = Scene::set(removed, isolation).await?;
    let targets = targets(&scene.guests, &scene.clusters);
    let cut = try_join_all(targets.iter().map(|target| scene.cut(target, false))).await?;
    nothing_is_left(&scene.guests).await?;
    let mut afterwards = 0;
    for (target, cut) in targets.iter().zip(cut) {
        let notes = scene.landed(target).await?;
        let begun: Vec<u32> = notes
            .iter()
            .filter(|note| note.begins)
            .filter_map(|note| note.step)
            .collect();
        assert!(
            [1, 2, 3].starts_with(&begun),
            "each once, in order: {begun:?}"
        );
        let landed: Vec<u32> = notes
            .iter()
            .filter(|note| !note.begins)
            .filter_map(|note| note.step)
            .collect();
        assert_eq!(landed, begun, "what has begun has landed");
        let late = notes
            .iter()
            .filter(|note| !note.begins && note.step.is_some() && note.at > cut)
            .count();
        assert!(late <= 1, "{late} writes landed after the cut: {notes:?}");
        afterwards += late;
    }
    assert!(
        afterwards >= IN_THE_LAST,
        "{afterwards} were cut off during a write"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_lands_when_its_cluster_goes_and_nothing_comes_after_it() -> Result<()> {
    try_join_all(ISOLATIONS.map(|isolation| writes(Removed::Cluster, isolation))).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_lands_when_its_controller_goes_and_nothing_comes_after_it() -> Result<()> {
    try_join_all(ISOLATIONS.map(|isolation| writes(Removed::Controller, isolation))).await?;
    Ok(())
}

/// Takes all away, and each comes back at once: its key runs again, once the write of the call before has landed.
async fn back(removed: Removed, isolation: (&str, Isolation)) -> Result<()> {
    let scene = Scene::set(removed, isolation).await?;
    let targets = targets(&scene.guests, &scene.clusters);
    let again = targets.iter().map(async |target| {
        let cut = scene.cut(target, true).await?;
        wait("all steps of a later call", || {
            let notes = scene.slow.of(target);
            // One that was cut off in its last step had begun that before.
            let last = |note: &Note| !note.begins && note.step == Some(3) && note.at > cut + LAST;
            match writes_under_way(&notes) {
                Ok(0) if notes.iter().any(last) => Seen::Yes(Ok(())),
                Ok(_) => Seen::NotYet(format!("{notes:?}")),
                Err(overlap) => Seen::Yes(Err(overlap)),
            }
        })
        .await?
    });
    try_join_all(again).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_comes_back_finds_the_write_of_before_landed() -> Result<()> {
    back(Removed::Cluster, ISOLATIONS[1]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_comes_back_finds_the_write_of_before_landed() -> Result<()> {
    back(Removed::Controller, ISOLATIONS[1]).await
}
