//! Runs that are recorded, and run again by another process.

use crate::project::{Project, reconciler};
use crate::running::{SOON, ask, client_of, create_watched, fleet, key, printed, start};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value as Json, json};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};

const PASSWORD: &str = "Tr0ub4dor&3";
/// The same in base64.
const ENCODED: &str = "VHIwdWI0ZG9yJjM=";

/// Reads a Secret, copies it, asks for the time, logs nothing, and fails with all that it has got.
fn copier() -> String {
    let secret = json!({"do": "get", "kind": ["v1", "Secret"], "key": ["default", "db"], "show": ["/data/password"]});
    let copy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "copy", "namespace": "default"}, "data": {"url": format!("db://me:{PASSWORD}@host")}});
    let create =
        json!({"do": "create", "kind": ["v1", "ConfigMap"], "object": copy, "show": ["/data/url"]});
    let steps = json!({"steps": [secret, {"do": "now"}, create]});
    let rules = r#"[{apiGroups: [""], resources: [configmaps, secrets], verbs: [get, list, watch, create], namespaces: ["*"]}]"#;
    format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: copier}}\nspec:\n  tenant: team-a\n  \
         guest: {{path: {:?}}}\n  config: {steps}\n  record: {{failures: 2}}\n  rules: {rules}\n",
        guest("test-calls")
    )
}

/// What a command says that ends with a code.
async fn said(project: &Project, code: i32, args: &[&str]) -> Result<Finished> {
    Program::run(project.path(), args, SOON)
        .await?
        .expect_code(code)
}

/// The recordings that are kept, once there is one for which something holds.
pub(crate) async fn kept(
    project: &Project,
    address: &str,
    holds: impl Fn(&Json) -> bool,
) -> Result<Json> {
    eventually(SOON, "a recording", || async {
        let all = ask(project, address, &["get", "recordings"]).await?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let found = items.into_iter().find(|item| holds(item));
        Ok(Seen::of(found, Option::is_some))
    })
    .await?
    .context("a recording")
}

#[tokio::test]
async fn a_failure_is_kept_without_secrets_and_goes_again_elsewhere() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[copier()])?;
    let server = fleet(&project, &["alpha"]).await?;
    let cluster = server.cluster("alpha").context("a cluster")?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "default"},
        "data": {"password": ENCODED}});
    let created = cluster.create(secret);
    created.map_err(|error| anyhow!("{error:?}"))?;
    create_watched(&cluster, "a")?;
    let (program, address) = start(&project).await?;
    let item = kept(&project, &address, |item| item["failed"] == true).await?;
    assert_eq!(
        (&item["why"], &item["calls"]),
        (&json!("failure"), &json!(2)),
        "{item}"
    );
    assert!(!item.to_string().contains(PASSWORD), "{item}");
    let id = item["id"].as_str().context("an id")?;
    let file = said(&project, 0, &["get", "recordings", id, "--admin", &address])
        .await?
        .stdout;
    // A key that fails again replaces its recording, so the key names it too.
    let by_key = key("alpha", "a")?;
    let same = ["get", "recordings", &by_key, "--admin", &address];
    assert_eq!(said(&project, 0, &same).await?.stdout, file);
    drop(program);
    drop(server);
    for secret in [PASSWORD, ENCODED, "Tr0ub"] {
        assert!(!file.contains(secret), "{secret} in {file}");
    }
    project.write("run.json", &file)?;

    // Another process, another time, no cluster: the guest of the documents.
    let same = said(&project, 0, &["replay", "run.json"]).await?.stdout;
    assert!(
        same.contains("copier of default/a in alpha: 2 calls"),
        "{same}"
    );
    // Another guest, which reads something else first.
    let hello = guest("hello").display().to_string();
    let other = said(
        &project,
        2,
        &["replay", "run.json", "--guest", &hello, "-o", "json"],
    )
    .await?;
    let other: Json = serde_json::from_str(&other.stdout)?;
    assert_eq!(other[0]["sameRevision"], false);
    assert_eq!(other[0]["divergence"]["call"], 1, "{other}");
    // The same one, that writes something else at its second call.
    let changed = file.replace("@host", "@other-host");
    let config = changed
        .lines()
        .filter(|line| line.starts_with("  \"config\""));
    let config: String = config.collect();
    let rest = file.lines().map(|line| {
        if line.starts_with("  \"config\"") {
            config.as_str()
        } else {
            line
        }
    });
    project.write("changed.json", rest.collect::<Vec<_>>().join("\n"))?;
    let changed = said(&project, 2, &["replay", "changed.json"]).await?.stdout;
    assert!(changed.contains("at call 2 of 2"), "{changed}");
    assert!(
        changed.contains("data.url: ") && changed.contains("@other-host"),
        "{changed}"
    );
    assert!(changed.contains("stand-ins"), "{changed}");

    // As a test it fails until the guest no longer does that.
    project.write("tests/recordings/failure.json", &file)?;
    let failed = said(&project, 1, &["test"]).await?.stdout;
    assert!(
        failed.contains("it still goes as it was recorded"),
        "{failed}"
    );
    project
        .write_config(&[copier().replace(&guest("test-calls").display().to_string(), &hello)])?;
    let passed = said(&project, 0, &["test", "--case", "recordings/failure"])
        .await?
        .stdout;
    assert!(passed.contains("recordings/failure"), "{passed}");
    Ok(())
}

#[tokio::test]
async fn a_run_is_recorded_when_somebody_asks_and_others_are_not() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = fleet(&project, &["alpha"]).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let (mut program, address) = start(&project).await?;
    program.line_with("greeted", SOON).await?;
    let nothing = ask(&project, &address, &["get", "recordings"]).await?;
    assert_eq!(nothing["items"], json!([]), "nobody has asked");
    let key = key("alpha", "a")?;
    let reply = printed(&project, &address, &["record", &key, "--file", "run.json"]).await?;
    assert_eq!(
        (&reply["why"], &reply["failed"]),
        (&json!("asked"), &json!(false))
    );
    program
        .line_with("a caller had a run recorded", SOON)
        .await?;
    said(&project, 0, &["replay", "run.json", "--by", "content"]).await?;
    let nobody = ["record", "cluster://nowhere/default/a", "--admin", &address];
    let nobody = said(&project, 1, &nobody).await?.stderr;
    assert!(nobody.contains("works in cluster \"nowhere\""), "{nobody}");

    // What is no recording is refused with the reason.
    let file = std::fs::read_to_string(project.path().join("run.json"))?;
    for (name, text, says) in [
        ("damaged", file.replace("\"steps\"", "\"stops\""), "damaged"),
        (
            "later",
            file.replace("\"windlassRecording\": 1", "\"windlassRecording\": 2"),
            "format 2",
        ),
        (
            "other",
            file.replace("runtime@0.1.0", "runtime@9.0.0"),
            "runtime@9.0.0",
        ),
    ] {
        let name = format!("{name}.json");
        project.write(&name, text)?;
        let refused = said(&project, 1, &["replay", &name]).await?.stderr;
        assert!(
            refused.contains(says) && refused.contains(&name),
            "{refused}"
        );
    }
    Ok(())
}
