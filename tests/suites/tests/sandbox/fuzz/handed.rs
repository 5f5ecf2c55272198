//! What guests hand to the host: the arguments of every call, and their descriptions.

use super::Length;
use crate::fixture::{Stage, config_map, revision, rule};
use anyhow::{Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Call, Hook, RequestVerdict, Verb};
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;
use windlass_fleet::{Action, Rule};
use windlass_sandbox::LoadError;

/// Keys that run at once.
const AT_ONCE: u64 = 4;
const CALLS: u32 = 150;

/// Notes every request that no rule grants, or whose path could mean something else to somebody else.
#[derive(Default)]
struct Guard(Mutex<Vec<String>>);

/// What the host itself asks for, to tell clusters apart.
fn is_of_the_host(call: &Call) -> bool {
    call.verb == Verb::Other
        || (call.verb, &*call.resource, &*call.name) == (Verb::Get, "namespaces", "kube-system")
}

fn is_granted(cluster: &str, call: &Call) -> bool {
    match (cluster, &*call.group, &*call.resource) {
        ("alpha", "", "configmaps") => call.namespace == "default",
        // Its own watch is in every cluster; a call of another cluster may read.
        ("beta", "", "configmaps") => {
            call.namespace == "default" && matches!(call.verb, Verb::Get | Verb::List | Verb::Watch)
        }
        // Events about objects that the guest may get.
        ("alpha", "" | "events.k8s.io", "events") => {
            call.namespace == "default" && matches!(call.verb, Verb::Create | Verb::Patch)
        }
        _ => false,
    }
}

/// Whether a part of a path names nothing but itself, however often it is decoded.
fn is_plain(part: &str) -> bool {
    part != "." && part != ".." && !part.contains(['/', '%', '\0', '\r', '\n'])
}

impl Hook for Guard {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        let parts = [
            &call.resource,
            &call.namespace,
            &call.name,
            &call.subresource,
        ];
        let plain = parts.iter().all(|part| is_plain(part));
        if !plain || !(is_of_the_host(call) || is_granted(cluster, call)) {
            let seen = format!("{cluster}: {} {}?{}", call.method, call.path, call.query);
            self.0.lock().push(seen);
        }
        RequestVerdict::Proceed
    }
}

fn rules() -> Vec<Rule> {
    let beta = ClusterRule {
        names: vec![NamePattern::new("beta")],
        ..ClusterRule::default()
    };
    let maps = |verbs: &[&str]| rule("", &["configmaps", "configmaps/*"], verbs, "default");
    vec![
        maps(&["*"]),
        Rule {
            clusters: Some(beta),
            ..maps(&["get"])
        },
    ]
}

/// Objects that no rule grants.
fn sentinels() -> [(&'static str, Value); 3] {
    let of = |kind: &str, namespace: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "sentinel", "namespace": namespace}});
    [
        ("alpha", of("Secret", "default")),
        ("alpha", of("ConfigMap", "kube-system")),
        ("beta", of("ConfigMap", "default")),
    ]
}

fn version(stage: &Stage, (cluster, object): &(&str, Value)) -> Result<Value> {
    let text = |at: &Value| at.as_str().unwrap_or_default().to_owned();
    let (kind, namespace) = (
        text(&object["kind"]),
        text(&object["metadata"]["namespace"]),
    );
    let found = stage
        .simulated(cluster)
        .get("v1", &kind, &namespace, "sentinel");
    let found = found.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(found.unwrap_or_default()["metadata"]["resourceVersion"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_guest_hands_to_the_host_is_answered_and_reaches_only_what_is_granted()
-> Result<()> {
    let mut length = Length::from_environment()?;
    let guard = Arc::new(Guard::default());
    let stage = Stage::hooked(&["alpha", "beta"], guard.clone()).await?;
    let sentinels = sentinels();
    for (cluster, object) in &sentinels {
        stage.apply(cluster, object.clone())?;
    }
    let versions = |stage: &Stage| {
        sentinels
            .iter()
            .map(|of| version(stage, of))
            .collect::<Result<Vec<_>>>()
    };
    let before = versions(&stage)?;
    let running = stage
        .guest("test-fuzz")
        .config(json!({"calls": CALLS}))
        .rules(rules())
        .limits(|limits| limits.timeout = Duration::from_secs(60))
        .run()
        .await?;
    while let Some(first) = length.next() {
        let seeds: Vec<u64> = (1..AT_ONCE)
            .filter_map(|_| length.next())
            .chain([first])
            .collect();
        for seed in &seeds {
            stage.apply("alpha", config_map(&format!("seed-{seed}"), json!({})))?;
        }
        for seed in seeds {
            let name = format!("seed-{seed}");
            let outcome = running.outcome("alpha", &name).await?;
            let checked = check(outcome, &guard, versions(&stage)? == before);
            length.at(seed, checked)?;
            drop(
                stage
                    .simulated("alpha")
                    .delete("v1", "ConfigMap", "default", &name),
            );
        }
    }
    println!("{} seeds, {CALLS} calls each", length.used());
    Ok(())
}

fn check(
    outcome: Result<Action, windlass_fleet::Failure>,
    guard: &Guard,
    untouched: bool,
) -> Result<()> {
    let beyond = guard.0.lock().clone();
    ensure!(beyond.is_empty(), "requests beyond the grant: {beyond:#?}");
    ensure!(untouched, "an object changed that is not granted");
    match outcome {
        Ok(Action::Done) => Ok(()),
        other => anyhow::bail!("the run ended with {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_guest_says_it_wants_is_taken_or_refused_in_words() -> Result<()> {
    let mut length = Length::from_environment()?;
    let stage = Stage::start(&["alpha"]).await?;
    let component = revision("test-fuzz").await?;
    let (mut taken, mut last) = (0, None);
    while let Some(seed) = length.next() {
        let builder = stage
            .guest("test-fuzz")
            .name("wants")
            .config(json!({"seed": seed}))
            .rules(rules());
        let running = match builder.load_as(component.clone()).await? {
            Ok(guest) => builder.running(guest, builder.options()?),
            Err(refused) => {
                length.at(seed, in_words(&refused))?;
                continue;
            }
        };
        // Taken as it is by all that watches and indexes for it, in place of the one before.
        length.at(seed, running.put(&stage))?;
        (taken, last) = (taken + 1, Some(running));
    }
    if let Some(running) = last {
        running.leave(&stage).await;
    }
    println!("{} descriptions, {taken} taken", length.used());
    Ok(())
}

fn in_words(refused: &LoadError) -> Result<()> {
    ensure!(!matches!(refused, LoadError::Host { .. }), "{refused}");
    let mut text = refused.to_string();
    let mut source = std::error::Error::source(refused);
    while let Some(cause) = source {
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    ensure!(
        !text.is_empty() && text.len() < 8192,
        "{} bytes",
        text.len()
    );
    Ok(())
}
