//! Providers whose hub or clusters fail. Entry points: the tests, over a [`Provided`].

use crate::oracle;
use crate::provided::{Provided, SORTS, Sort, refused};
use crate::rig::{Rig, Setup};
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Faults, RequestFault, Rule};
use windlass_fleet::cluster::ClusterState;
use windlass_harness::eventually::{Seen, wait};

const GOOD: [&str; 4] = ["a", "b", "c", "d"];

#[tokio::test]
async fn dead_slow_and_forbidden_clusters_of_a_hub_delay_no_other() -> Result<()> {
    for sort in SORTS {
        let faults = Arc::new(Faults::default());
        let clusters = ["a", "b", "c", "d", "forbidden", "slow"];
        let provided = Provided::start(sort, Setup::of(&clusters).hook(faults.clone())).await?;
        let rig = &provided.rig;
        let forbidden = RequestFault::Status {
            code: 403,
            retry_after: None,
        };
        let no = faults.add(Rule::new(forbidden).cluster("forbidden"));
        let late = RequestFault::Delay(Duration::from_secs(3));
        let slow = faults.add(Rule::new(late).cluster("slow"));
        // Names that come first in every order.
        provided.tell(
            "0-dead",
            &provided
                .kubeconfig("a")
                .replace(&rig.server.address().to_string(), "127.0.0.1:1"),
        )?;
        let broken = provided.sort.secret("0-broken", "{");
        provided.admin().apply(broken).map_err(refused)?;
        if let Some(object) = sort.object("0-broken") {
            provided.admin().apply(object).map_err(refused)?;
        }
        for bad in ["forbidden", "slow"] {
            provided.tell(bad, &provided.kubeconfig(bad))?;
        }
        for good in GOOD {
            rig.put(good, "seed-0", "first")?;
            provided.add(good)?;
        }
        oracle::children_right_within(rig, Duration::from_secs(20)).await?;
        let dead = sort.engaged("0-dead");
        rig.reaches(&dead, ClusterState::Connecting).await?;
        provided
            .has(&["0-dead", "a", "b", "c", "d", "forbidden", "slow"])
            .await?;
        let problems = rig.handle.provider_problems();
        assert!(
            problems.iter().any(|one| one.subject == "default/0-broken"),
            "{problems:?}"
        );

        // What is repaired joins without another word of the hub.
        faults.remove(no);
        faults.remove(slow);
        for repaired in ["forbidden", "slow"] {
            rig.put(repaired, "seed-0", "repaired")?;
            rig.keep(repaired);
        }
        provided.remove("0-dead")?;
        provided.remove("0-broken")?;
        oracle::settled(rig).await?;
        provided.finish().await?;
    }
    Ok(())
}

/// A hub goes away for so long, at least, and comes back with changes that nobody saw. The clock jumps over what is waited for.
async fn is_away(sort: Sort, length: Duration) -> Result<()> {
    let clusters = ["a", "b", "c", "d", "new"];
    let provided = Provided::start(sort, Setup::of(&clusters)).await?;
    let rig = &provided.rig;
    for good in GOOD {
        rig.put(good, "seed-0", "first")?;
        provided.add(good)?;
    }
    oracle::right_within(rig, oracle::WITHIN).await?;
    let before = rig.ready(&sort.engaged("a")).await?;

    provided.admin().down(true);
    provided.remove("d")?;
    provided.add("new")?;
    rig.put("new", "seed-0", "first")?;
    // It forgets the past: its watches cannot go on where they were.
    provided.admin().compact();
    // Nobody leaves, and work on what is engaged goes on.
    rig.keep_no_more("new");
    let good = GOOD.map(|name| sort.engaged(name));
    let stay = "the clusters that are known from it stay";
    wait("the hub to be reported", || {
        Seen::of(rig.handle.provider_problems(), |problems| {
            problems.iter().any(|one| one.message.contains(stay))
        })
    })
    .await?;
    tokio::time::pause();
    rig.holds("the clusters of a hub that is away", length, || {
        let names = provided.names();
        (names == good).then_some(()).ok_or(format!("{names:?}"))
    })
    .await?;
    tokio::time::resume();
    for round in 0..3 {
        for good in ["a", "b", "c"] {
            rig.put(good, "seed-0", &format!("round {round}"))?;
        }
        oracle::children_right_within(rig, oracle::WITHIN).await?;
    }
    provided.has(&GOOD).await?;

    // It is asked again after a pause, which has grown meanwhile.
    tokio::time::pause();
    provided.admin().down(false);
    provided.has(&["a", "b", "c", "new"]).await?;
    tokio::time::resume();
    rig.keep("new");
    wait("nothing to be reported", || {
        Seen::of(rig.handle.provider_problems(), Vec::is_empty)
    })
    .await?;
    let now = rig.ready(&sort.engaged("a")).await?;
    assert!(Arc::ptr_eq(&before, &now), "{sort:?}: undisturbed");
    provided.finish().await
}

#[tokio::test]
async fn what_a_hub_changed_while_it_was_away_is_caught_up_with() -> Result<()> {
    for sort in SORTS {
        is_away(sort, Duration::ZERO).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_hub_that_was_away_for_a_minute_is_caught_up_with() -> Result<()> {
    for sort in SORTS {
        is_away(sort, Duration::from_secs(60)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_name_that_a_hub_repeats_is_refused_under_load_until_it_is_free() -> Result<()> {
    let provided = Provided::start(Sort::Secrets, Setup::of(&["a", "b"])).await?;
    let rig = &provided.rig;
    // The first one is another provider's.
    rig.add("a")?;
    let first = rig.ready("a").await?;
    provided.add("a")?;
    provided.add("b")?;
    wait("the refusal with its remedy", || {
        Seen::of(rig.handle.provider_problems(), |problems| {
            problems
                .iter()
                .any(|one| one.subject == "a" && one.message.contains("prefix"))
        })
    })
    .await?;
    for round in 0..20 {
        for cluster in ["a", "b"] {
            rig.put(cluster, &format!("load-{}", round % 5), &format!("{round}"))?;
        }
        // Said again and again, it is refused again and again.
        let text = format!("{}# {round}\n", provided.kubeconfig("a"));
        provided.tell("a", &text)?;
    }
    oracle::right_within(rig, oracle::WITHIN).await?;
    let now = rig.ready("a").await?;
    assert!(Arc::ptr_eq(&first, &now), "undisturbed");

    // Its place is taken without another word of the hub.
    for round in 0..5 {
        rig.put("a", &format!("load-{round}"), "afterwards")?;
    }
    assert!(rig.provider.remove(first.name()));
    oracle::right_within(rig, oracle::WITHIN).await?;
    let second = rig.ready("a").await?;
    assert!(!Arc::ptr_eq(&first, &second), "engaged from the hub");
    assert_eq!(rig.handle.provider_problems(), []);
    provided.finish().await
}

#[tokio::test]
async fn a_thousand_secrets_written_and_deleted_at_once_end_as_the_hub_has_them() -> Result<()> {
    const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];
    let mut setup = Setup::of(&CLUSTERS);
    // A thousand names of four servers.
    setup.manager.duplicate_clusters = true;
    let provided = Provided::start(Sort::Secrets, setup).await?;
    let texts = CLUSTERS.map(|cluster| provided.kubeconfig(cluster));
    let admin = provided.admin();
    let name = |n: usize| format!("s-{n:04}");
    for n in 0..1000 {
        let secret = Sort::Secrets.secret(&name(n), &texts[n % 4]);
        admin.apply(secret).map_err(refused)?;
        // Some are gone again before anybody can have seen them, some are moved.
        if n % 3 == 0 {
            let deleted = admin.delete("v1", "Secret", "default", &name(n));
            deleted.map_err(refused)?;
        } else if n % 3 == 1 {
            let moved = Sort::Secrets.secret(&name(n), &texts[(n + 1) % 4]);
            admin.apply(moved).map_err(refused)?;
        }
    }
    let left: Vec<String> = (0..1000).filter(|n| n % 3 != 0).map(name).collect();
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    provided.has(&left).await?;
    provided.rig.ready_clusters(left.len()).await?;
    for name in &left {
        let deleted = admin.delete("v1", "Secret", "default", name);
        deleted.map_err(refused)?;
    }
    provided.has(&[]).await?;
    assert_eq!(provided.rig.handle.provider_problems(), []);
    provided.finish().await
}

#[tokio::test]
async fn credentials_exchanged_again_and_again_under_load_fail_no_write() -> Result<()> {
    for sort in SORTS {
        let provided = Provided::start(sort, Setup::of(&["a", "b", "c", "d", "z"]).tls()).await?;
        let rig = &provided.rig;
        let with = |cluster: &str, round: usize| {
            let text = provided.kubeconfig(cluster);
            let (head, _) = text.split_once("users:").expect("users");
            let user = format!("users:\n- name: admin\n  user: {{token: \"t{round}\"}}\n");
            format!("{head}{user}current-context: {cluster}\n")
        };
        rig.server.set_tokens(Some(&["t0"]));
        for good in GOOD {
            rig.put(good, "seed-0", "first")?;
            provided.tell(good, &with(good, 0))?;
            rig.keep(good);
        }
        oracle::right_within(rig, oracle::WITHIN).await?;
        let before: Vec<_> = GOOD
            .iter()
            .map(|name| rig.engaged(&sort.engaged(name)))
            .collect();
        for round in 1..=10 {
            // As an issuer does: the token before is good until the new one is in use.
            let tokens = [format!("t{}", round - 1), format!("t{round}")];
            rig.server
                .set_tokens(Some(&[&tokens[0][..], &tokens[1][..]]));
            for good in GOOD {
                provided.tell(good, &with(good, round))?;
                for n in 0..10 {
                    rig.put(good, &format!("load-{n}"), &format!("round {round}"))?;
                }
            }
            // Once a later object counts, the new credentials have been taken up.
            let canary = format!("z-{round}");
            provided.tell(&canary, &with("z", round))?;
            provided.has(&["a", "b", "c", "d", &canary]).await?;
            provided.remove(&canary)?;
            oracle::right_within(rig, oracle::WITHIN).await?;
        }
        let errors = failures(rig)?;
        assert_eq!(errors, 0, "{sort:?}");
        for (name, before) in GOOD.iter().zip(before) {
            let now = rig.engaged(&sort.engaged(name));
            let same = before.zip(now).is_some_and(|(a, b)| Arc::ptr_eq(&a, &b));
            assert!(same, "{sort:?}: credentials are exchanged in place");
        }
        rig.server.set_tokens(None);
        provided.finish().await?;
    }
    Ok(())
}

/// Runs that failed so far.
fn failures(rig: &Rig) -> Result<u64> {
    let text = rig.metrics()?;
    let of_errors = text
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_errors_total{"));
    of_errors
        .map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()? as u64))
        .sum()
}
