//! Objects that are held by finalizers of a reconciler: the warning when it is removed, and the command that lets them go.

use crate::faults::DEFINITION;
use crate::hub::{Hub, SOON, object};
use crate::memory_hub::MemoryHub;
use crate::project::Project;
use crate::running::{ask, fleet, start, table};
use anyhow::{Context, Result};
use kube_client::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::proxy::{Network, Proxy};
use windlass_harness::testenv::{Environment, Spec, crds};

const OWN: &str = "test.windlass.dev/crash";
const OTHER: &str = "example.com/other";
const KIND: &str = "Crash.test.windlass.dev";

pub(crate) fn rules() -> Json {
    json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"], "namespaces": ["*"]},
        {"apiGroups": ["test.windlass.dev"], "resources": ["crashes"], "verbs": ["*"], "namespaces": ["*"]},
    ])
}

/// Candidates that take over within seconds.
const ELECTION: &str = "  leaderElection: {enabled: true, namespace: default, name: test, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n";

/// A document whose guest holds each Crash by a finalizer.
fn document() -> String {
    let spec = json!({
        "guest": {"path": guest("test-crash")},
        "config": {"pattern": "finalizer", "mistake": false}, "rules": rules(),
    });
    format!("---\n{}\n", object("Reconciler", "crash", spec))
}

/// The Crashes of a cluster.
pub(crate) struct Crashes(Api<DynamicObject>);

impl Crashes {
    /// Installs the kind.
    async fn of(client: Client) -> Result<Self> {
        let definition: Json = serde_saphyr::from_str(DEFINITION)?;
        crds::install(&client, &definition).await?;
        let kind = GroupVersionKind::gvk("test.windlass.dev", "v1", "Crash");
        let resource = ApiResource::from_gvk_with_plural(&kind, "crashes");
        Ok(Self(Api::namespaced_with(client, "default", &resource)))
    }

    pub(crate) async fn in_context(kubeconfig: &Path, context: &str) -> Result<Self> {
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &options).await?;
        Self::of(Client::try_from(config)?).await
    }

    /// Creates one, and waits until the guest holds it.
    pub(crate) async fn create_held(&self, name: &str) -> Result<()> {
        let crash = json!({
            "apiVersion": "test.windlass.dev/v1", "kind": "Crash", "metadata": {"name": name}, "spec": {"text": "x"},
        });
        let crash = serde_json::from_value(crash)?;
        self.0.create(&PostParams::default(), &crash).await?;
        self.expect(name, Some(&[OWN])).await
    }

    /// Waits until one has these finalizers, or is gone.
    pub(crate) async fn expect(&self, name: &str, finalizers: Option<&[&str]>) -> Result<()> {
        let wanted = finalizers.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        eventually(
            SOON,
            &format!("{name} to be held by {wanted:?}"),
            || async {
                let found = self.0.get_opt(name).await?;
                let found = found.map(|found| found.metadata.finalizers.unwrap_or_default());
                Ok(Seen::of(found, |found| *found == wanted))
            },
        )
        .await
        .map(drop)
    }

    /// Creates so many, and waits until the guest holds all.
    async fn create_all_held(&self, count: usize) -> Result<()> {
        for number in 0..count {
            let crash = json!({
                "apiVersion": "test.windlass.dev/v1", "kind": "Crash", "metadata": {"name": format!("c{number}")}, "spec": {"text": "x"},
            });
            let crash = serde_json::from_value(crash)?;
            self.0.create(&PostParams::default(), &crash).await?;
        }
        self.expect_held(count).await
    }

    /// Creates one that another program holds, and not the guest.
    async fn create_foreign(&self, name: &str) -> Result<()> {
        let crash = json!({
            "apiVersion": "test.windlass.dev/v1", "kind": "Crash", "spec": {"text": "x"},
            "metadata": {"name": name, "finalizers": [OTHER]},
        });
        let crash = serde_json::from_value(crash)?;
        self.0.create(&PostParams::default(), &crash).await?;
        Ok(())
    }

    async fn all(&self) -> Result<Vec<DynamicObject>> {
        Ok(self.0.list(&ListParams::default()).await?.items)
    }

    /// Waits until the guest holds so many.
    async fn expect_held(&self, count: usize) -> Result<()> {
        let own = |crash: &DynamicObject| {
            let finalizers = crash.metadata.finalizers.iter().flatten();
            finalizers.into_iter().any(|finalizer| finalizer == OWN)
        };
        eventually(SOON, &format!("{count} held objects"), || async {
            let held = self.all().await?.into_iter().filter(own).count();
            Ok(Seen::of(held, |held| *held == count))
        })
        .await
        .map(drop)
    }

    /// The version of each by its name.
    async fn versions(&self) -> Result<BTreeMap<String, String>> {
        let of = |crash: DynamicObject| {
            let version = crash.metadata.resource_version.unwrap_or_default();
            (crash.metadata.name.unwrap_or_default(), version)
        };
        Ok(self.all().await?.into_iter().map(of).collect())
    }

    /// Adds a finalizer of another program.
    async fn hold_too(&self, name: &str) -> Result<()> {
        let patch = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": OTHER}]);
        let patch = Patch::<()>::Json(serde_json::from_value(patch)?);
        let parameters = PatchParams::apply("somebody");
        self.0.patch(name, &parameters, &patch).await?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}

async fn refused(project: &Project, address: &str, args: &[&str]) -> Result<String> {
    let args = args.iter().copied().chain(["--admin", address]);
    let finished = Program::run(project.path(), args, SOON).await?;
    Ok(finished.expect_code(1)?.stderr)
}

/// The places and finalizers of an answer's objects.
fn held(answer: &Json) -> Vec<String> {
    let items = answer["items"].as_array().into_iter().flatten();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let line = |item: &Json| {
        let place = ["cluster", "kind", "namespace", "name"].map(|field| text(&item[field]));
        format!("{} {}", place.join(" "), item["finalizers"])
    };
    items.map(line).collect()
}

/// The Reconciler is removed while it holds `a` in alpha and `b` in beta. Another program holds `a` too.
async fn a_removed_reconciler_lets_its_objects_go(
    project: &Project,
    alpha: &Crashes,
    beta: &Crashes,
) -> Result<()> {
    project.write_config(&[document()])?;
    let (mut program, address) = start(project).await?;
    alpha.create_held("a").await?;
    beta.create_held("b").await?;
    alpha.hold_too("a").await?;

    // What it may write is looked at.
    let all = ask(project, &address, &["release", "crash"]).await?;
    let a = format!("alpha {KIND} default a [\"{OWN}\"]");
    let b = format!("beta {KIND} default b [\"{OWN}\"]");
    assert_eq!(held(&all), [a.clone(), b.clone()], "{all}");
    assert_eq!(all["manager"], "windlass:default/crash");
    assert_eq!(
        (&all["count"], &all["lists"], &all["unread"]),
        (&json!(2), &json!(4), &json!([]))
    );
    let error = refused(project, &address, &["release", "crash", "--yes"]).await?;
    assert!(error.contains("Reconciler crash is at work"), "{error}");

    project.write_config(&[])?;
    let warning = program
        .line_with("objects hold finalizers of it", SOON)
        .await?;
    let warning: Json = serde_json::from_str(&warning)?;
    for (field, value) in [
        ("level", json!("WARN")),
        ("reconciler", json!("crash")),
        ("objects", json!(2)),
        ("clusters", json!(2)),
        ("deleting", json!(0)),
        ("command", json!("windlass release crash")),
    ] {
        assert_eq!(warning[field], value, "{warning}");
    }

    // Nothing is known of it any more: every kind is looked at.
    alpha.delete("a").await?;
    let rows = table(project, &address, &["release", "crash"]).await?;
    let row = |row: usize| {
        let cells = ["CLUSTER", "KIND", "NAME", "FINALIZERS", "DELETING"];
        cells.map(|heading| rows[row][heading].as_str())
    };
    assert_eq!(row(0), ["alpha", KIND, "a", OWN, "yes"]);
    assert_eq!(row(1), ["beta", KIND, "b", OWN, "no"]);
    let of = |more: &[&'static str]| [&["release", "crash"], more].concat();
    let other = ask(project, &address, &of(&["--kind", "ConfigMap"])).await?;
    assert_eq!((&other["count"], &other["lists"]), (&json!(0), &json!(2)));
    let other = ask(project, &address, &of(&["--tenant", "team-a"])).await?;
    assert_eq!(other["count"], json!(0), "{other}");
    let deleting = ask(project, &address, &of(&["--deleting"])).await?;
    assert_eq!(held(&deleting), [a]);

    let let_go = ask(project, &address, &of(&["--deleting", "--yes"])).await?;
    assert_eq!(
        (&let_go["released"], &let_go["failed"]),
        (&json!(1), &json!(0)),
        "{let_go}"
    );
    alpha.expect("a", Some(&[OTHER])).await?;
    beta.expect("b", Some(&[OWN])).await?;
    beta.delete("b").await?;
    let args = of(&["--cluster", "beta", "--in-namespace", "default", "--yes"]);
    let let_go = ask(project, &address, &args).await?;
    assert_eq!(held(&let_go), [b]);
    beta.expect("b", None).await?;
    let all = ask(project, &address, &["release", "crash"]).await?;
    assert_eq!(
        (&all["count"], &all["unread"]),
        (&json!(0), &json!([])),
        "{all}"
    );
    let error = refused(project, &address, &["release", "crash", "--cluster", "x"]).await?;
    assert!(error.contains("there is no cluster \"x\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_objects_of_a_removed_reconciler_are_counted_and_let_go() -> Result<()> {
    let project = Project::new()?;
    let _server = fleet(&project, &["alpha", "beta"]).await?;
    let kubeconfig = project.path().join("clusters/fleet.kubeconfig");
    let alpha = Crashes::in_context(&kubeconfig, "alpha").await?;
    let beta = Crashes::in_context(&kubeconfig, "beta").await?;
    a_removed_reconciler_lets_its_objects_go(&project, &alpha, &beta).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_objects_of_a_removed_reconciler_are_let_go_on_real_servers() -> Result<()> {
    let environment = Environment::start(["alpha", "beta"].map(Spec::new)).await?;
    let project = Project::new()?;
    std::fs::create_dir_all(project.path().join("clusters"))?;
    for server in environment.servers() {
        let file = format!("clusters/{}.kubeconfig", server.name());
        server.write_kubeconfig(&project.path().join(file))?;
    }
    let alpha = Crashes::of(environment.server("alpha").client().await?).await?;
    let beta = Crashes::of(environment.server("beta").client().await?).await?;
    a_removed_reconciler_lets_its_objects_go(&project, &alpha, &beta).await
}

#[tokio::test]
async fn a_paused_reconciler_of_the_cluster_lets_objects_go_and_an_event_says_what_is_left()
-> Result<()> {
    let hub = MemoryHub::start().await?;
    let project = &hub.project;
    std::fs::copy(guest("test-crash"), project.path().join("guest.wasm"))?;
    hub.write_manager("windlass.yaml", "")?;
    let alpha = project.path().join("clusters/fleet.kubeconfig");
    let alpha = Crashes::in_context(&alpha, "alpha").await?;
    let tenant = json!({
        "namespaces": {"names": ["team-a"]}, "rules": rules(), "clusters": {"names": ["*"]},
    });
    hub.put(object("Tenant", "a", tenant))?;
    let spec = json!({
        "guest": {"name": "hello"}, "config": {"pattern": "finalizer", "mistake": false}, "rules": rules(),
    });
    hub.put(object("Reconciler", "team-a/x", spec))?;
    let mut of = hub.run("windlass.yaml", "cache").await?;
    alpha.create_held("a").await?;
    alpha.create_held("b").await?;

    let name = ["release", "team-a/x"];
    let error = refused(project, &of.address, &[&name[..], &["--yes"]].concat()).await?;
    assert!(
        error.contains("windlass pause --reconciler team-a/x"),
        "{error}"
    );
    ask(project, &of.address, &["pause", "--reconciler", "team-a/x"]).await?;
    let let_go = eventually(SOON, "a paused reconciler to let objects go", || async {
        let args = [&name[..], &["--yes", "--admin", &of.address, "-o", "json"]].concat();
        let finished = Program::run(project.path(), args, SOON).await?;
        Ok(match finished.expect_code(0) {
            Ok(finished) => Seen::Yes(serde_json::from_str::<Json>(&finished.stdout)?),
            Err(refused) => Seen::NotYet(refused.to_string()),
        })
    })
    .await?;
    assert_eq!(
        (&let_go["manager"], &let_go["released"]),
        (&json!("windlass:team-a/x"), &json!(2))
    );
    alpha.expect("a", Some(&[])).await?;

    // It takes them back, and goes.
    ask(
        project,
        &of.address,
        &["resume", "--reconciler", "team-a/x"],
    )
    .await?;
    alpha.expect("a", Some(&[OWN])).await?;
    let deleted = hub
        .hub
        .delete("windlass.dev/v1alpha1", "Reconciler", "team-a", "x");
    deleted.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    of.program
        .line_with("objects hold finalizers of it", SOON)
        .await?;
    eventually(SOON, "an Event about the finalizers", || async {
        let all = hub.hub.list("v1", "Event", "team-a");
        let all = all.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let mut all = all.into_iter();
        let event = all.find(|event| event["reason"] == "FinalizersLeft");
        Ok(match event {
            Some(event) => Seen::Yes(event),
            None => Seen::NotYet("none".to_owned()),
        })
    })
    .await
    .map(|event| {
        assert_eq!(event["type"], "Warning");
        event["message"].as_str().map(str::to_owned)
    })?
    .filter(|message| message.ends_with("see windlass release team-a/x"))
    .context("the command")?;
    Ok(())
}

/// The process that leads dies while it lets objects of two clusters go: those of alpha are, and beta does not answer.
#[tokio::test]
#[ignore = "needs real servers"]
async fn a_release_whose_process_dies_in_the_middle_is_gone_on_with_by_the_next_one() -> Result<()>
{
    const MANY: usize = 60;
    let hub = Hub::of(["hub", "alpha", "beta"].map(Spec::new), &[]).await?;
    let (project, server) = (&hub.project, hub.environment.server("beta"));
    let target = server.url().trim_start_matches("https://").parse()?;
    let network = Proxy::start(target).await?;
    let file = project.path().join("clusters/beta.kubeconfig");
    let kubeconfig = std::fs::read_to_string(&file)?;
    let proxied = format!("https://{}", network.address());
    std::fs::write(&file, kubeconfig.replace(&server.url(), &proxied))?;
    let alpha = Crashes::of(hub.environment.server("alpha").client().await?).await?;
    let beta = Crashes::of(server.client().await?).await?;
    hub.write_manager(ELECTION, &document())?;
    let (mut first, leading) = start(project).await?;
    first.line_with("\"leading\"", SOON).await?;
    let (mut second, waiting) = start(project).await?;
    alpha.create_all_held(MANY).await?;
    beta.create_all_held(MANY).await?;
    beta.hold_too("c0").await?;
    hub.write_manager(ELECTION, "")?;
    first
        .line_with("objects hold finalizers of it", SOON)
        .await?;
    alpha.create_foreign("foreign").await?;
    beta.create_foreign("foreign").await?;
    let foreign = beta.versions().await?["foreign"].clone();

    let args = ["release", "crash", "--yes"];
    let error = refused(project, &waiting, &args).await?;
    assert!(error.contains("another process leads"), "{error}");
    network.set(Network::Frozen);
    let flags = args.iter().copied().chain(["--admin", &leading]);
    let releasing = Program::start(project.path(), flags)?;
    alpha.expect_held(0).await?;
    first.signal("KILL")?;
    let broken = releasing.wait(SOON).await?.expect_code(1)?.stderr;
    assert!(
        broken.contains("let go for certain") && broken.contains("run the same command again"),
        "{broken}"
    );
    beta.expect_held(MANY).await?;
    let after = alpha.versions().await?;

    network.set(Network::Well);
    second.line_with("\"leading\"", SOON).await?;
    eventually(SOON, "the rest to be let go", || async {
        let flags = args.iter().copied().chain(["--admin", &waiting]);
        let finished = Program::run(project.path(), flags, SOON).await?;
        Ok(match finished.expect_code(0) {
            Ok(finished) => Seen::Yes(finished.stdout),
            Err(refused) => Seen::NotYet(refused.to_string()),
        })
    })
    .await?;
    beta.expect_held(0).await?;
    beta.expect("c0", Some(&[OTHER])).await?;
    assert_eq!(
        alpha.versions().await?,
        after,
        "what was let go is written again"
    );
    assert_eq!(beta.versions().await?["foreign"], foreign);
    let left = ask(project, &waiting, &["release", "crash"]).await?;
    assert_eq!((&left["count"], &left["unread"]), (&json!(0), &json!([])));
    Ok(())
}
