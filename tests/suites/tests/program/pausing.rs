//! Objects and reconcilers that are paused by commands, also while the process that leads dies.

use crate::hub::{Hub, SOON, hello, object, tenant};
use crate::memory_hub::{MemoryHub, Running, of_platform};
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
        (&["pause", &a, "--tenant", "x"], 2, "cannot be used with"),
        (
            &["pause", "--reconciler", "nobody"],
            1,
            "there is no Reconciler nobody",
        ),
        (
            &["pause", "--reconciler", "hello"],
            1,
            "write the annotation windlass.dev/paused-until there",
        ),
        (
            &["pause", "--tenant", "nobody"],
            1,
            "there is no Tenant nobody",
        ),
        (
            &["pause", "--cluster", "beta"],
            1,
            "there is no cluster \"beta\"",
        ),
        (
            &["pause", "--cluster", "alpha"],
            1,
            "write the annotation windlass.dev/paused-clusters there",
        ),
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

#[tokio::test]
async fn a_document_of_a_file_is_paused_by_its_own_annotation() -> Result<()> {
    let project = Project::new()?;
    let document = reconciler("hello", &guest("hello"));
    project.write_config(std::slice::from_ref(&document))?;
    let _server = fleet(&project, &["alpha"]).await?;
    let maps = client_of(&project, "alpha").await?;
    let (_program, address) = start(&project).await?;
    maps.ask("a", "world").await?;
    maps.expect_greeted("a").await?;
    let annotation = "metadata: {name: hello, annotations: {windlass.dev/paused-until: resumed, windlass.dev/pause-reason: a freeze}}";
    let paused_document = document.replace("metadata: {name: hello}", annotation);
    assert_ne!(paused_document, document);
    project.write_config(&[paused_document])?;
    let why = "paused until resumed: a freeze";
    let seen = async |what: &str, expected: &str| {
        eventually(SOON, what, || async {
            let answer = ask(&project, &address, &["get", "reconcilers"]).await?;
            Ok(Seen::of(answer["items"][0].clone(), |view| {
                view["paused"] == expected
            }))
        })
        .await
    };
    let before = seen("the pause", why).await?;
    let rows = table(&project, &address, &["get", "reconcilers"]).await?;
    assert_eq!((&*rows[0]["STATE"], &*rows[0]["PROBLEM"]), ("Paused", why));
    maps.ask("b", "world").await?;
    let b = key("alpha", "b")?;
    let shown = paused(&project, &address, &b).await?;
    assert_eq!(shown["paused"], format!("its reconciler is {why}"));
    project.write_config(&[document])?;
    maps.expect_greeted("b").await?;
    let after = seen("the end of the pause", "").await?;
    // Nothing was loaded again.
    assert_eq!(after["reload"], before["reload"]);
    Ok(())
}

/// A hub whose Reconciler `team-a/x` greets in the cluster `alpha`, and processes that stand for election.
enum Stage {
    Memory(Box<MemoryHub>),
    Real(Box<Hub>),
}

const ELECTION: &str = "  leaderElection: {enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";

impl Stage {
    async fn memory() -> Result<Self> {
        let hub = MemoryHub::start().await?;
        std::fs::copy(guest("hello"), hub.project.path().join("guest.wasm"))?;
        hub.write_manager("windlass.yaml", ELECTION)?;
        hub.put(of_platform("x", Json::Null))?;
        Ok(Self::Memory(Box::new(hub)))
    }

    async fn real() -> Result<Self> {
        let hub = Hub::start(&["alpha"], &["team-a"]).await?;
        hub.install().await?;
        hub.write_manager(ELECTION, "")?;
        hub.create(tenant("a", "team-a", json!({"names": ["alpha*"]})))
            .await?;
        hub.create(hello("team-a/x")).await?;
        Ok(Self::Real(Box::new(hub)))
    }

    fn project(&self) -> &Project {
        match self {
            Self::Memory(hub) => &hub.project,
            Self::Real(hub) => &hub.project,
        }
    }

    async fn alpha(&self) -> Result<ConfigMaps> {
        match self {
            Self::Memory(hub) => Ok(hub.alpha.clone()),
            Self::Real(hub) => {
                let client = hub.environment.server("alpha").client().await?;
                Ok(ConfigMaps::of(client))
            }
        }
    }

    async fn start(&self) -> Result<Running> {
        match self {
            Self::Memory(hub) => hub.run("windlass.yaml", "cache").await,
            Self::Real(hub) => {
                let mut program = hub.run()?;
                let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
                Ok(Running { program, address })
            }
        }
    }
}

async fn leads(process: &mut Running) -> Result<()> {
    let line = process.program.line_with("\"leading\"", SOON);
    line.await.map(drop)
}

/// Waits until this is what a list of a process says of the pause of one of its items.
async fn shown(project: &Project, of: &Running, what: &str, name: &str, pause: &str) -> Result<()> {
    eventually(SOON, &format!("the pause of {name}"), || async {
        let answer = ask(project, &of.address, &["get", what]).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let item = items.into_iter().find(|item| item["name"] == name);
        Ok(Seen::of(item, |item| {
            item.as_ref().is_some_and(|item| item["paused"] == pause)
        }))
    })
    .await
    .map(drop)
}

/// An object, a reconciler and a tenant are paused; the process that leads is killed each time, and the next one keeps to the pause.
async fn pauses_outlive_the_process_that_leads(stage: &Stage) -> Result<()> {
    let project = stage.project();
    let alpha = stage.alpha().await?;
    let mut first = stage.start().await?;
    leads(&mut first).await?;
    let mut second = stage.start().await?;
    let greeting = |who: &str| format!("hello, {who}, from alpha");
    for name in ["a", "b"] {
        alpha.ask(name, "world").await?;
        alpha.expect_greeted(name).await?;
    }

    let a = key("alpha", "a")?;
    let pause = ["pause", &a, "--for", "1h", "--reason", "a freeze"];
    // The process that waits may still have to load the guest.
    eventually(SOON, "the refusal of the other process", || async {
        let error = refused(project, &second.address, &pause, 1).await?;
        Ok(Seen::of(error, |error| {
            error.contains("another process leads")
        }))
    })
    .await?;
    ask(project, &first.address, &pause).await?;
    paused(project, &first.address, &a).await?;
    alpha.ask_again("a", "mars").await?;
    first.program.signal("KILL")?;
    leads(&mut second).await?;
    alpha.ask_again("b", "venus").await?;
    alpha.expect_greeting("b", Some(&greeting("venus"))).await?;
    let held = paused(project, &second.address, &a).await?;
    let why = held["paused"].as_str().unwrap_or_default();
    assert!(why.ends_with(": a freeze"), "{held}");
    assert_eq!(alpha.greeting("a").await?, Some(greeting("world")));
    alpha.expect_pauses("a", &["Paused"]).await?;
    // kubectl takes the annotation away as well.
    alpha
        .annotate("a", "windlass.dev/paused-until", None)
        .await?;
    alpha.expect_greeting("a", Some(&greeting("mars"))).await?;
    alpha.expect_pauses("a", &["Paused", "Resumed"]).await?;

    let mut leader = second;
    for (flag, target, what, name) in [
        ("--reconciler", "team-a/x", "reconcilers", "c"),
        ("--tenant", "a", "tenants", "d"),
    ] {
        let of = flag.trim_start_matches('-');
        ask(
            project,
            &leader.address,
            &["pause", flag, target, "--reason", "bad"],
        )
        .await?;
        let why = "paused until resumed: bad";
        shown(project, &leader, what, target, why).await?;
        alpha.ask(name, "world").await?;
        let key = key("alpha", name)?;
        let why = format!("its {of} is {why}");
        assert_eq!(paused(project, &leader.address, &key).await?["paused"], why);
        let mut next = stage.start().await?;
        leader.program.signal("KILL")?;
        leads(&mut next).await?;
        assert_eq!(paused(project, &next.address, &key).await?["paused"], why);
        assert_eq!(alpha.greeting(name).await?, None);
        ask(project, &next.address, &["resume", flag, target]).await?;
        alpha.expect_greeted(name).await?;
        shown(project, &next, what, target, "").await?;
        leader = next;
    }
    Ok(())
}

#[tokio::test]
async fn a_pause_outlives_the_process_that_leads() -> Result<()> {
    pauses_outlive_the_process_that_leads(&Stage::memory().await?).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_pause_on_a_real_server_outlives_the_process_that_leads() -> Result<()> {
    pauses_outlive_the_process_that_leads(&Stage::real().await?).await
}

#[tokio::test]
async fn a_cluster_is_paused_on_the_object_of_its_provider() -> Result<()> {
    let hub = MemoryHub::start().await?;
    let folder = hub.project.path();
    std::fs::copy(guest("hello"), folder.join("guest.wasm"))?;
    hub.write_manager("windlass.yaml", "")?;
    let text = std::fs::read_to_string(folder.join("windlass.yaml"))?;
    let (manager, _) = text.split_once("---").context("two documents")?;
    hub.project.write("windlass.yaml", manager)?;
    let kubeconfig = std::fs::read_to_string(folder.join("hub.kubeconfig"))?;
    hub.put(json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": kubeconfig},
        "metadata": {"namespace": "team-a", "name": "prod",
            "labels": {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}},
    }))?;
    let spec = json!({
        "kubeconfigSecrets": {"namespaces": ["team-a"], "context": "alpha"},
        "allowServers": ["127.0.0.0/8"],
    });
    hub.put(object("Provider", "secrets", spec))?;
    hub.put(of_platform("x", Json::Null))?;
    let of = hub.run("windlass.yaml", "cache").await?;
    hub.alpha.ask("a", "world").await?;
    hub.alpha.expect_greeted("a").await?;

    let pause = [
        "pause",
        "--cluster",
        "prod",
        "--for",
        "1h",
        "--reason",
        "a restore",
    ];
    let reply = ask(&hub.project, &of.address, &pause).await?;
    let until = reply["until"].as_str().unwrap_or_default().to_owned();
    let why = format!("paused until {until}: a restore");
    shown(&hub.project, &of, "clusters", "prod", &why).await?;
    hub.alpha.ask("b", "world").await?;
    let b = key("prod", "b")?;
    let held = paused(&hub.project, &of.address, &b).await?;
    assert_eq!(held["paused"], format!("its cluster is {why}"));
    let provider = || {
        let found = hub
            .hub
            .get("windlass.dev/v1alpha1", "Provider", "", "secrets");
        let found = found.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let found = found.context("the Provider")?;
        anyhow::Ok(found["metadata"]["annotations"]["windlass.dev/paused-clusters"].clone())
    };
    let written = provider()?;
    let written: Json = serde_json::from_str(written.as_str().unwrap_or_default())?;
    assert_eq!(
        written,
        json!({"prod": {"until": until, "reason": "a restore"}})
    );
    assert_eq!(hub.alpha.greeting("b").await?, None);
    ask(&hub.project, &of.address, &["resume", "--cluster", "prod"]).await?;
    hub.alpha.expect_greeted("b").await?;
    shown(&hub.project, &of, "clusters", "prod", "").await?;
    assert_eq!(provider()?, Json::Null);
    Ok(())
}
