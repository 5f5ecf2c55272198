//! Who may call the API outside of a cluster, and what is recorded of what callers change.

use crate::live::manager;
use crate::notices::told;
use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, client_of, fleet, key, start};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Program, runtime_folder};

#[tokio::test]
async fn the_api_wants_the_token_in_a_file_of_its_user_and_commands_find_it() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (program, address) = start(&project).await?;
    let http = Http {
        address: address.clone(),
    };
    let file = runtime_folder().join(format!("windlass/admin/{address}.token"));
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    let with = async |path: &str, header: &str| {
        let text = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{header}\r\n");
        http.send(&text).await
    };
    for path in ["/api/v1/clusters", "/api/v1/keys", "/api/v1/configuration"] {
        let (status, text) = with(path, "").await?;
        assert_eq!(status, 401, "{path}");
        assert!(text.contains(file.to_str().context("a path")?), "{text}");
        for wrong in ["Bearer 0", "Bearer ", "Basic 0"] {
            let header = format!("Authorization: {wrong}\r\n");
            assert_eq!(with(path, &header).await?.0, 401, "{path} {wrong}");
        }
        assert_eq!(http.get(path).await?.0, 200, "{path}");
    }
    for open in ["/livez", "/readyz?verbose", "/metrics"] {
        assert_ne!(with(open, "").await?.0, 401, "{open}");
    }
    let token = fs::read_to_string(&file)?;
    let own = format!("X-Windlass-Token: {}\r\n", token.trim());
    assert_eq!(with("/api/v1/clusters", &own).await?.0, 200);
    // A page whose name resolves to this address knows no token, and its name is refused even with one.
    let page = format!("GET /api/v1/keys HTTP/1.0\r\nHost: evil.example\r\n{own}\r\n");
    assert_eq!(http.send(&page).await?.0, 403);

    let get = async |more: &[&str]| {
        let args = ["get", "clusters", "--admin", &address];
        let args = args.into_iter().chain(more.iter().copied());
        Program::run(project.path(), args, SOON).await
    };
    get(&[]).await?.expect_code(0)?;
    project.write("wrong.token", "0123")?;
    let refused = get(&["--token", "wrong.token"]).await?.expect_code(1)?;
    assert!(
        refused.stderr.contains("a token is needed"),
        "{}",
        refused.stderr
    );
    project.write("right.token", &token)?;
    get(&["--token", "right.token"]).await?.expect_code(0)?;

    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    assert!(!file.exists(), "the token goes with its process");
    Ok(())
}

#[tokio::test]
async fn metrics_take_a_token_if_the_manager_says_so_and_the_api_is_not_opened_with_a_file()
-> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    let configure = |admin: &str| project.write_config(&[hello.clone(), manager(admin)]);
    configure("{admin: {metricsAuthentication: Token}}")?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    let open = format!("GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", http.address);
    assert_eq!(http.send(&open).await?.0, 401);
    assert_eq!(http.get("/metrics").await?.0, 200);
    configure("{admin: {metricsAuthentication: None}}")?;
    eventually(SOON, "the metrics to be open", || async {
        let (status, _) = http.send(&open).await?;
        Ok(Seen::of(status, |status| *status == 200))
    })
    .await?;

    for (admin, message) in [
        (
            "{admin: {address: \"0.0.0.0:0\"}}",
            "open to other machines",
        ),
        (
            "{admin: {authentication: TokenReview}}",
            "TokenReview needs a local cluster",
        ),
    ] {
        configure(admin)?;
        let run = ["run", "-f", "windlass.yaml"];
        let finished = Program::run(project.path(), run, SOON)
            .await?
            .expect_code(1)?;
        assert!(finished.stderr.contains(message), "{}", finished.stderr);
    }
    Ok(())
}

/// The local cluster is that of the start, so whose tokens count does not change with `spec.local`.
#[tokio::test]
async fn a_local_cluster_that_waits_for_a_restart_reviews_no_tokens() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(&[hello.clone(), manager("{}")])?;
    let server = fleet(&project, &["alpha"]).await?;
    server.add_cluster("hub");
    project.write("hub.kubeconfig", server.kubeconfig())?;
    let (mut program, address) = start(&project).await?;
    let http = Http { address };
    assert_eq!(http.get("/api/v1/clusters").await?.0, 200);
    let local = "{local: {kubeconfig: ./hub.kubeconfig, context: hub}, admin: {authentication: TokenReview}}";
    project.write_config(&[hello, manager(local)])?;
    let line = program
        .line_with("the admin endpoints stay as they are", SOON)
        .await?;
    assert!(line.contains("TokenReview needs a local cluster"), "{line}");
    let line = program.line_with("the Manager changed", SOON).await?;
    assert!(line.contains("spec.local"), "{line}");
    assert_eq!(http.get("/api/v1/clusters").await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn what_callers_change_is_in_the_log_and_an_event_in_the_local_cluster() -> Result<()> {
    let project = Project::new()?;
    project.write("hello.wasm", fs::read(guest("hello"))?)?;
    let server = fleet(&project, &["alpha"]).await?;
    server.add_cluster("hub");
    project.write("hub.kubeconfig", server.kubeconfig())?;
    let hub = server.cluster("hub").context("the hub")?;
    let local = manager("{local: {kubeconfig: ./hub.kubeconfig, context: hub}}");
    project.write_config(&[local, reconciler("hello", "hello.wasm".as_ref())])?;
    let (mut program, address) = start(&project).await?;
    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    alpha.expect_greeted("a").await?;

    let command = async |args: &[&str]| {
        let args = args.iter().copied().chain(["--admin", &address]);
        Program::run(project.path(), args, SOON)
            .await?
            .expect_code(0)
    };
    let asked = key("alpha", "a")?;
    command(&["requeue", &asked, "--reconciler", "hello"]).await?;
    let line = program.line_with("a caller requeued a key", SOON).await?;
    assert!(
        line.contains("\"user\":\"local\"") && line.contains(&asked),
        "{line}"
    );
    let event = told(&hub, "Normal", &format!("local requeued {asked}"), "", 1).await?;
    assert_eq!(event["reason"], "Requeued");
    assert_eq!(event["involvedObject"]["name"], "hello");

    let fresh = project.write("fresh.wasm", fs::read(guest("echo"))?)?;
    fs::rename(fresh, project.path().join("hello.wasm"))?;
    eventually(SOON, "a rollback", || async {
        let args = ["rollback", "hello", "--admin", &address];
        let finished = Program::run(project.path(), args, SOON).await?;
        Ok(match finished.code() {
            Some(0) => Seen::Yes(()),
            _ => Seen::NotYet(finished.stderr),
        })
    })
    .await?;
    let line = program
        .line_with("a caller rolled a reconciler back", SOON)
        .await?;
    assert!(line.contains("\"user\":\"local\""), "{line}");
    let event = told(&hub, "Normal", "local rolled it back: ", "", 1).await?;
    assert_eq!(event["reason"], "RolledBack");

    // Without a reconciler it is about the process.
    command(&["requeue", &asked]).await?;
    eventually(SOON, "an event about the Manager", || async {
        let all = hub.list("v1", "Event", "");
        let all = all.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        Ok(Seen::of(all, |all| {
            all.iter().any(|event| {
                event["involvedObject"]["kind"] == "Manager" && event["reason"] == "Requeued"
            })
        }))
    })
    .await?;
    Ok(())
}
