//! Two teams of a real cluster, each with a namespace and a Tenant, cannot reach what is the other's. Every escape that is tried is an
//! assertion.

use crate::hub::{Hub, SOON, hello, object, rules, tenant};
use crate::objects::ConfigMaps;
use anyhow::Result;
use serde_json::{Value as Json, json};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Output, Program};

/// What the guest `test-fleet` has reached: its answer is the message of its failure.
async fn reached(hub: &Hub, of: &Json, holds: impl Fn(&str) -> bool) -> Result<String> {
    eventually(SOON, "the answer of a guest", || async {
        let status = hub.status(of).await?;
        let message = status["lastFailure"]["message"]
            .as_str()
            .unwrap_or_default();
        Ok(Seen::of(message.to_owned(), |message| holds(message)))
    })
    .await
}

async fn stop(program: Program) -> Result<()> {
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn teams_reach_neither_clusters_nor_rights_nor_namespaces_of_each_other() -> Result<()> {
    let hub = Hub::start(&["alpha", "beta"], &["team-a", "team-b", "nobody"]).await?;
    hub.install().await?;
    let maps = |name: &'static str| {
        let server = hub.environment.server(name);
        async move { anyhow::Ok(ConfigMaps::of(server.client().await?)) }
    };
    let (alpha, beta) = (maps("alpha").await?, maps("beta").await?);
    let local = ConfigMaps::of(hub.client.clone());
    for map in [&alpha, &beta, &local] {
        map.ask("a", "world").await?;
    }
    hub.write_files("")?;
    let program = hub.run()?;
    hub.create(tenant("a", "team-a", json!({"names": ["alpha*"]})))
        .await?;
    hub.create(tenant(
        "b",
        "team-b",
        json!({"names": ["beta*"], "providers": ["fleet"]}),
    ))
    .await?;

    // Its name is in its own namespace, and it serves its team's clusters alone, whatever it asks for.
    let spec = json!({
        "guest": {"name": "hello"}, "rules": rules(), "config": {"greeting": "a"},
        "clusters": {"local": true, "provider": true, "names": ["*"]},
    });
    let of_a = object("Reconciler", "team-a/same", spec.clone());
    hub.create(of_a.clone()).await?;
    let mut spec_of_b = spec;
    spec_of_b["config"]["greeting"] = "b".into();
    let of_b = object("Reconciler", "team-b/same", spec_of_b);
    hub.create(of_b.clone()).await?;
    for (reconciler, team) in [(&of_a, "a"), (&of_b, "b")] {
        let status = hub.expect(reconciler, "Ready True Reconciling").await?;
        assert_eq!(status["tenant"], team, "{status}");
        assert_eq!(status["clusters"], 1, "{status}");
    }
    alpha
        .expect_value("a-greeting", "greeting", Some("a, world, from alpha"))
        .await?;
    beta.expect_value("a-greeting", "greeting", Some("b, world, from beta"))
        .await?;
    assert_eq!(
        local.greeting("a").await?,
        None,
        "the local cluster is nobody's"
    );

    // It names no tenant.
    let other = json!({"tenant": "b", "guest": {"name": "hello"}});
    let refused = hub
        .create(object("Reconciler", "team-a/other", other))
        .await;
    let refused = format!("{:#}", refused.expect_err("a tenant in the spec"));
    assert!(refused.contains("leave tenant out"), "{refused}");

    // Through `fleet` it sees and opens its team's clusters alone, though its rules name all.
    let everywhere = json!([{
        "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"],
    }, {
        "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"],
        "clusters": {"local": true, "names": ["*"]},
    }]);
    let wide = json!({
        "namespaces": {"names": ["team-a"]}, "rules": everywhere, "clusters": {"names": ["alpha*"]},
    });
    hub.change(&object("Tenant", "a", json!({})), wide).await?;
    let open = json!({"open": ["", "alpha", "beta"]});
    let spec = json!({"guest": {"name": "fleet"}, "rules": everywhere, "config": open});
    let spy = object("Reconciler", "team-a/spy", spec);
    hub.create(spy.clone()).await?;
    let answer = reached(&hub, &spy, |answer| answer.contains("opened")).await?;
    for part in [
        r#""clusters":[{"labels":[],"name":"alpha","ready":true}]"#,
        r#""opened":{"":{"code":"denied""#,
        r#""alpha":["alpha""#,
        r#""beta":{"code":"denied""#,
    ] {
        assert!(answer.contains(part), "{part} in {answer}");
    }

    // Rules beyond the Tenant's grant nothing: a watch without a right is refused.
    let secrets = json!({
        "namespaces": {"names": ["team-a"]},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "namespaces": ["x"]}],
    });
    hub.change(&object("Tenant", "a", json!({})), secrets)
        .await?;
    hub.expect(&of_a, "Ready False ServesEarlier").await?;
    alpha.ask("late", "world").await?;
    beta.ask("late", "world").await?;
    beta.expect_value("late-greeting", "greeting", Some("b, world, from beta"))
        .await?;
    assert_eq!(alpha.greeting("late").await?, None);

    // A namespace that no Tenant claims runs nothing. One that two claim stays with the Tenant that has it, also for the next process.
    let stray = hello("nobody/x");
    hub.create(stray.clone()).await?;
    let status = hub.expect(&stray, "Accepted False NoTenant").await?;
    assert_eq!(status["tenant"], Json::Null, "{status}");
    let thief = object(
        "Tenant",
        "thief",
        json!({"namespaces": {"selector": "team=team-b"}}),
    );
    hub.create(thief.clone()).await?;
    let status = hub.expect(&thief, "Ready False NamespaceTaken").await?;
    let says = status.to_string();
    assert!(
        says.contains("the Tenant b has the namespace team-b"),
        "{says}"
    );
    assert_eq!(status["namespaces"], 0, "{status}");
    for (tenant, reason) in [("thief", "ClaimRefused"), ("b", "ClaimContested")] {
        hub.expect_event("Tenant", tenant, reason).await?;
    }
    let b = object("Tenant", "b", json!({}));
    let status = hub.expect(&b, "Ready True InEffect").await?;
    assert!(
        status.to_string().contains("the Tenant thief claims"),
        "{status}"
    );
    beta.ask("later", "world").await?;
    beta.expect_value("later-greeting", "greeting", Some("b, world, from beta"))
        .await?;
    let status = hub.expect(&of_b, "Ready True Reconciling").await?;
    assert_eq!(status["tenant"], "b", "{status}");
    stop(program).await?;
    // Without its claim b's namespace is the other Tenant's, and stays so for a process that finds both claims.
    let program = hub.run()?;
    let of_none = json!({"namespaces": {"names": ["nobody"]}});
    hub.change(&b, of_none).await?;
    hub.expect(&thief, "Ready True InEffect").await?;
    let expect_thief = || async {
        eventually(SOON, "the Reconciler to be the newer Tenant's", || async {
            Ok(Seen::of(hub.status(&of_b).await?, |status| {
                status["tenant"] == "thief"
            }))
        })
        .await
    };
    expect_thief().await?;
    stop(program).await?;
    hub.change(&b, json!({"namespaces": {"names": ["team-b"]}}))
        .await?;
    let program = hub.run()?;
    hub.expect(&b, "Ready False NamespaceTaken").await?;
    expect_thief().await?;
    stop(program).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_tenant_without_rules_or_clusters_grants_nothing_in_a_cluster() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a"]).await?;
    hub.install().await?;
    hub.write_files("")?;
    let program = hub.run()?;
    let claims = json!({"namespaces": {"names": ["team-a"]}});
    let team = object("Tenant", "a", claims);
    hub.create(team.clone()).await?;
    let x = hello("team-a/x");
    hub.create(x.clone()).await?;
    let status = hub.expect(&x, "Loaded False Refused").await?;
    assert!(
        status
            .to_string()
            .contains("the tenant's rules do not allow"),
        "{status}"
    );
    // With rules, but without clusters, it serves nowhere.
    hub.change(&team, json!({"rules": rules()})).await?;
    let status = hub.expect(&x, "Ready True Reconciling").await?;
    assert_eq!(status["clusters"], 0, "{status}");
    hub.change(&team, json!({"clusters": {"names": ["alpha*"]}}))
        .await?;
    eventually(SOON, "a cluster", || async {
        Ok(Seen::of(hub.status(&x).await?, |status| {
            status["clusters"] == 1
        }))
    })
    .await?;
    stop(program).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn config_comes_from_secrets_of_the_own_namespace_and_is_shown_nowhere() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a", "team-b"]).await?;
    hub.install().await?;
    let alpha = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    alpha.ask("a", "world").await?;
    hub.write_files("")?;
    let program = hub.run()?;
    hub.create(tenant("a", "team-a", json!({"names": ["*"]})))
        .await?;
    let secret = |namespace: &str, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": "words"},
            "stringData": {"config": value},
        })
    };
    // Of another namespace's Secret of the name it gets nothing.
    hub.create(secret("team-b", "greeting: stolen")).await?;
    let mut x = hello("team-a/x");
    x["spec"]["configFrom"] = json!([{"secret": "words", "key": "config"}]);
    hub.create(x.clone()).await?;
    hub.expect(&x, "Accepted False ConfigUnavailable").await?;
    let foreign = json!([{"secret": "team-b/words", "key": "config"}]);
    let refused = hub.change(&x, json!({"configFrom": foreign})).await;
    assert!(refused.is_err(), "a Secret of another namespace");

    hub.create(secret("team-a", "greeting: hunter2")).await?;
    hub.expect(&x, "Ready True Reconciling").await?;
    alpha
        .expect_value("a-greeting", "greeting", Some("hunter2, world, from alpha"))
        .await?;
    // A change reloads, and one that cannot be used keeps the last value.
    let change = |value: &str| json!({"stringData": {"config": value}});
    hub.merge(&secret("team-a", ""), change("greeting: hunter3"))
        .await?;
    alpha
        .expect_value("a-greeting", "greeting", Some("hunter3, world, from alpha"))
        .await?;
    hub.merge(&secret("team-a", ""), change("hunter4")).await?;
    let status = hub.expect(&x, "Accepted False ConfigUnavailable").await?;
    hub.merge(&secret("team-a", ""), change("greeting: [hunter5]"))
        .await?;
    let refused = hub.expect(&x, "Loaded False ServesEarlier").await?;
    alpha.ask("b", "world").await?;
    alpha
        .expect_value("b-greeting", "greeting", Some("hunter3, world, from alpha"))
        .await?;
    for status in [status, refused] {
        assert!(!status.to_string().contains("hunter"), "{status}");
    }
    let log = program.written(Output::Stderr) + &program.written(Output::Stdout);
    assert!(!log.contains("hunter"), "{log}");
    stop(program).await
}
