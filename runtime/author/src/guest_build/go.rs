//! Builds guests in Go with the ordinary toolchain. Entry point: [`build`].

use super::componentize::componentize;
use super::exports::{exports, imported_modules};
use super::settings::{self, Settings, World, check_entry};
use super::source::Source;
use super::tool::Tool;
use super::{BuildError, io_error};
use std::path::{Path, PathBuf};

/// Major and minor version of the oldest Go that can build the SDK.
const OLDEST: (u32, u32) = (1, 24);

/// The version of Go to install if it is missing.
const NEWEST: &str = "1.26.8";

/// Linker flags that remove debug information and keep names.
const LINKER_FLAGS: &str = "-ldflags=-w";

/// The export of a guest that imports package `mapper` of the SDK.
const MAPPER: &str = "windlass:runtime/mapper@0.1.0#map-objects";

/// What a guest imports that calls servers that are no API servers.
const HTTP: &str = "windlass:runtime/http@0.1.0";

/// Builds a guest and returns the component in `work`.
pub(super) async fn build(source: &Source, work: &Path) -> Result<PathBuf, BuildError> {
    let folder = &source.guest;
    let settings = Settings::of(folder, "Go", &["world", "entry"], "")?;
    let entry = settings.entry.as_deref().unwrap_or(".");
    check_entry(entry, &folder.join(settings::FILE))?;
    check_version(folder).await?;
    let core = work.join("guest.wasm");
    go(folder)
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .args([
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            LINKER_FLAGS,
            "-o",
        ])
        .arg(&core)
        .arg(entry)
        .run()
        .await?;
    let world = match settings.world {
        chosen if chosen != World::default() => chosen,
        _ => fitting(&std::fs::read(&core).map_err(io_error(&core))?),
    };
    componentize(&source.package, &core, world).await
}

/// The toolchain.
pub(super) fn go(folder: &Path) -> Tool {
    Tool::new("go", folder, remedy())
}

/// Rejects an old Go, which would only report syntax errors.
async fn check_version(folder: &Path) -> Result<(), BuildError> {
    let found = go(folder).args(["env", "GOVERSION"]).ask().await?;
    match found.as_deref().and_then(version) {
        Some(version) if version < OLDEST => Err(BuildError::NoTool {
            tool: format!("Go {}.{} or later", OLDEST.0, OLDEST.1),
            folder: folder.to_owned(),
            remedy: remedy(),
        }),
        // If the version is unknown, for example because of a wrong go.mod, the build reports a better error.
        _ => Ok(()),
    }
}

/// The major and minor version in the output of `go env GOVERSION`: `go1.26.8`, `go1.27rc1`; `None` for a custom build of Go.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix("go")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit());
    let minor = minor.get(..digits.unwrap_or(minor.len()))?;
    Some((major, minor.parse().ok()?))
}

/// The command that installs Go on this machine.
fn remedy() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    match std::env::consts::OS {
        "linux" => format!(
            "curl -fsSL https://go.dev/dl/go{NEWEST}.linux-{arch}.tar.gz | sudo tar -C /usr/local -xz, then put /usr/local/go/bin on the PATH"
        ),
        "macos" => "brew install go".to_owned(),
        _ => "install it from https://go.dev/dl/".to_owned(),
    }
}

/// The world of a module. It always has the fleet: a component imports only the functions that its module imports. An older contract in
/// the project has no worlds with HTTP.
fn fitting(core: &[u8]) -> World {
    World {
        fleet: true,
        mapper: exports(core).any(|name| name == MAPPER),
        http: imported_modules(core).any(|name| name == HTTP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_what_go_says_it_is() {
        assert_eq!(version("go1.26.8\n"), Some((1, 26)));
        assert_eq!(version("go1.27rc1"), Some((1, 27)));
        assert_eq!(version("go1.9.2"), Some((1, 9)));
        assert_eq!(version("devel +3f2a"), None);
        assert!(version("go1.23.4") < Some(OLDEST));
    }

    #[test]
    fn the_http_of_the_contract_is_the_one_that_is_looked_for() {
        let wit = crate::embedded::file("wit/http.wit").unwrap();
        let wit = String::from_utf8_lossy(wit);
        let (name, version) = HTTP.rsplit_once('@').unwrap();
        let (package, interface) = name.split_once('/').unwrap();
        assert!(wit.contains(&format!("package {package}@{version};")));
        assert!(wit.contains(&format!("interface {interface} {{")));
    }

    #[test]
    fn the_mapper_of_the_contract_is_the_one_that_is_looked_for() {
        let wit = crate::embedded::file("wit/mapper.wit").unwrap();
        let wit = String::from_utf8_lossy(wit);
        let (interface, function) = MAPPER.split_once('#').unwrap();
        let version = interface.rsplit_once('@').unwrap().1;
        assert!(wit.contains(&format!("package windlass:runtime@{version};")));
        assert!(wit.contains("interface mapper {") && wit.contains(&format!("{function}: func(")));
    }
}
