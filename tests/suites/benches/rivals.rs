//! The work of others on real API servers, by Windlass with a native reconciler and with a guest, and by kube-rs. Entry point:
//! `main`.
//!
//! ```text
//! WINDLASS_REAL=1 cargo bench --bench rivals             all subjects, some minutes
//! WINDLASS_REAL=1 cargo bench --bench rivals -- guest    one of them
//! ```
//!
//! Three kube-apiservers hold 1000 ConfigMaps of 2 KB each, labelled `bench=in`. For each of them the subject keeps a ConfigMap
//! `<name>-out` that echoes its value and is owned by it; it reads from its cache, and writes nothing where the echo is right. A
//! changed echo brings its owner back, so that one update is two reconciles. Updates come at random times (open loop); a latency runs from
//! when an update was due to the watch event of its echo. Servers, driver and subject share the machine, each in processes of its own.
//!
//! What is printed as recorded was measured elsewhere and another day: the floor, a patch to its own watch event with no subject,
//! tells how the machines compare.

mod latency;
mod until;
mod usage;

mod rivals {
    pub(crate) mod driver;
    pub(crate) mod echo;
    pub(crate) mod peer;
    pub(crate) mod recorded;
    pub(crate) mod subject;
}

use anyhow::{Result, ensure};
use rivals::driver::{Driver, OBJECTS, SERVERS};
use rivals::recorded;
use rivals::subject::{KINDS, Subject};
use std::time::Duration;
use windlass_harness::testenv::{self, Environment, Spec};

const RATES: [f64; 2] = [50.0, 200.0];
const LOAD: Duration = Duration::from_secs(20);

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
    runtime.block_on(async {
        let specs = (0..SERVERS).map(|n| Spec::new(format!("server-{n}")));
        let environment = Environment::start(specs).await?;
        let mut driver = Driver::start(&environment).await?;
        println!(
            "{SERVERS} kube-apiservers x {OBJECTS} objects, {} cores",
            std::thread::available_parallelism()?
        );
        let floor = driver.floor(RATES[0], LOAD / 2).await?;
        println!(
            "floor: patch to its watch event p50 {:.1} ms (recorded: {:.1} ms)\n",
            floor.at(0.5),
            recorded::FLOOR_MS
        );
        println!("{}", recorded::HEADS);
        for kind in KINDS {
            if asked.is_empty() || asked.iter().any(|name| name == kind) {
                measure(kind, &environment, &mut driver).await?;
            }
        }
        for line in recorded::LINES {
            println!("{line}");
        }
        Ok(())
    })
}

async fn measure(kind: &str, environment: &Environment, driver: &mut Driver) -> Result<()> {
    driver.remove_echoes().await?;
    let first = Subject::start(kind, environment).await?;
    let cold = driver.all_echoed(first.started()).await?;
    first.settled().await?;
    // A second start finds everything as it should be.
    let mut subject = Subject::start(kind, environment).await?;
    let restart = subject.settled_after().await?;
    for (n, rate) in RATES.into_iter().enumerate() {
        let before = subject.usage()?;
        let load = driver.load(rate, LOAD).await?;
        let after = subject.usage()?;
        let cpu = (after.cpu - before.cpu).as_secs_f64() * 1000.0 / load.updates as f64;
        let starts = match n {
            0 => format!("{:>6.1} {:>9.2}", cold.as_secs_f64(), restart.as_secs_f64()),
            _ => " ".repeat(16),
        };
        let times = [0.5, 0.9, 0.99, 0.999].map(|share| load.latency.at(share));
        println!(
            "{kind:<22} {starts} {rate:>6.0} {:>7.1} {:>6.1} {:>6.0} {:>6.0} {cpu:>9.2} {:>6.0} {:>6}   unanswered {}",
            times[0],
            times[1],
            times[2],
            times[3],
            usage::mib(after.resident) * 1.048_576,
            after.sockets,
            load.unanswered
        );
    }
    Ok(())
}
