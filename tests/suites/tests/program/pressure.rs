//! A program that has less than it needs.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, ask, client_of, create_watched, fleet};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tokio::process::Command;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Program, binary, runtime_folder};

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
        .env("XDG_RUNTIME_DIR", runtime_folder())
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
    let full = "of the 32 connections to clusters that leave room for files, 26 of the 26 connections that watches may have: raise the limit";
    eventually(SOON, "the descriptors to be used up", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, text)| {
            *status == 503 && text.contains("[-] descriptors: ") && text.contains(full)
        }))
    })
    .await?;
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
async fn out_of_descriptors_it_blames_neither_credentials_nor_files() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let names: Vec<String> = (0..61).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _many = fleet(&project, &names).await?;
    let (_program, http) = start_after(&project, "ulimit -n 48").await?;
    eventually(SOON, "the descriptors to be short", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, text)| {
            *status == 503 && text.contains("[-] descriptors: ") && text.contains("ulimit -n")
        }))
    })
    .await?;
    // Each cluster that is left out says what it lacks.
    eventually(SOON, "clusters that wait for descriptors", || async {
        let (_, body) = http.get("/api/v1/clusters").await?;
        let clusters: Json = serde_json::from_str(&body)?;
        let items = clusters["items"].as_array().cloned().unwrap_or_default();
        let reasons = items.iter().filter_map(|item| item["reason"].as_str());
        let reasons: Vec<String> = reasons
            .filter(|reason| !reason.is_empty())
            .map(str::to_owned)
            .collect();
        let wrong = reasons.iter().find(|reason| reason.contains("credentials"));
        assert!(wrong.is_none(), "{wrong:?}");
        Ok(Seen::of(reasons, |reasons| {
            reasons.iter().any(|reason| reason.contains("ulimit -n"))
        }))
    })
    .await?;
    let series = http.series("windlass_process_short_of{").await?;
    let short = ("resource=\"descriptors\"}".to_owned(), 1.0);
    assert!(series.contains(&short), "{series:?}");
    assert_eq!(http.get("/livez").await?.0, 200);
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

/// A tenant with a reconciler of this guest, whose calls may take so long.
fn tenant_with(name: &str, of: &str, timeout: &str) -> String {
    let tenant = format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: of-{name}}}\n"
    );
    let document = reconciler(name, &guest(of));
    let document = document.replace("tenant: team-a", &format!("tenant: of-{name}"));
    format!("{tenant}{document}  limits: {{timeout: {timeout}, concurrencyPerCluster: 16}}\n")
}

#[tokio::test]
async fn calls_for_which_the_host_has_no_room_are_its_own_fault() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[
        tenant_with("first", "test-loop", "3s"),
        tenant_with("second", "test-loop", "3s"),
        tenant_with("patient", "hello", "1m"),
        tenant_with("hurried", "hello", "200ms"),
    ])?;
    let server = fleet(&project, &["alpha"]).await?;
    let served = server.cluster("alpha").context("it is served")?;
    for number in 0..20 {
        create_watched(&served, &format!("loop{number}"))?;
    }
    // In kibibytes: room for the smallest pool of instances, and not for the next larger one.
    let (mut program, http) = start_after(&project, "ulimit -v 200000000").await?;
    let line = program
        .line_with("fewer guests can run at once", SOON)
        .await?;
    assert_eq!(
        serde_json::from_str::<Json>(&line)?["instances"],
        16,
        "{line}"
    );
    let told_of = async |names: [&str; 3]| -> Result<[Json; 3]> {
        let (_, body) = http.get("/api/v1/reconcilers").await?;
        let answer: Json = serde_json::from_str(&body)?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let of = |name: &str| items.iter().find(|item| item["name"] == name).cloned();
        Ok(names.map(|name| of(name).unwrap_or_default()))
    };
    eventually(
        SOON,
        "calls that never return, more than there is room for",
        || async {
            let told = told_of(["first", "second", "hurried"]).await?;
            Ok(Seen::of(told, |[first, second, _]| {
                [first, second].iter().all(|told| told["running"] == 16)
            }))
        },
    )
    .await?;
    let alpha = client_of(&project, "alpha").await?;
    for number in 0..10 {
        alpha.ask(&format!("hello{number}"), "world").await?;
    }
    eventually(SOON, "calls without room", || async {
        let told = told_of(["hurried", "patient", "first"]).await?;
        Ok(Seen::of(told, |[hurried, ..]| {
            let why = hurried["lastError"].as_str().unwrap_or_default();
            hurried["usage"]["failedBy"]["host"].as_u64() >= Some(1)
                && why.contains("there was no room for another instance")
        }))
    })
    .await?;
    let [_, patient, _] = eventually(SOON, "calls that had the time to wait", || async {
        let told = told_of(["hurried", "patient", "first"]).await?;
        Ok(Seen::of(told, |[_, patient, _]| {
            patient["succeeded"].as_u64() >= Some(10)
        }))
    })
    .await?;
    assert_eq!(patient["failed"], 0, "who waits is not told: {patient}");
    let series = http.series("windlass_reconcile_failures_total{").await?;
    let labels = [
        "reconciler=\"hurried\"",
        "blame=\"host\"",
        "reason=\"capacity\"",
    ];
    let counted = series
        .iter()
        .find(|(of, _)| labels.iter().all(|label| of.contains(label)));
    assert!(
        counted.is_some_and(|(_, value)| *value >= 1.0),
        "{series:?}"
    );
    Ok(())
}
