//! A guest whose file is replaced while it answers updates, in the program. Entry point: [`measure`].
//!
//! What a user of the guest sees begins when the file changes: the program notices it, reads and compiles the component, has it describe
//! itself, lets it serve, and has every object looked at again. Answers are the writes that reach the API server. Each revision writes
//! to objects of a name of its own, so that an answer shows which one gave it.

use super::program::{Running, SOON, reconciler};
use crate::figures::{median, spread};
use crate::fleet::served::at_rate;
use crate::fleet::simulated::now;
use crate::latency::Latency;
use crate::table::verdict;
use crate::until::until;
use crate::workload::{Workload, tell};
use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use windlass_apiserver::{Call, Cluster, Hook, Server, Verb};
use windlass_harness::guests::renamed;

const OBJECTS: usize = 500;
/// Updates per second: chance alone leaves no gap of half the bar between so many.
const RATE: f64 = 500.0;
/// Of a phase.
const SECONDS: f64 = 6.0;
/// When the file is replaced in it. What is measured begins then.
const REPLACED: Duration = Duration::from_secs(2);
/// Phases in which the file is left as it is and in which it is replaced, in turns.
const ROUNDS: usize = 5;
/// How long the last answers of a phase may take before they count as lost.
const LAST: Duration = Duration::from_secs(10);
/// The longest time without an answer, in milliseconds.
const BAR: f64 = 50.0;
const FILE: &str = "guest.wasm";
/// What the names of echoes end in, by revision: the guest's own word and one of its length.
const WORDS: [&str; 2] = ["-out", "-new"];

pub(crate) const WORKLOAD: Workload = Workload {
    name: "reload",
    title: "a guest that answers 500 updates/s with a write, and its file is replaced; from the change of the file on, middle of 5 rounds, ms",
    heads: &[
        "the file  ",
        "due to answered p50",
        "   p99",
        "longest gap",
        "worst of 5",
        "new revision answers after",
        "lost",
        "older after newer",
        "bar        ",
    ],
    runs: &[&[]],
};

pub(crate) async fn measure() -> Result<()> {
    let mut scene = Scene::start().await?;
    let (mut same, mut replaced) = (Phases::default(), Phases::default());
    for round in 0..ROUNDS {
        scene.phase(&mut same, None).await?;
        scene.phase(&mut replaced, Some(round)).await?;
    }
    tell(same.row("stays"))?;
    tell(replaced.row("is replaced"))
}

/// A write of the guest.
#[derive(Clone)]
struct Answer {
    /// When it reached the server, in nanoseconds since the epoch.
    at: u64,
    object: String,
    /// Which of [`WORDS`] the revision has that made it.
    word: usize,
    /// When the update was due that it answers.
    value: u64,
}

/// The guest's writes, in the order in which they reached the server.
#[derive(Default)]
struct Answers(Mutex<Vec<Answer>>);

impl Hook for Answers {
    fn received(&self, _: &str, call: &Call, body: &Bytes) {
        if call.resource == "configmaps" && matches!(call.verb, Verb::Create | Verb::Patch) {
            // Before the time is taken, so that later answers have later times.
            let mut answers = self.0.lock();
            answers.extend(Answer::of(call, body));
        }
    }
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    metadata: Named,
    data: Echo,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Echo {
    echo: String,
}

impl Answer {
    fn of(call: &Call, body: &Bytes) -> Option<Self> {
        let written: Written = serde_json::from_slice(body).ok()?;
        let name = match call.name.as_str() {
            "" => written.metadata.name,
            name => name.to_owned(),
        };
        let (word, object) = WORDS
            .iter()
            .enumerate()
            .find_map(|(at, word)| Some((at, name.strip_suffix(word)?)))?;
        Some(Self {
            at: now(),
            object: object.to_owned(),
            word,
            value: written.data.echo.parse().ok()?,
        })
    }
}

/// Figures of phases of one sort.
#[derive(Default)]
struct Phases {
    /// Of each phase, in milliseconds.
    p50: Vec<f64>,
    p99: Vec<f64>,
    gaps: Vec<f64>,
    served: Vec<f64>,
    /// Objects whose last update was not answered.
    lost: usize,
    /// Answers after which an older one came: two runs of one object at once.
    older: usize,
}

impl Phases {
    /// What reached the server in a phase, of which is measured what came from a time on, and for which a revision was expected then.
    fn add(&mut self, answers: &[Answer], from: u64, expected: Option<usize>) {
        let (mut known, mut newest) = (HashSet::new(), HashMap::new());
        let (times, mut last, mut longest) = (Latency::default(), from, 0);
        for answer in answers {
            let newest = newest.entry(&answer.object).or_insert(0);
            self.older += usize::from(answer.value < *newest);
            *newest = answer.value.max(*newest);
            // A revision that is new writes what was answered before as well: that is nobody's answer.
            if known.insert((&answer.object, answer.value)) && answer.at > from && answer.value > 0
            {
                times.record(Duration::from_nanos(answer.at.saturating_sub(answer.value)));
                longest = longest.max(answer.at.saturating_sub(last));
                last = answer.at;
            }
        }
        self.p50.push(times.at(0.5));
        self.p99.push(times.at(0.99));
        self.gaps.push(longest as f64 / 1e6);
        if let Some(word) = expected {
            let first = answers.iter().find(|answer| answer.word == word);
            let after = first.map_or(f64::INFINITY, |first| first.at.saturating_sub(from) as f64);
            self.served.push(after / 1e6);
        }
    }

    fn row(&self, name: &str) -> Vec<String> {
        let (gap, _, worst) = spread(&self.gaps);
        let mut row = vec![
            name.to_owned(),
            format!("{:.2}", median(&self.p50)),
            format!("{:.2}", median(&self.p99)),
            format!("{gap:.1}"),
            format!("{worst:.1}"),
        ];
        row.push(match self.served.as_slice() {
            [] => String::new(),
            served => format!("{:.0}", median(served)),
        });
        row.extend([self.lost, self.older].map(|count| count.to_string()));
        // What stays as it is has no bar: it shows what the machine does.
        if !self.served.is_empty() {
            row.push(verdict("50 ms", gap <= BAR && self.lost + self.older == 0));
        }
        row
    }
}

/// All that takes part.
struct Scene {
    answers: Arc<Answers>,
    alpha: Cluster,
    running: Running,
    /// Which of [`WORDS`] the file's revision has.
    word: usize,
    _server: Server,
}

impl Scene {
    async fn start() -> Result<Self> {
        let answers = Arc::new(Answers::default());
        let server = Server::builder().hook(answers.clone()).cluster("alpha");
        let server = server.bind("127.0.0.1:0").await?;
        let alpha = server.cluster("alpha").context("alpha")?;
        for n in 0..OBJECTS {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "default", "name": name(n), "labels": {"bench": "in"}},
                "data": {"value": "0", "ballast": "x".repeat(500)}});
            alpha.create(object).map_err(|error| anyhow!("{error:?}"))?;
        }
        let folder = TempDir::new()?;
        replace(folder.path(), &component(0, 0)?)?;
        let verbs = "get, list, watch, create, patch";
        let limits = "limits: {concurrencyPerCluster: 16}";
        let echo = reconciler("echo", FILE.as_ref(), "alpha", verbs, limits);
        let scene = Self {
            answers,
            alpha,
            running: Running::start(folder, &server, &echo).await?,
            word: 0,
            _server: server,
        };
        tokio::time::timeout(SOON, until("every echo", || scene.unanswered() == 0)).await??;
        Ok(scene)
    }

    /// Updates objects for a while, and replaces the file meanwhile where there is a round for it.
    async fn phase(&mut self, phases: &mut Phases, replaced: Option<usize>) -> Result<()> {
        self.answers.0.lock().clear();
        let alpha = self.alpha.clone();
        let load = tokio::task::spawn_blocking(move || {
            at_rate(RATE, SECONDS, |n, due| {
                let patch = json!({"data": {"value": due.to_string()}});
                let updated = alpha.merge("v1", "ConfigMap", "default", &name(n % OBJECTS), &patch);
                updated.map(drop).map_err(|error| anyhow!("{error:?}"))
            })
        });
        // Not a wait: it is when the file is replaced.
        tokio::time::sleep(REPLACED).await;
        let mut from = now();
        if let Some(round) = replaced {
            self.word = (round + 1) % WORDS.len();
            let component = component(self.word, round + 1)?;
            from = now();
            replace(self.running.path(), &component)?;
        }
        load.await??;
        let last = until("every answer", || self.unanswered() == 0);
        let _ = tokio::time::timeout(LAST, last).await;
        phases.lost += self.unanswered();
        let answers = self.answers.0.lock().clone();
        phases.add(&answers, from, replaced.map(|_| self.word));
        Ok(())
    }

    /// Objects whose echo by the file's revision is not right.
    fn unanswered(&self) -> usize {
        let objects = self.alpha.list("v1", "ConfigMap", "default");
        let objects = objects.unwrap_or_default();
        let text = |object: &serde_json::Value, at: &str| {
            let text = object.pointer(at).and_then(|text| text.as_str());
            text.unwrap_or_default().to_owned()
        };
        let echoes: HashMap<String, String> = objects
            .iter()
            .map(|object| (text(object, "/metadata/name"), text(object, "/data/echo")))
            .collect();
        let right = objects.iter().filter(|object| {
            let echo = text(object, "/metadata/name") + WORDS[self.word];
            echoes.get(&echo) == Some(&text(object, "/data/value"))
        });
        OBJECTS.saturating_sub(right.count())
    }
}

fn name(n: usize) -> String {
    format!("object-{n}")
}

/// The guest with one of [`WORDS`]. No two rounds have the same bytes, so that each is compiled.
fn component(word: usize, round: usize) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(windlass_harness::guests::guest("echo"))?;
    if word > 0 {
        bytes = renamed(&bytes, WORDS[0], WORDS[word]);
    }
    // A custom section that means nothing.
    bytes.extend([0, 3, 1, b'v', u8::try_from(round)?]);
    Ok(bytes)
}

/// Puts a component in the file's place at once.
fn replace(folder: &Path, component: &[u8]) -> Result<()> {
    let fresh = folder.join("fresh");
    std::fs::write(&fresh, component)?;
    Ok(std::fs::rename(fresh, folder.join(FILE))?)
}
