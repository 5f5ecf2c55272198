//! The bindings of the SDK in Go. Entry point: [`generate`].

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wit_bindgen_go::Opts;
use wit_parser::Resolve;

/// Where the SDK's module keeps what only it may import.
pub(crate) const INTERNAL: &str = "windlass.dev/windlass/internal";

/// The generic types and the memory that generated code stands on: the generator's own module, and the SDK's, whose memory
/// is not collected while the host allocates in it.
const SUPPORT: (&str, &str) = (
    "go.bytecodealliance.org/pkg/wit/",
    "windlass.dev/windlass/internal/wit/",
);

/// All that a guest may import, with the export that every guest has: the first world that the contract has, for one that is older. A component
/// imports only what it calls.
const ALL: World = World {
    names: &["http-fleet-reconcile", "fleet-reconcile"],
    inline: None,
    exports: "wit_exports",
};

/// The export that some guests have, which a package of its own registers.
const MAPPER: World = World {
    names: &["mapper"],
    inline: Some("package windlass:sdk; world mapper { export windlass:runtime/mapper@0.1.0; }"),
    exports: "wit_exports_mapper",
};

struct World {
    names: &'static [&'static str],
    /// Where the world is not one of the contract's.
    inline: Option<&'static str>,
    /// The folder of its exports.
    exports: &'static str,
}

/// Writes the packages that are imported as `<module>/bindings`; they import what a guest exports as `<module>/exports`. `gofmt` must be on
/// the PATH.
pub(crate) fn generate(wit: &Path, folder: &Path, module: &str) -> Result<()> {
    let mut files = packages(&ALL, wit, module)?;
    // The types are the same, so that only the exports are of interest.
    let exports = packages(&MAPPER, wit, module)?.into_iter();
    files.extend(exports.filter(|(path, _)| path.starts_with(MAPPER.exports)));
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// A world's packages, by their paths.
fn packages(world: &World, wit: &Path, module: &str) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_dir(wit)?;
    if let Some(text) = world.inline {
        package = resolve.push_str("inline.wit", text)?;
    }
    let known = &resolve.packages[package].worlds;
    let name = world.names.iter().find(|name| known.contains_key(**name));
    let name =
        name.with_context(|| format!("the contract has no world {}", world.names.join(" or ")))?;
    let id = resolve.select_world(&[package], Some(name))?;
    let options = Opts {
        pkg_name: Some(format!("{module}/bindings")),
        export_pkg_name: Some(format!("{module}/exports")),
        ..Opts::default()
    };
    let mut generated = wit_bindgen_core::Files::default();
    options.build().generate(&mut resolve, id, &mut generated)?;
    let mut files = BTreeMap::new();
    for (path, bytes) in generated.iter() {
        let path = match path.strip_prefix("wit_exports/") {
            Some(name) => Path::new(world.exports).join(name),
            None => PathBuf::from(path),
        };
        // Assembly is there for builds without WebAssembly, which these files are no part of.
        if path.extension().is_some_and(|extension| extension == "go") {
            let text = str::from_utf8(bytes).context("generated text")?;
            files.insert(path, format(&text.replace(SUPPORT.0, SUPPORT.1))?);
        }
    }
    Ok(files)
}

/// Puts the file into builds of components only, and has `gofmt` write it.
fn format(text: &str) -> Result<Vec<u8>> {
    let mut child = Command::new("gofmt")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("gofmt is needed, which comes with Go")?;
    let mut input = child.stdin.take().context("an input")?;
    let text = format!("//go:build wasip1\n\n{text}");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() || writer.join().is_err() {
        bail!("gofmt: {}", output.status);
    }
    Ok(output.stdout)
}
