//! The page about a running manager, used in a browser as a person uses it.

use crate::callers_in_a_cluster::{AUDIENCE, POD, Stage};
use crate::get::denied;
use crate::hub::{object, rules};
use crate::languages::command;
use crate::memory_hub::{MemoryHub, of_platform};
use crate::objects::ConfigMaps;
use crate::project::Project;
use crate::releasing::{self, Crashes};
use crate::running::{SOON, key};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value as Json, json};
use std::fs;
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::repository;

/// The field manager of a reconciler that is removed, and what it holds objects by.
const GONE: &str = "windlass:default/gone";
const FINALIZER: &str = "example.com/gone";

/// A Reconciler whose guest holds each Crash by a finalizer.
fn keeps() -> Json {
    let spec = json!({
        "guest": {"name": "crash"}, "config": {"pattern": "finalizer", "mistake": false}, "rules": releasing::rules(),
    });
    object("Reconciler", "team-a/keeps", spec)
}

/// The documents are objects of the local cluster, which a person may pause. The process is the only member of its shards.
async fn documents(hub: &MemoryHub) -> Result<()> {
    let folder = hub.project.path();
    fs::copy(guest("hello"), folder.join("guest.wasm"))?;
    fs::copy(guest("test-crash"), folder.join("crash.wasm"))?;
    hub.write_manager(
        "windlass.yaml",
        "  sharding: {enabled: true, namespace: default, name: test}\n",
    )?;
    let text = fs::read_to_string(folder.join("windlass.yaml"))?;
    let (manager, _) = text.split_once("---").context("two documents")?;
    let guests = "crash: {path: ./crash.wasm}, hello: {";
    hub.project
        .write("windlass.yaml", manager.replace("hello: {", guests))?;
    let kubeconfig = fs::read_to_string(folder.join("hub.kubeconfig"))?;
    let port = port_of(&kubeconfig)?;
    // Nobody listens there.
    let away = kubeconfig.replace(&format!(":{port}"), ":1");
    for (name, kubeconfig) in [("prod", kubeconfig), ("down", away)] {
        hub.put(json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": kubeconfig},
            "metadata": {"namespace": "team-a", "name": name,
                "labels": {"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}},
        }))?;
    }
    let spec = json!({
        "kubeconfigSecrets": {"namespaces": ["team-a"], "context": "alpha"},
        "allowServers": ["127.0.0.0/8"],
    });
    hub.put(object("Provider", "secrets", spec))?;
    let tenant = json!({
        "namespaces": {"names": ["team-a"]}, "rules": releasing::rules(), "clusters": {"names": ["*"]},
    });
    hub.put(object("Tenant", "a", tenant))?;
    let mut reads = rules();
    reads[0]["verbs"] = json!(["get", "list", "watch"]);
    hub.put(of_platform("x", json!({"rules": reads})))?;
    hub.put(keeps())
}

/// The port of the server of a kubeconfig.
fn port_of(kubeconfig: &str) -> Result<&str> {
    let (_, server) = kubeconfig.split_once("127.0.0.1:").context("a server")?;
    let end = server.find(|one: char| !one.is_ascii_digit());
    Ok(&server[..end.unwrap_or(server.len())])
}

#[tokio::test]
#[ignore = "needs Chromium and python3"]
async fn a_person_runs_a_failing_key_again_pauses_and_lets_go_what_finalizers_hold() -> Result<()> {
    let hub = MemoryHub::start().await?;
    let project = &hub.project;
    documents(&hub).await?;
    let kubeconfig = project.path().join("clusters/fleet.kubeconfig");
    let crashes = Crashes::in_context(&kubeconfig, "alpha").await?;
    hub.alpha.ask("a", "world").await?;
    // What a reconciler that is removed has left.
    let gone = ["left", "stays"];
    for name in gone {
        hub.alpha.create_held(name, GONE, FINALIZER).await?;
    }
    hub.alpha.delete("left").await?;
    let of = hub.run("windlass.yaml", "cache").await?;
    let held = ["first", "second"];
    for name in held {
        crashes.create_held(name).await?;
    }

    let args = ["console", "--admin", &of.address];
    let printed = Program::run(project.path(), args, SOON).await?;
    let printed = printed.expect_code(0)?.stdout;
    let (page, token) = printed
        .trim()
        .split_once("/console/#token=")
        .context(printed.clone())?;
    assert_eq!(page, format!("http://{}", of.address));
    let failing = key("prod", "a")?;
    let args = [page, token, &failing, "target/console", "objects"];
    look(project, &args).await?;

    for name in held {
        crashes.expect(name, Some(&[])).await?;
    }
    // It was being deleted.
    hub.alpha.expect_finalizers("left", None).await?;
    hub.alpha
        .expect_finalizers("stays", Some(&[FINALIZER]))
        .await
}

/// Uses the page: its address, a token, a key that fails, the folder for pictures, and whether the documents are objects.
async fn look(project: &Project, args: &[&str]) -> Result<()> {
    let [page, token, failing, pictures, more @ ..] = args else {
        bail!("an address, a token, a key and a folder");
    };
    let pictures = repository().join(pictures);
    fs::create_dir_all(&pictures)?;
    let look = repository().join("tests/console/look");
    let (look, pictures) = (look.display().to_string(), pictures.display().to_string());
    let args = [&*look, page, token, failing, &pictures];
    let args = args.into_iter().chain(more.iter().copied());
    let looked = command(project.path(), "python3", args);
    Program::spawn(looked)?
        .wait(2 * SOON)
        .await?
        .expect_code(0)?;
    Ok(())
}

/// `kubectl proxy` before an API server that passes requests on to the pod: the page is below a path, and `Authorization` is the server's.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers, Chromium and python3"]
async fn a_person_does_the_same_below_the_path_of_an_api_server() -> Result<()> {
    let stage = Stage::of(denied()).await?;
    let (project, server, port) = (&stage.project, stage.server(), stage.port()?);
    // Nobody listens there.
    let away = server.kubeconfig().replace("alpha", "down");
    let away = away.replace(&server.url(), "https://127.0.0.1:1");
    project.write("clusters/down.kubeconfig", away)?;
    let maps = ConfigMaps::of(stage.client.clone());
    maps.ask("a", "world").await?;
    stage.create_pod().await?;

    let args = "--kubeconfig person.kubeconfig --context alpha proxy --port 0".split(' ');
    let mut proxy = Program::spawn(command(project.path(), stage.kubectl(), args))?;
    let line = proxy.line_with("Starting to serve on ", SOON).await?;
    let (_, address) = line.rsplit_once(' ').context("an address")?;
    let page = format!("http://{address}/api/v1/namespaces/default/pods/{POD}:{port}/proxy");
    let token = stage.token("editor", &[AUDIENCE]).await?;
    let looked = [
        &*page,
        &token,
        &key("alpha", "a")?,
        "target/console/proxied",
    ];
    look(project, &looked).await
}
