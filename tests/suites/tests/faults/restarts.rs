//! Servers that go away and come back.

use crate::rig::{Rig, Setup};
use anyhow::Result;
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_fleet::cluster::ClusterState;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::request;

#[tokio::test]
async fn a_server_that_was_away_is_caught_up_with_and_nobody_else_waited() -> Result<()> {
    let rig = Rig::start(Setup::of(&["alpha", "beta", "gamma"])).await?;
    let others: BTreeSet<String> = ["beta", "gamma"].map(str::to_owned).into();
    rig.simulated("alpha").down(true);
    rig.reaches("alpha", ClusterState::Degraded).await?;
    rig.put("alpha", "seed-0", "changed")?;
    rig.put("alpha", "made", "meanwhile")?;
    rig.delete("alpha", "seed-1")?;
    let runs = rig.keeper.count_in(&others);
    for cluster in &others {
        rig.put(cluster, "seed-0", "changed")?;
    }
    wait("runs in the clusters that live", || {
        Seen::of(rig.keeper.count_in(&others), |n| *n >= runs + 2)
    })
    .await?;
    rig.simulated("alpha").down(false);
    rig.ready("alpha").await?;
    wait("a run of what was made", || {
        Seen::of(rig.keeper.count(&request("alpha", "made")), |n| *n >= 1)
    })
    .await?;
    rig.finish().await
}

#[tokio::test]
async fn watches_that_break_resume_without_a_list_and_none_that_expired_is_lost() -> Result<()> {
    let rig = Rig::start(Setup::of(&["alpha", "beta"])).await?;
    let (before, undisturbed) = (rig.asked("alpha"), rig.asked("beta"));
    rig.simulated("alpha").cut_watches();
    rig.put("alpha", "seed-0", "after the break")?;
    wait("the watch to be taken up", || {
        Seen::of(rig.asked("alpha"), |(_, watches)| *watches > before.1)
    })
    .await?;
    assert_eq!(rig.asked("alpha").0, before.0, "lists");
    let made = request("alpha", "seed-0");
    wait("a run", || Seen::of(rig.keeper.count(&made), |n| *n >= 2)).await?;

    rig.simulated("alpha").down(true);
    rig.put("alpha", "made", "before the past was forgotten")?;
    rig.delete("alpha", "seed-2")?;
    rig.simulated("alpha").compact();
    rig.simulated("alpha").down(false);
    wait("a new list", || {
        Seen::of(rig.asked("alpha").0, |lists| *lists > before.0)
    })
    .await?;
    assert!(rig.stored("alpha", "made").is_some());
    assert_eq!(rig.asked("beta"), undisturbed);
    rig.finish().await
}

#[tokio::test]
async fn a_server_that_does_not_say_who_it_is_for_a_while_stays_the_same_cluster() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::start(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    let before = rig.asked("alpha").0;
    let forbidden = RequestFault::Status {
        code: 403,
        retry_after: None,
    };
    let rule = faults.add(Rule::new(forbidden).verb(Verb::Get).resource("namespaces"));
    rig.simulated("alpha").cut_watches();
    wait("the question who it is", || {
        Seen::of(faults.struck(rule), |n| *n >= 1)
    })
    .await?;
    rig.carried("alpha", "while it does not say").await?;
    faults.clear();
    rig.simulated("alpha").cut_watches();
    rig.carried("alpha", "once it says").await?;
    assert_eq!(rig.asked("alpha").0, before, "lists");
    rig.finish().await
}
