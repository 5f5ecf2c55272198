//! Two processes of two classes read one cluster, and each handles its own objects. Of two of one class the second waits.

use crate::memory_hub::{MemoryHub, Running, has, of_platform};
use crate::project::Project;
use crate::running::{SOON, ask};
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::fs;
use windlass_harness::guests::guest;

/// The names of the Reconcilers that a process knows.
async fn known(project: &Project, of: &Running) -> Result<Vec<Json>> {
    let told = ask(project, &of.address, &["get", "reconcilers"]).await?;
    let items = told["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().map(|item| item["name"].clone()).collect())
}

#[tokio::test]
async fn each_process_handles_the_objects_of_its_class() -> Result<()> {
    let hub = MemoryHub::start().await?;
    fs::copy(guest("hello"), hub.project.path().join("guest.wasm"))?;
    hub.write_manager("plain.yaml", "")?;
    hub.write_manager("blue.yaml", "  class: blue\n")?;
    // Both Tenants claim the namespace, each for the Reconcilers of its class.
    let mut tenant = crate::hub::tenant("blue", "team-a", json!({"names": ["*"]}));
    tenant["spec"]["class"] = "blue".into();
    hub.put(tenant)?;
    hub.put(of_platform("x", Json::Null))?;
    hub.put(of_platform("y", json!({"class": "blue"})))?;
    hub.put(of_platform("z", json!({"class": "green"})))?;

    let plain = hub.run("plain.yaml", "plain").await?;
    let ready = |status: &Json| has(status, "Ready True Reconciling");
    assert_eq!(hub.status("x", "x", ready).await?["tenant"], "a");
    let untouched = |status: &Json| status.is_null();
    hub.status("y", "y without a process", untouched).await?;
    let blue = hub.run("blue.yaml", "blue").await?;
    assert_eq!(hub.status("y", "y", ready).await?["tenant"], "blue");
    assert_eq!(known(&hub.project, &plain).await?, ["team-a/x"]);
    assert_eq!(known(&hub.project, &blue).await?, ["team-a/y"]);
    hub.status("z", "z without a process", untouched).await?;
    // Another process takes it over with its class.
    hub.put(of_platform("y", Json::Null))?;
    let taken = |status: &Json| ready(status) && status["tenant"] == "a";
    hub.status("y", "y of the other process", taken).await?;
    assert_eq!(known(&hub.project, &blue).await?, [Json::Null; 0]);
    Ok(())
}

#[tokio::test]
async fn of_two_processes_without_an_election_the_second_waits_once_the_first_writes_again()
-> Result<()> {
    let hub = MemoryHub::start().await?;
    fs::copy(guest("hello"), hub.project.path().join("guest.wasm"))?;
    hub.write_manager("plain.yaml", "")?;
    hub.put(of_platform("x", Json::Null))?;
    let ready = |status: &Json| has(status, "Ready True Reconciling");
    let first = hub.run("plain.yaml", "first").await?;
    let status = hub.status("x", "the one at work", ready).await?;
    let owner = status["owner"].as_str().unwrap_or_default().to_owned();
    assert!(owner.starts_with("process since 20"), "{status}");
    let mut second = hub.run("plain.yaml", "second").await?;
    // It takes the first for its predecessor and begins; then the first writes its name again.
    let waits = "another process, which is in no election either";
    second.program.line_with(waits, SOON).await?;
    hub.put(of_platform("y", Json::Null))?;
    let back = |status: &Json| ready(status) && status["owner"] == owner;
    hub.status("y", "the first, which goes on", back).await?;
    assert_eq!(known(&hub.project, &first).await?, ["team-a/x", "team-a/y"]);
    assert_eq!(known(&hub.project, &second).await?, [Json::Null; 0]);
    // It says that it goes, so that nobody waits for it.
    first.program.signal("TERM")?;
    first.program.wait(SOON).await?.expect_code(0)?;
    let next = |status: &Json| {
        let by = status["owner"].as_str();
        ready(status) && by.is_some_and(|by| by != owner)
    };
    hub.status("y", "the second, which takes over", next)
        .await?;
    assert_eq!(
        known(&hub.project, &second).await?,
        ["team-a/x", "team-a/y"]
    );
    Ok(())
}

#[tokio::test]
async fn of_two_elections_of_a_class_the_second_says_that_it_waits() -> Result<()> {
    let hub = MemoryHub::start().await?;
    fs::copy(guest("hello"), hub.project.path().join("guest.wasm"))?;
    for name in ["first", "second"] {
        let election =
            format!("  leaderElection: {{enabled: true, namespace: default, name: {name}}}\n");
        hub.write_manager(&format!("{name}.yaml"), &election)?;
    }
    hub.put(of_platform("x", Json::Null))?;
    let second = hub.run("second.yaml", "second").await?;
    let ready = |status: &Json| has(status, "Ready True Reconciling");
    let status = hub.status("x", "the one at work", ready).await?;
    assert_eq!(status["owner"], "default/second", "{status}");
    let mut first = hub.run("first.yaml", "first").await?;
    let waits = "the processes of the Lease default/second handle the objects of this class";
    first.program.line_with(waits, SOON).await?;
    assert_eq!(known(&hub.project, &first).await?, [Json::Null; 0]);
    // What is new belongs to the one at work too.
    hub.put(of_platform("y", Json::Null))?;
    let status = hub.status("y", "the new one", ready).await?;
    assert_eq!(status["owner"], "default/second", "{status}");
    assert_eq!(
        known(&hub.project, &second).await?,
        ["team-a/x", "team-a/y"]
    );
    assert_eq!(known(&hub.project, &first).await?, [Json::Null; 0]);
    Ok(())
}
