//! Servers that refuse, or take their time. Entry points: the tests.

use crate::keeper::config_map;
use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::{Context as _, Result};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{AnswerFault, Faults, RequestFault, Rule};
use windlass_fleet::api::{GetOptions, ReadMode};
use windlass_fleet::cluster::TransportOptions;
use windlass_fleet::{ApiCode, Grant, ObjectKey};
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::fleet::name;

/// A rig whose calls end after a second, as waits do that servers ask for.
async fn rig(faults: &Arc<Faults>) -> Result<Rig> {
    let mut setup = Setup::of(&["alpha", "beta"]).hook(faults.clone());
    setup.manager.transport = TransportOptions {
        call_timeout: Duration::from_secs(1),
        max_retry_after: Duration::from_secs(1),
        ..TransportOptions::default()
    };
    Rig::start(setup).await
}

fn right(rig: &Rig, cluster: &str, value: &str) -> bool {
    let child = rig.stored(cluster, "seed-0-out");
    child.is_some_and(|child| child["data"]["value"] == value)
}

/// Disturbs alpha with a rule, shows that beta goes on meanwhile and that alpha is not hammered, and ends the disturbance.
async fn disturb(rig: &Rig, faults: &Faults, rule: Rule, value: &str) -> Result<()> {
    let id = faults.add(rule.cluster("alpha"));
    rig.simulated("alpha").cut_watches();
    rig.put("alpha", "seed-0", value)?;
    wait("alpha to be disturbed", || {
        Seen::of(faults.struck(id), |struck| *struck >= 1)
    })
    .await?;
    let before = rig.simulated("alpha").requests().len();
    rig.put("beta", "seed-0", value)?;
    wait("beta to be right", || {
        Seen::of(right(rig, "beta", value), |right| *right)
    })
    .await?;
    let asked = rig.simulated("alpha").requests().len() - before;
    assert!(asked < 50, "{asked} requests while beta made one write");
    faults.remove(id);
    oracle::settled(rig).await
}

#[tokio::test]
async fn refusals_with_a_retry_after_of_whatever_kind_slow_one_cluster_for_a_while() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = rig(&faults).await?;
    let after = [
        "1",
        "86400",
        "99999999999999999999",
        "-5",
        "soon",
        "Fri, 31 Dec 2100 23:59:59 GMT",
    ];
    for (n, after) in after.into_iter().enumerate() {
        let code = if n % 2 == 0 { 429 } else { 503 };
        let retry_after = Some(after.to_owned());
        let rule = Rule::new(RequestFault::Status { code, retry_after });
        disturb(&rig, &faults, rule, after).await?;
    }
    rig.finish().await
}

#[tokio::test]
async fn an_answer_of_a_byte_a_second_costs_a_call_its_deadline_and_nobody_else_anything()
-> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = rig(&faults).await?;
    let slow = AnswerFault::Slow {
        bytes_per_second: 1,
    };
    let rule = faults.add(Rule::new(slow.clone()).cluster("alpha"));
    let live = GetOptions {
        mode: ReadMode::Live,
        ..GetOptions::default()
    };
    let client = rig
        .engaged("alpha")
        .context("engaged")?
        .client(Grant::all());
    let key = ObjectKey::namespaced("default", "seed-0");
    let refused = client.get(&config_map(), &key, &live).await.err();
    assert_eq!(refused.map(|error| error.code), Some(ApiCode::Timeout));
    faults.remove(rule);
    disturb(&rig, &faults, Rule::new(slow), "slow").await?;
    rig.finish().await
}

#[tokio::test]
async fn a_server_that_is_later_than_the_deadline_is_given_up_and_joins_again() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = rig(&faults).await?;
    let late = RequestFault::Delay(Duration::from_secs(30));
    disturb(&rig, &faults, Rule::new(late), "late").await?;
    rig.finish().await
}

#[tokio::test]
async fn a_compressed_answer_is_refused_and_says_so() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = rig(&faults).await?;
    rig.provider.remove(&name("alpha"));
    wait("alpha to leave", || {
        Seen::of(rig.engaged("alpha").is_none(), |gone| *gone)
    })
    .await?;
    let bomb = faults.add(Rule::new(AnswerFault::Bomb { size: 1 << 30 }).cluster("alpha"));
    rig.put("alpha", "seed-0", "behind the bomb")?;
    rig.add("alpha")?;
    wait("the reason in the status", || {
        let status = rig.status("alpha").map(|status| status.reason);
        Seen::of(status.unwrap_or_default(), |now| now.contains("compressed"))
    })
    .await?;
    faults.remove(bomb);
    rig.ready("alpha").await?;
    rig.finish().await
}
