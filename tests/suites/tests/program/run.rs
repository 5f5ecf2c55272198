//! `windlass run` against in-memory clusters, and the commands that ask it.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, ask, client_of, fleet, fleet_with, key, printed, start};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{Faults, RequestFault, Rule};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

#[tokio::test]
async fn good_reconcilers_start_and_the_bad_one_is_reported() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[
        reconciler("bad", "./nope.wasm".as_ref()),
        reconciler("wrong", "./x.wasm".as_ref()).replace("tenant:", "tenat:"),
        reconciler("hello", &guest("hello")),
    ])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (mut program, address) = start(&project).await?;
    program.line_with("nope.wasm: no such file", SOON).await?;
    program
        .line_with("did you mean \\\"tenant\\\"?", SOON)
        .await?;

    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    eventually(SOON, "the greeting", || async {
        Ok(Seen::of(alpha.greeting("a").await?, |seen| {
            seen.as_ref()
                .is_some_and(|text| text.starts_with("hello, world, from "))
        }))
    })
    .await?;

    let reconcilers = ask(&project, &address, &["get", "reconcilers"]).await?;
    let bad = reconcilers["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["name"] == "bad")
        .context("the bad one is listed")?;
    assert!(
        bad["problem"].as_str().unwrap().contains("nope.wasm"),
        "{reconcilers}"
    );
    assert_eq!(bad["serves"], false);
    Ok(())
}

#[tokio::test]
async fn a_running_manager_answers_and_drains() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha", "beta"]).await?;
    let (program, address) = start(&project).await?;
    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    eventually(SOON, "the greeting", || async {
        Ok(Seen::of(alpha.greeting("a").await?, Option::is_some))
    })
    .await?;

    let clusters = printed(&project, &address, &["get", "clusters"]).await?;
    assert_eq!(clusters["items"].as_array().unwrap().len(), 2);
    assert!(
        clusters["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|cluster| cluster["state"] == "Ready"),
        "{clusters}"
    );
    let reconcilers = printed(&project, &address, &["get", "reconcilers"]).await?;
    assert_eq!(reconcilers["items"][0]["tenant"], "team-a");
    assert!(
        reconcilers["items"][0]["succeeded"].as_u64() >= Some(1),
        "{reconcilers}"
    );
    assert_eq!(
        reconcilers["items"][0]["revision"].as_str().map(str::len),
        Some(64),
        "{reconcilers}"
    );
    let tenants = printed(&project, &address, &["get", "tenants"]).await?;
    assert!(
        tenants["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tenant| tenant["name"] == "team-a" && tenant["reconcilers"] == 1)
    );
    let providers = printed(&project, &address, &["get", "providers"]).await?;
    assert_eq!(providers["items"][0]["name"], "fleet", "{providers}");
    let text = Program::run(
        project.path(),
        ["get", "clusters", "--admin", &address],
        SOON,
    )
    .await?
    .expect_code(0)?
    .stdout;
    assert!(
        text.starts_with("CLUSTER") && text.contains("Ready"),
        "{text}"
    );

    let http = Http {
        address: address.clone(),
    };
    assert_eq!(http.get("/livez").await?.0, 200);
    eventually(SOON, "readiness", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, _)| {
            *status == 200
        }))
    })
    .await?;
    let (status, metrics) = http.get("/metrics").await?;
    assert_eq!(status, 200);
    let reconciles = metrics
        .lines()
        .find(|line| line.starts_with("controller_runtime_reconcile_total{"));
    let reconciles = reconciles.context("reconciles are counted")?;
    assert!(
        reconciles.contains("tenant=\"team-a\"") && reconciles.contains("reconciler=\"hello\""),
        "{reconciles}"
    );

    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn a_failing_key_is_explained_and_can_be_requeued() -> Result<()> {
    let project = Project::new()?;
    let poor = reconciler("hello", &guest("hello"))
        .replace("[get, list, watch, create, patch]", "[get, list, watch]");
    project.write_config(&[poor])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let key = eventually(SOON, "the key to wait after two failures", || async {
        let keys = ask(
            &project,
            &address,
            &["get", "keys", "--reconciler", "hello"],
        )
        .await?;
        Ok(Seen::of(keys["items"][0].clone(), |key| {
            // In between it runs for a moment.
            key["attempts"].as_u64() >= Some(2) && key["state"] == "backoff"
        }))
    })
    .await?;
    assert!(
        key["lastError"].as_str().unwrap().contains("patch"),
        "{key}"
    );
    let name = key["key"].as_str().context("a key")?;
    let of_hello = ["get", "keys", "--reconciler", "hello", "--cluster", "alpha"];
    let keys = printed(&project, &address, &of_hello).await?;
    assert_eq!(keys["items"][0]["key"], name, "{keys}");
    let reply = ask(&project, &address, &["requeue", name]).await?;
    assert_eq!(reply["requeued"], 1);
    let unknown = Program::run(
        project.path(),
        ["requeue", "cluster://nope/default/x", "--admin", &address],
        SOON,
    )
    .await?;
    assert!(unknown.expect_code(1)?.stderr.contains("nope"));
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() -> Result<()> {
    let project = Project::new()?;
    let endless = reconciler("endless", &guest("test-loop")).replace(
        "  config: {greeting: hello}",
        "  limits: {timeout: 1h}\n  config: {loop: forever}",
    );
    project.write_config(&[endless])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (mut program, address) = start(&project).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    eventually(SOON, "the guest to be busy", || async {
        let reconcilers = ask(&project, &address, &["get", "reconcilers"]).await?;
        Ok(Seen::of(reconcilers["items"][0].clone(), |view| {
            view["running"].as_u64() >= Some(1)
        }))
    })
    .await?;
    program.signal("TERM")?;
    program.line_with("draining", SOON).await?;
    program.signal("INT")?;
    // Much less than the drain would take.
    program
        .wait(Duration::from_secs(10))
        .await?
        .expect_code(1)?;
    Ok(())
}

#[tokio::test]
async fn run_ends_when_idle_too() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha", "beta"]).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let args = [
        "run",
        "-f",
        "windlass.yaml",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
    ];
    let finished = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?;
    assert!(
        finished.stdout.contains("alpha") && finished.stdout.contains("beta"),
        "{}",
        finished.stdout
    );
    // Without a terminal the log is for programs, also what a guest says; for people, if that is asked for.
    let lines = finished.stderr.lines().map(serde_json::from_str);
    let lines = lines.collect::<Result<Vec<Json>, _>>()?;
    let greeted = lines.iter().find(|line| line["message"] == "greeted");
    let fields = greeted.map(|line| &line["fields"]);
    assert_eq!(
        fields,
        Some(&json!({"who": "world", "greeting": "default/a-greeting"}))
    );
    let for_people = args.iter().chain(&["--log-format", "text"]);
    client_of(&project, "alpha").await?.ask("b", "you").await?;
    let finished = Program::run(project.path(), for_people, SOON).await?;
    let said = r#"guest: greeted fields="who=you greeting=default/b-greeting""#;
    let text = finished.expect_code(0)?.stderr;
    assert!(text.contains(said), "{text}");
    assert!(
        client_of(&project, "alpha")
            .await?
            .greeting("a")
            .await?
            .is_some()
    );
    Ok(())
}

#[tokio::test]
async fn a_kind_that_no_cluster_lists_is_no_success() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let faults = Arc::new(Faults::default());
    let _server = fleet_with(&project, &["alpha", "beta"], Some(faults.clone())).await?;
    let impatient =
        "run -f windlass.yaml --admin 127.0.0.1:0 --exit-when-idle --idle-timeout 1s --output json";
    for code in [403, 500] {
        faults.clear();
        let failed = RequestFault::Status {
            code,
            retry_after: None,
        };
        faults.add(Rule::new(failed).resource("configmaps"));
        let finished = Program::run(project.path(), impatient.split(' '), SOON).await?;
        let told: Json = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
        assert_eq!(told["done"], false);
        let why = format!("{}{}", told["busy"], told["problems"]);
        assert!(why.contains("ConfigMap") && why.contains("alpha"), "{why}");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_that_the_queue_does_not_hold_is_explained_too() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    eventually(SOON, "the greeting", || async {
        Ok(Seen::of(alpha.greeting("a").await?, Option::is_some))
    })
    .await?;
    let why = async |key: &str| -> Result<(String, String, String)> {
        let answer = ask(&project, &address, &["get", "keys", key]).await?;
        let item = &answer["items"][0];
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        Ok((text("state"), text("why"), text("lastResult")))
    };
    let (_, why_not, _) = eventually(SOON, "the key to be done", || async {
        Ok(Seen::of(
            why(&key("alpha", "a")?).await?,
            |(state, _, last)| state == "idle" && last == "success",
        ))
    })
    .await?;
    assert!(
        why_not.starts_with("nothing is left to do: the object is cached"),
        "{why_not}"
    );
    // What the guest made itself carries no label to be greeted.
    let (_, why_not, _) = why(&key("alpha", "a-greeting")?).await?;
    assert!(
        why_not.contains("leaves the object out: its labels"),
        "{why_not}"
    );
    let (_, why_not, _) = why(&key("alpha", "nope")?).await?;
    assert!(
        why_not.contains("there is no such v1/ConfigMap"),
        "{why_not}"
    );
    let (_, why_not, _) = why("cluster://nope/default/a").await?;
    assert!(why_not.contains("\"nope\" is not engaged"), "{why_not}");

    let of_nope = ["get", "keys", &key("alpha", "nope")?];
    let answer = ask(&project, &address, &of_nope).await?;
    assert_eq!(printed(&project, &address, &of_nope).await?, answer);
    let args = ["get", "keys", "alpha/default/a", "--admin", &address];
    let wrong = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(1)?;
    assert!(wrong.stderr.contains("cluster://"), "{}", wrong.stderr);
    Ok(())
}

#[tokio::test]
async fn keys_come_in_pages() -> Result<()> {
    let project = Project::new()?;
    let poor = reconciler("hello", &guest("hello"))
        .replace("[get, list, watch, create, patch]", "[get, list, watch]");
    project.write_config(&[poor])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let alpha = client_of(&project, "alpha").await?;
    for number in 0..5 {
        alpha.ask(&format!("a{number}"), "world").await?;
    }
    let (_program, address) = start(&project).await?;
    eventually(SOON, "five failing keys", || async {
        let keys = ask(&project, &address, &["get", "keys", "--state", "failing"]).await?;
        Ok(Seen::of(keys["items"].as_array().map(Vec::len), |count| {
            *count == Some(5)
        }))
    })
    .await?;
    let mut seen = std::collections::BTreeSet::new();
    let mut next: Option<String> = None;
    loop {
        let mut args = vec![
            "get", "keys", "--state", "failing", "--limit", "2", "--tenant", "team-a",
        ];
        args.extend(
            next.as_deref()
                .into_iter()
                .flat_map(|next| ["--continue", next]),
        );
        let page = printed(&project, &address, &args).await?;
        let items = page["items"].as_array().context("items")?;
        assert!(items.len() <= 2, "{page}");
        seen.extend(
            items
                .iter()
                .filter_map(|item| item["key"].as_str().map(str::to_owned)),
        );
        next = page["continue"].as_str().map(str::to_owned);
        if next.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    Ok(())
}
