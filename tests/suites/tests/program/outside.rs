//! Calls of servers that are no API servers, by the program: credentials of Secrets, the bound of a Tenant, and the example with its server.

use crate::hub::{object, rules};
use crate::languages;
use crate::memory_hub::{MemoryHub, has, of_platform};
use crate::project::Project;
use crate::running::{SOON, ask, create_watched, fleet, start};
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::http::Http;
use windlass_harness::outside::Outside;
use windlass_harness::program::{Output, Program};

/// A rule for plain calls of a port of this machine.
fn rule(port: u16) -> Json {
    json!({"hosts": ["localhost"], "ports": [port], "plain": true, "addresses": ["127.0.0.0/8"]})
}

#[tokio::test]
async fn credentials_come_from_secrets_and_the_tenant_bounds_what_is_called() -> Result<()> {
    let (hub, server) = (MemoryHub::start().await?, Outside::start().await?);
    std::fs::copy(guest("test-calls"), hub.project.path().join("guest.wasm"))?;
    hub.write_manager("windlass.yaml", "")?;
    let secret = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "team-a", "name": "token"},
            "stringData": {"token": format!("{value}\n")},
        })
    };
    let mut own = rule(server.port);
    own["headers"] =
        json!([{"name": "Authorization", "prefix": "Bearer ", "secret": "token", "key": "token"}]);
    let asked =
        json!([{"method": "GET", "url": format!("http://localhost:{}/status/200", server.port)}]);
    hub.put(of_platform(
        "x",
        json!({"http": [own], "config": {"http": asked}}),
    ))?;
    let running = hub.run("windlass.yaml", "cache").await?;
    let waits = |status: &Json| has(status, "Accepted False ConfigUnavailable");
    hub.status("x", "a Reconciler without its Secret", waits)
        .await?;
    hub.put(secret("hunter2"))?;
    let ready = |status: &Json| has(status, "Ready True Reconciling");
    hub.status("x", "a Reconciler with its Secret", ready)
        .await?;
    hub.alpha.run_script("a").await?;
    let http = Http {
        address: running.address.clone(),
    };
    let denied =
        r#"windlass_guest_http_calls_total{tenant="a",reconciler="team-a/x",end="denied"}"#;
    eventually(SOON, "a denial", || async {
        let (_, metrics) = http.get("/metrics").await?;
        Ok(Seen::of(metrics, |text| text.contains(denied)))
    })
    .await?;
    ensure!(server.heads().is_empty(), "the Tenant allows nothing yet");

    let spec = json!({
        "namespaces": {"names": ["team-a"]}, "rules": rules(), "clusters": {"names": ["*"]}, "http": [rule(server.port)],
    });
    hub.put(object("Tenant", "a", spec))?;
    let called = async |name: &str, value: &str| {
        eventually(SOON, &format!("a call with {value}"), || async {
            hub.alpha
                .annotate("a", name, Some(&fastrand::u64(..).to_string()))
                .await?;
            let line = format!("authorization: Bearer {value}\r\n");
            Ok(Seen::of(server.heads(), |heads| {
                heads.iter().any(|head| head.contains(&line))
            }))
        })
        .await
    };
    called("one", "hunter2").await?;
    hub.put(secret("hunter3"))?;
    called("two", "hunter3").await?;
    let shown = running.program.written(Output::Stderr) + &running.program.written(Output::Stdout);
    let (_, state) = http.get("/api/v1/reconcilers").await?;
    for text in [shown, state] {
        assert!(!text.contains("hunter"), "{text}");
    }
    Ok(())
}

/// A guest that asks a server once, and fails with what it got.
fn asks(port: u16) -> String {
    let mut own = rule(port);
    own["headers"] = json!([{"name": "Authorization", "value": "Bearer hunter2"}]);
    let asked = json!({"method": "GET", "url": format!("http://localhost:{port}/status/418"), "headers": [["X-Api-Key", "k3y-of-the-guest"]]});
    let rules = r#"[{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch], namespaces: ["*"]}]"#;
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: asks}}\nspec:\n  tenant: team-a\n  \
         guest: {{path: {:?}}}\n  config: {}\n  http: [{own}]\n  record: {{failures: 1}}\n  rules: {rules}\n",
        guest("test-calls"),
        json!({"http": [asked]})
    )
}

#[tokio::test]
async fn a_run_goes_again_without_its_server_and_a_plan_calls_none() -> Result<()> {
    let (project, outside) = (Project::new()?, Outside::start().await?);
    project.write_config(&[asks(outside.port)])?;
    let server = fleet(&project, &["alpha"]).await?;
    create_watched(&server.cluster("alpha").context("a cluster")?, "a")?;
    let said = async |args: &[&str], code: i32| {
        let finished = Program::run(project.path(), args, SOON).await?;
        anyhow::Ok(finished.expect_code(code)?.stdout)
    };
    let plan = ["plan", "-f", "windlass.yaml", "-o", "json"];
    let planned = said(&plan, 1).await?;
    assert!(planned.contains("--allow-http localhost"), "{planned}");
    ensure!(outside.heads().is_empty(), "a plan calls no server");
    let allowed: Vec<&str> = plan
        .into_iter()
        .chain(["--allow-http", "localhost"])
        .collect();
    let planned = said(&allowed, 1).await?;
    assert!(
        planned.contains("418") && !outside.heads().is_empty(),
        "{planned}"
    );

    let (program, address) = start(&project).await?;
    let id = eventually(SOON, "a recording", || async {
        let all = ask(&project, &address, &["get", "recordings"]).await?;
        Ok(Seen::of(all["items"][0]["id"].clone(), Json::is_string))
    })
    .await?;
    let id = id.as_str().context("an id")?;
    let file = said(&["get", "recordings", id, "--admin", &address], 0).await?;
    assert!(
        file.contains("/status/418") && file.contains("\"status\":418"),
        "{file}"
    );
    for secret in ["hunter2", "k3y-of-the-guest"] {
        assert!(!file.contains(secret), "{secret} in {file}");
    }
    drop((program, server, outside));
    project.write("run.json", &file)?;
    let replayed = said(&["replay", "run.json"], 0).await?;
    assert!(replayed.contains("1 call"), "{replayed}");
    Ok(())
}

/// The example, whose API has a free port.
async fn example() -> Result<(Project, tokio::process::Child, u16)> {
    let folder = windlass_harness::repository().join("examples/dns");
    let mut server = tokio::process::Command::new("python3")
        .arg(folder.join("server.py"))
        .arg("0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start python3")?;
    let mut lines = BufReader::new(server.stdout.take().context("an output")?).lines();
    let line = lines.next_line().await?.context("a line")?;
    let port: u16 = line.rsplit(':').next().context("a port")?.parse()?;
    let project = Project::new()?;
    let built = guest("dns");
    for file in [
        "windlass.yaml",
        "seed/crd.yaml",
        "seed/alpha/www.yaml",
        "tests/life.yaml",
    ] {
        let text = std::fs::read_to_string(folder.join(file))?;
        let text = text.replace("../../guests/dns", built.to_str().context("a path")?);
        project.write(file, text.replace("8053", &port.to_string()))?;
    }
    Ok((project, server, port))
}

#[tokio::test]
#[ignore = "needs python3"]
async fn the_example_keeps_its_records_at_its_server() -> Result<()> {
    let (project, _server, port) = example().await?;
    let tested = Program::run(project.path(), ["test", "."], SOON).await?;
    tested.expect_code(0)?;
    let api = Http {
        address: format!("127.0.0.1:{port}"),
    };
    let asked =
        "GET /v1/zones/example.com/records/www HTTP/1.0\r\nAuthorization: Bearer example\r\n\r\n";
    assert_eq!(api.send(asked).await?.0, 404, "a test calls no server");
    let ran = Program::run(project.path(), ["dev", ".", "--exit-when-idle"], SOON).await?;
    ran.expect_code(0)?;
    let (status, body) = api.send(asked).await?;
    assert_eq!(
        (status, body.as_str()),
        (200, r#"{"address": "192.0.2.1"}"#)
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn the_example_lives_the_same_life_in_go() -> Result<()> {
    let folder = windlass_harness::repository().join("examples/dns/go");
    let tested = languages::windlass(&folder, ["test", "--timeout", "900s"]).await?;
    tested.expect_code(0)?;
    Ok(())
}
