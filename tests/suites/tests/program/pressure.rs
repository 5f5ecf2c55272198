//! A program that has less than it needs.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, ask, client_of, fleet, start};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tokio::process::Command;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Program, binary};

/// Starts `run` after something that a shell does first.
async fn start_after(project: &Project, first: &str) -> Result<(Program, Http)> {
    let mut command = Command::new("sh");
    let script = format!(
        "{first}; exec '{}' run -f windlass.yaml --admin 127.0.0.1:0",
        binary()?.display()
    );
    command
        .args(["-c", &script])
        .current_dir(project.path())
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG")
        .env_remove("WINDLASS_LOG");
    let mut program = Program::spawn(command)?;
    let line = program.line_with("admin endpoints", SOON).await?;
    let line: Json = serde_json::from_str(&line)?;
    let address = line["address"].as_str().context("an address")?.to_owned();
    Ok((program, Http { address }))
}

#[tokio::test]
async fn with_too_few_descriptors_it_says_so_and_recovers() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let names: Vec<String> = (0..80).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = fleet(&project, &names).await?;
    let (mut program, http) = start_after(&project, "ulimit -n 64").await?;
    let (_, text) = eventually(SOON, "the descriptors to be used up", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, text)| {
            *status == 503 && text.contains("[-] descriptors: ")
        }))
    })
    .await?;
    assert!(
        text.contains(
            "of the 32 connections to clusters that leave room for files, 26 of the 26 connections that watches may have: raise the limit"
        ),
        "{text}"
    );
    // Those that are left out wait, and say what for; the process lives on.
    eventually(SOON, "a cluster without a connection", || async {
        let clusters = ask(&project, &http.address, &["get", "clusters"]).await?;
        let items = clusters["items"].as_array().cloned().unwrap_or_default();
        let out = items.iter().any(|item| {
            let reason = item["reason"].as_str().unwrap_or_default();
            reason.contains("all 26 connections that this process may have for this are in use")
        });
        Ok(if out {
            Seen::Yes(())
        } else {
            Seen::NotYet(clusters.to_string())
        })
    })
    .await?;
    assert_eq!(http.get("/livez").await?.0, 200);
    // Those that have a connection are served, by calls too.
    let served = eventually(SOON, "a cluster that is served", || async {
        let clusters = ask(&project, &http.address, &["get", "clusters"]).await?;
        let items = clusters["items"].as_array().cloned().unwrap_or_default();
        let ready = items.iter().find(|item| item["state"] == "Ready");
        Ok(match ready.and_then(|item| item["name"].as_str()) {
            Some(name) => Seen::Yes(name.to_owned()),
            None => Seen::NotYet(clusters.to_string()),
        })
    })
    .await?;
    let context = served.rsplit('+').next().unwrap_or_default();
    let served = client_of(&project, context).await?;
    served.ask("a", "world").await?;
    eventually(SOON, "the greeting at the cap", || async {
        Ok(Seen::of(served.greeting("a").await?, Option::is_some))
    })
    .await?;
    // Files can be read: a changed configuration is in effect.
    let manager = "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: m}\nspec: {drainTimeout: 7s}\n";
    project.write_config(&[reconciler("hello", &guest("hello")), manager.to_owned()])?;
    program
        .line_with("the changed Manager is in effect", SOON)
        .await?;
    assert_eq!(http.get("/readyz").await?.0, 503, "still at the cap");

    // The servers go, and a fleet that fits takes their place.
    drop(many);
    let few = Server::builder().cluster("few").bind("127.0.0.1:0").await?;
    project.write("clusters/fleet.kubeconfig", few.kubeconfig())?;
    client_of(&project, "few").await?.ask("a", "world").await?;
    eventually(SOON, "readiness", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, _)| {
            *status == 200
        }))
    })
    .await?;
    let few = client_of(&project, "few").await?;
    eventually(SOON, "the greeting", || async {
        Ok(Seen::of(few.greeting("a").await?, Option::is_some))
    })
    .await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
async fn where_nothing_can_be_written_it_reconciles() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    // Nobody writes there, not even root.
    let nowhere = "export HOME=/proc/none TMPDIR=/proc/none XDG_CACHE_HOME=/proc/none";
    let folder = fs::Permissions::from_mode(0o555);
    fs::set_permissions(project.path(), folder)?;
    let started = start_after(&project, nowhere).await;
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o755))?;
    let (program, _) = started?;
    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    eventually(SOON, "the greeting", || async {
        Ok(Seen::of(alpha.greeting("a").await?, Option::is_some))
    })
    .await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// The most memory that the program ever had, in bytes.
fn most_memory(program: &Program) -> Result<u64> {
    let pid = program.pid().context("it runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("VmHWM in kB")?.parse::<u64>()? << 10)
}

#[tokio::test]
async fn what_is_too_much_for_the_host_is_refused_before_it_is_copied() -> Result<()> {
    const SIZE: u64 = 150_000_000;
    let project = Project::new()?;
    let document = reconciler("huge", &guest("test-huge")).replace(
        "{greeting: hello}",
        &format!("{{what: object, size: {SIZE}}}"),
    );
    let limits = "  limits: {memory: 250Mi, timeout: 30s, concurrency: 1}\n";
    let path = project.write_config(&[document + limits])?;
    // Not enough for another instance before the one of the last call is gone.
    let alone = fs::read_to_string(&path)?.replace(
        "limits: {concurrency: 32}",
        "limits: {concurrency: 32, memory: 250Mi}",
    );
    fs::write(&path, alone)?;
    let server = fleet(&project, &["alpha"]).await?;
    let (program, address) = start(&project).await?;
    let http = Http { address };
    eventually(SOON, "the guest to be loaded", || async {
        let (status, _) = http.get("/readyz").await?;
        Ok(Seen::of(status, |status| *status == 200))
    })
    .await?;
    let before = most_memory(&program)?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"namespace": "default", "name": "a", "labels": {"test.windlass.dev/run": "yes"}}});
    let alpha = server.cluster("alpha").context("it is served")?;
    alpha
        .create(object)
        .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let item = eventually(SOON, "refused calls", || async {
        let (_, body) = http.get("/api/v1/reconcilers").await?;
        let item = serde_json::from_str::<Json>(&body)?["items"][0].clone();
        Ok(Seen::of(item, |item| {
            item["usage"]["limitHits"]["hostCallBytes"].as_u64() >= Some(2)
        }))
    })
    .await?;
    let guests = item["usage"]["memoryPeak"].as_u64().unwrap_or_default();
    assert!(guests >= SIZE, "{item}");
    let more = most_memory(&program)? - before;
    assert!(
        more < guests + SIZE / 2,
        "{more} bytes more for a guest that had {guests}"
    );
    Ok(())
}
