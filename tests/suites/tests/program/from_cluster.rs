//! Reconcilers, Tenants and Providers as objects of a real cluster: their definitions, their life, and their rights.

use crate::examples::kubectl;
use crate::hub::{Hub, SOON, hello, object, tenant};
use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{Http, address_in};
use anyhow::{Context, Result};
use kube_client::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::Spec;

/// Objects that servers and the program refuse, and objects that they take.
const REFUSED: &str = include_str!("../../../../runtime/windlass/src/config/crd/refused.json");
const TAKEN: &str = include_str!("../../../../runtime/windlass/src/config/crd/taken.json");

#[tokio::test]
#[ignore = "needs real servers"]
async fn servers_refuse_what_the_program_refuses_and_take_what_it_takes() -> Result<()> {
    let hub = Hub::start(&[], &["team-a"]).await?;
    hub.install().await?;
    let cases = |text: &str| serde_json::from_str::<Vec<Json>>(text);
    let of = |case: &Json| {
        let kind = case["kind"].as_str().unwrap_or_default();
        let name = match kind {
            "Reconciler" => "team-a/x",
            _ => "x",
        };
        object(kind, name, case["spec"].clone())
    };
    let mut wrong = Vec::new();
    for case in cases(REFUSED)? {
        let says = case["says"].as_str().context("says")?;
        match hub.create(of(&case)).await {
            Ok(()) => {
                hub.delete(&of(&case)).await?;
                wrong.push(format!("taken: {case}"));
            }
            Err(error) => {
                let error = format!("{error:#}");
                if !error.contains(says) {
                    wrong.push(format!("{error}: {case}"));
                }
            }
        }
    }
    for case in cases(TAKEN)? {
        match hub.create(of(&case)).await {
            Ok(()) => hub.delete(&of(&case)).await?,
            Err(error) => wrong.push(format!("refused: {error:#}: {case}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Names are bounded as those of documents are.
    let long = "a".repeat(51);
    let refused = hub.create(object("Tenant", &long, json!({}))).await;
    let refused = format!("{:#}", refused.expect_err("a name of 51 bytes"));
    assert!(refused.contains("at most 50 bytes"), "{refused}");
    Ok(())
}

/// Waits for an Event of this reason about an object of the team, with the object's uid, by which kubectl describe finds it.
async fn expect_event(hub: &Hub, reason: &str, name: &str) -> Result<()> {
    let events = hub.api(&json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "any", "namespace": "team-a"},
    }))?;
    eventually(SOON, &format!("an Event {reason} about {name}"), || async {
        let all = events.0.list(&Default::default()).await?;
        let of = |event: &DynamicObject| {
            let about = &event.data["involvedObject"];
            event.data["reason"] == reason
                && about["name"] == name
                && about["uid"].as_str().is_some_and(|uid| uid.len() > 9)
        };
        Ok(Seen::of(all.items, |all| all.iter().any(of)))
    })
    .await
    .map(drop)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_reconciler_of_a_cluster_runs_changes_breaks_heals_and_goes() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a"]).await?;
    let alpha = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    alpha.ask("first", "world").await?;
    hub.write_files("")?;
    let mut program = hub.run()?;
    let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
    let http = Http { address };
    let ready = async || {
        eventually(SOON, "readiness", || async {
            let answer = http.get("/readyz").await?;
            Ok(Seen::of(answer, |(status, _)| *status == 200))
        })
        .await
    };
    // Without the kinds it says what to do, and goes on. Nor does it need a Reconciler to be ready.
    program
        .line_with("windlass crds | kubectl apply -f -", SOON)
        .await?;
    ready().await?;
    hub.install().await?;
    let team = tenant("a", "team-a", json!({"names": ["alpha*"]}));
    hub.create(team.clone()).await?;
    // A team's mistake does not take the process out of service.
    let mut broken = hello("team-a/broken");
    broken["spec"]["config"] = json!({"greeting": ["x"]});
    hub.create(broken.clone()).await?;
    let status = hub.expect(&broken, "Loaded False Refused").await?;
    assert_ne!(status["lastHeartbeatTime"], Json::Null, "{status}");
    expect_event(&hub, "Refused", "broken").await?;
    ready().await?;
    hub.delete(&broken).await?;
    // Nor does an object whose guest nobody has.
    let mut unknown = hello("team-a/unknown");
    unknown["spec"]["guest"] = json!({"name": "nothing"});
    hub.create(unknown.clone()).await?;
    hub.expect(&unknown, "Accepted False UnknownGuest").await?;
    expect_event(&hub, "Refused", "unknown").await?;
    hub.delete(&unknown).await?;
    let x = hello("team-a/x");
    hub.create(x.clone()).await?;
    let status = hub.expect(&x, "Ready True Reconciling").await?;
    assert_eq!(status["tenant"], "a", "{status}");
    assert_eq!(status["observedGeneration"], 1, "{status}");
    let revision = status["revision"].as_str().unwrap_or_default().to_owned();
    assert_eq!(revision.len(), 64, "{status}");
    alpha
        .expect_value(
            "first-greeting",
            "greeting",
            Some("hello, world, from alpha"),
        )
        .await?;
    hub.expect(&team, "Ready True InEffect").await?;

    // Its objects change and go, and so does what it made of them.
    alpha.ask("fresh", "moon").await?;
    let greeting = |who| format!("hello, {who}, from alpha");
    alpha
        .expect_greeting("fresh", Some(&greeting("moon")))
        .await?;
    alpha.ask_again("fresh", "mars").await?;
    alpha
        .expect_greeting("fresh", Some(&greeting("mars")))
        .await?;
    alpha.delete("fresh-greeting").await?;
    alpha
        .expect_greeting("fresh", Some(&greeting("mars")))
        .await?;
    alpha.delete("fresh").await?;
    alpha.expect_greeting("fresh", None).await?;

    // Changed.
    hub.change(&x, json!({"config": {"greeting": "ahoy"}}))
        .await?;
    alpha
        .expect_value(
            "first-greeting",
            "greeting",
            Some("ahoy, world, from alpha"),
        )
        .await?;
    // Broken: the last good version serves.
    hub.change(&x, json!({"guest": {"name": "nothing"}}))
        .await?;
    let status = hub.expect(&x, "Accepted False UnknownGuest").await?;
    assert_eq!(status["revision"], revision.as_str(), "{status}");
    assert_eq!(status["observedGeneration"], 3, "{status}");
    alpha.ask("second", "world").await?;
    alpha
        .expect_value(
            "second-greeting",
            "greeting",
            Some("ahoy, world, from alpha"),
        )
        .await?;
    // A config that the guest does not take is refused in the same way.
    let broken = json!({"guest": {"name": "hello"}, "config": {"greeting": ["x"]}});
    hub.change(&x, broken).await?;
    hub.expect(&x, "Loaded False ServesEarlier").await?;
    alpha.ask("third", "world").await?;
    alpha
        .expect_value(
            "third-greeting",
            "greeting",
            Some("ahoy, world, from alpha"),
        )
        .await?;
    expect_event(&hub, "ReloadRefused", "x").await?;
    // Healed.
    hub.change(&x, json!({"config": {"greeting": "hi"}}))
        .await?;
    hub.expect(&x, "Ready True Reconciling").await?;
    alpha
        .expect_value("third-greeting", "greeting", Some("hi, world, from alpha"))
        .await?;
    // What somebody writes into the status is corrected.
    let (api, name) = hub.api(&x)?;
    let lie = Patch::Merge(json!({"status": {"tenant": "b"}}));
    api.patch_status(&name, &PatchParams::default(), &lie)
        .await?;
    eventually(SOON, "the tenant in the status", || async {
        Ok(Seen::of(hub.status(&x).await?, |status| {
            status["tenant"] == "a"
        }))
    })
    .await?;
    // Gone.
    hub.delete(&x).await?;
    program.line_with("reconciler removed", SOON).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_provider_of_a_cluster_is_engaged_and_a_file_of_its_name_counts() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a", "fleet"]).await?;
    hub.install().await?;
    // Both Providers have alpha.
    hub.write_manager(
        "  duplicateClusters: true\n",
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: filed}\nspec: {}\n",
    )?;
    let program = hub.run()?;
    let one = json!({"kubeconfigSecret": {"namespace": "fleet", "name": "beta"}, "allowServers": ["127.0.0.0/8"]});
    let beta = object("Provider", "beta", one);
    hub.create(beta.clone()).await?;
    let status = hub.expect(&beta, "Ready False HasProblems").await?;
    assert!(status.to_string().contains("Secret fleet/beta"), "{status}");
    let kubeconfig = hub.environment.server("alpha").kubeconfig();
    hub.create(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "fleet", "name": "beta"},
        "stringData": {"kubeconfig": kubeconfig},
    }))
    .await?;
    let engaged = eventually(SOON, "the cluster to be engaged", || async {
        Ok(Seen::of(hub.status(&beta).await?, |status| {
            status["engaged"] == 1
        }))
    });
    let status = engaged.await?;
    assert_eq!(
        (&status["found"], &status["refused"]),
        (&json!(1), &json!(0)),
        "{status}"
    );
    hub.expect(&beta, "Ready True Listed").await?;

    let filed = object(
        "Tenant",
        "filed",
        json!({"namespaces": {"names": ["team-a"]}}),
    );
    hub.create(filed.clone()).await?;
    hub.expect(&filed, "Accepted False DefinedInFile").await?;
    let same = object("Provider", "fleet", json!({"none": {}}));
    hub.create(same.clone()).await?;
    let status = hub.expect(&same, "Accepted False DefinedInFile").await?;
    assert_eq!(status["found"], 0, "{status}");
    // The object claims nothing.
    let x = hello("team-a/x");
    hub.create(x.clone()).await?;
    hub.expect(&x, "Accepted False NoTenant").await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// How many writes of a Reconciler's status the server has answered.
async fn status_writes(hub: &Hub) -> Result<u64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let metrics = hub.client.request_text(request).await?;
    let of_status = |line: &&str| {
        let labels = ["resource=\"reconcilers\"", "subresource=\"status\""];
        line.starts_with("apiserver_request_total{")
            && labels.iter().all(|label| line.contains(label))
            && (line.contains("verb=\"APPLY\"") || line.contains("verb=\"PATCH\""))
    };
    let counts = metrics.lines().filter(of_status);
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    Ok(counts.sum())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_process_that_leads_writes_the_status_and_the_next_leader_goes_on() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a"]).await?;
    hub.install().await?;
    let election = "  leaderElection: {enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";
    hub.write_manager(election, "")?;
    let mut first = hub.run()?;
    first.line_with("\"leading\"", SOON).await?;
    let mut second = hub.run()?;
    second
        .line_with("the lease has another holder", SOON)
        .await?;
    hub.create(tenant("a", "team-a", json!({"names": ["*"]})))
        .await?;
    let x = hello("team-a/x");
    hub.create(x.clone()).await?;
    hub.expect(&x, "Ready True Reconciling").await?;
    // The other one has loaded its guest by then.
    second.line_with("reconciler changed", SOON).await?;
    // However often an object changes, its status is written once a second, by one of them.
    let (before, began) = (status_writes(&hub).await?, Instant::now());
    for change in 0..20 {
        let greeting = format!("hello {change}");
        hub.change(&x, json!({"config": {"greeting": greeting}}))
            .await?;
        // Not a wait: changes come at this pace.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let status = hub.expect(&x, "Ready True Reconciling").await?;
    let most = began.elapsed().as_secs() + 2;
    let writes = status_writes(&hub).await? - before;
    assert!(
        (1..=most).contains(&writes),
        "{writes} writes, at most {most}: {status}"
    );
    first.signal("TERM")?;
    first.wait(SOON).await?.expect_code(0)?;
    second.line_with("\"leading\"", SOON).await?;
    hub.change(&x, json!({"config": {"greeting": "ahoy"}}))
        .await?;
    eventually(SOON, "the status of the next version", || async {
        let status = hub.status(&x).await?;
        Ok(Seen::of(status, |status| {
            status["observedGeneration"] == 22
        }))
    })
    .await?;
    hub.expect(&x, "Ready True Reconciling").await?;
    second.signal("TERM")?;
    second.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_printed_roles_are_enough_for_the_process_and_for_a_team() -> Result<()> {
    let hub = Hub::of(
        [
            Spec::new("hub")
                .with_role_aggregation()
                .with_user("windlass")
                .with_user("dev"),
            Spec::new("alpha").with_controllers(),
        ],
        &["team-a", "team-b"],
    )
    .await?;
    hub.install().await?;
    let server = hub.environment.server("hub");
    let args = ["rbac", "--from-cluster", "--bind", "user:windlass"];
    let roles = Program::run(hub.project.path(), args, SOON).await?;
    let roles = roles.expect_code(0)?.stdout;
    kubectl(&hub.environment, server, &["apply", "-f", "-"], &roles).await?;
    for binding in [
        "create rolebinding values -n team-a --clusterrole=windlass-from-cluster-config --user=windlass",
        // Aggregation makes Reconcilers a part of the role.
        "create rolebinding dev -n team-a --clusterrole=edit --user=dev",
    ] {
        let args: Vec<&str> = binding.split(' ').collect();
        kubectl(&hub.environment, server, &args, "").await?;
    }
    hub.write_files("")?;
    hub.project
        .write("hub.kubeconfig", server.kubeconfig_of("windlass"))?;
    let program = hub.run()?;
    hub.create(tenant("a", "team-a", json!({"names": ["*"]})))
        .await?;
    hub.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "words"},
        "data": {"c": "{\"greeting\": \"ahoy\"}"},
    }))
    .await?;

    // The team writes Reconcilers into its namespace, and nothing else of the kinds.
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig_of("dev"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let team = Client::try_from(config)?;
    let dev = |object: &Json| Hub::api_with(&team, object);
    let mut x = hello("team-a/x");
    x["spec"]["configFrom"] = json!([{"configMap": "words", "key": "c"}]);
    eventually(SOON, "the aggregated role", || async {
        let ((api, _), object) = (dev(&x)?, serde_json::from_value(x.clone())?);
        let created = api.create(&PostParams::default(), &object).await;
        Ok(match created {
            Ok(_) => Seen::Yes(()),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await?;
    hub.expect(&x, "Ready True Reconciling").await?;
    for refused in [
        hello("team-b/x"),
        object(
            "Tenant",
            "own",
            json!({"namespaces": {"names": ["team-a"]}}),
        ),
        object("Provider", "own", json!({"none": {}})),
    ] {
        let object = serde_json::from_value(refused.clone())?;
        let created = dev(&refused)?
            .0
            .create(&PostParams::default(), &object)
            .await;
        let error = created
            .err()
            .context("a team's object beyond its namespace")?;
        assert!(error.to_string().contains("forbidden"), "{error}");
    }
    let (api, name) = dev(&x)?;
    let lie = Patch::Merge(json!({"status": {"tenant": "b"}}));
    let error = api
        .patch_status(&name, &PatchParams::default(), &lie)
        .await
        .err();
    let error = error.context("a status that a team writes")?;
    assert!(error.to_string().contains("forbidden"), "{error}");
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn until_providers_are_read_no_reconciler_works_in_the_local_cluster() -> Result<()> {
    let project = Project::new()?;
    let server = Server::builder().cluster("hub").bind("127.0.0.1:0").await?;
    project.write("hub.kubeconfig", server.kubeconfig())?;
    let local = ConfigMaps::in_context(&project.path().join("hub.kubeconfig"), "hub").await?;
    local.ask("a", "world").await?;
    let manager = "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: manager}\nspec: {local: {kubeconfig: ./hub.kubeconfig}}\n";
    let tenant = "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-a}\n";
    let documents = format!("{manager}{tenant}{}", reconciler("hello", &guest("hello")));
    project.write("windlass.yaml", documents)?;
    let args = [
        "run",
        "--from-cluster",
        "-f",
        "windlass.yaml",
        "--admin",
        "127.0.0.1:0",
    ];
    let mut program = Program::start(project.path(), args)?;
    let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
    program
        .line_with("windlass crds | kubectl apply -f -", SOON)
        .await?;
    let asked = Program::run(
        project.path(),
        ["get", "reconcilers", "--admin", &address, "-o", "json"],
        SOON,
    );
    let told: Json = serde_json::from_str(&asked.await?.expect_code(0)?.stdout)?;
    let told = &told["items"][0];
    assert_eq!(
        (&told["serves"], &told["clusters"]),
        (&json!(true), &json!(0)),
        "{told}"
    );
    assert_eq!(local.greeting("a").await?, None);
    // Without --from-cluster the local cluster is the one to work in.
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let program = Program::start(project.path(), args)?;
    local.expect_greeted("a").await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
