//! Objects and reconcilers that are paused by commands, also while the process that leads dies.

use crate::examples::kubectl;
use crate::hub::{Hub, SOON, hello, tenant};
use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{Http, address_in, ask, client_of, fleet, key, start, table};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

/// What a command says when it is refused.
async fn refused(project: &Project, address: &str, args: &[&str], code: i32) -> Result<String> {
    let args = args.iter().copied().chain(["--admin", address]);
    let finished = Program::run(project.path(), args, SOON).await?;
    Ok(finished.expect_code(code)?.stderr)
}

/// Waits until a key is paused, and returns it.
async fn paused(project: &Project, address: &str, key: &str) -> Result<Json> {
    eventually(SOON, &format!("{key} to be paused"), || async {
        let answer = ask(project, address, &["get", "keys", "--state", "paused"]).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let found = items.into_iter().find(|item| item["key"] == key);
        Ok(match found {
            Some(found) => Seen::Yes(found),
            None => Seen::NotYet(answer.to_string()),
        })
    })
    .await
}

#[tokio::test]
async fn an_object_is_paused_and_resumed_by_commands_and_mistakes_are_explained() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let maps = client_of(&project, "alpha").await?;
    let (_program, address) = start(&project).await?;
    for name in ["a", "b"] {
        maps.ask(name, "world").await?;
        maps.expect_greeted(name).await?;
    }
    let a = key("alpha", "a")?;
    let pause = ["pause", &a, "--for", "1h", "--reason", "a freeze"];
    let reply = ask(&project, &address, &pause).await?;
    let until = reply["until"].as_str().unwrap_or_default().to_owned();
    assert_eq!(reply["subject"], format!("v1/ConfigMap {a}"));
    assert_eq!(reply["state"], format!("is paused until {until}: a freeze"));
    let shown = paused(&project, &address, &a).await?;
    let why = format!("it is paused until {until}: a freeze");
    assert_eq!(
        (&shown["paused"], &shown["attempts"]),
        (&json!(why), &json!(0))
    );
    assert!(
        shown["runsInSeconds"]
            .as_f64()
            .is_some_and(|left| left > 3000.0)
    );
    let rows = table(&project, &address, &["get", "keys", "--state", "paused"]).await?;
    assert_eq!((&*rows[0]["STATE"], &*rows[0]["ERROR"]), ("paused", &*why));
    let http = Http {
        address: address.clone(),
    };
    let (_, metrics) = http.get("/metrics").await?;
    let mut lines = metrics.lines();
    let is_one = |line: &&str| line.starts_with("windlass_queue_paused{") && line.ends_with(" 1.0");
    assert!(lines.any(|line| is_one(&line)), "{metrics}");
    // Nothing that happens to it is reconciled, and neighbours are.
    maps.ask_again("a", "mars").await?;
    maps.ask_again("b", "mars").await?;
    let greeting = |who: &str| format!("hello, {who}, from alpha");
    maps.expect_greeting("b", Some(&greeting("mars"))).await?;
    assert_eq!(maps.greeting("a").await?, Some(greeting("world")));
    let reply = ask(&project, &address, &["resume", &a]).await?;
    assert_eq!(
        (&reply["state"], &reply["until"]),
        (&json!("is resumed"), &json!(""))
    );
    maps.expect_greeting("a", Some(&greeting("mars"))).await?;

    for (args, code, says) in [
        (
            &["pause", &*a, "--for", "soon"][..],
            2,
            "\"soon\" is not a duration",
        ),
        (&["pause"], 2, "required"),
        (&["pause", "a"], 1, "cluster://"),
        (
            &["pause", &key("alpha", "nobody")?],
            1,
            "there is no such v1/ConfigMap",
        ),
        (
            &["pause", &key("beta", "a")?],
            1,
            "works in cluster \"beta\"",
        ),
        (
            &["resume", &a, "--reconciler", "other"],
            1,
            "works in cluster \"alpha\"",
        ),
    ] {
        let error = refused(&project, &address, args, code).await?;
        assert!(error.contains(says), "{args:?}: {error}");
    }
    Ok(())
}

/// A process that reads its objects from the hub.
struct Member {
    program: Program,
    address: String,
}

impl Member {
    async fn start(hub: &Hub) -> Result<Self> {
        let mut program = hub.run()?;
        let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
        Ok(Self { program, address })
    }

    async fn leads(&mut self) -> Result<()> {
        self.program.line_with("\"leading\"", SOON).await.map(drop)
    }
}

/// The Events about an object of a member's namespace `default`, by their reasons.
async fn reasons(hub: &Hub, name: &str) -> Result<Vec<String>> {
    let client = hub.environment.server("alpha").client().await?;
    let any = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "default", "name": "any"},
    });
    let (events, _) = Hub::api_with(&client, &any)?;
    let all = events.list(&Default::default()).await?.items.into_iter();
    let of = all.filter(|event| event.data["involvedObject"]["name"] == name);
    let reasons = of.map(|event| event.data["reason"].as_str().unwrap_or_default().to_owned());
    let mut reasons: Vec<String> = reasons.collect();
    reasons.sort();
    Ok(reasons)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_pause_outlives_the_process_that_leads() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a"]).await?;
    hub.install().await?;
    let election = "  leaderElection: {enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";
    hub.write_manager(election, "")?;
    hub.create(tenant("a", "team-a", json!({"names": ["alpha*"]})))
        .await?;
    hub.create(hello("team-a/x")).await?;
    let mut first = Member::start(&hub).await?;
    first.leads().await?;
    let mut second = Member::start(&hub).await?;
    let alpha = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    let greeting = |who: &str| format!("hello, {who}, from alpha");
    for name in ["a", "b"] {
        alpha.ask(name, "world").await?;
        alpha.expect_greeted(name).await?;
    }

    // An object.
    let a = key("alpha", "a")?;
    let pause = ["pause", &a, "--for", "1h", "--reason", "a freeze"];
    ask(&hub.project, &first.address, &pause).await?;
    paused(&hub.project, &first.address, &a).await?;
    let error = refused(&hub.project, &second.address, &pause, 1).await?;
    assert!(error.contains("another process leads"), "{error}");
    alpha.ask_again("a", "mars").await?;
    first.program.signal("KILL")?;
    second.leads().await?;
    alpha.ask_again("b", "venus").await?;
    alpha.expect_greeting("b", Some(&greeting("venus"))).await?;
    let shown = paused(&hub.project, &second.address, &a).await?;
    assert!(
        shown["paused"]
            .as_str()
            .is_some_and(|why| why.ends_with(": a freeze")),
        "{shown}"
    );
    assert_eq!(alpha.greeting("a").await?, Some(greeting("world")));
    assert_eq!(reasons(&hub, "a").await?, ["Paused"]);
    // kubectl resumes it as well.
    let annotate = ["annotate", "configmap", "a", "windlass.dev/paused-until-"];
    let server = hub.environment.server("alpha");
    kubectl(&hub.environment, server, &annotate, "").await?;
    alpha.expect_greeting("a", Some(&greeting("mars"))).await?;
    eventually(SOON, "an Event of the end", || async {
        Ok(Seen::of(reasons(&hub, "a").await?, |reasons| {
            *reasons == ["Paused", "Resumed"]
        }))
    })
    .await
    .context("Events")?;
    Ok(())
}
