//! Guests that read as much as they can at once: what is held of it stays within the bounds, others are served meanwhile, and all of it is
//! given back.

use crate::fixture::{GuestBuilder, Setup, Stage, config_map, rule};
use crate::neighbour::beside_a_neighbour;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;
use windlass_fleet::Rule;
use windlass_fleet::backoff::Backoff;
use windlass_fleet::cluster::TransportOptions;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::name::NamePattern;
use windlass_harness::eventually::{Seen, wait};

const MIB: usize = 1 << 20;

/// Bytes of answers that a stage's manager holds at once.
const BOUND: usize = 32 * MIB;
/// Lists of a batch, and how large the answer to each is.
const LISTS: usize = 40;
const LIST: usize = 4 * MIB;
/// Objects in each.
const OBJECTS: usize = 16;

/// Clusters with as many large objects as make one list.
async fn stage(clusters: &[&str]) -> Result<Stage> {
    let manager = ManagerOptions {
        transport: TransportOptions {
            max_answers: BOUND,
            ..TransportOptions::default()
        },
        ..ManagerOptions::default()
    };
    let setup = Setup {
        manager,
        ..Setup::default()
    };
    let stage = Stage::with(clusters, setup).await?;
    for cluster in clusters {
        for at in 0..OBJECTS {
            let text = json!({"text": "x".repeat(LIST / OBJECTS)});
            let mut object = config_map(&format!("large-{at}"), text);
            object["metadata"]["labels"] = json!({"test.windlass.dev/large": "yes"});
            stage.apply(cluster, object)?;
        }
    }
    Ok(stage)
}

/// Room for what a guest makes of an answer, and time on a machine that is busy with other things.
fn patient(builder: GuestBuilder<'_>) -> GuestBuilder<'_> {
    builder
        .limits(|limits| (limits.memory, limits.timeout) = (192 * MIB, Duration::from_secs(60)))
        .controller(|options| {
            let hour = Duration::from_secs(3600);
            options.backoff = Backoff::new(Duration::from_millis(1), hour);
            // The server is in this process too, and answers each list anew.
            options.concurrency = Some(1);
        })
}

/// What a batch held, and what came of it: some lists, and the word of the limit for the others.
async fn is_bounded(stage: &Stage, builder: GuestBuilder<'_>) -> Result<()> {
    let failure = beside_a_neighbour(stage, builder).await?;
    assert!(failure.message.contains("large-0"), "{failure}");
    assert!(failure.message.contains("limit-exceeded"), "{failure}");
    wait("every answer given back", || {
        Seen::of(stage.handle.answers().held, |held| *held == 0)
    })
    .await?;
    let answers = stage.handle.answers();
    assert!(
        (LIST..=BOUND / 2 + MIB).contains(&answers.peak),
        "{answers:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_large_lists_is_bounded_while_it_is_read() -> Result<()> {
    let stage = stage(&["alpha"]).await?;
    let list = json!({
        "do": "list", "kind": ["v1", "ConfigMap"],
        "options": {"mode": "live", "labels": "test.windlass.dev/large"},
    });
    let steps = json!([{"do": "batch", "steps": vec![list; LISTS]}]);
    let builder = stage
        .guest("test-calls")
        .name("large-batch")
        .config(json!({"steps": steps}));
    is_bounded(&stage, patient(builder)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_large_lists_over_the_fleet_is_bounded_while_it_is_read() -> Result<()> {
    let stage = stage(&["alpha", "beta"]).await?;
    let beta = ClusterRule {
        names: vec![NamePattern::new("beta")],
        ..ClusterRule::default()
    };
    let maps = rule("", &["configmaps"], &["get", "list", "watch"], "*");
    let other = Rule {
        clusters: Some(beta),
        ..maps.clone()
    };
    let builder = stage
        .guest("test-fleet")
        .name("large-fleet-batch")
        .rules(vec![maps, other])
        .config(json!({"open": ["alpha", "beta"], "lists": LISTS / 2}));
    is_bounded(&stage, patient(builder)).await
}

/// Each run reads less than its limits allow. Together they want several times what there is, so that they wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn large_reads_of_many_runs_wait_for_each_other_and_all_are_answered() -> Result<()> {
    const RUNS: usize = 12;
    let stage = stage(&["alpha"]).await?;
    let list = json!({
        "do": "list", "kind": ["v1", "ConfigMap"],
        "options": {"mode": "live", "labels": "test.windlass.dev/large"},
    });
    let builder = stage
        .guest("test-calls")
        .name("large-reads")
        .config(json!({"steps": [list]}))
        .tenant_memory(4096 * MIB);
    let builder = patient(builder).controller(|options| options.concurrency_per_cluster = RUNS);
    let running = builder.run().await?;
    let neighbour = stage
        .guest("hello")
        .name("beside-large-reads")
        .run()
        .await?;
    for run in 0..RUNS {
        stage.apply("alpha", config_map(&format!("run-{run}"), json!({})))?;
    }
    let outcome = neighbour.outcome("alpha", "run-0").await?;
    outcome.map_err(anyhow::Error::msg)?;
    for run in 0..RUNS {
        let answer = running.answer("alpha", &format!("run-{run}")).await?;
        let names = answer[0][0].as_array().map_or(0, Vec::len);
        assert_eq!(names, OBJECTS, "{answer}");
    }
    let answers = stage.handle.answers();
    assert!(answers.peak <= BOUND / 2 + MIB, "{answers:?}");
    assert_eq!(answers.rejected, 0);
    wait("all memory given back", || {
        let held = stage.handle.answers().held + running.guest.status().tenant_memory;
        Seen::of(held, |held| *held == 0)
    })
    .await
    .map(drop)
}

/// What one tenant may not hold is no business of another's.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_counts_in_its_tenants_memory() -> Result<()> {
    let stage = stage(&["alpha"]).await?;
    let list = json!({
        "do": "list", "kind": ["v1", "ConfigMap"],
        "options": {"mode": "live", "labels": "test.windlass.dev/large"},
    });
    let small = json!({"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "a"], "options": {"mode": "live"}});
    let builder = stage
        .guest("test-calls")
        .name("little-tenant")
        .config(json!({"steps": [list, small]}))
        .limits(|limits| limits.timeout = Duration::from_secs(3))
        .tenant_memory(6 * MIB);
    let running = builder.run().await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    let answer: Value = running.answer("alpha", "a").await?;
    assert_eq!(answer[0]["code"], "limit-exceeded", "{answer}");
    let hits = running.guest.status().limit_hits;
    assert!(hits.contains_key("tenant.memory"), "{hits:?}");
    Ok(())
}
