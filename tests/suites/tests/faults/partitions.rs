//! Networks that lose some of the clusters. Entry points: the tests.

use crate::rig::{DEADLINE, Rig, Setup, wait};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_fleet::cluster::TransportOptions;
use windlass_fleet::manager::Concurrency;
use windlass_harness::eventually::Seen;

/// How long a write may take.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
const CLUSTERS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Three of ten clusters answer nothing: the others go on as if there were no such clusters, over the same connections.
async fn partition(tls: bool, fault: RequestFault) -> Result<()> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&CLUSTERS);
    setup.hook = Some(faults.clone());
    setup.tls = tls;
    setup.manager.transport = TransportOptions {
        call_timeout: Duration::from_secs(2),
        ..TransportOptions::default()
    };
    let rig = Rig::start(setup).await?;
    let (lost, others) = CLUSTERS.split_at(3);
    let rules: Vec<_> = lost
        .iter()
        .map(|name| faults.add(Rule::new(fault.clone()).cluster(*name)))
        .collect();
    for name in lost {
        rig.cluster(name).cut_watches();
        rig.put(name, "seed-0", "lost")?;
    }
    for name in lost {
        rig.reaches(name, "Degraded").await?;
    }
    let asked = |names: &[&str]| -> usize {
        let counts = names.iter().map(|name| rig.cluster(name).requests().len());
        counts.sum()
    };
    let before = asked(lost);
    for round in 0..5 {
        let value = format!("round {round}");
        for name in others {
            rig.put(name, "seed-0", &value)?;
        }
        wait("the others to be right", || {
            let wrong = others.iter().filter(|name| {
                let child = rig.stored(name, "seed-0-out");
                child.is_none_or(|child| child["data"]["value"] != value)
            });
            Seen::of(wrong.count(), |wrong| *wrong == 0)
        })
        .await?;
    }
    let retries = asked(lost) - before;
    assert!(
        retries < 100,
        "{retries} requests to clusters that are lost"
    );
    for rule in rules {
        faults.remove(rule);
    }
    for name in lost {
        rig.reaches(name, "Ready").await?;
    }
    rig.finish().await
}

#[tokio::test]
async fn clusters_that_fall_silent_hold_up_no_others_on_a_shared_connection() -> Result<()> {
    partition(true, RequestFault::Silence).await
}

#[tokio::test]
async fn clusters_that_cut_every_connection_hold_up_no_others() -> Result<()> {
    partition(false, RequestFault::Cut).await
}

/// More keys wait for silent servers than there are workers: who has work elsewhere does not notice, before the silence is found out.
#[tokio::test]
async fn work_that_waits_for_silent_clusters_takes_no_workers_from_others() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&CLUSTERS).hook(faults.clone());
    setup.manager.concurrency = Concurrency::default();
    setup.controller.concurrency = 2;
    setup.controller.timeout = DEADLINE;
    let rig = Rig::start(setup).await?;
    let (lost, others) = CLUSTERS.split_at(7);
    for name in lost {
        let rule = Rule::new(RequestFault::Silence).cluster(*name);
        faults.add(rule.verb(Verb::Patch));
        for seed in ["seed-0", "seed-1", "seed-2"] {
            rig.put(name, seed, "lost")?;
        }
    }
    let (began, key) = (Instant::now(), "windlass_reconciles_aside");
    wait("two runs of each to wait", || {
        let aside = rig.metrics().ok().and_then(|text| series(&text, key));
        Seen::of(aside, |aside| *aside == Some(14.0))
    })
    .await?;
    for name in others {
        rig.carried(name, "at once").await?;
    }
    assert!(
        began.elapsed() < WRITE_DEADLINE,
        "the writes were given up before: this shows nothing"
    );
    faults.clear();
    rig.finish().await
}

fn series(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}
