//! Guests that are processes: `windlass dev --native`, and `windlass fleet` for unit tests.

use crate::objects::ConfigMaps;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;
use windlass_harness::program::{Program, binary};

const SOON: Duration = Duration::from_secs(60);

const DOCUMENTS: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: Reconciler
metadata: {name: painter}
spec:
  guest: {path: ./guest}
  rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, patch], namespaces: [default]}]
";

/// A process of a guest, which speaks `guest-sdk/protocol.md`.
struct Process(BufReader<UnixStream>);

impl Process {
    async fn connect(socket: &str) -> Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(socket).await?)))
    }

    async fn next(&mut self) -> Result<Value> {
        let mut line = String::new();
        timeout(SOON, self.0.read_line(&mut line)).await??;
        serde_json::from_str(&line).with_context(|| format!("a line of the program: {line:?}"))
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        Ok(self.0.get_mut().write_all(line.as_bytes()).await?)
    }

    async fn ask(&mut self, message: Value) -> Result<Value> {
        self.send(&message).await?;
        self.next().await
    }

    async fn describe(&mut self) -> Result<()> {
        ensure!(self.next().await? == "Describe");
        let watch = json!({
            "kind": kind(), "enqueue": "Primary", "clusters": "AsConfigured", "label_selector": "paint",
            "field_selector": null, "changes": [], "metadata_only": false, "options": [],
        });
        let described = json!({"title": "paints", "primary": kind(), "watches": [watch], "indexes": [], "options": []});
        self.send(&json!({"Return": {"Ok": described}})).await
    }

    /// Does one reconcile: gives the object a colour.
    async fn paint(&mut self, colour: &str) -> Result<()> {
        let task = self.next().await?;
        let cluster = &task["Reconcile"]["cluster"];
        let key = &task["Reconcile"]["request"]["key"];
        let write = json!({"subresource": null, "dry_run": false});
        let deletion = json!({"Delete": {"cluster": cluster, "kind": kind(), "key": key, "options": {"dry_run": false}}});
        let denied = self.ask(json!({ "Call": deletion })).await?;
        assert_eq!(denied["Err"]["code"], "Denied", "{denied}");
        let patch = json!({"data": {"colour": colour}}).to_string();
        let patch = json!({"Patch": {"cluster": cluster, "kind": kind(), "key": key, "patch_type": "Merge", "patch": patch, "options": write}});
        let patched = self.ask(json!({ "Call": patch })).await?;
        ensure!(patched["Ok"].is_string(), "{patched}");
        self.send(&json!({"Return": {"Ok": "Done"}})).await
    }
}

fn kind() -> Value {
    json!({"group": "", "version": "v1", "kind": "ConfigMap"})
}

#[tokio::test]
async fn a_process_serves_with_the_grants_of_its_reconciler_and_a_later_one_takes_over()
-> Result<()> {
    let project = Project::new()?;
    project.write("windlass.yaml", DOCUMENTS)?;
    project.write("guest/README.md", "the source of a guest")?;
    project.write(
        "seed/alpha/wall.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: wall, namespace: default, labels: {paint: please}}}",
    )?;
    let args = ["dev", "--admin", "127.0.0.1:0", "--native", "painter"];
    let mut program = Program::start(project.path(), args)?;
    program
        .line_with("painter runs as a process of yours", SOON)
        .await?;
    let file = project.path().join("guest/.windlass/native");
    let socket = std::fs::read_to_string(&file)?;

    let mut first = Process::connect(&socket).await?;
    first.describe().await?;
    first.paint("red").await?;
    let alpha = project.path().join(".windlass/kubeconfig");
    let alpha = ConfigMaps::in_context(&alpha, "alpha").await?;
    alpha.expect_value("wall", "colour", Some("red")).await?;
    drop(first);
    program.line_with("the process has gone", SOON).await?;

    let mut second = Process::connect(&socket).await?;
    second.describe().await?;
    second.paint("blue").await?;
    alpha.expect_value("wall", "colour", Some("blue")).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    assert!(!file.exists() && !file.with_file_name("guest.wasm").exists());
    Ok(())
}

#[tokio::test]
async fn a_fleet_for_tests_serves_the_kinds_of_its_project_and_ends_with_them() -> Result<()> {
    let project = Project::new()?;
    project.write(
        "crds/geese.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: geese.example.dev}\nspec:\n  \
         group: example.dev\n  scope: Namespaced\n  names: {kind: Goose, plural: geese}\n  versions:\n    \
         - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, \
         properties: {size: {type: integer}}}}}}}\n",
    )?;
    let mut fleet = start(project.path())?;
    let output = fleet.stdout.take().context("its output")?;
    let mut socket = String::new();
    let mut output = BufReader::new(output);
    output.read_line(&mut socket).await?;

    let mut test = Process::connect(socket.trim_end()).await?;
    test.ask(json!({"Test": {"Cluster": {"name": "alpha"}}}))
        .await?;
    let goose = |size: Value| {
        let goose = json!({"apiVersion": "example.dev/v1", "kind": "Goose", "metadata": {"namespace": "pond", "name": "a"}, "spec": {"size": size}});
        json!({"Test": {"Put": {"cluster": "alpha", "object": goose.to_string()}}})
    };
    assert_eq!(test.ask(goose(3.into())).await?, json!({"Ok": null}));
    let refused = test.ask(goose("huge".into())).await?;
    assert!(refused["Err"].is_string(), "{refused}");
    let call = json!({"Call": "Now"});
    let outside = test.ask(call).await?;
    assert!(outside["Trap"].is_string(), "{outside}");

    drop(fleet.stdin.take());
    let ended = timeout(SOON, fleet.wait()).await??;
    assert!(ended.success(), "{ended}");
    let mut rest = String::new();
    output.read_to_string(&mut rest).await?;
    assert_eq!(rest, "");
    Ok(())
}

fn start(folder: &Path) -> Result<tokio::process::Child> {
    let mut command = Command::new(binary()?);
    let command = command.arg("fleet").current_dir(folder);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.kill_on_drop(true).spawn()?)
}
