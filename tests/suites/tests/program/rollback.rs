//! A reconciler is rolled back to its previous revision, and keeps it until its guest's file changes, whichever process runs it.

use crate::hub::{Hub, hello, tenant};
use crate::memory_hub::{MemoryHub, Running, has, of_platform};
use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{SOON, address_in, ask, client_of, fleet, start};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

/// The one reconciler, as the running manager tells it, once `holds`.
async fn told(
    project: &Project,
    address: &str,
    what: &str,
    holds: impl Fn(&Json) -> bool,
) -> Result<Json> {
    eventually(SOON, what, || async {
        let answer = ask(project, address, &["get", "reconcilers"]).await?;
        Ok(Seen::of(answer["items"][0].clone(), |told| holds(told)))
    })
    .await
}

fn text(told: &Json, field: &str) -> String {
    told[field].as_str().unwrap_or_default().to_owned()
}

/// A guest in the place of another, as an atomic rename does it.
fn replace(project: &Project, by: &Path) -> Result<()> {
    let fresh = project.path().join("fresh.wasm");
    fs::copy(by, &fresh)?;
    Ok(fs::rename(fresh, project.path().join("guest.wasm"))?)
}

/// What `rollback` says when it is refused.
async fn refused(project: &Project, address: &str, args: &[&str]) -> Result<String> {
    let args = args.iter().copied().chain(["--admin", address]);
    let finished = Program::run(project.path(), args, SOON).await?;
    Ok(finished.expect_code(1)?.stderr)
}

#[tokio::test]
async fn a_trapping_guest_is_rolled_back_until_its_file_changes() -> Result<()> {
    let project = Project::new()?;
    replace(&project, &guest("hello"))?;
    let document = reconciler("hello", &project.path().join("guest.wasm"));
    project.write_config(std::slice::from_ref(&document))?;
    let _server = fleet(&project, &["alpha"]).await?;
    let maps = client_of(&project, "alpha").await?;
    let (_program, address) = start(&project).await?;
    maps.ask("first", "world").await?;
    maps.expect_greeted("first").await?;
    let serves = |told: &Json| told["serves"] == true;
    let good = text(
        &told(&project, &address, "hello to serve", serves).await?,
        "revision",
    );

    let error = refused(&project, &address, &["rollback", "hello"]).await?;
    assert!(error.contains("has no previous revision"), "{error}");
    let error = refused(&project, &address, &["rollback", "nobody"]).await?;
    assert!(
        error.contains("there is no reconciler \"nobody\""),
        "{error}"
    );

    // A guest that traps takes its place.
    replace(&project, &guest("test-panic"))?;
    let swapped =
        |told: &Json| told["revision"] != good.as_str() && told["previous"] == good.as_str();
    let bad = text(
        &told(&project, &address, "the new guest", swapped).await?,
        "revision",
    );
    maps.ask("second", "world").await?;
    let traps = |told: &Json| told["failed"].as_u64().is_some_and(|failed| failed > 0);
    told(&project, &address, "a trap", traps).await?;
    assert_eq!(maps.greeting("second").await?, None);

    // The one before serves again, as good as it was.
    let reply = ask(&project, &address, &["rollback", "hello"]).await?;
    assert_eq!(
        (
            reply["revision"].as_str(),
            reply["previous"].as_str(),
            &reply["rolledBack"]
        ),
        (Some(&*good), Some(&*bad), &Json::Bool(true))
    );
    maps.expect_greeted("second").await?;
    let now = told(&project, &address, "the roll back in the status", |told| {
        told["rolledBack"] == true
    })
    .await?;
    assert_eq!(
        (text(&now, "revision"), text(&now, "previous")),
        (good.clone(), bad.clone())
    );
    let error = refused(&project, &address, &["rollback", "hello"]).await?;
    assert!(error.contains("--undo"), "{error}");

    // Another configuration takes effect for the revision after a rollback; the same file, written again, changes nothing.
    let other = document.replace("greeting: hello", "greeting: welcome");
    project.write_config(std::slice::from_ref(&other))?;
    maps.expect_greeting(
        "first",
        Some(&format!(
            "welcome, world, from {}",
            crate::running::named("alpha")
        )),
    )
    .await?;
    replace(&project, &guest("test-panic"))?;
    maps.ask("third", "moon").await?;
    maps.expect_greeting(
        "third",
        Some(&format!(
            "welcome, moon, from {}",
            crate::running::named("alpha")
        )),
    )
    .await?;
    let now = told(&project, &address, "the state after that", serves).await?;
    assert_eq!(
        (text(&now, "revision"), &now["rolledBack"]),
        (good.clone(), &Json::Bool(true))
    );

    // Another file ends it.
    replace(&project, &guest("echo"))?;
    let now = told(&project, &address, "what the file holds", |told| {
        told["rolledBack"] == false
    })
    .await?;
    assert_ne!(text(&now, "revision"), good);
    assert_eq!(text(&now, "previous"), good);
    Ok(())
}

#[tokio::test]
async fn a_roll_back_outlives_the_process_and_is_undone_and_a_revision_can_be_named() -> Result<()>
{
    let project = Project::new()?;
    replace(&project, &guest("hello"))?;
    project.write_config(&[reconciler("hello", &project.path().join("guest.wasm"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (program, address) = start(&project).await?;
    let serves = |told: &Json| told["serves"] == true;
    let first = text(
        &told(&project, &address, "hello to serve", serves).await?,
        "revision",
    );
    replace(&project, &guest("echo"))?;
    let swapped = |told: &Json| told["previous"] == first.as_str();
    let second = text(
        &told(&project, &address, "the new guest", swapped).await?,
        "revision",
    );

    let error = refused(&project, &address, &["rollback", "hello", "--undo"]).await?;
    assert!(error.contains("there is nothing to undo"), "{error}");
    // A process that starts later knows the previous revision, and has a copy of it.
    drop(program);
    let (program, address) = start(&project).await?;
    told(&project, &address, "the next process", |told| {
        serves(told) && swapped(told)
    })
    .await?;
    let short = first.get(..12).context("a digest")?;
    let reply = ask(&project, &address, &["rollback", "hello", "--to", short]).await?;
    assert_eq!(
        (&reply["revision"], &reply["note"]),
        (&Json::from(first.as_str()), &Json::Null)
    );
    // So does one that starts after the rollback.
    drop(program);
    let (_program, address) = start(&project).await?;
    let now = told(&project, &address, "the process after that", serves).await?;
    assert_eq!(
        (text(&now, "revision"), &now["rolledBack"]),
        (first.clone(), &Json::Bool(true))
    );
    // The file is gone for a while, and what serves does not care.
    fs::remove_file(project.path().join("guest.wasm"))?;
    let error = refused(&project, &address, &["rollback", "hello", "--undo"]).await?;
    assert!(
        error.contains("no such file: check spec.guest.path")
            && error.contains("keeps serving the current one"),
        "{error}"
    );
    replace(&project, &guest("echo"))?;
    let serves_well = |told: &Json| serves(told) && told["problem"] == "";
    let now = told(&project, &address, "the roll back to go on", serves_well).await?;
    assert_eq!(
        (text(&now, "revision"), &now["rolledBack"]),
        (first, &Json::Bool(true))
    );

    let reply = ask(&project, &address, &["rollback", "hello", "--undo"]).await?;
    assert_eq!(
        (reply["revision"].as_str(), &reply["rolledBack"]),
        (Some(&*second), &Json::Bool(false))
    );
    Ok(())
}

/// Whether a process serves a revision because somebody rolled back to it.
async fn rolled_back(project: &Project, of: &Running, revision: &str) -> Result<()> {
    let holds = |told: &Json| told["rolledBack"] == true && told["revision"] == revision;
    told(project, &of.address, "the rolled back revision", holds)
        .await
        .map(drop)
}

const ELECTION: &str = "  leaderElection: {enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";

#[tokio::test]
async fn a_roll_back_of_an_object_is_followed_by_the_next_leader_and_by_later_processes()
-> Result<()> {
    let hub = MemoryHub::start().await?;
    replace(&hub.project, &guest("hello"))?;
    hub.write_manager("windlass.yaml", ELECTION)?;
    hub.put(of_platform("x", Json::Null))?;
    let mut first = hub.run("windlass.yaml", "cache").await?;
    first.program.line_with("\"leading\"", SOON).await?;
    let second = hub.run("windlass.yaml", "cache").await?;
    let ready = |status: &Json| has(status, "Ready True Reconciling");
    let good = text(&hub.status("x", "a guest", ready).await?, "revision");
    // The process that waits may be later: it has to know the good revision before the bad one comes.
    let serves = |told: &Json| told["revision"] == good.as_str();
    told(&hub.project, &second.address, "the first guest", serves).await?;
    replace(&hub.project, &guest("test-panic"))?;
    let swapped = |told: &Json| told["previous"] == good.as_str();
    for of in [&first, &second] {
        told(&hub.project, &of.address, "the new guest", swapped).await?;
    }

    // The process that leads writes it on the object, so only that one is asked.
    let rollback = ["rollback", "team-a/x"];
    let error = refused(&hub.project, &second.address, &rollback).await?;
    assert!(error.contains("another process leads"), "{error}");
    let reply = ask(&hub.project, &first.address, &rollback).await?;
    assert_eq!(
        (&reply["revision"], &reply["note"]),
        (&Json::from(good.as_str()), &Json::Null)
    );
    let is_rolled_back = |status: &Json| has(status, "Ready True RolledBack");
    let status = hub.status("x", "the reason", is_rolled_back).await?;
    assert!(has(&status, "Loaded False RolledBack"), "{status}");
    assert_eq!(status["rollback"]["revision"], good.as_str(), "{status}");
    rolled_back(&hub.project, &second, &good).await?;

    // The leader dies, and so does the next one.
    drop(first);
    hub.alpha.ask("a", "world").await?;
    hub.alpha.expect_greeted("a").await?;
    drop(second);
    let third = hub.run("windlass.yaml", "cache").await?;
    hub.alpha.ask("b", "world").await?;
    hub.alpha.expect_greeted("b").await?;
    rolled_back(&hub.project, &third, &good).await?;

    // A process that cannot have the revision does not serve the one that it was rolled back from.
    drop(third);
    let mut fourth = hub.run("windlass.yaml", "empty").await?;
    fourth.program.line_with("\"leading\"", SOON).await?;
    let cannot = |status: &Json| {
        let said = status.to_string();
        has(status, "Ready False Refused") && said.contains("this process has no copy of it")
    };
    let status = hub.status("x", "the refusal", cannot).await?;
    assert_eq!(
        (&status["revision"], &status["rollback"]["revision"]),
        (&Json::Null, &Json::from(good.as_str())),
        "{status}"
    );
    let undo = ["rollback", "team-a/x", "--undo"];
    let reply = ask(&hub.project, &fourth.address, &undo).await?;
    assert_ne!(reply["revision"], good.as_str());
    let status = hub.status("x", "the guest of the file", ready).await?;
    assert_eq!(status["rollback"], Json::Null, "{status}");
    Ok(())
}

/// The leader dies in the middle: the next one keeps to the revision, and undoes it when it is asked.
#[tokio::test]
#[ignore = "needs real servers"]
async fn a_roll_back_on_a_real_server_outlives_the_process_that_leads() -> Result<()> {
    let hub = Hub::start(&["alpha"], &["team-a"]).await?;
    hub.install().await?;
    replace(&hub.project, &guest("hello"))?;
    hub.write_manager(ELECTION, "")?;
    let file = hub.project.path().join("windlass.yaml");
    let shared = format!("{:?}", guest("hello"));
    let own = fs::read_to_string(&file)?.replace(&shared, "./guest.wasm");
    fs::write(&file, own)?;
    hub.create(tenant("a", "team-a", json!({"names": ["alpha*"]})))
        .await?;
    let reconciler = hello("team-a/x");
    hub.create(reconciler.clone()).await?;
    let start = async || -> Result<Running> {
        let args = "run --from-cluster -f windlass.yaml --admin 127.0.0.1:0 --cache cache";
        let mut program = Program::start(hub.project.path(), args.split(' '))?;
        let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
        Ok(Running { program, address })
    };
    let mut first = start().await?;
    first.program.line_with("\"leading\"", SOON).await?;
    let mut second = start().await?;
    let status = hub.expect(&reconciler, "Ready True Reconciling").await?;
    let good = text(&status, "revision");
    let serves = |told: &Json| told["revision"] == good.as_str();
    told(&hub.project, &second.address, "the first guest", serves).await?;
    replace(&hub.project, &guest("test-panic"))?;
    let swapped = |told: &Json| told["previous"] == good.as_str();
    for of in [&first, &second] {
        told(&hub.project, &of.address, "the new guest", swapped).await?;
    }
    ask(&hub.project, &first.address, &["rollback", "team-a/x"]).await?;
    drop(first);
    hub.expect(&reconciler, "Ready True RolledBack").await?;
    second.program.line_with("\"leading\"", SOON).await?;
    rolled_back(&hub.project, &second, &good).await?;
    let alpha = ConfigMaps::of(hub.environment.server("alpha").client().await?);
    alpha.ask("a", "world").await?;
    alpha.expect_greeted("a").await?;
    let undo = ["rollback", "team-a/x", "--undo"];
    let reply = ask(&hub.project, &second.address, &undo).await?;
    assert_ne!(reply["revision"], good.as_str());
    Ok(())
}
