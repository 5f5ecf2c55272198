//! Components built from the sources under `guests/`. Entry points: [`guest`], [`javascript`], [`conformance`], [`pinned`], [`names`]
//! and [`renamed`].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

const TARGET: &str = "wasm32-unknown-unknown";

/// The component built from `guests/<name>`, for instance `guest("hello")`.
///
/// The first call of a process builds all guests (about a second if nothing changed); processes wait for each other.
///
/// # Panics
/// When the guests do not build, or there is no guest of that name.
pub fn guest(name: &str) -> PathBuf {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        build(&crate::repository().join("guests")).map_err(|error| format!("{error:#}"))
    });
    let folder = match built {
        Ok(folder) => folder,
        Err(error) => panic!("the guests do not build: {error}"),
    };
    let path = folder.join(format!("{}.wasm", name.replace('-', "_")));
    assert!(
        path.is_file(),
        "there is no guest {name:?}: {} does not exist",
        path.display()
    );
    path
}

/// A component with every occurrence of a text replaced by a text of the same length.
///
/// # Panics
/// When the texts differ in length, or the component does not contain the first.
#[must_use]
pub fn renamed(component: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "{from:?} and {to:?}");
    let mut bytes = component.to_vec();
    for at in 0..=bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    assert!(bytes != component, "{from:?} is not in it");
    bytes
}

/// The component built from `guests/js/<name>`, for instance `javascript("hello")`.
///
/// The first call of a process builds the changed guests, with npm; processes wait for each other.
///
/// # Panics
/// When a guest does not build, or there is no guest of that name.
pub fn javascript(name: &str) -> PathBuf {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build_language("js").map_err(|error| format!("{error:#}")));
    if let Err(error) = built {
        panic!("the guests in JavaScript do not build: {error}");
    }
    let folder = crate::repository().join("guests/target/js");
    let path = folder.join(format!("{name}.wasm"));
    assert!(
        path.is_file(),
        "there is no guest {name:?}: {} does not exist",
        path.display()
    );
    path
}

/// The languages of the guests, by their folders under `guests/`.
pub const LANGUAGES: [&str; 5] = ["rust", "js", "python", "go", "c"];

/// The conformance reconciler in one of [`LANGUAGES`].
///
/// # Errors
/// If the guest is not built; the error names the script that builds it.
pub fn conformance(language: &str) -> Result<PathBuf> {
    if language == "rust" {
        return Ok(guest("conformance"));
    }
    built(language, "conformance")
}

/// The guest in one of [`LANGUAGES`] that is pinned with a released contract in `tests/contract/<contract>`.
///
/// # Errors
/// As [`conformance`].
pub fn pinned(contract: &str, language: &str) -> Result<PathBuf> {
    let name = format!("contract-{contract}");
    if language == "rust" {
        return Ok(guest(&name.replace('.', "-")));
    }
    built(language, &name)
}

/// A component that `guests/<language>/build` has made.
fn built(language: &str, name: &str) -> Result<PathBuf> {
    let folder = crate::repository().join("guests/target").join(language);
    let path = folder.join(format!("{name}.wasm"));
    if !path.is_file() {
        let path = path.display();
        bail!("{path} is not there: guests/{language}/build makes it");
    }
    Ok(path)
}

/// Builds the changed guests of one of [`LANGUAGES`] with `guests/<language>/build`, which also builds the program if it
/// changed.
///
/// # Errors
/// When they do not build; the error contains the output of their tools.
pub fn build_language(language: &str) -> Result<()> {
    let workspace = crate::repository().join("guests");
    if language == "rust" {
        return build(&workspace).map(drop);
    }
    let _lock = lock(&workspace.join("target"))?;
    run(&mut Command::new(workspace.join(language).join("build"))).map(drop)
}

/// The folder where the program keeps compiled guests, which `guests/<language>/build` has filled: a guest that contains its language's
/// runtime takes a minute to compile in a build without optimisation. The engines of tests have the settings of the program's, so that
/// they share the code.
#[must_use]
pub fn compiled() -> PathBuf {
    let named = |variable| std::env::var_os(variable).map(PathBuf::from);
    let folder = |variable| named(variable).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    match caches {
        Some(caches) => caches.join("windlass"),
        None => crate::repository().join("target/compiled-guests"),
    }
}

/// The folders under `guests/` that contain a guest, which `cargo` builds as a `cdylib`.
///
/// # Errors
/// When a folder cannot be read.
pub fn names() -> Result<Vec<String>> {
    let folder = crate::repository().join("guests");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry.context("read the guests' folder")?;
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
        if manifest.is_ok_and(|manifest| manifest.contains("cdylib")) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds the guests in Rust and returns the folder of the components.
fn build(workspace: &Path) -> Result<PathBuf> {
    let target = workspace.join("target");
    let _lock = lock(&target)?;
    add_target(workspace)?;
    let mut build = Command::new(workspace.join("components"));
    // Flags for the host's build must not change the guests' build.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        build.env_remove(variable);
    }
    run(&mut build)?;
    Ok(target.join(TARGET).join("release"))
}

/// Keeps other processes from building guests until it is dropped.
fn lock(target: &Path) -> Result<File> {
    std::fs::create_dir_all(target).with_context(|| format!("create {}", target.display()))?;
    let lock = target.join(".windlass-build.lock");
    let lock = File::create(&lock).with_context(|| format!("create {}", lock.display()))?;
    lock.lock()
        .context("wait for another build of the guests")?;
    Ok(lock)
}

/// Gets the target's standard library unless the toolchain has it.
fn add_target(workspace: &Path) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(workspace);
    if Path::new(run(&mut rustc)?.trim()).is_dir() {
        return Ok(());
    }
    run(Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(workspace))?;
    Ok(())
}

/// Runs a command to its end and returns what it wrote to stdout.
fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
