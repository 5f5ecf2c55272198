//! Builds guests in C with clang and wasi-libc, or with zig, which has both. Entry point: [`build`].

use super::componentize::componentize;
use super::settings::Settings;
use super::source::Source;
use super::tool::Tool;
use super::{BuildError, Machine, fetched, io_error};
use std::path::{Path, PathBuf};

/// Zig's package on the Python package index.
pub(super) const ZIG: (&str, &str) = ("ziglang", "0.17.0");

/// Folders with the C files and headers of the guest.
const OWN: [&str; 2] = [".", "src"];

/// Folders with the C files and headers of the SDK, in the package.
const SDK: [&str; 2] = ["sdk/src", "sdk/include"];

/// The error text for the setting `entry`, which C does not have.
const EVERY_FILE: &str = "every C file of the folder and of src/ is part of the guest";

const CLANG: &str = "apt-get install clang lld wasi-libc libclang-rt-dev-wasm32";

/// Optimised for size, with debug information: without it zig removes function names. The component is made without it. The stack
/// size is set, because zig's default takes 16 MiB of every instance's memory.
const FLAGS: [&str; 5] = [
    "-mexec-model=reactor",
    "-std=c17",
    "-Os",
    "-g",
    "-Wl,-z,stack-size=262144",
];

/// A program that compiles only if a compiler has a C library for this target.
const PROBE: &str = "#include <stdlib.h>\nvoid *probe(void) { return malloc(1); }\n";

/// Builds a guest and returns the component in `work`.
pub(super) async fn build(
    source: &Source,
    work: &Path,
    machine: &Machine,
) -> Result<PathBuf, BuildError> {
    let folder = &source.guest;
    let settings = Settings::of(folder, "C", &["world"], EVERY_FILE)?;
    let core = work.join("guest.wasm");
    let mut compiler = compiler(folder, work, machine).await?.args(FLAGS);
    for below in folders(source) {
        compiler = compiler.arg("-I").arg(below);
    }
    compiler
        .args(files(source)?)
        .arg("-o")
        .arg(&core)
        .run()
        .await?;
    componentize(&source.package, &core, settings.world).await
}

/// The folders with C files and headers, relative to the guest, so that the place of a project is no part of its component.
fn folders(source: &Source) -> Vec<PathBuf> {
    let below = source.guest.strip_prefix(&source.package);
    let up: PathBuf = below
        .iter()
        .flat_map(|below| below.iter())
        .map(|_| "..")
        .collect();
    // The folders above a link are not those that `..` leads to.
    let up = match source.guest.join(&up).canonicalize() {
        Ok(above) if source.package.canonicalize().is_ok_and(|it| it == above) => up,
        _ => source.package.clone(),
    };
    let own = OWN.map(PathBuf::from).into_iter();
    let folders = own.chain(SDK.map(|name| up.join(name)));
    folders
        .filter(|name| source.guest.join(name).is_dir())
        .collect()
}

/// The C files of the guest and its SDK, without tests.
fn files(source: &Source) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = Vec::new();
    for name in folders(source) {
        let below = source.guest.join(&name);
        for entry in std::fs::read_dir(&below).map_err(io_error(&below))? {
            let file = entry.map_err(io_error(&below))?.file_name();
            let text = file.to_string_lossy();
            if text.ends_with(".c") && !text.ends_with("_test.c") {
                let path = name.join(&file);
                // Keeps `./` before a name that a compiler would read as a flag, or as a file of flags.
                let flag = text.starts_with(['-', '@']);
                let bare = path.strip_prefix(".").ok().filter(|_| !flag);
                files.push(bare.unwrap_or(&path).to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A compiler for WASI: the clang of the WASI SDK that the environment names, else the clang on the PATH if it has a C library for WASI,
/// else zig.
async fn compiler(folder: &Path, work: &Path, machine: &Machine) -> Result<Tool, BuildError> {
    const TARGET: &str = "--target=wasm32-wasi";
    if let Some(sdk) = &machine.wasi_sdk {
        let clang = std::path::absolute(sdk).map_err(io_error(sdk))?;
        let remedy = "WASI_SDK_PATH has to name a WASI SDK, or nothing";
        return Ok(Tool::new(clang.join("bin/clang"), folder, remedy).arg(TARGET));
    }
    if let Some(clang) = machine.on_path("clang") {
        let with_target = || Tool::new(&clang, folder, CLANG).arg(TARGET);
        let probe = work.join("probe.c");
        std::fs::write(&probe, PROBE).map_err(io_error(&probe))?;
        let tried = with_target()
            .arg("-mexec-model=reactor")
            .arg(&probe)
            .arg("-o")
            .arg(work.join("probe.wasm"));
        if tried.ask().await?.is_some() {
            return Ok(with_target());
        }
    }
    let zig = match machine.on_path("zig") {
        Some(zig) => Tool::new(zig, folder, CLANG),
        None => {
            let python = fetched::venv(folder, machine, ZIG.0, ZIG.1)
                .await?
                .join("python");
            Tool::new(python, folder, CLANG)
                .called("zig")
                .args(["-m", "ziglang"])
        }
    };
    Ok(zig.args(["cc", "-target", "wasm32-wasi"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, names: &[&str]) {
        for name in names {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn files_are_those_of_the_guest_and_its_sdk_without_tests() {
        let folder = tempfile::tempdir().unwrap();
        put(
            folder.path(),
            &[
                "guest.c",
                "guest_test.c",
                "guest.h",
                "sdk/src/windlass.c",
                "sdk/include/windlass.h",
                "other/x.c",
                "-flag.c",
                "@flags.c",
            ],
        );
        let expected = ["./-flag.c", "./@flags.c", "guest.c", "sdk/src/windlass.c"];
        let expected = expected.map(PathBuf::from);
        let found = files(&Source::of(folder.path()).unwrap()).unwrap();
        assert_eq!(found, expected);
        assert!(found[0].as_os_str().as_encoded_bytes().starts_with(b"./-"));
    }

    #[test]
    fn guests_of_a_package_share_its_sdk_and_nothing_else() {
        let package = tempfile::tempdir().unwrap();
        put(
            package.path(),
            &[
                "guest.c",
                "sdk/src/windlass.c",
                "sdk/include/windlass.h",
                "more/backup/guest.c",
            ],
        );
        let source = Source::of(&package.path().join("more/backup")).unwrap();
        let expected = ["../../sdk/src/windlass.c", "guest.c"].map(PathBuf::from);
        assert_eq!(files(&source).unwrap(), expected);
    }
}
