//! Rights that are removed from a running guest are gone at once, whether its reload succeeds or not, and return with the document.

use crate::objects::ConfigMaps;
use crate::project::{HELLO_RULES, Project, reconciler};
use crate::running::{SOON, ask, client_of, fleet, key, start};
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::fs;
use windlass_apiserver::Server;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

const FILE: &str = "guest.wasm";

/// What the status says of a guest that serves with less than it was loaded with.
const LESS: &str = "with no more than the documents grant now";

/// A running program with documents that change.
struct Scene {
    project: Project,
    address: String,
    server: Server,
    program: Program,
}

/// The documents: a tenant with this spec, and reconcilers.
fn documents(tenant: &str, reconcilers: &[String]) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: fleet}}\nspec:\n  \
         kubeconfigFiles: {{paths: [./clusters], globs: [\"*.kubeconfig\"]}}\n---\n\
         apiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: team-a}}\nspec: {tenant}\n{}",
        reconcilers.concat()
    )
}

fn hello() -> String {
    reconciler("hello", FILE.as_ref())
}

impl Scene {
    /// With the clusters alpha and beta, and a guest at [`FILE`].
    async fn start(of: &str, tenant: &str, reconcilers: &[String]) -> Result<Self> {
        let project = Project::new()?;
        project.write(FILE, fs::read(guest(of))?)?;
        project.write("windlass.yaml", documents(tenant, reconcilers))?;
        let server = fleet(&project, &["alpha", "beta"]).await?;
        let (program, address) = start(&project).await?;
        Ok(Self {
            project,
            address,
            server,
            program,
        })
    }

    fn change(&self, tenant: &str, reconcilers: &[String]) -> Result<()> {
        let text = documents(tenant, reconcilers);
        self.project.write("windlass.yaml", text).map(drop)
    }

    async fn alpha(&self) -> Result<ConfigMaps> {
        client_of(&self.project, "alpha").await
    }

    /// What `get` says of the first thing of a kind, once `holds`.
    async fn first(&self, kind: &str, what: &str, holds: impl Fn(&Json) -> bool) -> Result<Json> {
        eventually(SOON, what, || async {
            let answer = ask(&self.project, &self.address, &["get", kind]).await?;
            Ok(Seen::of(answer["items"][0].clone(), |told| holds(told)))
        })
        .await
    }

    async fn status(&self, what: &str, holds: impl Fn(&Json) -> bool) -> Result<Json> {
        self.first("reconcilers", what, holds).await
    }

    /// Has an object reconciled.
    async fn requeue(&self, context: &str, object: &str) -> Result<()> {
        let key = key(context, object)?;
        ask(&self.project, &self.address, &["requeue", &key])
            .await
            .map(drop)
    }

    /// Waits until nothing is watched or cached any more.
    async fn nothing_is_watched(&self) -> Result<()> {
        eventually(SOON, "no watch and no cache", || async {
            let alpha = self.server.cluster("alpha");
            let watchers = alpha.map_or(0, |alpha| alpha.watchers());
            let clusters = ask(&self.project, &self.address, &["get", "clusters"]).await?;
            let stores = clusters["items"][0]["stores"].as_u64();
            Ok(Seen::of((watchers, stores), |seen| *seen == (0, Some(0))))
        })
        .await
        .map(drop)
    }
}

fn has(told: &Json, field: &str, text: &str) -> bool {
    told[field].as_str().is_some_and(|told| told.contains(text))
}

fn denials(told: &Json) -> u64 {
    told["usage"]["denials"].as_u64().unwrap_or_default()
}

#[tokio::test]
async fn a_call_that_the_tenant_does_not_allow_is_told_as_such_and_is_no_missing_rule() -> Result<()>
{
    let reads = "{rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch], namespaces: [\"*\"]}]}";
    let scene = Scene::start("hello", reads, &[hello()]).await?;
    scene.alpha().await?.ask("a", "world").await?;
    let told = scene.status("a denial", |told| denials(told) > 0).await?;
    assert_eq!(told["missingRules"], json!([]), "{told}");
    let mut program = scene.program;
    program
        .line_with("to spec.rules of the Tenant", SOON)
        .await?;
    Ok(())
}

/// A guest that greets loses rights by `tenant` and `document`, which say in the status why its reload is refused. What is asked
/// meanwhile is not done, and is once they are back.
async fn lost_and_given_back(tenant: &str, document: &str, why: &str) -> Result<()> {
    let scene = Scene::start("hello", "{weight: 1}", &[hello()]).await?;
    let alpha = scene.alpha().await?;
    alpha.ask("a", "world").await?;
    alpha.expect_greeted("a").await?;

    scene.change(tenant, &[document.to_owned()])?;
    let told = scene
        .status("the rights to be gone", |told| has(told, "problem", LESS))
        .await?;
    assert!(has(&told, "problem", why), "{}", told["problem"]);
    assert_eq!(told["serves"], true);
    scene.nothing_is_watched().await?;
    let told = scene
        .status("the watches to tell why they do not run", |told| {
            told["watchProblems"]
                .to_string()
                .contains("no rule grants list and watch")
        })
        .await?;
    let before = denials(&told);
    alpha.ask_again("a", "moon").await?;
    alpha.ask("b", "moon").await?;
    for object in ["a", "b"] {
        scene.requeue("alpha", object).await?;
        let failing = ["get", "keys", "--state", "failing"];
        eventually(SOON, "a denial", || async {
            let keys = ask(&scene.project, &scene.address, &failing).await?;
            let denied =
                |key: &Json| has(key, "key", &format!("/{object}")) && has(key, "lastError", "add");
            let keys = keys["items"].as_array().cloned().unwrap_or_default();
            Ok(Seen::of(keys, |keys| keys.iter().any(denied)))
        })
        .await?;
    }
    scene
        .status("the denials to be counted", |told| {
            denials(told) >= before + 2
        })
        .await?;
    let greeting = alpha.greeting("a").await?.unwrap_or_default();
    assert!(greeting.starts_with("hello, world, "), "{greeting}");
    assert_eq!(alpha.greeting("b").await?, None);

    scene.change("{weight: 1}", &[hello()])?;
    for object in ["a", "b"] {
        let greeting = format!("hello, moon, from {}", crate::running::named("alpha"));
        alpha.expect_greeting(object, Some(&greeting)).await?;
    }
    scene
        .status("no problem any more", |told| told["problem"] == "")
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_tenant_that_grants_nothing_any_more_stops_a_guest_that_runs() -> Result<()> {
    let why = "the tenant's rules do not allow list and watch on configmaps";
    lost_and_given_back("{rules: []}", &hello(), why).await
}

#[tokio::test]
async fn rules_below_what_a_guest_watches_are_in_effect_though_its_reload_is_refused() -> Result<()>
{
    let narrow = hello().replace("get, list, watch, create, patch", "get");
    lost_and_given_back(
        "{weight: 1}",
        &narrow,
        "no rule grants list and watch on configmaps",
    )
    .await
}

#[tokio::test]
async fn a_guest_loses_the_clusters_that_no_rule_matches_any_more() -> Result<()> {
    let document = |rules: &str| {
        reconciler("hello", FILE.as_ref())
            .replace(HELLO_RULES, rules)
            .replace("{greeting: hello}", "{open: [beta]}")
            .replace("  config:", "  clusters: {names: [\"*alpha\"]}\n  config:")
    };
    let own = "{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch], namespaces: [\"*\"]}";
    let both = document(&format!(
        "[{own}, {{apiGroups: [\"\"], resources: [configmaps], verbs: [get], namespaces: [\"*\"], clusters: {{names: [\"*beta\"]}}}}]"
    ));
    let scene = Scene::start("test-fleet", "{weight: 1}", std::slice::from_ref(&both)).await?;
    let beta = client_of(&scene.project, "beta").await?;
    beta.ask("a", "beta").await?;
    scene.alpha().await?.ask("a", "alpha").await?;
    let is_refused = |told: &Json| has(told, "lastError", "no rule opens a cluster");
    let told = scene
        .status("it to read in beta", |told| told["lastError"] != "")
        .await?;
    assert!(!is_refused(&told), "{told}");

    scene.change("{weight: 1}", &[document(&format!("[{own}]"))])?;
    let told = scene
        .status("the rights to be gone", |told| has(told, "problem", LESS))
        .await?;
    let why =
        "the guest calls other clusters (it imports windlass:runtime/fleet), but no rule opens any";
    assert!(has(&told, "problem", why), "{}", told["problem"]);
    scene.requeue("alpha", "a").await?;
    scene.status("beta to be out of reach", is_refused).await?;

    scene.change("{weight: 1}", &[both])?;
    scene
        .status("beta to be in reach again", |told| {
            told["problem"] == "" && told["lastError"] != "" && !is_refused(told)
        })
        .await?;
    Ok(())
}

/// The guest's file as no reload can use it.
fn break_file(scene: &Scene, how: &str) -> Result<()> {
    let file = scene.project.path().join(FILE);
    let whole = fs::read(guest("hello"))?;
    match how {
        "no such file" => fs::remove_file(file)?,
        "ends in the middle" => fs::write(file, &whole[..whole.len() / 2])?,
        "is not WebAssembly" => fs::write(file, "no component")?,
        _ => fs::write(file, fs::read(guest("test-describe"))?)?,
    }
    Ok(())
}

#[tokio::test]
async fn a_document_takes_rights_away_while_the_guests_file_is_of_no_use() -> Result<()> {
    // What one guest is told to do badly, the other does not look at.
    let hello = hello().replace("{greeting: hello}", "{greeting: hello, way: trap}");
    let narrow = hello.replace(", create, patch]", ", create]");
    let scene = Scene::start("hello", "{weight: 1}", std::slice::from_ref(&hello)).await?;
    let alpha = scene.alpha().await?;
    for (number, how) in [
        "no such file",
        "ends in the middle",
        "is not WebAssembly",
        "the guest's describe() failed",
    ]
    .into_iter()
    .enumerate()
    {
        let (first, second) = (format!("first{number}"), format!("second{number}"));
        break_file(&scene, how)?;
        let told = scene.status(how, |told| has(told, "problem", how)).await?;
        assert!(!has(&told, "problem", LESS), "{how}: {}", told["problem"]);
        alpha.ask(&first, "world").await?;
        alpha.expect_greeted(&first).await?;

        scene.change("{weight: 1}", std::slice::from_ref(&narrow))?;
        scene
            .status("the rights to be gone", |told| has(told, "problem", LESS))
            .await?;
        alpha.ask(&second, "world").await?;
        scene
            .status("a denial", |told| has(told, "lastError", "verbs: [patch]"))
            .await?;
        assert_eq!(alpha.greeting(&second).await?, None, "{how}");

        scene.change("{weight: 1}", std::slice::from_ref(&hello))?;
        alpha.expect_greeted(&second).await?;
        let told = scene
            .status("what it had to be given back", |told| {
                !has(told, "problem", LESS)
            })
            .await?;
        assert!(has(&told, "problem", how), "{how}: {}", told["problem"]);
    }
    scene.project.write(FILE, fs::read(guest("hello"))?)?;
    scene
        .status("no problem any more", |told| told["problem"] == "")
        .await?;
    Ok(())
}

#[tokio::test]
async fn clusters_that_a_document_leaves_out_are_left_though_its_guest_cannot_be_loaded()
-> Result<()> {
    let of = |clusters: &str| {
        hello().replace(
            "  config:",
            &format!("  clusters: {{{clusters}}}\n  config:"),
        )
    };
    let both = of("provider: true");
    let scene = Scene::start("hello", "{weight: 1}", std::slice::from_ref(&both)).await?;
    let (alpha, beta) = (
        scene.alpha().await?,
        client_of(&scene.project, "beta").await?,
    );
    for maps in [&alpha, &beta] {
        maps.ask("before", "world").await?;
        maps.expect_greeted("before").await?;
    }
    let watched = || {
        scene
            .server
            .cluster("beta")
            .map_or(0, |beta| beta.watchers())
    };
    break_file(&scene, "ends in the middle")?;
    for (number, clusters) in [
        "names: [\"*alpha\"]",
        "selector: \"nobody=has-it\"",
        "provider: false, local: true",
    ]
    .into_iter()
    .enumerate()
    {
        scene.change("{weight: 1}", &[of(clusters)])?;
        let told = scene
            .status("the clusters to be left", |told| has(told, "problem", LESS))
            .await?;
        assert!(
            has(&told, "problem", "ends in the middle"),
            "{}",
            told["problem"]
        );
        eventually(SOON, "no watch in beta", || async {
            Ok(Seen::of(watched(), |watchers| *watchers == 0))
        })
        .await?;
        let object = format!("o{number}");
        beta.ask(&object, "world").await?;
        if clusters.contains("alpha") {
            alpha.ask(&object, "world").await?;
            alpha.expect_greeted(&object).await?;
            assert_eq!(beta.greeting(&object).await?, None);
        }

        scene.change("{weight: 1}", std::slice::from_ref(&both))?;
        beta.expect_greeted(&object).await?;
    }
    Ok(())
}

fn hits(told: &Json, limit: &str) -> u64 {
    told["usage"]["limitHits"][limit]
        .as_u64()
        .unwrap_or_default()
}

#[tokio::test]
async fn memory_and_rate_of_a_tenant_change_while_its_guests_run() -> Result<()> {
    let scene = Scene::start("hello", "{weight: 1}", &[hello()]).await?;
    let alpha = scene.alpha().await?;
    alpha.ask("a", "world").await?;
    alpha.expect_greeted("a").await?;

    let rate = "tenant.requestsPerSecond";
    let told = scene.status("it", |_| true).await?;
    assert_eq!(hits(&told, rate), 0);
    scene.change("{limits: {requestsPerSecond: 1}}", &[hello()])?;
    scene
        .first("tenants", "the tenant's rate", |told| told["weight"] == 1)
        .await?;
    // Each greeting is a call: the second in a second waits for its turn.
    for round in 0.. {
        let object = format!("r{round}");
        alpha.ask(&object, "world").await?;
        alpha.expect_greeted(&object).await?;
        let told = scene.status("it", |_| true).await?;
        if hits(&told, rate) > 0 {
            break;
        }
        assert!(round < 1000, "no call waited for its turn");
    }

    scene.change("{limits: {memory: 1Mi}}", &[hello()])?;
    scene
        .first("tenants", "less memory", |told| told["memory"] == 1 << 20)
        .await?;
    alpha.ask("m", "world").await?;
    let hit = |told: &Json| hits(told, "tenant.memory") > 0;
    scene.status("a call without memory", hit).await?;
    assert_eq!(alpha.greeting("m").await?, None);
    scene.change("{weight: 1}", &[hello()])?;
    alpha.expect_greeted("m").await
}

#[tokio::test]
async fn processors_weight_and_deadlines_of_a_tenant_change_while_its_guests_run() -> Result<()> {
    let endless = |name: &str| {
        reconciler(name, FILE.as_ref()).replace(
            "  config: {greeting: hello}",
            "  limits: {timeout: 1h, concurrency: 4}",
        )
    };
    let other = "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-b}\n";
    let all = [
        endless("a"),
        endless("b").replace("tenant: team-a", "tenant: team-b"),
        other.to_owned(),
    ];
    let scene = Scene::start("test-loop", "{weight: 1}", &all).await?;
    let alpha = scene.alpha().await?;
    for object in ["one", "two", "three"] {
        alpha.ask(object, "nobody").await?;
    }
    scene
        .status("calls that never return", |told| told["running"] == 3)
        .await?;
    let part = scene.part_of_a().await?;
    assert!((0.3..0.7).contains(&part), "{part} of the processors");

    let change = |tenant: &str| scene.change(tenant, &all);
    // That it has most of the processors then is shown where no other program has them: by the tests of the run queue.
    change("{weight: 8}")?;
    let heavy = |told: &Json| told["weight"] == 8;
    scene.first("tenants", "the weight", heavy).await?;
    change("{weight: 8, limits: {cpu: 10m}}")?;
    scene
        .part_becomes("next to nothing", |part| part < 0.1)
        .await?;

    change("{weight: 1, limits: {perReconciler: {timeout: 1s}}}")?;
    let reloaded = |told: &Json| told["reload"]["inEffect"] == true;
    scene.status("the deadline", reloaded).await?;
    alpha.ask("four", "nobody").await?;
    let late = |told: &Json| has(told, "lastError", "1s");
    scene.status("a call that is cut off", late).await?;
    Ok(())
}

impl Scene {
    /// The first reconciler's part of the time that the first two compute from now on.
    async fn part_of_a(&self) -> Result<f64> {
        let (a, b) = self.computed().await?;
        let (c, d) = eventually(SOON, "a second of computing", || async {
            let now = self.computed().await?;
            Ok(Seen::of(now, |now| now.0 + now.1 > a + b + 1.0))
        })
        .await?;
        Ok((c - a) / (c + d - a - b))
    }

    async fn part_becomes(&self, what: &str, holds: fn(f64) -> bool) -> Result<()> {
        let part = || async { Ok(Seen::of(self.part_of_a().await?, |part| holds(*part))) };
        eventually(SOON, what, part).await.map(drop)
    }

    /// Seconds that the first two reconcilers had a processor.
    async fn computed(&self) -> Result<(f64, f64)> {
        let told = ask(&self.project, &self.address, &["get", "reconcilers"]).await?;
        let seconds = |at: usize| told["items"][at]["usage"]["cpuSeconds"].as_f64();
        Ok((
            seconds(0).unwrap_or_default(),
            seconds(1).unwrap_or_default(),
        ))
    }
}
