//! Guests that take long to load, or cannot be loaded for the time being: the changes of others are in effect as soon as ever.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::reloading::{greets, replace, saying};
use crate::running::{Http, SOON, ask, client_of, fleet, start, table};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::fs;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

/// Less than anybody was ever held up for here: a `rollback` gives up at this, and the slow ones take twice as long and more.
const PROMPT: Duration = Duration::from_secs(8);

/// The functions of a component that takes a compiler tens of seconds.
const MANY: usize = 1500;
/// The functions of one that takes it long enough to be seen at it.
const SOME: usize = 600;

/// A component that takes a compiler long, and is no guest after that: each of its functions has two thousand steps, of which each
/// needs the one before.
fn slow(functions: usize) -> Vec<u8> {
    const STEP: &[u8] = &[
        0x20, 0, 0x20, 1, 0x6a, 0x21, 0, 0x20, 1, 0x20, 0, 0x6c, 0x21, 1,
    ]; // a += b; b *= a
    let body = [&[0][..], &STEP.repeat(2000), &[0x20, 0, 0x0b]].concat();
    let body = [unsigned(body.len()), body].concat();
    let types = section(1, &[1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f]);
    let count = unsigned(functions);
    let types_of = section(3, &[&count[..], &vec![0; functions]].concat());
    let code = section(10, &[count, body.repeat(functions)].concat());
    let module = [&b"\0asm\x01\0\0\0"[..], &types, &types_of, &code].concat();
    [&b"\0asm\x0d\0\x01\0"[..], &section(1, &module)].concat()
}

fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &unsigned(body.len()), body].concat()
}

/// A number as WebAssembly writes it.
fn unsigned(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// The tenant of the neighbours.
const TEAM_B: &str =
    "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-b}\n";

/// A tenant whose guests have room for one instance.
const SMALL: &str = "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {name: small}\nspec: {limits: {memory: 2Mi}}\n";

/// A reconciler of the neighbours' tenant, whose guest is a file of its name.
fn neighbour(name: &str) -> String {
    let document = reconciler(name, format!("{name}.wasm").as_ref());
    document.replace("tenant: team-a", "tenant: team-b")
}

/// A program with neighbours, and whatever else there is.
struct Scene {
    project: Project,
    program: Program,
    address: String,
    alpha: ConfigMaps,
    _server: windlass_apiserver::Server,
}

impl Scene {
    async fn start(project: Project, documents: &[String]) -> Result<Self> {
        project.write("hello.wasm", fs::read(guest("hello"))?)?;
        project.write("goes.wasm", fs::read(guest("echo"))?)?;
        project.write_config(documents)?;
        let server = fleet(&project, &["alpha"]).await?;
        let (program, address) = start(&project).await?;
        let alpha = client_of(&project, "alpha").await?;
        Ok(Self {
            project,
            program,
            address,
            alpha,
            _server: server,
        })
    }

    /// What the program tells of a reconciler.
    async fn told(&self, name: &str) -> Result<Json> {
        let answer = ask(&self.project, &self.address, &["get", "reconcilers"]).await?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let mut items = items.into_iter();
        Ok(items
            .find(|item| item["name"] == name)
            .unwrap_or(Json::Null))
    }

    async fn tells(&self, name: &str, what: &str, holds: impl Fn(&Json) -> bool) -> Result<Json> {
        eventually(SOON, what, || async {
            Ok(Seen::of(self.told(name).await?, &holds))
        })
        .await
    }

    /// Changes the neighbour's guest and goes back, each promptly.
    async fn neighbour_is_not_held_up(&self) -> Result<()> {
        let greets = |beginning| greets(&self.alpha, "a", beginning);
        let began = std::time::Instant::now();
        replace(&self.project.path().join("hello.wasm"), &saying("FROM")?)?;
        tokio::time::timeout(PROMPT, greets("hello, world, FROM ")).await??;
        let reload = began.elapsed();
        let began = std::time::Instant::now();
        let reply = ask(&self.project, &self.address, &["rollback", "hello"]).await?;
        assert_eq!(reply["rolledBack"], true, "{reply}");
        tokio::time::timeout(PROMPT, greets("hello, world, from ")).await??;
        eprintln!("reload {reload:?}, roll back {:?}", began.elapsed());
        Ok(())
    }

    /// Ends it, and what it compiles with it.
    async fn end(self) -> Result<()> {
        self.program.signal("TERM")?;
        self.program.wait(SOON).await?;
        Ok(())
    }
}

/// An author waits for it, and nobody else does anything.
#[tokio::test]
async fn dev_compiles_on_several_processors() -> Result<()> {
    let project = Project::new()?;
    project.write("slow.wasm", slow(SOME))?;
    project.write_config(&[reconciler("slow", "slow.wasm".as_ref())])?;
    let mut program = Program::start(
        project.path(),
        "dev --cache none --admin 127.0.0.1:0".split(' '),
    )?;
    program
        .line_with("the guest is being compiled", SOON)
        .await?;
    let process = program.pid().context("it runs")?;
    // The compiler's first thread waits for the others.
    let processors = std::thread::available_parallelism()?.get();
    eventually(SOON, "a compiler with several threads", || async {
        let compiler = children(process)?;
        let threads = fs::read_dir(format!("/proc/{}/task", compiler.trim()));
        let threads = threads.map_or(0, Iterator::count);
        Ok(Seen::of(threads, |threads| *threads > processors.min(4)))
    })
    .await?;
    // It does not wait for the compiler.
    program.signal("TERM")?;
    program
        .wait(Duration::from_secs(10))
        .await?
        .expect_code(0)?;
    Ok(())
}

/// The processes that a process has started.
fn children(process: u32) -> Result<String> {
    let mut all = String::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        all += &fs::read_to_string(thread?.path().join("children"))?;
    }
    Ok(all)
}

/// A build machine may take minutes for what takes a second elsewhere.
#[tokio::test]
async fn the_time_to_compile_a_component_is_not_time_to_become_idle() -> Result<()> {
    let project = Project::new()?;
    project.write("slow.wasm", slow(MANY / 10))?;
    let slowly = reconciler("slow", "slow.wasm".as_ref());
    project.write_config(&[slowly, reconciler("hello", &guest("hello"))])?;
    let impatient =
        "dev --cache none --admin 127.0.0.1:0 --exit-when-idle --idle-timeout 500ms --output json";
    let ended = Program::run(project.path(), impatient.split(' '), SOON).await?;
    assert!(
        ended.stderr.contains("the guest is being compiled"),
        "{}",
        ended.stderr
    );
    let told: Json = serde_json::from_str(&ended.expect_code(1)?.stdout)?;
    assert_eq!(told["busy"], Json::Array(Vec::new()), "{told}");
    let problem = told["problems"][0].as_str().context("a problem")?;
    assert!(problem.contains("slow"), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_component_that_compiles_for_long_delays_its_own_reconciler_alone() -> Result<()> {
    let project = Project::new()?;
    let file = project.write("slow.wasm", fs::read(guest("echo"))?)?;
    let slowly = reconciler("slow", "slow.wasm".as_ref());
    let documents = [slowly, TEAM_B.to_owned(), neighbour("hello")];
    let with = [&documents[..], &[neighbour("goes")]].concat();
    let mut scene = Scene::start(project, &with).await?;
    scene.alpha.ask("a", "world").await?;
    greets(&scene.alpha, "a", "hello, world, from ").await?;
    let before = scene.told("slow").await?["revision"].clone();

    replace(&file, &slow(MANY))?;
    scene
        .tells("slow", "its change to be under way", |told| {
            told["loading"] == true
        })
        .await?;
    scene
        .program
        .line_with("the guest is being compiled", PROMPT)
        .await?;
    let rows = table(&scene.project, &scene.address, &["get", "reconcilers"]).await?;
    let row = rows.iter().find(|row| row["RECONCILER"] == "slow");
    let state = &row.context("a row")?["STATE"];
    assert!(state.starts_with("Reloading "), "{state}");
    scene.neighbour_is_not_held_up().await?;
    let mark = scene.program.line_count();
    scene.project.write_config(&documents)?;
    scene
        .program
        .line_with_from(mark, "reconciler removed", PROMPT)
        .await?;
    assert_eq!(scene.told("goes").await?, Json::Null);
    let still = scene.told("slow").await?;
    let told = (&still["loading"], &still["problem"], &still["revision"]);
    assert_eq!(
        told,
        (&Json::from(true), &Json::from(""), &before),
        "it is slow"
    );

    // What is newer abandons it: of two that follow each other, the last one stays.
    replace(&file, &saying("FrOm")?)?;
    replace(&file, &saying("frOm")?)?;
    scene.alpha.ask("b", "moon").await?;
    let settled = scene
        .tells("slow", "the newest", |told| {
            told["loading"] == false && told["revision"] != before
        })
        .await?;
    assert_eq!(settled["problem"], "");
    replace(&scene.project.path().join("hello.wasm"), &saying("frOm")?)?;
    scene
        .tells("hello", "the same revision", |told| {
            told["revision"] == settled["revision"]
        })
        .await?;
    scene.end().await
}

#[tokio::test]
async fn a_guest_that_gets_no_memory_delays_its_own_change_alone() -> Result<()> {
    let project = Project::new()?;
    let endless = |config: &str| {
        let document = reconciler("endless", &guest("test-loop"));
        let document = document.replace("tenant: team-a", "tenant: small");
        document.replace(
            "  config: {greeting: hello}",
            &format!("  limits: {{timeout: 1h, concurrency: 1}}\n  config: {{round: {config}}}"),
        )
    };
    let documents = |config| {
        [
            endless(config),
            SMALL.to_owned(),
            TEAM_B.to_owned(),
            neighbour("hello"),
        ]
    };
    let scene = Scene::start(project, &documents("1")).await?;
    scene.alpha.ask("a", "world").await?;
    greets(&scene.alpha, "a", "hello, world, from ").await?;
    scene
        .tells("endless", "its call to go on", |told| told["running"] == 1)
        .await?;
    scene.project.write_config(&documents("2"))?;
    scene
        .tells("endless", "its change to be under way", |told| {
            told["loading"] == true
        })
        .await?;
    scene.neighbour_is_not_held_up().await?;
    let still = scene.told("endless").await?;
    let told = (&still["loading"], &still["problem"]);
    assert_eq!(told, (&Json::from(true), &Json::from("")), "it waits");
    drop(scene);
    Ok(())
}

#[tokio::test]
async fn a_start_does_not_wait_for_a_slow_component_to_begin_with_the_others() -> Result<()> {
    let project = Project::new()?;
    project.write("slow.wasm", slow(SOME))?;
    let slowly = reconciler("slow", "slow.wasm".as_ref());
    let documents = [slowly, TEAM_B.to_owned(), neighbour("hello")];
    let scene = Scene::start(project, &documents).await?;
    scene.alpha.ask("a", "world").await?;
    tokio::time::timeout(PROMPT, greets(&scene.alpha, "a", "hello, world, from ")).await??;
    let http = Http {
        address: scene.address.clone(),
    };
    let (status, told) = http.get("/readyz?verbose").await?;
    assert!(
        status == 503 && told.contains("[-] reconcilers: 1 of 2 serve") && told.contains("loaded"),
        "{status}: {told}"
    );
    assert_eq!(scene.told("slow").await?["loading"], true);
    scene.end().await
}
