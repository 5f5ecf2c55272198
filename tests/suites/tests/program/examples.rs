//! The examples on real API servers, with credentials that may do what `windlass rbac` prints and nothing else; and the one that is
//! about languages in memory.

use crate::languages;
use crate::project::Project;
use crate::running::{SOON, ask};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube_client::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;
use windlass_harness::testenv::{Environment, Server, Spec};

/// Whom the manager's credentials are of.
pub(crate) const USER: &str = "windlass";

/// An example's documents in a folder of their own, with its guest as it was built.
fn project(example: &str, of: &str) -> Result<Project> {
    let project = Project::new()?;
    let folder = windlass_harness::repository()
        .join("examples")
        .join(example);
    let text = fs::read_to_string(folder.join("windlass.yaml"))?;
    let source = format!("../../guests/{of}");
    ensure!(text.contains(&source), "{example} has the guest {of}");
    let built = guest(of);
    let text = text.replace(&source, built.to_str().context("a path")?);
    project.write("windlass.yaml", text)?;
    fs::create_dir(project.path().join("clusters"))?;
    Ok(project)
}

impl Project {
    fn edit(&self, from: &str, to: &str) -> Result<()> {
        let text = fs::read_to_string(self.path().join("windlass.yaml"))?;
        ensure!(text.contains(from), "{from:?} is there");
        self.write("windlass.yaml", text.replace(from, to))
            .map(drop)
    }
}

/// Puts what `windlass rbac` prints into a server, changed by `edit`, by its administrator.
pub(crate) async fn allow(
    environment: &Environment,
    project: &Project,
    server: &Server,
    flags: &[&str],
    edit: impl Fn(String) -> String,
) -> Result<()> {
    let bind = format!("user:{USER}");
    let usual = ["rbac", "-f", "windlass.yaml", "--bind", &bind];
    let args = usual.iter().chain(flags);
    let finished = Program::run(project.path(), args, SOON).await?;
    let finished = finished.expect_code(0)?;
    // All guests could be asked, and all namespaces are known.
    ensure!(!finished.stderr.contains("note:"), "{}", finished.stderr);
    kubectl(
        environment,
        server,
        &["apply", "-f", "-"],
        &edit(finished.stdout),
    )
    .await
}

/// Runs kubectl as the administrator.
pub(crate) async fn kubectl(
    environment: &Environment,
    server: &Server,
    args: &[&str],
    input: &str,
) -> Result<()> {
    use tokio::io::AsyncWriteExt;
    let kubeconfig = environment
        .folder()
        .join(format!("{}.admin", server.name()));
    server.write_kubeconfig(&kubeconfig)?;
    let mut child = tokio::process::Command::new(environment.binaries().kubectl())
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("an input")?;
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "kubectl {args:?}: {said}\n{input}");
    Ok(())
}

/// Starts `run`, and returns it with its admin address.
pub(crate) async fn run(project: &Project) -> Result<(Program, String)> {
    let args = ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"];
    let mut program = Program::start(project.path(), args)?;
    let line = program.line_with("admin endpoints", SOON).await?;
    let line: Json = serde_json::from_str(&line)?;
    let address = line["address"].as_str().context("an address")?.to_owned();
    Ok((program, address))
}

/// ConfigMaps of a namespace of a server, as its administrator sees them.
struct Maps(Api<ConfigMap>);

impl Maps {
    async fn of(server: &Server, namespace: &str) -> Result<Self> {
        Ok(Self(Api::namespaced(server.client().await?, namespace)))
    }

    async fn create(&self, name: &str, label: &str, data: Json) -> Result<()> {
        let map = json!({"metadata": {"name": name, "labels": {label: "yes"}}, "data": data});
        let map = serde_json::from_value(map)?;
        self.0.create(&PostParams::default(), &map).await?;
        Ok(())
    }

    async fn merge(&self, name: &str, patch: Json) -> Result<()> {
        let patch = Patch::Merge(patch);
        self.0.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn data(&self, name: &str) -> Result<Option<BTreeMap<String, String>>> {
        let map = self.0.get_opt(name).await?;
        Ok(map.map(|map| map.data.unwrap_or_default()))
    }

    /// Waits until a ConfigMap holds just this, or is absent.
    async fn expect(&self, name: &str, wanted: Option<&[(&str, &str)]>) -> Result<()> {
        let wanted = wanted.map(|pairs| {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>()
        });
        eventually(
            SOON,
            &format!("ConfigMap {name} to be {wanted:?}"),
            || async { Ok(Seen::of(self.data(name).await?, |data| *data == wanted)) },
        )
        .await
        .map(drop)
    }
}

/// Waits until some key of a reconciler fails with this in its error.
async fn expect_failure(project: &Project, address: &str, parts: &[&str]) -> Result<String> {
    eventually(
        SOON,
        &format!("a key that fails with {parts:?}"),
        || async {
            let failing = ask(project, address, &["get", "keys", "--state", "failing"]).await?;
            let items = failing["items"].as_array().cloned().unwrap_or_default();
            let errors = items.iter().filter_map(|key| key["lastError"].as_str());
            let found = errors
                .map(str::to_owned)
                .find(|error| parts.iter().all(|part| error.contains(part)));
            Ok(found.map_or_else(|| Seen::NotYet(failing.to_string()), Seen::Yes))
        },
    )
    .await
}

async fn expect_no_failure(project: &Project, address: &str) -> Result<()> {
    eventually(SOON, "no key to fail", || async {
        let failing = ask(project, address, &["get", "keys", "--state", "failing"]).await?;
        Ok(Seen::of(failing["items"].clone(), |items| {
            items.as_array().is_some_and(Vec::is_empty)
        }))
    })
    .await
    .map(drop)
}

/// Waits for an Event of this reason in the namespace `default`.
async fn expect_event(server: &Server, reason: &str) -> Result<()> {
    let events: Api<Event> = Api::namespaced(server.client().await?, "default");
    eventually(SOON, &format!("an Event {reason}"), || async {
        let all = events.list(&Default::default()).await?.items;
        let reasons: Vec<_> = all.into_iter().filter_map(|event| event.reason).collect();
        Ok(Seen::of(reasons, |seen| {
            seen.iter().any(|seen| seen == reason)
        }))
    })
    .await
    .map(drop)
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_hub_is_kept_in_its_spokes_by_the_role_that_is_printed_for_it() -> Result<()> {
    let servers = ["hub", "east", "west"].map(|name| Spec::new(name).with_user(USER));
    let environment = Environment::start(servers).await?;
    let server = |name: &str| environment.server(name);
    let project = project("hub-and-spokes", "spread")?;
    let unchanged = |text: String| text;
    project.write("hub/hub.kubeconfig", server("hub").kubeconfig_of(USER))?;
    allow(
        &environment,
        &project,
        server("hub"),
        &["--local"],
        unchanged,
    )
    .await?;
    for spoke in ["east", "west"] {
        allow(&environment, &project, server(spoke), &[], unchanged).await?;
    }
    let join = |name: &str| {
        let file = format!("clusters/{name}.kubeconfig");
        project.write(&file, server(name).kubeconfig_of(USER))
    };
    join("east")?;
    // A third one is dead from the beginning: nobody listens at that port.
    let dead = server("east")
        .kubeconfig_of(USER)
        .replace(&server("east").url(), "https://127.0.0.1:1");
    project.write("clusters/dead.kubeconfig", dead.replace("east", "dead"))?;
    let (hub, east, west) = (
        Maps::of(server("hub"), "default").await?,
        Maps::of(server("east"), "default").await?,
        Maps::of(server("west"), "default").await?,
    );
    const SPREAD: &str = "hub.windlass.dev/spread";
    hub.create("settings", SPREAD, json!({"colour": "blue"}))
        .await?;
    hub.create("private", "other", json!({"text": "stays"}))
        .await?;
    west.create("dropped", "hub.windlass.dev/copy", json!({"text": "gone"}))
        .await?;
    let (program, address) = run(&project).await?;

    // What is there is copied, and followed.
    east.expect("settings", Some(&[("colour", "blue")])).await?;
    hub.merge("settings", json!({"data": {"colour": "green"}}))
        .await?;
    east.expect("settings", Some(&[("colour", "green")]))
        .await?;
    // Drift is repaired.
    east.merge(
        "settings",
        json!({"data": {"colour": "red", "more": "of it"}}),
    )
    .await?;
    east.expect("settings", Some(&[("colour", "green")]))
        .await?;
    east.delete("settings").await?;
    east.expect("settings", Some(&[("colour", "green")]))
        .await?;
    assert_eq!(east.data("private").await?, None);

    // A cluster that comes is filled, and loses what has no original any more.
    join("west")?;
    west.expect("settings", Some(&[("colour", "green")]))
        .await?;
    west.expect("dropped", None).await?;

    // A deletion spreads, and reaches one that was away once it is back; nobody waits for it.
    server("west").kill();
    hub.create("later", SPREAD, json!({"n": "1"})).await?;
    hub.delete("settings").await?;
    east.expect("settings", None).await?;
    east.expect("later", Some(&[("n", "1")])).await?;
    server("west").restart().await?;
    west.expect("later", Some(&[("n", "1")])).await?;
    west.expect("settings", None).await?;

    // The same for one that had left the fleet.
    fs::remove_file(project.path().join("clusters/west.kubeconfig"))?;
    eventually(SOON, "west to leave", || async {
        let clusters = ask(&project, &address, &["get", "clusters"])
            .await?
            .to_string();
        Ok(Seen::of(clusters, |told| !told.contains("west")))
    })
    .await?;
    hub.delete("later").await?;
    hub.create("last", SPREAD, json!({"n": "2"})).await?;
    east.expect("later", None).await?;
    assert!(west.data("later").await?.is_some() && west.data("last").await?.is_none());
    join("west")?;
    west.expect("later", None).await?;
    west.expect("last", Some(&[("n", "2")])).await?;
    expect_no_failure(&project, &address).await?;

    // The role has nothing to spare: without a verb, what needs it fails and says so, and works again once it is back.
    let less = |text: String| text.replace(", delete]", "]");
    allow(&environment, &project, server("east"), &[], less).await?;
    hub.delete("last").await?;
    west.expect("last", None).await?;
    expect_failure(
        &project,
        &address,
        &["forbidden", "cannot delete resource \"configmaps\""],
    )
    .await?;
    assert!(east.data("last").await?.is_some());
    allow(&environment, &project, server("east"), &[], unchanged).await?;
    east.expect("last", None).await?;
    expect_no_failure(&project, &address).await?;

    // A change that is refused is told in the hub, and so is its end; what ran goes on.
    project.edit(".wasm}", ".gone}")?;
    expect_event(server("hub"), "ReloadRefused").await?;
    hub.create("beside", SPREAD, json!({"n": "3"})).await?;
    east.expect("beside", Some(&[("n", "3")])).await?;
    project.edit(".gone}", ".wasm}")?;
    expect_event(server("hub"), "ReloadSucceeded").await?;

    // Nothing else was ever written to the hub but by its administrator.
    assert_eq!(
        hub.data("private").await?,
        Some([("text".to_owned(), "stays".to_owned())].into())
    );
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn two_tenants_see_and_write_their_own_part_of_the_same_objects() -> Result<()> {
    let environment = Environment::start([Spec::new("alpha").with_user(USER)]).await?;
    let server = environment.server("alpha");
    let project = project("two-tenants", "census")?;
    let seed = windlass_harness::repository().join("examples/two-tenants/seed");
    let seed = seed.to_str().context("a path")?;
    kubectl(&environment, server, &["apply", "-f", seed], "").await?;
    let unchanged = |text: String| text;
    allow(&environment, &project, server, &[], unchanged).await?;
    project.write("clusters/alpha.kubeconfig", server.kubeconfig_of(USER))?;
    let (north, south, shared) = (
        Maps::of(server, "north").await?,
        Maps::of(server, "south").await?,
        Maps::of(server, "shared").await?,
    );
    let (program, address) = run(&project).await?;

    // The same objects, counted twice, each time as far as the grant goes.
    let of_north = [
        ("count", "3"),
        ("in.north", "fir spruce"),
        ("in.shared", "oak"),
    ];
    north.expect("census", Some(&of_north)).await?;
    let of_south = [("count", "2"), ("in.shared", "oak"), ("in.south", "palm")];
    south.expect("census", Some(&of_south)).await?;
    shared
        .create("elm", "census.windlass.dev/count", json!({}))
        .await?;
    south
        .create("olive", "census.windlass.dev/count", json!({}))
        .await?;
    let of_north = [
        ("count", "4"),
        ("in.north", "fir spruce"),
        ("in.shared", "elm oak"),
    ];
    north.expect("census", Some(&of_north)).await?;
    let of_south = [
        ("count", "4"),
        ("in.shared", "elm oak"),
        ("in.south", "olive palm"),
    ];
    south.expect("census", Some(&of_south)).await?;
    assert_eq!(shared.data("census").await?, None);
    expect_no_failure(&project, &address).await?;

    // A tenant that reaches for the other's part is denied by its ceiling, though its own rules allow it, and writes nothing.
    project.edit("config: {report: south}", "config: {report: north}")?;
    let denied = [
        "the tenant's rules do not allow",
        "\"census\" in namespace \"north\"",
    ];
    expect_failure(&project, &address, &denied).await?;
    north
        .create("larch", "census.windlass.dev/count", json!({}))
        .await?;
    let of_north = [
        ("count", "5"),
        ("in.north", "fir larch spruce"),
        ("in.shared", "elm oak"),
    ];
    north.expect("census", Some(&of_north)).await?;
    south.expect("census", Some(&of_south)).await?;
    let text = fs::read_to_string(project.path().join("windlass.yaml"))?;
    let (first, last) = text
        .rsplit_once("config: {report: north}")
        .context("south's config")?;
    project.write(
        "windlass.yaml",
        format!("{first}config: {{report: south}}{last}"),
    )?;
    expect_no_failure(&project, &address).await?;

    // In somebody's name, the server decides too: at first they may do nothing, and the error is the server's.
    project.edit(
        "  weight: 2\n",
        "  weight: 2\n  impersonate: {user: south-bot, groups: [bots]}\n",
    )?;
    allow(&environment, &project, server, &[], unchanged).await?;
    south
        .create("fig", "census.windlass.dev/count", json!({}))
        .await?;
    let forbidden = [
        "forbidden",
        "User \"south-bot\" cannot get resource \"configmaps\"",
    ];
    expect_failure(&project, &address, &forbidden).await?;
    south.expect("census", Some(&of_south)).await?;
    let bind = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {namespace: south, name: bots}\n\
                rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get, create, patch]}]\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {namespace: south, name: bots}\n\
                roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: bots}\n\
                subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: bots}]\n";
    kubectl(&environment, server, &["apply", "-f", "-"], bind).await?;
    let of_south = [
        ("count", "5"),
        ("in.shared", "elm oak"),
        ("in.south", "fig olive palm"),
    ];
    south.expect("census", Some(&of_south)).await?;
    expect_no_failure(&project, &address).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_role_for_a_guest_that_records_events_lets_it_record_them() -> Result<()> {
    let environment = Environment::start([Spec::new("alpha").with_user(USER)]).await?;
    let server = environment.server("alpha");
    let project = project("hello-fleet", "hello")?;
    allow(&environment, &project, server, &[], |text| text).await?;
    project.write("clusters/alpha.kubeconfig", server.kubeconfig_of(USER))?;
    let (_program, address) = run(&project).await?;
    let maps = Maps::of(server, "default").await?;
    let label = "hello.windlass.dev/greet";
    maps.create("a", label, json!({})).await?;
    expect_event(server, "GreetingCreated").await?;
    expect_no_failure(&project, &address).await?;

    // Without the watch, the cluster says what is missing.
    let less = |text: String| text.replace("verbs: [get, list, watch,", "verbs: [get, list,");
    allow(&environment, &project, server, &[], less).await?;
    server.restart().await?; // ends the watch that runs
    eventually(SOON, "the cluster to tell what is forbidden", || async {
        let told = ask(&project, &address, &["get", "clusters"])
            .await?
            .to_string();
        Ok(Seen::of(told, |told| {
            told.contains("cannot watch resource") && told.contains("configmaps")
        }))
    })
    .await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn five_tenants_do_the_same_job_in_five_languages() -> Result<()> {
    let folder = windlass_harness::repository().join("examples/polyglot");
    let tested = languages::windlass(&folder, ["test"]).await?;
    let tested = tested.expect_code(0)?.stdout;
    ensure!(
        tested.contains("greetings") && tested.contains("passed"),
        "{tested}"
    );

    let idle = "dev --admin 127.0.0.1:0 --exit-when-idle --output json";
    let ran = languages::windlass(&folder, idle.split(' ')).await?;
    let report: Json = serde_json::from_str(&ran.expect_code(0)?.stdout)?;
    let clusters = report["clusters"].as_array().context("clusters")?;
    ensure!(
        clusters.len() == 3 && clusters.iter().all(|of| of["changes"] == 5),
        "a greeting in each language: {report}"
    );
    Ok(())
}
