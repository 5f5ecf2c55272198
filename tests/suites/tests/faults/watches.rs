//! Watches that end, break and expire.

use crate::rig::{Rig, Setup};
use anyhow::Result;
use std::sync::Arc;
use windlass_apiserver::{EventFault, Faults, RequestFault, Rule, RuleId, Verb};
use windlass_harness::eventually::{Seen, wait};

/// Two clusters, of which `alpha` is disturbed.
async fn pair() -> Result<(Rig, Arc<Faults>)> {
    let faults = Arc::new(Faults::default());
    let setup = Setup::of(&["alpha", "beta"]).hook(faults.clone());
    Ok((Rig::start(setup).await?, faults))
}

/// A rule about the watches of ConfigMaps in `alpha`.
fn in_alpha(fault: EventFault) -> Rule {
    Rule::new(fault).cluster("alpha").resource("configmaps")
}

/// Waits until a rule has struck, what is changed after it is carried out, and a watch stands again.
async fn overcome(rig: &Rig, faults: &Faults, rule: RuleId, value: &str) -> Result<()> {
    rig.carried("alpha", value).await?;
    wait("the fault to strike and a watch to stand", || {
        let seen = (faults.struck(rule), rig.simulated("alpha").watchers());
        Seen::of(seen, |(struck, watchers)| *struck >= 1 && *watchers >= 1)
    })
    .await?;
    rig.carried("alpha", &format!("{value}, well again")).await
}

#[tokio::test]
async fn a_watch_that_ends_or_breaks_in_an_event_is_resumed_without_a_list_or_a_loss() -> Result<()>
{
    let (rig, faults) = pair().await?;
    let undisturbed = rig.asked("beta");
    let fates = [EventFault::End, EventFault::Cut, EventFault::CutInside];
    for (at, fate) in fates.into_iter().enumerate() {
        let before = rig.asked("alpha");
        let rule = faults.add(in_alpha(fate.clone()).times(1));
        overcome(&rig, &faults, rule, &at.to_string()).await?;
        let after = rig.asked("alpha");
        assert_eq!(after.0, before.0, "lists after {fate:?}");
        assert_eq!(after.1, before.1 + 1, "watches after {fate:?}");
    }
    let held = rig.status("alpha")?.objects;
    let stored = rig.simulated("alpha").list("v1", "ConfigMap", "");
    assert_eq!(held, stored.map_or(0, |objects| objects.len()));
    assert_eq!(rig.asked("beta"), undisturbed);
    rig.finish().await
}

#[tokio::test]
async fn a_list_that_never_succeeds_keeps_the_manager_from_being_idle() -> Result<()> {
    let faults = Arc::new(Faults::default());
    let rig = Rig::idle(Setup::of(&["alpha"]).hook(faults.clone())).await?;
    let failed = RequestFault::Status {
        code: 500,
        retry_after: None,
    };
    let rule = faults.add(Rule::new(failed).cluster("alpha").resource("configmaps"));
    rig.add("alpha")?;
    wait("lists that fail", || {
        Seen::of(faults.struck(rule), |struck| *struck >= 2)
    })
    .await?;
    let idle = rig.handle.idle().await;
    assert!(!idle.idle, "nothing is known of alpha");
    let told = idle.busy.iter().any(|why| why.contains("\"alpha\""));
    assert!(told, "{:?}", idle.busy);
    faults.remove(rule);
    rig.ready("alpha").await?;
    rig.finish().await
}

#[tokio::test]
async fn a_version_that_is_too_old_lists_anew_once_however_it_is_said() -> Result<()> {
    let (rig, faults) = pair().await?;
    let undisturbed = rig.asked("beta");
    let lists = rig.asked("alpha").0;
    let rule = faults.add(in_alpha(EventFault::Error { code: 410 }).times(1));
    overcome(&rig, &faults, rule, "said by an event").await?;
    assert_eq!(rig.asked("alpha").0, lists + 1);

    let gone = RequestFault::Status {
        code: 410,
        retry_after: None,
    };
    let rule = faults.add(
        Rule::new(gone)
            .cluster("alpha")
            .verb(Verb::Watch)
            .resource("configmaps")
            .times(1),
    );
    rig.delete("alpha", "seed-1")?;
    rig.simulated("alpha").cut_watches();
    overcome(&rig, &faults, rule, "said by a status").await?;
    assert_eq!(rig.asked("alpha").0, lists + 2);
    let held = rig.status("alpha")?.objects;
    let stored = rig.simulated("alpha").list("v1", "ConfigMap", "");
    assert_eq!(held, stored.map_or(0, |objects| objects.len()));
    assert_eq!(rig.asked("beta"), undisturbed);
    rig.finish().await
}

#[tokio::test]
async fn versions_that_are_always_too_old_are_asked_for_ever_more_rarely() -> Result<()> {
    let (rig, faults) = pair().await?;
    let lists = rig.asked("alpha").0;
    let rule = faults.add(
        Rule::new(RequestFault::Status {
            code: 410,
            retry_after: None,
        })
        .cluster("alpha")
        .verb(Verb::Watch)
        .verb(Verb::List)
        .resource("configmaps"),
    );
    rig.simulated("alpha").cut_watches();
    rig.holds("few lists", std::time::Duration::from_secs(3), || {
        let asked = rig.asked("alpha").0 - lists;
        (asked <= 8).then_some(()).ok_or(format!("{asked} lists"))
    })
    .await?;
    assert!(faults.remove(rule) >= 3);
    rig.carried("alpha", "well again").await?;
    rig.finish().await
}
