//! Builds Rust guests with cargo. Entry point: [`build`].

use super::settings::Settings;
use super::tool::Tool;
use super::{BuildError, Machine};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const TARGET: &str = "wasm32-unknown-unknown";

/// The linker that makes cargo emit a component; every rustup toolchain has it.
const LINKER: &str = "wasm-component-ld";

/// Variables with flags for a build around this process, which must not change the guest's build.
const HOST_FLAGS: [&str; 5] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
];

/// The error text for settings that a Rust project does not have.
const ELSEWHERE: &str = "cargo is told by Cargo.toml, and the world is what the code uses";

/// How to get the toolchain.
pub(super) const RUST: &str = "install Rust from https://rustup.rs";

/// Builds the package in `folder` and returns the component in cargo's own target folder.
pub(super) async fn build(folder: &Path, machine: &Machine) -> Result<PathBuf, BuildError> {
    Settings::of(folder, "Rust", &[], ELSEWHERE)?;
    let toolchain = Toolchain::find(folder).await?;
    toolchain.ensure_target(folder).await?;
    toolchain.ensure_linker(folder, machine)?;
    let messages = tool("cargo", folder, RUST)
        .args([
            "build",
            "--release",
            "--target",
            TARGET,
            "--message-format",
            "json-render-diagnostics",
        ])
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER)
        .output()
        .await?;
    let components = components(&messages, folder);
    match components.as_slice() {
        [one] => Ok(one.clone()),
        others => Err(BuildError::NotOne {
            folder: folder.to_owned(),
            found: others.len(),
        }),
    }
}

/// A tool of the Rust toolchain, without the flags of other builds.
pub(super) fn tool(name: &str, folder: &Path, remedy: &str) -> Tool {
    HOST_FLAGS
        .into_iter()
        .fold(Tool::new(name, folder, remedy), Tool::without_env)
}

/// The toolchain that cargo uses in the folder.
struct Toolchain {
    sysroot: PathBuf,
}

impl Toolchain {
    async fn find(folder: &Path) -> Result<Self, BuildError> {
        let rustc = tool("rustc", folder, RUST).args(["--print", "sysroot"]);
        let sysroot = rustc.ask().await?.unwrap_or_default();
        Ok(Self {
            sysroot: PathBuf::from(sysroot.trim()),
        })
    }

    /// Gets the target's standard library unless the toolchain has it.
    async fn ensure_target(&self, folder: &Path) -> Result<(), BuildError> {
        let library = self.sysroot.join("lib/rustlib").join(TARGET).join("lib");
        if library.is_dir() {
            return Ok(());
        }
        let remedy = format!(
            "install the Rust target {TARGET} with your package manager, or Rust from https://rustup.rs"
        );
        tool("rustup", folder, &remedy)
            .args(["target", "add", TARGET])
            .run()
            .await
    }

    fn ensure_linker(&self, folder: &Path, machine: &Machine) -> Result<(), BuildError> {
        let hosts = std::fs::read_dir(self.sysroot.join("lib/rustlib"));
        let mut candidates = hosts
            .into_iter()
            .flatten()
            .flatten()
            .map(|host| host.path().join("bin").join(LINKER));
        if candidates.any(|path| path.is_file()) || machine.on_path(LINKER).is_some() {
            return Ok(());
        }
        Err(BuildError::NoTool {
            tool: LINKER.to_owned(),
            folder: folder.to_owned(),
            remedy: format!("toolchains from rustup have it: {RUST}"),
        })
    }
}

/// The parts of cargo's messages that matter here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    target: Target,
}

#[derive(Default, Deserialize)]
struct Target {
    #[serde(default)]
    crate_types: Vec<String>,
}

/// The components in cargo's messages that belong to the package in `folder`.
fn components(messages: &str, folder: &Path) -> Vec<PathBuf> {
    let manifest = folder
        .join("Cargo.toml")
        .canonicalize()
        .unwrap_or_else(|_| folder.join("Cargo.toml"));
    let ours = |message: &Message| {
        message.reason == "compiler-artifact"
            && message
                .target
                .crate_types
                .iter()
                .any(|kind| kind == "cdylib")
            && message
                .manifest_path
                .canonicalize()
                .is_ok_and(|path| path == manifest)
    };
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(ours)
        .flat_map(|message| message.filenames)
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_packages_component_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
        let manifest = folder.path().join("Cargo.toml").canonicalize().unwrap();
        let artifact = |manifest: &Path, kind: &str, file: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": manifest,
                "target": {"crate_types": [kind]}, "filenames": [file],
            })
        };
        let messages = [
            artifact(&manifest, "lib", "/t/libhello.rlib"),
            artifact(&manifest, "cdylib", "/t/hello.wasm"),
            artifact(
                Path::new("/elsewhere/Cargo.toml"),
                "cdylib",
                "/t/other.wasm",
            ),
            serde_json::json!({"reason": "build-finished", "success": true}),
        ];
        let text: String = messages
            .iter()
            .map(|message| format!("{message}\n"))
            .collect();
        assert_eq!(
            components(&format!("{text}not json\n"), folder.path()),
            [PathBuf::from("/t/hello.wasm")]
        );
    }
}
