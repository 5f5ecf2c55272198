//! What the promises of cost take in instructions: a reconcile, a call of the host, an event of a watch. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench counts              counts, and compares with counts/figures.json
//! cargo bench --bench counts -- get       one row; there are native, reconcile, get and event
//! cargo bench --bench counts -- --keep    counts all, and writes counts/figures.json
//! cargo bench --bench counts -- --ledger  what an update costs, stage by stage, beside kube-rs: writes counts/LEDGER.md
//! ```
//!
//! Valgrind's callgrind counts the instructions of a process, the system's not included. How fast the machine is, and what else it does,
//! makes no difference. A process does the work N times, another one 2N times: the difference is that of N times, without the start.
//! The server, and the driver of the events, are in the process that starts those, which nobody counts. Guests do not yield by the clock here.
//!
//! * native: a reconciler that reads an object of 1 KB from the cache, parses it, and has nothing to do.
//! * reconcile: the hello guest, in a new instance each time, with the same object.
//! * get: a call of the host, a cached read of that object by a guest, from the guest's call to the text in its memory.
//! * event: a change of an object of 2 KB, from the bytes of the watch to the store, the queue, and a native run that does nothing.
//!
//! Not independent of: the compiler, which `rust-toolchain.toml` pins, the C library, the version of valgrind, which decides which
//! instructions there are for programs to choose from, and whether the kernel tells which pages are written (Linux 6.7). The file of figures
//! says with what they were counted.

mod rig;
mod table;
mod until;
mod usage;

mod counts {
    pub(crate) mod callgrind;
    pub(crate) mod last;
    pub(crate) mod ledger;
    pub(crate) mod profile;
    pub(crate) mod stages;
    pub(crate) mod subject;
    pub(crate) mod work;
}

// Those of the bench `rivals`. The paths are for rustfmt, which looks for them in the folder of this bench.
#[allow(dead_code, reason = "the ledger starts subjects in its own way")]
mod rivals {
    #[path = "../rivals/echo.rs"]
    pub(crate) mod echo;
    #[path = "../rivals/peer.rs"]
    pub(crate) mod peer;
    #[path = "../rivals/program.rs"]
    pub(crate) mod program;
    #[path = "../rivals/subject.rs"]
    pub(crate) mod subject;
    #[path = "../rivals/work.rs"]
    pub(crate) mod work;
}

use anyhow::{Context as _, Result, anyhow, ensure};
use counts::callgrind::{self, Callgrind};
use counts::last::Last;
use counts::ledger;
use counts::subject::run_if_asked;
use counts::work::{EVENT, Job, PLAIN, Work, object};
use std::io::{BufReader, Lines};
use std::process::ChildStdout;
use table::{Table, verdict};
use windlass_apiserver::Server;
use windlass_harness::guests;

/// A figure may be so many hundredths above the last one. Two runs on one machine differ by less than half of it.
const BAR: f64 = 2.0;
/// Objects that change in turn: one key that ran all the time would be throttled.
const OBJECTS: u32 = 200;
const KEEP: &str = "--keep";
const LEDGER: &str = "--ledger";

/// A row: its name in the file of figures too.
struct Count {
    name: &'static str,
    work: Work,
    /// N. The work is done 2N times as well.
    times: u32,
}

const COUNTS: [Count; 4] = [
    Count {
        name: "native",
        work: Work::Native,
        times: 20_000,
    },
    Count {
        name: "reconcile",
        work: Work::Guest,
        times: 2_000,
    },
    Count {
        name: "get",
        work: Work::Gets,
        times: 50,
    },
    Count {
        name: "event",
        work: Work::Events,
        times: 1_000,
    },
];

fn main() -> Result<()> {
    if let Some(job) = Job::asked()? {
        return job.run();
    }
    if runs_as_subject()? {
        return Ok(());
    }
    count_all()
}

/// Whether this process was started as a subject of the ledger; it has ended then.
fn runs_as_subject() -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { Ok(run_if_asked().await? || rivals::subject::run_if_asked().await?) })
}

fn count_all() -> Result<()> {
    // cargo says `--bench` to every bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let (options, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with('-'));
    for asked in &options {
        let is_there = [KEEP, LEDGER].contains(&asked.as_str());
        ensure!(is_there, "no option {asked}: there are {KEEP} and {LEDGER}");
    }
    for name in &names {
        let is_row = COUNTS.iter().any(|count| count.name == name.as_str());
        ensure!(is_row, "no row {name:?}");
    }
    let [keep, ledger] = [KEEP, LEDGER].map(|option| options.iter().any(|asked| *asked == option));
    ensure!(!keep || names.is_empty(), "{KEEP} is for all rows");
    let optimised = !cfg!(debug_assertions);
    ensure!(
        optimised || !keep,
        "figures are those of `cargo bench`: this build is not optimised"
    );
    let callgrind = Callgrind::find()?;
    if ledger {
        return rig::run(ledger::write(&callgrind));
    }
    let is_asked = |count: &Count| names.is_empty() || names.iter().any(|name| *name == count.name);
    let counts: Vec<Count> = COUNTS.into_iter().filter(is_asked).collect();
    rig::run(async { compare(&callgrind, &counts, optimised, keep).await })
}

async fn compare(
    callgrind: &Callgrind,
    counts: &[Count],
    optimised: bool,
    keep: bool,
) -> Result<()> {
    let with = callgrind.with()?;
    let last = Last::read()?;
    println!("{with}");
    if !optimised {
        println!("this build is not optimised: nothing is compared");
    } else if last.with().is_some_and(|last| last != with) {
        println!(
            "the last figures were counted with {}: they may differ for that",
            last.with().unwrap_or_default()
        );
    }
    let heads = [
        "what       ",
        "now     ",
        "last    ",
        "change %",
        "bar        ",
    ];
    let table = Table::begin("instructions in user mode, each", &heads);
    let mut counted = Vec::new();
    for &Count { name, work, times } in counts {
        if work.guest().is_some() {
            // Compiles the guest, unless an earlier run did: that is no part of the work, and hardly the same twice.
            count(callgrind, work, 1).await?;
        }
        let once = count(callgrind, work, times).await?;
        let twice = count(callgrind, work, 2 * times).await?;
        let each = twice.saturating_sub(once) as f64 / f64::from(work.units(times));
        let now = each.round() as u64;
        let mut row = vec![name.to_owned(), now.to_string()];
        match last.count(name).filter(|_| optimised) {
            Some(last) => {
                let change = (each / last as f64 - 1.0) * 100.0;
                row.extend([last.to_string(), format!("{change:+.2}")]);
                row.push(verdict(&format!("+{BAR} %"), change <= BAR));
            }
            None => row.push("-".to_owned()),
        }
        table.row(&row);
        counted.push((name, now));
    }
    if keep {
        println!("kept in {}", last.keep(with, &counted)?.display());
    }
    Ok(())
}

/// The instructions of a process that does the work so many times.
async fn count(callgrind: &Callgrind, work: Work, times: u32) -> Result<u64> {
    // A server of its own each time: versions of objects have as many digits as in any other run.
    let server = Server::builder()
        .cluster("alpha")
        .bind("127.0.0.1:0")
        .await?;
    let alpha = server.cluster("alpha").context("served")?;
    let put = |value| alpha.apply(value).map_err(|e| anyhow!("{e:?}"));
    match work {
        Work::Events => {
            (0..OBJECTS).try_for_each(|n| put(object(&changing(n), EVENT, "00000000")).map(drop))?
        }
        Work::Native | Work::Guest | Work::Gets => drop(put(object("plain", PLAIN, "00000000"))?),
    }
    let job = Job {
        work,
        times,
        url: server.url("alpha"),
        guest: work.guest().map(guests::guest),
        compiled: guests::compiled(),
    };
    let mut counted = callgrind.start(&job.arguments()?)?;
    if work == Work::Events {
        let mut runs = counted.lines()?;
        (0..OBJECTS).try_for_each(|_| ran(&mut runs).map(drop))?;
        for n in 0..times {
            let name = changing(n % OBJECTS);
            put(object(&name, EVENT, &format!("{:08}", n + 1)))?;
            // One after the other, so that no two events merge or arrive together.
            let ran = ran(&mut runs)?;
            ensure!(ran == name, "{ran} ran in place of {name}");
        }
    }
    let instructions = counted.end().with_context(|| format!("{work:?}"))?;
    server.shutdown().await;
    Ok(instructions)
}

fn changing(n: u32) -> String {
    format!("object-{n:03}")
}

/// The object of the next run that the counted process reports.
fn ran(runs: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    Ok(runs.next().context(callgrind::ENDED)??)
}
