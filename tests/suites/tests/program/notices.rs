//! What the program records itself, as Events in the local cluster: changes that are refused, and keys that ask to run without end.
//! Those on real servers stand in `from_cluster` and the examples.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::reloading::{replace, saying};
use crate::running::{SOON, client_of, fleet, named, start};
use anyhow::{Context, Result};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use windlass_apiserver::{Cluster, Server};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Output, Program};

const MANAGER: &str = "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: manager}\nspec:\n  \
                       local: {kubeconfig: ./hub.kubeconfig, context: hub}\n";

/// The Events about Reconcilers that a cluster has.
fn events(cluster: &Cluster) -> Result<Vec<Json>> {
    let all = cluster
        .list("v1", "Event", "")
        .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let about = |event: &Json| event["involvedObject"]["kind"] == "Reconciler";
    Ok(all.into_iter().filter(about).collect())
}

/// Waits for one Event of a type that says so, recorded so often, and returns it.
pub(crate) async fn told(
    cluster: &Cluster,
    of: &str,
    message: &str,
    by: &str,
    count: u64,
) -> Result<Json> {
    let what = format!("{count} × {of} with {message:?}");
    eventually(SOON, &what, || async {
        let all = events(cluster)?;
        let found = all.iter().find(|event| {
            let said = event["message"].as_str().unwrap_or_default();
            let reporter = event["reportingInstance"].as_str().unwrap_or_default();
            event["type"] == of && said.contains(message) && reporter.contains(by)
        });
        Ok(match found {
            Some(event) if event["count"] == count => Seen::Yes(event.clone()),
            _ => Seen::NotYet(Json::from(all).to_string()),
        })
    })
    .await
}

/// A program with a local cluster and one reconciler, whose guest is a file of its own.
struct Scene {
    project: Project,
    program: Program,
    alpha: ConfigMaps,
    hub: Cluster,
    server: Server,
}

impl Scene {
    /// With the hub down from the beginning, or not.
    async fn start(down: bool) -> Result<Self> {
        let project = Project::new()?;
        project.write("hello.wasm", fs::read(guest("hello"))?)?;
        let server = fleet(&project, &["alpha"]).await?;
        server.add_cluster("hub");
        project.write("hub.kubeconfig", server.kubeconfig())?;
        let hub = server.cluster("hub").context("the hub")?;
        hub.down(down);
        project.write_config(&[MANAGER.to_owned(), hello()])?;
        let (program, _) = start(&project).await?;
        let alpha = client_of(&project, "alpha").await?;
        let scene = Self {
            project,
            program,
            alpha,
            hub,
            server,
        };
        scene.serves("a", "from").await?;
        Ok(scene)
    }

    fn file(&self) -> PathBuf {
        self.project.path().join("hello.wasm")
    }

    fn configure(&self, document: &str) -> Result<PathBuf> {
        self.project
            .write_config(&[MANAGER.to_owned(), document.to_owned()])
    }

    /// Waits until what is asked for now is greeted by the revision that says so.
    async fn serves(&self, name: &str, word: &str) -> Result<()> {
        self.alpha.ask(name, "world").await?;
        let greeting = format!("hello, world, {word} alpha");
        self.alpha.expect_greeting(name, Some(&greeting)).await
    }
}

fn hello() -> String {
    reconciler("hello", "hello.wasm".as_ref())
}

#[tokio::test]
async fn a_refused_reload_is_an_event_in_the_local_cluster_and_so_is_its_end() -> Result<()> {
    let mut scene = Scene::start(false).await?;
    let component = saying("FROM")?;
    let half = &component[..component.len() / 2];
    assert_eq!(events(&scene.hub)?, [Json::Null; 0]);

    // A guest: what served goes on, and the Event says why.
    replace(&scene.file(), half)?;
    let event = told(
        &scene.hub,
        "Warning",
        "hello.wasm ends in the middle",
        "",
        1,
    )
    .await?;
    assert_eq!(
        (&event["reason"], &event["action"]),
        (&json!("ReloadRefused"), &json!("Reload"))
    );
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Reconciler", "name": "hello", "namespace": "default", "uid": ""})
    );
    assert_eq!(event["source"]["component"], "windlass");
    assert_eq!(event["source"]["host"], event["reportingInstance"]);
    assert_ne!(event["reportingInstance"], "");
    scene.serves("b", "from").await?;
    replace(&scene.file(), &component)?;
    let event = told(&scene.hub, "Normal", "in effect", "", 1).await?;
    assert_eq!(event["reason"], "ReloadSucceeded");
    scene.serves("c", "FROM").await?;

    // The same once more is the same Event; so is its end, though it is taken back this time.
    replace(&scene.file(), half)?;
    told(
        &scene.hub,
        "Warning",
        "hello.wasm ends in the middle",
        "",
        2,
    )
    .await?;
    replace(&scene.file(), &component)?;
    told(&scene.hub, "Normal", "in effect", "", 2).await?;

    // Configuration that the guest cannot live with, and a document that is none.
    scene.configure(&hello().replace("greeting: hello", "greeting: [hello]"))?;
    told(&scene.hub, "Warning", "the guest refuses to start", "", 1).await?;
    scene.configure(&hello().replace("  config:", "  confg:"))?;
    told(&scene.hub, "Warning", "did you mean \"config\"?", "", 1).await?;
    scene.serves("d", "FROM").await?;
    scene.configure(&hello())?;
    told(&scene.hub, "Normal", "in effect", "", 3).await?;

    // One that is removed while it is refused is no success.
    replace(&scene.file(), half)?;
    told(
        &scene.hub,
        "Warning",
        "hello.wasm ends in the middle",
        "",
        3,
    )
    .await?;
    let mark = scene.program.line_count();
    scene.configure("")?;
    scene
        .program
        .line_with_from(mark, "reconciler removed", SOON)
        .await?;
    assert_eq!(events(&scene.hub)?.len(), 4);
    told(&scene.hub, "Normal", "in effect", "", 3).await?;
    Ok(())
}

#[tokio::test]
async fn a_local_cluster_that_is_down_delays_no_reload_and_is_told_once_it_is_there() -> Result<()>
{
    let mut scene = Scene::start(true).await?;
    let component = saying("FROM")?;
    replace(&scene.file(), &component[..component.len() / 2])?;
    scene
        .program
        .line_with("the change is not in effect", SOON)
        .await?;
    scene.serves("b", "from").await?;
    replace(&scene.file(), &component)?;
    scene.serves("c", "FROM").await?;
    scene.hub.down(false);
    told(
        &scene.hub,
        "Warning",
        "hello.wasm ends in the middle",
        "",
        1,
    )
    .await?;
    told(&scene.hub, "Normal", "in effect", "", 1).await?;
    Ok(())
}

/// Objects that a reconciler sets itself off for. Few: they have to run often for it to be a storm, also where the machine has other
/// things to do.
const HOT: usize = 3;

/// Names of the objects that the log tells of storms of.
fn hot_keys(written: &str) -> BTreeSet<String> {
    let lines = written
        .lines()
        .filter(|line| line.contains("a key asks to run without end"));
    let read = lines.filter_map(|line| serde_json::from_str::<Json>(line).ok());
    read.filter_map(|line| Some(line["name"].as_str()?.to_owned()))
        .collect()
}

#[tokio::test]
async fn a_key_that_asks_to_run_without_end_is_an_event_about_its_reconciler() -> Result<()> {
    let scene = Scene::start(false).await?;
    // Its watch sees nothing of what the other one does.
    let rules = r#"[{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, patch], namespaces: [hot]}]"#;
    let stormy = format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Reconciler\nmetadata: {{name: stormy}}\nspec:\n  tenant: team-a\n  \
         guest: {{path: ./stormy.wasm}}\n  config: {{counts: true, after: 0}}\n  rules: {rules}\n"
    );
    let component = fs::read(guest("test-requeue"))?;
    scene.project.write("stormy.wasm", &component)?;
    scene.configure(&format!("{}{stormy}", hello()))?;
    let alpha = scene.server.cluster("alpha").context("alpha")?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hot"}});
    let created = alpha.create(namespace);
    created.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    for at in 0..HOT {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{at}"), "namespace": "hot"}});
        let created = alpha.create(object);
        created.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    eventually(SOON, "a line about each of them", || async {
        let told = hot_keys(&scene.program.written(Output::Stderr));
        Ok(Seen::of(told, |told| told.len() == HOT))
    })
    .await?;
    for at in 0..HOT {
        let deleted = alpha.delete("v1", "ConfigMap", "hot", &format!("m{at}"));
        deleted.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    scene.serves("b", "from").await?;
    let storms = eventually(SOON, "an event about each of them", || async {
        let all = events(&scene.hub)?.into_iter();
        let storms = all.filter(|event| event["reason"] == "HotKeyThrottled");
        Ok(Seen::of(storms.collect::<Vec<_>>(), |storms| {
            storms.len() >= HOT
        }))
    })
    .await?;
    let mut keys = BTreeSet::new();
    for event in &storms {
        assert_eq!(
            (&event["type"], &event["action"]),
            (&json!("Warning"), &json!("Reconcile"))
        );
        assert_eq!(
            event["involvedObject"],
            json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Reconciler", "name": "stormy", "namespace": "default", "uid": ""})
        );
        let message = event["message"].as_str().unwrap_or_default();
        let (key, said) = message.split_once(' ').context("a key")?;
        assert!(
            said.starts_with("is enqueued without end and is throttled"),
            "{message}"
        );
        keys.insert(key.to_owned());
    }
    let hot = |at| format!("cluster://{}/hot/m{at}", named("alpha").replace('/', "%2F"));
    assert_eq!(keys.len(), storms.len(), "each is one Event: {keys:?}");
    assert!(keys.is_subset(&(0..HOT).map(hot).collect()), "{keys:?}");

    // What is refused of the same document is another one.
    let file = scene.project.path().join("stormy.wasm");
    replace(&file, &component[..component.len() / 2])?;
    let why = "stormy.wasm ends in the middle";
    let event = told(&scene.hub, "Warning", why, "", 1).await?;
    assert_eq!(event["reason"], "ReloadRefused");
    Ok(())
}
