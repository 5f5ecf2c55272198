//! A fleet that several processes share: start, memory, connections, idle processor time, the loss of one process, a restart of all in turn; and
//! one process alone with as many idle clusters. Entry point: `main`.
//!
//! ```text
//! cargo bench --bench shards             10,000 clusters, 4 processes
//! cargo bench --bench shards -- 1000     of fewer clusters
//! ```
//!
//! The processes are the shipped program with a configuration as users write it and the guest `echo`. The clusters are simulated in the process
//! that measures.

mod shards {
    pub(crate) mod member;
    pub(crate) mod stage;
}
mod rig;
mod table;
mod usage;

use anyhow::{Context as _, Result};
use shards::member::Member;
use shards::stage::Stage;
use std::time::{Duration, Instant};
use table::{Table, verdict};
use usage::{Usage, mib};

const CLUSTERS: usize = 10_000;
const MEMBERS: usize = 4;
/// How long nothing is asked of the processes before their memory is read, and while their processor time is counted.
const REST: Duration = Duration::from_secs(20);
/// A Lease's default duration, and what a takeover may take beyond it.
const TAKEN_OVER: Duration = Duration::from_secs(20);
/// Most that the first view of the console may take.
const FIRST_VIEW: Duration = Duration::from_secs(1);
/// Most that an idle cluster may take in one process, in MB (10^6 bytes).
const IDLE: f64 = 0.05;

fn main() -> Result<()> {
    let args = std::env::args().skip(1).find(|arg| arg != "--bench");
    let clusters = args.map_or(Ok(CLUSTERS), |number| number.parse());
    let clusters = clusters.context("name a number of clusters, or none")?;
    rig::run(measure(clusters))
}

async fn measure(clusters: usize) -> Result<()> {
    let heads = [
        "what                                                                      ",
        "figure      ",
        "bar               ",
    ];
    let table = Table::begin(
        &format!("{clusters} clusters with an object each, the guest echo"),
        &heads,
    );
    let row = |what: &str, figure: String, bar: String| table.row(&[what, &figure, &bar]);
    let stage = Stage::start(clusters).await?;

    let one = alone(&stage).await?;
    let cluster = one.per_cluster / 1e6;
    row(
        "one process: every cluster ready and every object echoed, s",
        seconds(one.ready),
        String::new(),
    );
    row(
        "one process: resident, MiB",
        format!("{:.0}", mib(one.used.resident)),
        String::new(),
    );
    row(
        "one process: of each cluster, MB",
        format!("{cluster:.3}"),
        verdict(&format!("at most {IDLE}"), cluster <= IDLE),
    );
    row(
        "one process: the list of clusters, as the console asks for it, s",
        format!("{:.2}", one.listed.as_secs_f64()),
        verdict("at most 1", one.listed <= FIRST_VIEW),
    );
    row(
        "one process: connections",
        one.used.sockets.to_string(),
        String::new(),
    );
    row(
        "one process: idle, of one processor",
        percent(one.idle),
        String::new(),
    );

    let begun = Instant::now();
    let mut members = Vec::new();
    for number in 0..MEMBERS {
        members.push(stage.join(number)?);
    }
    for member in &mut members {
        member.serve().await?;
    }
    stage.shared(&members).await?;
    stage.change()?;
    stage.echoed().await?;
    row(
        &format!("{MEMBERS} processes: every shard held, every object changed and echoed, s"),
        seconds(begun.elapsed()),
        String::new(),
    );
    let (used, idle) = rested(&members).await?;
    let resident: Vec<f64> = used.iter().map(|used| mib(used.resident)).collect();
    let most = resident.iter().fold(0.0_f64, |most, one| most.max(*one));
    row(
        "resident of the largest, MiB",
        format!("{most:.0}"),
        String::new(),
    );
    row(
        "resident of all, MiB",
        format!("{:.0}", resident.iter().sum::<f64>()),
        String::new(),
    );
    let sockets: usize = used.iter().map(|used| used.sockets).sum();
    row("connections of all", sockets.to_string(), String::new());
    row(
        "idle, all together, of one processor",
        percent(idle),
        String::new(),
    );

    members.pop().context("a member")?.kill()?;
    let killed = Instant::now();
    stage.change()?;
    stage.echoed().await?;
    let took = killed.elapsed();
    row(
        "kill -9 of one: every object changed then is echoed after, s",
        seconds(took),
        verdict("at most 20", took <= TAKEN_OVER),
    );
    members.push(stage.join(MEMBERS)?);
    members[MEMBERS - 1].serve().await?;
    stage.shared(&members).await?;

    let (whole, longest) = restart(&stage, &mut members).await?;
    row(
        "restart of all in turn: whole, s",
        seconds(whole),
        String::new(),
    );
    row(
        "the longest that an object waited for its echo meanwhile, s",
        seconds(longest),
        String::new(),
    );
    for member in members {
        member.stop().await?;
    }
    Ok(())
}

struct Alone {
    ready: Duration,
    /// How long the answer takes from which the console draws the clusters.
    listed: Duration,
    used: Usage,
    per_cluster: f64,
    idle: f64,
}

/// One process that works on all clusters.
async fn alone(stage: &Stage) -> Result<Alone> {
    let mut small = stage.alone(1)?;
    small.serve().await?;
    stage.ready(&small, 1).await?;
    let (before, _) = rested(std::slice::from_ref(&small)).await?;
    small.stop().await?;
    let begun = Instant::now();
    let mut member = stage.alone(stage.clusters())?;
    member.serve().await?;
    stage.ready(&member, stage.clusters()).await?;
    stage.echoed().await?;
    let ready = begun.elapsed();
    let (used, idle) = rested(std::slice::from_ref(&member)).await?;
    let asked = Instant::now();
    member.list("clusters").await?;
    let listed = asked.elapsed();
    member.stop().await?;
    let grown = used[0].resident.saturating_sub(before[0].resident);
    Ok(Alone {
        ready,
        listed,
        used: used[0],
        per_cluster: grown as f64 / stage.clusters() as f64,
        idle,
    })
}

/// What processes use after a rest, and the share of a processor that they took together meanwhile.
async fn rested(members: &[Member]) -> Result<(Vec<Usage>, f64)> {
    let used = || -> Result<Vec<Usage>> { members.iter().map(Member::usage).collect() };
    // Not a wait: what the start has allocated is freed meanwhile.
    tokio::time::sleep(REST).await;
    let before: Duration = used()?.iter().map(|used| used.cpu).sum();
    // Not a wait: processor time is counted over this time.
    tokio::time::sleep(REST).await;
    let now = used()?;
    let after: Duration = now.iter().map(|used| used.cpu).sum();
    let taken = after.saturating_sub(before).as_secs_f64();
    Ok((now, taken / REST.as_secs_f64()))
}

/// Restarts all processes in turn while objects change. Returns how long that took, and the longest that an object waited for its echo.
async fn restart(stage: &Stage, members: &mut Vec<Member>) -> Result<(Duration, Duration)> {
    let begun = Instant::now();
    let watch = stage.longest();
    for number in 0..members.len() {
        let old = members.remove(0);
        old.stop().await?;
        let mut new = stage.join(100 + number)?;
        new.serve().await?;
        members.push(new);
        stage.shared(members).await?;
    }
    let whole = begun.elapsed();
    Ok((whole, watch.end().await?))
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
