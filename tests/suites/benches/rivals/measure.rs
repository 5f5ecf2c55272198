//! One subject's figures, and the table of all. Entry points: [`rounds`] and [`rows`].

use super::driver::Driver;
use super::subject::{GO, KUBE_RS, PROGRAM, RIVALS, Subject};
use super::work::Work;
use crate::figures::median;
use crate::table::verdict;
use anyhow::Result;
use std::time::Duration;
use tempfile::TempDir;

const LOAD: Duration = Duration::from_secs(20);
pub(crate) const ROUNDS: usize = 3;

/// The columns of [`rows`].
pub(crate) const HEADS: [&str; 16] = [
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
    "CPU x go",
    "bar                      ",
];

/// Figures of a subject at one rate, as in the columns that follow the rate: of one round, or the middle of all.
pub(crate) type Row = [f64; 10];
const COLD: usize = 0;
const P50: usize = 2;
const P99: usize = 4;
const CPU: usize = 6;
const MEMORY: usize = 7;

/// What holds beside a rival, at each rate.
struct Bar {
    rival: &'static str,
    /// CPU time of an update, beside the rival's: the most that a native reconciler takes, and the program with a guest.
    native: f64,
    program: f64,
    /// Columns that are less than the rival's, and how the bar says so.
    ahead: &'static [usize],
    says: &'static str,
}

/// In the order of their columns.
const BARS: [Bar; 2] = [
    Bar {
        rival: KUBE_RS,
        native: 1.0,
        program: 1.3,
        ahead: &[COLD, P50, P99],
        says: "ahead",
    },
    Bar {
        rival: GO,
        native: 1.0,
        program: 1.0,
        ahead: &[COLD, P50, P99, MEMORY],
        says: "ahead, MB",
    },
];

/// How fast updates come, a second.
pub(crate) type Rates = [f64; 2];

/// Rows by round, subject and rate.
pub(crate) type Rounds = Vec<Vec<[Row; 2]>>;

/// Measures every subject in every round.
pub(crate) async fn rounds(
    count: usize,
    kinds: &[&'static str],
    work: &Work,
    driver: &mut Driver,
    rates: Rates,
) -> Result<Rounds> {
    let mut rounds = Vec::new();
    for _ in 0..count {
        let mut round = Vec::new();
        for kind in kinds {
            round.push(measure(kind, work, driver, rates).await?);
        }
        rounds.push(round);
    }
    Ok(rounds)
}

/// The time of an update to its own watch event, with no subject: the middle, in milliseconds.
pub(crate) async fn floor(driver: &mut Driver, rates: Rates) -> Result<f64> {
    Ok(driver.floor(rates[0], LOAD / 2).await?.at(0.5))
}

/// A row for each subject and rate: the middle of all rounds.
pub(crate) fn rows(kinds: &[&str], rates: Rates, rounds: &Rounds) -> Vec<Vec<String>> {
    let middle = |subject: usize, rate: usize| -> Row {
        std::array::from_fn(|column| {
            let values: Vec<f64> = rounds.iter().map(|r| r[subject][rate][column]).collect();
            median(&values)
        })
    };
    let mut rows = Vec::new();
    for (subject, kind) in kinds.iter().enumerate() {
        for (at, rate) in rates.iter().enumerate() {
            let row = middle(subject, at);
            let decimals = [1, 2, 1, 1, 0, 0, 2, 0, 0, 0];
            let mut cells = vec![(*kind).to_owned(), format!("{rate:.0}")];
            let figures = row.iter().zip(decimals);
            cells.extend(figures.map(|(figure, decimals)| format!("{figure:.decimals$}")));
            // A start is the same at each rate.
            if at > 0 {
                cells[2..4].fill(String::new());
            }
            if !RIVALS.contains(kind) {
                for bar in &BARS {
                    let rival = kinds.iter().position(|kind| *kind == bar.rival);
                    let compare = |rival| beside(bar, kind, &row, &middle(rival, at));
                    cells.extend(rival.map(compare).unwrap_or_default());
                }
            }
            rows.push(cells);
        }
    }
    rows
}

/// CPU time beside the rival's, and whether the bar is met.
fn beside(bar: &Bar, kind: &str, row: &Row, rival: &Row) -> [String; 2] {
    let cpu = row[CPU] / rival[CPU];
    let most = if kind == PROGRAM {
        bar.program
    } else {
        bar.native
    };
    let ahead = bar.ahead.iter().all(|at| row[*at] < rival[*at]);
    [
        format!("{cpu:.2}"),
        verdict(
            &format!("CPU {most:.1}, {}", bar.says),
            cpu <= most && ahead,
        ),
    ]
}

async fn measure(
    kind: &'static str,
    work: &Work,
    driver: &mut Driver,
    rates: Rates,
) -> Result<[Row; 2]> {
    driver.remove_echoes().await?;
    let folder = TempDir::new()?;
    let first = Subject::start(kind, &work.given, folder.path())?;
    let cold = driver.all_echoed(first.started()).await?;
    first.settled(&work.given).await?;
    // After a second start there is nothing to do.
    let mut subject = Subject::start(kind, &work.given, folder.path())?;
    let restart = subject.settled_after(&work.given).await?;
    let mut rows = [Row::default(); 2];
    for (row, rate) in rows.iter_mut().zip(rates) {
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
