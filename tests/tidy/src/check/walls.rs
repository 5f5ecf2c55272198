//! The walls of ARCHITECTURE.md that a machine can see. Entry point: [`check`].

use crate::crates::{Crate, crates};
use crate::{Finding, Repository, RustFile};

/// Which of our crates a crate's own code may import.
const IMPORTS: [(&str, &[&str]); 10] = [
    ("runtime/files", &[]),
    ("runtime/fleet", &[]),
    ("runtime/apiserver", &[]),
    ("runtime/sandbox", &["windlass-fleet"]),
    ("runtime/registry", &["windlass-fleet"]),
    ("runtime/testing", &["windlass-fleet", "windlass-apiserver"]),
    (
        "runtime/author",
        &["windlass-files", "windlass-fleet", "windlass-apiserver"],
    ),
    (
        "runtime/windlass",
        &[
            "windlass-files",
            "windlass-fleet",
            "windlass-sandbox",
            "windlass-registry",
            "windlass-apiserver",
            "windlass-author",
        ],
    ),
    ("guest-sdk/rust", &[]),
    ("tests/tidy", &[]),
];

/// Names that could speak to API servers, by the folder in which they must not. The program asks its own admin endpoint over HTTP, and
/// `registry` speaks HTTP to registries, over streams that `fleet::http` opens.
const CLIENTS: [(&str, &[&str]); 5] = [
    (
        "runtime/fleet/src/",
        &[
            "kube_client",
            "hyper",
            "hyper_util",
            "hyper_rustls",
            "tower",
        ],
    ),
    (
        "runtime/sandbox/src/",
        &[
            "kube_client",
            "hyper",
            "hyper_util",
            "hyper_rustls",
            "tower",
        ],
    ),
    (
        "runtime/registry/src/",
        &["kube_client", "HttpConnector", "TcpStream"],
    ),
    (
        "runtime/author/src/",
        &[
            "kube_client",
            "hyper",
            "hyper_util",
            "hyper_rustls",
            "tower",
        ],
    ),
    ("runtime/windlass/src/", &["kube_client"]),
];

/// What of the program may name the tools of authors. What `run` needs is none of it.
const FOR_AUTHORS: [&str; 3] = [
    "runtime/windlass/src/cli/authors.rs",
    "runtime/windlass/src/dev",
    "runtime/windlass/src/command/",
];

/// The command that production runs.
const RUN: &str = "runtime/windlass/src/command/run.rs";

/// Folders where times decide about runs, delays and leases, and so come from clocks that nobody can set.
const TIMED: [&str; 9] = [
    "runtime/fleet/src/backoff",
    "runtime/fleet/src/clock",
    "runtime/fleet/src/http/fence",
    "runtime/fleet/src/controller",
    "runtime/fleet/src/election/",
    "runtime/fleet/src/manager",
    "runtime/fleet/src/queue",
    "runtime/fleet/src/shard/machine",
    "runtime/fleet/src/source",
];

/// Every wall.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let all = crates(repository);
    let mut findings = Vec::new();
    for krate in &all {
        findings.extend(imports(*krate));
        findings.extend(lints(*krate));
    }
    for file in repository.rust.iter().filter(|file| !file.is_test) {
        findings.extend(wasmtime(file));
        findings.extend(authors(file));
        findings.extend(environment(file));
        findings.extend(clients(file));
        findings.extend(wall_clock(file));
    }
    findings.extend(unsafe_code(repository));
    findings
}

/// The allowed imports between crates, by manifest. Crates for tests may import anything.
fn imports(krate: Crate<'_>) -> Vec<Finding> {
    let rule = IMPORTS.iter().find(|(folder, _)| *folder == krate.folder);
    let mut findings = Vec::new();
    for dependency in krate.dependencies() {
        if dependency.section == "dev-dependencies" {
            continue;
        }
        let ours = dependency.name.starts_with("windlass");
        let mut found =
            |message| findings.push(Finding::new(&krate.manifest.path, dependency.line, message));
        if ours && rule.is_some_and(|(_, allowed)| !allowed.contains(&dependency.name)) {
            found(format!(
                "{} must not import {}: see the house in ARCHITECTURE.md",
                krate.folder, dependency.name
            ));
        }
        if dependency.name.starts_with("wasmtime")
            && krate.folder.starts_with("runtime/")
            && krate.folder != "runtime/sandbox"
        {
            found(format!(
                "wasmtime is named only in runtime/sandbox, not in {}",
                krate.folder
            ));
        }
    }
    findings
}

/// Crates use the workspace's lints. Only those with `unsafe` code set their own, and crates that are their own workspace, such as a template.
fn lints(krate: Crate<'_>) -> Vec<Finding> {
    let ours = ["runtime/", "tests/"]
        .iter()
        .any(|start| krate.folder.starts_with(start));
    let manifest = &krate.manifest.text;
    let shared = manifest.contains("[lints]\nworkspace = true") || manifest.contains("[workspace]");
    let is_unsafe = ["runtime/sandbox", "tests/seeded"].contains(&krate.folder);
    if !ours || shared || is_unsafe {
        return Vec::new();
    }
    vec![Finding::new(
        &krate.manifest.path,
        1,
        "take the workspace's lints: `[lints]` with `workspace = true`",
    )]
}

fn wasmtime(file: &RustFile) -> Vec<Finding> {
    if !file.path.starts_with("runtime/") || file.path.starts_with("runtime/sandbox/") {
        return Vec::new();
    }
    let names = ["wasmtime", "wasmtime_wasi"]
        .into_iter()
        .flat_map(|name| file.words(name));
    let message = "wasmtime is named only in runtime/sandbox: add a function to the sandbox";
    names
        .map(|at| Finding::new(&file.path, file.line(at), message))
        .collect()
}

/// What production runs imports nothing of authors.
fn authors(file: &RustFile) -> Vec<Finding> {
    let is_allowed = FOR_AUTHORS.iter().any(|it| file.path.starts_with(it)) && file.path != RUN;
    if !file.path.starts_with("runtime/windlass/") || is_allowed {
        return Vec::new();
    }
    let message =
        "what `windlass run` needs imports nothing of runtime/author: take it as an option";
    file.words("windlass_author")
        .map(|at| Finding::new(&file.path, file.line(at), message))
        .collect()
}

/// The file that reads what kubectl reads, for programs that ask for it.
const KUBECTL: &str = "runtime/fleet/src/kubectl.rs";

/// Only the program reads the environment. `env!` is allowed, because the compiler resolves it.
fn environment(file: &RustFile) -> Vec<Finding> {
    let reads = file.path.starts_with("runtime/") && !file.path.starts_with("runtime/windlass/");
    if !reads || file.path == KUBECTL || file.path.ends_with("/build.rs") {
        return Vec::new();
    }
    let readers = [
        "var",
        "var_os",
        "vars",
        "vars_os",
        "args",
        "args_os",
        "home_dir",
        "current_dir",
        "temp_dir",
    ];
    let mut findings = Vec::new();
    for at in file.words("env") {
        let behind = &file.code[at + 3..];
        let name = behind.strip_prefix("::").unwrap_or_default();
        if readers.iter().any(|reader| {
            name.strip_prefix(reader)
                .is_some_and(|rest| rest.trim_start().starts_with('('))
        }) {
            let message = "only runtime/windlass reads the environment: take the value in this part's Options";
            findings.push(Finding::new(&file.path, file.line(at), message));
        }
    }
    findings
}

/// Only `fleet::http` calls API servers.
fn clients(file: &RustFile) -> Vec<Finding> {
    let rule = CLIENTS
        .iter()
        .find(|(folder, _)| file.path.starts_with(folder));
    let Some((_, names)) = rule.filter(|_| !file.path.starts_with("runtime/fleet/src/http")) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for name in *names {
        for at in file.words(name) {
            let behind = &file.code[at + name.len()..];
            if behind.starts_with("::config") || !behind.starts_with("::") {
                continue;
            }
            let message = format!(
                "`{name}` outside fleet::http: an API server is reached through `cluster.client(grant)` alone"
            );
            findings.push(Finding::new(&file.path, file.line(at), message));
        }
    }
    findings
}

/// The wall clock jumps: it is for people, and for dates that servers send.
fn wall_clock(file: &RustFile) -> Vec<Finding> {
    if !TIMED.iter().any(|start| file.path.starts_with(start)) {
        return Vec::new();
    }
    let readers = [("SystemTime", ""), ("Timestamp", "::now")];
    let read = readers.into_iter().flat_map(|(name, behind)| {
        let places = file.words(name);
        places.filter(move |at| file.code[at + name.len()..].starts_with(behind))
    });
    let message = "the wall clock must not decide here: take an `Instant` as an argument";
    read.map(|at| Finding::new(&file.path, file.line(at), message))
        .collect()
}

/// Where `unsafe_code` is allowed, once each: where compiled guests are loaded, and where simulations replace functions of libc.
const UNSAFE: [&str; 2] = ["runtime/sandbox/src/", "tests/seeded/src/"];

/// Nothing is unsafe but in these places.
fn unsafe_code(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut permits = [0; UNSAFE.len()];
    for file in repository
        .rust
        .iter()
        .filter(|file| file.path.starts_with("runtime/") || file.path.starts_with("tests/"))
    {
        let place = UNSAFE.iter().position(|place| file.path.starts_with(place));
        for at in file.words("unsafe_code") {
            let first = place.is_some_and(|place| {
                permits[place] += 1;
                permits[place] == 1
            });
            if !first {
                let message = "unsafe code is allowed once in runtime/sandbox and in tests/seeded";
                findings.push(Finding::new(&file.path, file.line(at), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[package]\n[lints]\nworkspace = true\n[dependencies]\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of(&[(path, text)]))
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    fn passes(path: &str, text: &str) -> bool {
        findings(path, text).is_empty()
    }

    #[test]
    fn crates_import_only_what_the_house_allows() {
        let fleet = format!("{LINTS}windlass-sandbox.workspace = true\n");
        assert!(
            findings("runtime/fleet/Cargo.toml", &fleet)[0]
                .contains("must not import windlass-sandbox")
        );
        assert!(!passes("runtime/registry/Cargo.toml", &fleet));
        assert!(passes("runtime/windlass/Cargo.toml", &fleet));
        let tests = LINTS.replace(
            "[dependencies]",
            "[dev-dependencies]\nwindlass-apiserver.workspace = true",
        );
        assert!(passes("runtime/fleet/Cargo.toml", &tests));
    }

    #[test]
    fn wasmtime_is_named_only_in_the_sandbox() {
        let manifest = format!("{LINTS}wasmtime.workspace = true\n");
        assert!(!passes("runtime/windlass/Cargo.toml", &manifest));
        assert!(passes("runtime/sandbox/Cargo.toml", &manifest));
        assert!(!passes(
            "runtime/windlass/src/main.rs",
            "use wasmtime::Engine;"
        ));
        assert!(passes(
            "runtime/windlass/src/main.rs",
            "// wasmtime\nlet text = \"wasmtime\";"
        ));
        assert!(passes(
            "runtime/sandbox/src/lib.rs",
            "use wasmtime::Engine;"
        ));
    }

    #[test]
    fn what_production_runs_imports_nothing_of_authors() {
        let import = "use windlass_author::guest_build;";
        for path in ["run/builds.rs", "config.rs", "cli.rs", "command/run.rs"] {
            let path = format!("runtime/windlass/src/{path}");
            assert!(!passes(&path, import), "{path}");
        }
        for path in ["dev.rs", "dev/workspaces.rs", "command/build.rs"] {
            let path = format!("runtime/windlass/src/{path}");
            assert!(passes(&path, import), "{path}");
        }
    }

    #[test]
    fn members_take_the_workspace_lints() {
        assert!(!passes(
            "runtime/fleet/Cargo.toml",
            "[package]\nname = \"x\"\n"
        ));
        assert!(passes("runtime/fleet/Cargo.toml", LINTS));
        let alone = "[package]\nname = \"x\"\n[workspace]\n";
        assert!(passes("runtime/author/templates/rust/Cargo.toml", alone));
    }

    #[test]
    fn only_the_program_reads_the_environment() {
        for read in [
            "std::env::var(\"X\")",
            "env::temp_dir()",
            "std::env::args ()",
        ] {
            let text = format!("fn f() {{ {read}; }}");
            assert!(!passes("runtime/fleet/src/a.rs", &text), "{read}");
            assert!(passes("runtime/windlass/src/a.rs", &text), "{read}");
        }
        assert!(passes(
            "runtime/fleet/src/a.rs",
            "const V: &str = env!(\"CARGO_PKG_VERSION\");"
        ));
        assert!(passes(
            "runtime/fleet/src/a.rs",
            "#[cfg(test)]\nmod tests { fn f() { std::env::var(\"X\"); } }"
        ));
    }

    #[test]
    fn api_servers_are_called_only_in_fleet_http() {
        let call = "use kube_client::Client;";
        assert!(!passes("runtime/fleet/src/provider/single.rs", call));
        assert!(!passes("runtime/windlass/src/run.rs", call));
        assert!(!passes(
            "runtime/sandbox/src/a.rs",
            "fn f() { hyper::Request::new(()); }"
        ));
        assert!(passes("runtime/fleet/src/http/transport.rs", call));
        assert!(passes(
            "runtime/fleet/src/provider/single.rs",
            "use kube_client::config::Kubeconfig;"
        ));
    }

    #[test]
    fn the_wall_clock_decides_nothing() {
        for read in ["std::time::SystemTime::now()", "jiff::Timestamp::now()"] {
            let text = format!("fn f() {{ {read}; }}");
            for path in ["queue/wait.rs", "election/machine.rs", "backoff.rs"] {
                assert!(!passes(&format!("runtime/fleet/src/{path}"), &text));
            }
            assert!(passes("runtime/fleet/src/cluster/events.rs", &text));
        }
        let told = "fn f(wall: jiff::Timestamp) {}";
        assert!(passes("runtime/fleet/src/election/machine.rs", told));
    }

    #[test]
    fn unsafe_code_is_allowed_once() {
        let permit = "#[expect(unsafe_code, reason = \"r\")]\nfn f() {}\n";
        assert!(passes("runtime/sandbox/src/load.rs", permit));
        assert!(!passes("runtime/sandbox/src/load.rs", &permit.repeat(2)));
        assert!(!passes("runtime/fleet/src/a.rs", permit));
    }
}
