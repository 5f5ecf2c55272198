//! Builds Rust guests with cargo. Entry point: [`build`].

use crate::guest_build::BuildError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tokio::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

/// Makes cargo emit a component; every rustup toolchain has it.
const LINKER: &str = "wasm-component-ld";

/// Flags meant for a build around this process must not reach the guest's.
const HOST_FLAGS: [&str; 5] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
];

/// Builds the package in `folder` and returns the component in cargo's own target folder.
pub(super) async fn build(folder: &Path) -> Result<PathBuf, BuildError> {
    let toolchain = Toolchain::find(folder).await?;
    toolchain.ensure_target(folder).await?;
    toolchain.ensure_linker(folder)?;
    let mut cargo = command("cargo", folder);
    cargo
        .args([
            "build",
            "--release",
            "--target",
            TARGET,
            "--message-format",
            "json-render-diagnostics",
        ])
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER);
    let output = output("cargo", folder, cargo).await?;
    if !output.status.success() {
        return Err(BuildError::Compiler {
            folder: folder.to_owned(),
            status: output.status,
        });
    }
    let components = components(&String::from_utf8_lossy(&output.stdout), folder);
    match components.as_slice() {
        [one] => Ok(one.clone()),
        others => Err(BuildError::NotOne {
            folder: folder.to_owned(),
            found: others.len(),
        }),
    }
}

/// The toolchain that cargo uses in the folder.
struct Toolchain {
    sysroot: PathBuf,
}

impl Toolchain {
    async fn find(folder: &Path) -> Result<Self, BuildError> {
        let mut rustc = command("rustc", folder);
        rustc.args(["--print", "sysroot"]);
        let output = output("rustc", folder, rustc).await?;
        if !output.status.success() {
            return Err(BuildError::Compiler {
                folder: folder.to_owned(),
                status: output.status,
            });
        }
        Ok(Self {
            sysroot: PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
        })
    }

    /// Gets the target's standard library unless the toolchain has it.
    async fn ensure_target(&self, folder: &Path) -> Result<(), BuildError> {
        let library = self.sysroot.join("lib/rustlib").join(TARGET).join("lib");
        if library.is_dir() {
            return Ok(());
        }
        tracing::info!(target = TARGET, "getting a Rust target");
        let status = command("rustup", folder)
            .args(["target", "add", TARGET])
            .stdout(Stdio::null())
            .status()
            .await
            .map_err(|error| start_error("rustup", folder, error))?;
        if status.success() {
            return Ok(());
        }
        let remedy = format!(
            "rustup target add {TARGET} failed ({status}): run it yourself with a network connection"
        );
        Err(BuildError::NoTool {
            tool: "the Rust target wasm32-unknown-unknown",
            folder: folder.to_owned(),
            remedy,
        })
    }

    fn ensure_linker(&self, folder: &Path) -> Result<(), BuildError> {
        let hosts = std::fs::read_dir(self.sysroot.join("lib/rustlib"));
        let mut candidates = hosts
            .into_iter()
            .flatten()
            .flatten()
            .map(|host| host.path().join("bin").join(LINKER));
        if candidates.any(|path| path.is_file()) || on_path(LINKER) {
            return Ok(());
        }
        let remedy =
            "toolchains from rustup have it: install Rust from https://rustup.rs".to_owned();
        Err(BuildError::NoTool {
            tool: LINKER,
            folder: folder.to_owned(),
            remedy,
        })
    }
}

fn on_path(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()))
}

fn command(tool: &str, folder: &Path) -> Command {
    let mut command = Command::new(tool);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for variable in HOST_FLAGS {
        command.env_remove(variable);
    }
    command
}

/// Runs a tool to its end and takes what it writes to standard output; the rest goes to the user at once.
async fn output(
    tool: &'static str,
    folder: &Path,
    mut command: Command,
) -> Result<Output, BuildError> {
    let child = command.stdout(Stdio::piped()).spawn();
    let child = child.map_err(|error| start_error(tool, folder, error))?;
    child
        .wait_with_output()
        .await
        .map_err(|error| start_error(tool, folder, error))
}

fn start_error(tool: &'static str, folder: &Path, error: std::io::Error) -> BuildError {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            let remedy = match tool {
                "rustup" => format!(
                    "install the Rust target {TARGET} with your package manager, or Rust from https://rustup.rs"
                ),
                _ => "install Rust from https://rustup.rs".to_owned(),
            };
            BuildError::NoTool {
                tool,
                folder: folder.to_owned(),
                remedy,
            }
        }
        _ => BuildError::Io {
            path: PathBuf::from(tool),
            error,
        },
    }
}

/// One of cargo's messages, as far as we read it.
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

/// The components among cargo's messages that are of the package in `folder`.
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
