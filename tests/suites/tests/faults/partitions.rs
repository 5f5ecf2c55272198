//! Networks that lose some of the clusters. Entry points: the tests.

use crate::rig::{Rig, Setup};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_fleet::cluster::{ClusterState, ClusterStatus, KubeconfigPolicy, TransportOptions};
use windlass_fleet::manager::{Concurrency, ControllerStatus};
use windlass_harness::eventually;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::proxy::Proxy;

/// How long a write may take.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
const CLUSTERS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Three of ten clusters answer nothing: the others go on as if there were no such clusters, over the same connections.
async fn partition(tls: bool, fault: RequestFault) -> Result<()> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&CLUSTERS).hook(faults.clone());
    if tls {
        setup = setup.tls();
    }
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
        rig.simulated(name).cut_watches();
        rig.put(name, "seed-0", "lost")?;
    }
    for name in lost {
        rig.reaches(name, ClusterState::Degraded).await?;
    }
    let asked = |names: &[&str]| -> usize {
        let counts = names
            .iter()
            .map(|name| rig.simulated(name).requests().len());
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
        rig.ready(name).await?;
    }
    rig.finish().await
}

/// The peer is there for TCP, and nothing goes through: no watch ends, and none is due to for minutes. Only PING tells. With `jump`
/// the clock jumps to the next deadline, from the stall until it is overcome, whenever all tasks wait.
async fn stalled(transport: TransportOptions, within: Duration, jump: bool) -> Result<()> {
    let mut setup = Setup::of(&["alpha", "beta"]).tls();
    setup.manager.transport = transport;
    let rig = Rig::start(setup).await?;
    let proxy = Proxy::start(rig.server.address()).await?;
    let (direct, proxied) = (rig.server.address(), proxy.address());
    let through = rig
        .server
        .kubeconfig()
        .replace(&direct.to_string(), &proxied.to_string());
    rig.add_from("alpha", &through, &KubeconfigPolicy::file())?;
    let is_through = |status: &ClusterStatus| status.server.contains(&proxied.to_string());
    wait("alpha to be reached through the proxy", || {
        match rig.status("alpha") {
            Ok(status) if is_through(&status) && status.state.as_str() == "Ready" => Seen::Yes(()),
            seen => Seen::NotYet(format!("{seen:?}")),
        }
    })
    .await?;
    rig.carried("alpha", "before").await?;
    let lists = rig.asked("alpha").0;

    if jump {
        tokio::time::pause();
    }
    proxy.stall();
    rig.delete("alpha", "seed-1")?;
    rig.put("alpha", "made", "unheard")?;
    rig.put("alpha", "seed-0", "heard on another connection")?;
    eventually(within, "what was not heard to be carried out", || async {
        let child = rig
            .stored("alpha", "seed-0-out")
            .map(|child| child["data"]["value"].clone());
        Ok(Seen::of(child, |child| {
            child
                .as_ref()
                .is_some_and(|value| value == "heard on another connection")
        }))
    })
    .await?;
    if jump {
        tokio::time::resume();
    }
    let counts = rig.status("alpha")?.connections;
    assert_eq!((counts.http2.made, counts.http1.made), (2, 0), "{counts:?}");
    assert_eq!(rig.asked("alpha").0, lists, "nothing was listed anew");
    rig.add("alpha")?;
    wait("alpha to be reached directly", || {
        match rig.status("alpha") {
            Ok(status) if !is_through(&status) && status.state.as_str() == "Ready" => Seen::Yes(()),
            seen => Seen::NotYet(format!("{seen:?}")),
        }
    })
    .await?;
    drop(proxy);
    rig.finish().await
}

#[tokio::test]
async fn a_stalled_http2_connection_is_found_by_ping_and_its_watches_resume_on_another()
-> Result<()> {
    let transport = TransportOptions {
        ping_after: Duration::from_millis(300),
        ping_grace: Duration::from_millis(200),
        ..TransportOptions::default()
    };
    stalled(transport, Duration::from_secs(30), false).await
}

#[tokio::test]
async fn a_stalled_http2_connection_is_found_within_a_minute_by_default() -> Result<()> {
    stalled(TransportOptions::default(), Duration::from_secs(60), true).await
}

#[tokio::test]
async fn clusters_that_fall_silent_hold_up_no_others_on_a_shared_connection() -> Result<()> {
    partition(true, RequestFault::Silence).await
}

#[tokio::test]
async fn clusters_that_cut_every_connection_hold_up_no_others() -> Result<()> {
    partition(false, RequestFault::Cut).await
}

/// Clusters of which three in ten answer no write, and have more of them to make than there are slots.
const MANY: usize = 20;
const SILENT: usize = MANY * 3 / 10;
const SLOTS: usize = 16;

/// Runs under way and keys in line.
fn at_work(rig: &Rig) -> (usize, usize) {
    let controllers = rig.handle.controllers();
    let sum = |of: fn(&ControllerStatus) -> usize| controllers.iter().map(of).sum();
    (sum(|c| c.running), sum(|c| c.ready))
}

/// Who has work elsewhere does not notice, before the silence is found out and after it.
#[tokio::test]
async fn work_that_waits_for_silent_clusters_leaves_slots_to_others() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let names: Vec<String> = (0..MANY).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut setup = Setup::of(&names).hook(faults.clone());
    setup.manager.concurrency = Concurrency {
        global: SLOTS,
        ..Concurrency::default()
    };
    setup.controller.concurrency = None;
    setup.controller.timeout = Duration::from_secs(30);
    let rig = Rig::start(setup).await?;
    let (silent, others) = names.split_at(SILENT);
    for name in silent {
        let rule = Rule::new(RequestFault::Silence).cluster(*name);
        faults.add(rule.verb(Verb::Patch));
    }
    let seen = Instant::now();
    wait("the last answers to be a while ago", || {
        Seen::of(seen.elapsed(), |time| *time > Duration::from_millis(200))
    })
    .await?;
    let began = Instant::now();
    for name in silent {
        for seed in ["seed-0", "seed-1", "seed-2"] {
            rig.put(name, seed, "lost")?;
        }
    }
    wait("every key that may to wait for its server", || {
        Seen::of(at_work(&rig), |(running, ready)| {
            *running >= SLOTS / 2 && running + ready == 3 * SILENT
        })
    })
    .await?;
    // For longer than it takes until the clusters are known to be slow.
    let mut round = 0;
    while began.elapsed() < Duration::from_secs(3) {
        round += 1;
        for name in others {
            rig.carried(name, &format!("round {round}")).await?;
        }
    }
    let (running, ready) = at_work(&rig);
    assert!(
        running >= SLOTS / 2 && ready > 0,
        "{running} runs wait for silent clusters, {ready} keys do for the runs: this shows nothing"
    );
    assert!(
        began.elapsed() < WRITE_DEADLINE,
        "the writes were given up before: this shows nothing"
    );
    faults.clear();
    rig.finish().await
}

#[tokio::test]
async fn with_a_concurrency_of_1_a_run_that_waits_for_its_server_is_the_only_one() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&["silent", "other"]).hook(faults.clone());
    setup.controller.concurrency = Some(1);
    setup.controller.timeout = Duration::from_secs(30);
    let rig = Rig::start(setup).await?;
    let rule = Rule::new(RequestFault::Silence).cluster("silent");
    faults.add(rule.verb(Verb::Patch));
    rig.put("silent", "seed-0", "late")?;
    wait("the run to begin", || {
        Seen::of(at_work(&rig), |work| *work == (1, 0))
    })
    .await?;
    for seed in ["seed-0", "seed-1", "seed-2"] {
        rig.put("other", seed, "later")?;
    }
    wait("the others to be in line", || {
        Seen::of(at_work(&rig), |work| *work == (1, 3))
    })
    .await?;
    let seen = Instant::now();
    wait("others to have had the time", || {
        assert_eq!(at_work(&rig), (1, 3), "one at a time");
        Seen::of(seen.elapsed(), |time| *time > Duration::from_millis(500))
    })
    .await?;
    faults.clear();
    rig.finish().await
}
