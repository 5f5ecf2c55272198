//! Clusters that leave, and others that come under their names. Entry points: the tests.

use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_fleet::manager::KeyFilter;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::{name, request};

fn keys_of(rig: &Rig, cluster: &str) -> usize {
    let keys = rig.handle.keys(&KeyFilter::default());
    let of_cluster = keys
        .iter()
        .filter(|key| key.queued.request.to_string().contains(cluster));
    of_cluster.count()
}

#[tokio::test]
async fn a_cluster_that_leaves_while_it_is_reconciled_takes_all_of_it_along() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let setup = Setup::of(&["alpha", "beta"]).hook(faults.clone());
    let rig = Rig::start(setup).await?;
    let late = Rule::new(RequestFault::Delay(Duration::from_secs(2)));
    let late = faults.add(late.cluster("alpha").verb(Verb::Patch));
    let key = request("alpha", "seed-0");
    let runs = rig.keeper.count(&key);
    for n in 0..3 {
        rig.put("alpha", &format!("seed-{n}"), "changed")?;
    }
    wait("a write under way", || {
        Seen::of(faults.struck(late), |struck| *struck >= 1)
    })
    .await?;
    rig.provider.remove(&name("alpha"));
    wait("its keys to be gone", || {
        Seen::of(keys_of(&rig, "alpha"), |keys| *keys == 0)
    })
    .await?;
    rig.put("beta", "seed-0", "goes on")?;
    oracle::settled(&rig).await?;
    let after = rig.keeper.count(&key);
    assert!(after <= runs + 1, "{after} runs after {runs}");
    assert!(!rig.metrics()?.contains("cluster=\"alpha\""));
    faults.clear();
    rig.add("alpha")?;
    rig.finish().await
}

#[tokio::test]
async fn another_cluster_under_the_same_address_shares_nothing_with_the_one_before() -> Result<()> {
    let rig = Rig::start(Setup::of(&["alpha", "beta"])).await?;
    let before = rig.engaged("alpha").context("engaged")?;
    rig.server.remove_cluster("alpha");
    rig.server.add_cluster("alpha");
    rig.put("alpha", "made", "by the new cluster")?;
    wait("another cluster of the name", || {
        match rig.engaged("alpha") {
            Some(now) if !Arc::ptr_eq(&now, &before) => Seen::Yes(()),
            _ => Seen::NotYet("the same".into()),
        }
    })
    .await?;
    oracle::settled(&rig).await?;
    assert!(rig.stored("alpha", "seed-0-out").is_none());
    assert_eq!(before.state().as_str(), "Gone");
    assert_eq!(rig.status("alpha")?.objects, 2);
    rig.finish().await
}

#[tokio::test]
async fn a_cluster_serves_until_the_one_that_replaces_it_is_in_step() -> Result<()> {
    let rig = Rig::start(Setup::of(&["alpha", "beta", "gamma"])).await?;
    rig.provider.remove(&name("gamma"));
    let before = rig.engaged("alpha").context("engaged")?;
    rig.simulated("gamma").down(true);
    let moved = rig
        .server
        .kubeconfig()
        .replace("/clusters/alpha", "/clusters/gamma");
    rig.add_from(
        "alpha",
        &moved,
        &windlass_fleet::cluster::KubeconfigPolicy::file(),
    )?;
    let replacement = wait("why it does not take over", || {
        let status = rig
            .status("alpha")
            .ok()
            .and_then(|status| status.replacement);
        match status {
            Some(next) if next.reason.contains("cannot reach") => Seen::Yes(next),
            seen => Seen::NotYet(format!("{seen:?}")),
        }
    })
    .await?;
    assert_eq!(replacement.state.as_str(), "Connecting");
    rig.put("alpha", "seed-0", "still served")?;
    wait("the old server to be served", || {
        let child = rig.stored("alpha", "seed-0-out");
        Seen::of(child, |child| {
            child
                .as_ref()
                .is_some_and(|child| child["data"]["value"] == "still served")
        })
    })
    .await?;
    rig.put("gamma", "made", "by the new server")?;
    rig.simulated("gamma").down(false);
    wait("the new server to be served", || {
        Seen::of(rig.stored("gamma", "made-out"), Option::is_some)
    })
    .await?;
    let after = rig.engaged("alpha").context("engaged")?;
    assert!(!Arc::ptr_eq(&before, &after));
    assert!(rig.status("alpha")?.replacement.is_none());
    assert_eq!(before.state().as_str(), "Gone");
    // Only the new server's objects count, also for a reader that still has the old server.
    wait("nobody to watch the old server", || {
        Seen::of(rig.simulated("alpha").watchers(), |n| *n == 0)
    })
    .await?;
    rig.finish().await
}

#[tokio::test]
async fn a_replacement_that_is_taken_back_leaves_nothing() -> Result<()> {
    let rig = Rig::start(Setup::of(&["alpha", "beta"])).await?;
    let before = rig.engaged("alpha").context("engaged")?;
    rig.simulated("beta").down(true);
    let moved = rig
        .server
        .kubeconfig()
        .replace("/clusters/alpha", "/clusters/beta");
    rig.add_from(
        "alpha",
        &moved,
        &windlass_fleet::cluster::KubeconfigPolicy::file(),
    )?;
    wait("a replacement", || {
        let status = rig
            .status("alpha")
            .ok()
            .and_then(|status| status.replacement);
        Seen::of(status.is_some(), |there| *there)
    })
    .await?;
    rig.add("alpha")?;
    wait("no replacement", || {
        let status = rig
            .status("alpha")
            .ok()
            .and_then(|status| status.replacement);
        Seen::of(status.is_none(), |gone| *gone)
    })
    .await?;
    rig.simulated("beta").down(false);
    assert!(Arc::ptr_eq(
        &before,
        &rig.engaged("alpha").context("engaged")?
    ));
    rig.finish().await
}
