//! Answers that refuse, crawl, get lost and are not what they should be.

use crate::rig::{Rig, Setup};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{
    AnswerFault, Damage, EventFault, Faults, RequestFault, Rule, RuleId, Verb,
};
use windlass_fleet::manager::KeyFilter;
use windlass_harness::eventually::{Seen, wait};
use windlass_harness::footprint::Footprint;

/// The largest answer and the longest line that the rigs here read.
const LIMIT: usize = 1 << 20;
/// How much memory a test may need beside that, with others in its process.
const ROOM: usize = 64 << 20;

async fn pair(adjust: impl FnOnce(&mut Setup)) -> Result<(Rig, Arc<Faults>)> {
    let faults = Arc::new(Faults::default());
    let mut setup = Setup::of(&["alpha", "beta"]).hook(faults.clone());
    setup.manager.transport.max_body = LIMIT;
    setup.manager.transport.max_line = LIMIT;
    // Lists and events go wrong apart.
    setup.manager.caches.streaming_lists = false;
    adjust(&mut setup);
    Ok((Rig::start(setup).await?, faults))
}

fn writes(fault: impl Into<windlass_apiserver::Fault>) -> Rule {
    Rule::new(fault)
        .cluster("alpha")
        .verb(Verb::Patch)
        .resource("configmaps")
}

fn refused(code: u16, retry_after: Option<&str>) -> RequestFault {
    RequestFault::Status {
        code,
        retry_after: retry_after.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it_and_the_others_wait_for_nothing() -> Result<()> {
    let (rig, faults) = pair(|_| {}).await?;
    let asked = || rig.simulated("alpha").count(Verb::Patch, "configmaps");
    let before = asked();
    let rule = faults.add(writes(refused(429, Some("2"))).times(1));
    let began = Instant::now();
    rig.put("alpha", "seed-0", "late")?;
    wait("the refusal", || Seen::of(faults.struck(rule), |n| *n == 1)).await?;
    rig.carried("beta", "in time").await?;
    if began.elapsed() < Duration::from_secs(2) {
        assert_eq!(asked(), before + 1);
    }
    wait("the second attempt", || {
        Seen::of(asked(), |n| *n > before + 1)
    })
    .await?;
    assert!(began.elapsed() >= Duration::from_secs(2));
    rig.finish().await
}

#[tokio::test]
async fn no_retry_after_is_waited_for_beyond_the_cap() -> Result<()> {
    let cap = Duration::from_secs(1);
    let (rig, faults) = pair(|setup| setup.manager.transport.max_retry_after = cap).await?;
    let texts = ["86400", "99999999999999999999999", "-5", "soon", ""];
    for (at, text) in texts.into_iter().enumerate() {
        let code = if at % 2 == 0 { 503 } else { 429 };
        let rule = faults.add(writes(refused(code, Some(text))).times(1));
        rig.carried("alpha", &format!("after {text}")).await?;
        assert_eq!(faults.remove(rule), 1);
    }
    rig.finish().await
}

#[tokio::test]
async fn conflicts_without_end_are_met_ever_more_rarely_and_overcome() -> Result<()> {
    let (rig, faults) = pair(|_| {}).await?;
    let rule = faults.add(writes(refused(409, None)));
    rig.put("alpha", "seed-0", "contested")?;
    rig.holds("few attempts", Duration::from_secs(3), || {
        let attempts = faults.struck(rule);
        (attempts <= 15)
            .then_some(())
            .ok_or(format!("{attempts} attempts"))
    })
    .await?;
    rig.carried("beta", "undisputed").await?;
    assert!(faults.remove(rule) >= 4);
    rig.finish().await
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_or_garbled_is_done_once_more_and_no_harm() -> Result<()> {
    let (rig, faults) = pair(|_| {}).await?;
    let losses = [
        AnswerFault::Lost,
        AnswerFault::CutInside,
        AnswerFault::Damaged(Damage::Garbage),
        AnswerFault::Damaged(Damage::BadUtf8),
        AnswerFault::Damaged(Damage::NoVersion),
        AnswerFault::Endless,
        AnswerFault::Bomb { size: 64 << 20 },
    ];
    for (at, loss) in losses.into_iter().enumerate() {
        let rule = faults.add(writes(loss).times(1));
        rig.carried("alpha", &at.to_string()).await?;
        assert_eq!(faults.remove(rule), 1);
    }
    rig.finish().await
}

#[tokio::test]
async fn writes_that_crawl_or_are_never_answered_cost_their_deadline_and_the_others_nothing()
-> Result<()> {
    let (rig, faults) = pair(|setup| setup.controller.timeout = Duration::from_secs(1)).await?;
    let crawls = AnswerFault::Slow {
        bytes_per_second: 1,
    };
    let rule = faults.add(writes(crawls).times(1));
    rig.carried("alpha", "crawling").await?;
    assert_eq!(faults.struck(rule), 1);
    let rule = faults.add(writes(RequestFault::Silence));
    rig.put("alpha", "seed-0", "unanswered")?;
    wait("the write", || Seen::of(faults.struck(rule), |n| *n >= 1)).await?;
    let began = Instant::now();
    rig.carried("beta", "at once").await?;
    assert!(began.elapsed() < Duration::from_secs(5));
    let failing = KeyFilter {
        state: Some("failing".into()),
        ..KeyFilter::default()
    };
    let reason = wait("the failure in the status", || {
        let keys = rig.handle.keys(&failing);
        match keys
            .into_iter()
            .find_map(|key| key.queued.last_failure)
            .map(|failure| failure.reason)
        {
            Some(reason) => Seen::Yes(reason),
            None => Seen::NotYet("no key fails".into()),
        }
    })
    .await?;
    assert!(["api", "timeout"].contains(&reason), "{reason}");
    faults.clear();
    rig.carried("alpha", "well again").await?;
    rig.finish().await
}

/// Lists and events that are not what they should be: said in the status, at no cost in memory, and at none to others.
#[tokio::test]
async fn rubbish_is_bounded_and_named_and_does_not_spread() -> Result<()> {
    let (rig, faults) = pair(|_| {}).await?;
    let memory = Footprint::now(&[])?.resident;
    let lists = [
        AnswerFault::Endless,
        AnswerFault::Bomb { size: 256 << 20 },
        AnswerFault::Damaged(Damage::Garbage),
        AnswerFault::Damaged(Damage::Other),
        AnswerFault::Damaged(Damage::BadUtf8),
        AnswerFault::Damaged(Damage::NoVersion),
        AnswerFault::Damaged(Damage::SameUid),
    ];
    for (at, fault) in lists.into_iter().enumerate() {
        let list = Rule::new(fault.clone())
            .cluster("alpha")
            .verb(Verb::List)
            .resource("configmaps");
        let rule = faults.add(list);
        faults.add(
            Rule::new(refused(410, None))
                .cluster("alpha")
                .verb(Verb::Watch)
                .resource("configmaps")
                .times(1),
        );
        rig.simulated("alpha").cut_watches();
        named(&rig, &faults, rule, &format!("{fault:?}")).await?;
        rig.carried("beta", &format!("list {at}")).await?;
        assert!(faults.remove(rule) >= 1);
        rig.carried("alpha", &format!("list {at}")).await?;
    }
    let events = [
        EventFault::EndlessLine,
        EventFault::Damaged(Damage::Garbage),
        EventFault::Damaged(Damage::Other),
        EventFault::Damaged(Damage::BadUtf8),
        EventFault::Damaged(Damage::NoVersion),
    ];
    for (at, fault) in events.into_iter().enumerate() {
        let rule = Rule::new(fault.clone())
            .cluster("alpha")
            .resource("configmaps");
        let rule = faults.add(rule);
        rig.put("alpha", "seed-1", &format!("event {at}"))?;
        named(&rig, &faults, rule, &format!("{fault:?}")).await?;
        rig.carried("beta", &format!("event {at}")).await?;
        assert!(faults.remove(rule) >= 1);
        rig.carried("alpha", &format!("event {at}")).await?;
    }
    let grown = Footprint::now(&[])?.resident.saturating_sub(memory);
    assert!(grown <= ROOM, "memory grew by {grown} bytes");
    rig.finish().await
}

/// Waits until a fault has struck and the status of `alpha` names a problem with its ConfigMaps.
async fn named(rig: &Rig, faults: &Faults, rule: RuleId, fault: &str) -> Result<()> {
    wait(&format!("{fault} in the status"), || {
        if faults.struck(rule) == 0 {
            return Seen::NotYet("it has not struck".into());
        }
        let stores = rig.status("alpha").map(|status| status.stores);
        let problem = stores
            .unwrap_or_default()
            .into_iter()
            .find_map(|store| store.problem);
        Seen::of(problem, |problem| {
            problem.as_ref().is_some_and(|text| text.len() < 1_000)
        })
    })
    .await
    .map(drop)
}
