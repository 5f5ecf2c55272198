//! The same work on real API servers by Windlass, with a native reconciler and with a guest, and by kube-rs. Entry point: `main`.
//!
//! ```text
//! WINDLASS_REAL=1 cargo bench --bench rivals             all subjects, a quarter of an hour
//! WINDLASS_REAL=1 cargo bench --bench rivals -- guest    one of them, and kube-rs beside it
//! ```
//!
//! Three kube-apiservers hold 1000 ConfigMaps of 2 KB each, labelled `bench=in`. For each of them the subject keeps a ConfigMap
//! `<name>-out` that echoes its value and is owned by it; it reads from its cache, and writes nothing where the echo is right. A
//! changed echo brings its owner back, so that one update is two reconciles. Updates come at random times (open loop); a latency runs from
//! when an update was due to the watch event of its echo. Every subject runs at most 16 keys of a server at once. Servers, driver and
//! subject share the machine, each in processes of its own; subjects take turns, and the middle of their rounds is shown.
//!
//! A rival is measured in the same run or not at all: kube-rs is. Go's multicluster-runtime is not, as no program of it is built here.

mod figures;
mod latency;
mod table;
mod until;
mod usage;

mod rivals {
    pub(crate) mod driver;
    pub(crate) mod echo;
    pub(crate) mod peer;
    pub(crate) mod subject;
}

use anyhow::{Result, ensure};
use figures::median;
use rivals::driver::{Driver, OBJECTS, SERVERS};
use rivals::subject::{KINDS, RIVAL, Subject};
use std::time::Duration;
use table::{Table, verdict};
use windlass_harness::testenv::{self, Environment, Spec};

const RATES: [f64; 2] = [50.0, 200.0];
const LOAD: Duration = Duration::from_secs(20);
const ROUNDS: usize = 3;
/// CPU time of an update, beside the rival's: what a native reconciler may take, and a guest.
const NATIVE: f64 = 1.0;
const GUEST: f64 = 1.3;

const HEADS: [&str; 14] = [
    "subject",
    "rate",
    "cold s",
    "restart s",
    "p50 ms",
    "   p90",
    "   p99",
    " p99.9",
    "CPU s/1000",
    "    MB",
    "conns",
    "unanswered",
    "CPU x kube-rs",
    "bar                  ",
];

/// Figures of a subject at one rate, as in the columns that follow the rate: of one round, or the middle of all.
type Row = [f64; 10];
const COLD: usize = 0;
const P50: usize = 2;
const P99: usize = 4;
const CPU: usize = 6;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if runtime.block_on(rivals::subject::run_if_asked())? {
        return Ok(());
    }
    if !testenv::enabled("the work of rivals on real API servers") {
        return Ok(());
    }
    // cargo says `--bench` to every bench.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    for name in &asked {
        ensure!(
            KINDS.contains(&name.as_str()),
            "no subject {name:?}: there are {}",
            KINDS.join(", ")
        );
    }
    let kinds: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| *kind == RIVAL || asked.is_empty() || asked.iter().any(|a| a == kind))
        .collect();
    runtime.block_on(async {
        let specs = (0..SERVERS).map(|n| Spec::new(format!("server-{n}")));
        let environment = Environment::start(specs).await?;
        let mut driver = Driver::start(&environment).await?;
        let floor = driver.floor(RATES[0], LOAD / 2).await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let mut round = Vec::new();
            for kind in &kinds {
                round.push(measure(kind, &environment, &mut driver).await?);
            }
            rounds.push(round);
        }
        let title = format!(
            "{SERVERS} kube-apiservers x {OBJECTS} objects, {} cores, a patch to its watch event p50 {:.1} ms with no subject; middle of {ROUNDS} rounds",
            std::thread::available_parallelism()?,
            floor.at(0.5),
        );
        show(&title, &kinds, &rounds);
        Ok(())
    })
}

/// Prints a row for each subject and rate. `rounds` holds the rows of each subject by round.
fn show(title: &str, kinds: &[&str], rounds: &[Vec<[Row; RATES.len()]>]) {
    let middle = |subject: usize, rate: usize| -> Row {
        std::array::from_fn(|column| {
            let values: Vec<f64> = rounds.iter().map(|r| r[subject][rate][column]).collect();
            median(&values)
        })
    };
    let table = Table::begin(title, &HEADS);
    for (subject, kind) in kinds.iter().enumerate() {
        for (at, rate) in RATES.iter().enumerate() {
            let row = middle(subject, at);
            let decimals = [1, 2, 1, 1, 0, 0, 2, 0, 0, 0];
            let mut cells = vec![(*kind).to_owned(), format!("{rate:.0}")];
            let figures = row.iter().zip(decimals);
            cells.extend(figures.map(|(figure, decimals)| format!("{figure:.decimals$}")));
            // A start is the same at each rate.
            if at > 0 {
                cells[2..4].fill(String::new());
            }
            if let Some(rival) = kinds.iter().position(|kind| *kind == RIVAL)
                && rival != subject
            {
                cells.extend(beside(kind, &row, &middle(rival, at)));
            }
            table.row(&cells);
        }
    }
}

/// CPU time beside the rival's, and whether the bar is met.
fn beside(kind: &str, row: &Row, rival: &Row) -> [String; 2] {
    let cpu = row[CPU] / rival[CPU];
    let most = if kind == "guest" { GUEST } else { NATIVE };
    let ahead = [COLD, P50, P99].iter().all(|at| row[*at] < rival[*at]);
    [
        format!("{cpu:.2}"),
        verdict(&format!("CPU {most:.1}, ahead"), cpu <= most && ahead),
    ]
}

async fn measure(
    kind: &str,
    environment: &Environment,
    driver: &mut Driver,
) -> Result<[Row; RATES.len()]> {
    driver.remove_echoes().await?;
    let first = Subject::start(kind, environment).await?;
    let cold = driver.all_echoed(first.started()).await?;
    first.settled().await?;
    // After a second start there is nothing to do.
    let mut subject = Subject::start(kind, environment).await?;
    let restart = subject.settled_after().await?;
    let mut rows = [Row::default(); RATES.len()];
    for (row, rate) in rows.iter_mut().zip(RATES) {
        let before = subject.usage()?;
        let load = driver.load(rate, LOAD).await?;
        let after = subject.usage()?;
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| load.latency.at(share));
        *row = [
            cold.as_secs_f64(),
            restart.as_secs_f64(),
            p50,
            p90,
            p99,
            p999,
            (after.cpu - before.cpu).as_secs_f64() * 1000.0 / load.updates as f64,
            after.resident as f64 / 1e6,
            after.sockets as f64,
            load.unanswered as f64,
        ];
    }
    Ok(rows)
}
