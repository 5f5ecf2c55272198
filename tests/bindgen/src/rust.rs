//! The bindings of the SDK in Rust: the imports of every world once, and the two exports. Entry point: [`generate`].
//!
//! They are kept beside the code, because the generator as a macro is the larger part of what a guest's first build compiles.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};
use wit_parser::Resolve;

/// What stands above the generated code.
const ALL: &str = "\
//! The bindings that are generated from `wit/` by `tests/bindgen/run rust`: the imports of every world once, and the two exports. Each export
//! has its own macro, so that a guest without a mapper does not export one. Entry point: [`crate::guest`], which calls the macros.
//!
//! The only place in this crate where unsafe code is allowed: the canonical ABI is raw memory.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    rustdoc::broken_intra_doc_links,
    reason = \"generated code\"
)]

/// The optional export `mapper`.
pub mod mapped;
";

const MAPPED: &str = "\
//! The optional export `mapper`, generated from `wit/`. Entry point: [`crate::guest`].
";

/// Writes `bindings.rs` and `bindings/mapped.rs` into `folder`. `rustfmt` must be on the PATH.
pub(crate) fn generate(wit: &Path, folder: &Path) -> Result<()> {
    let all = Opts {
        default_bindings_module: Some("windlass_sdk::bindings".to_owned()),
        generate_unused_types: true,
        ..options()
    };
    let shared = ["types", "client"].map(|name| {
        let path = format!("super::windlass::runtime::{name}");
        (
            format!("windlass:runtime/{name}@0.1.0"),
            WithOption::Path(path),
        )
    });
    let mapped = Opts {
        default_bindings_module: Some("windlass_sdk::bindings::mapped".to_owned()),
        with: shared.into(),
        ..options()
    };
    const MAPPER: &str =
        "package windlass:sdk; world mapped { export windlass:runtime/mapper@0.1.0; }";
    fs::create_dir_all(folder.join("bindings"))?;
    let text = format!("{ALL}{}", bindings(wit, "http-fleet-reconcile", None, all)?);
    write(&folder.join("bindings.rs"), &text)?;
    let text = format!("{MAPPED}{}", bindings(wit, "mapped", Some(MAPPER), mapped)?);
    write(&folder.join("bindings/mapped.rs"), &text)
}

fn options() -> Opts {
    Opts {
        pub_export_macro: true,
        additional_derive_attributes: vec!["PartialEq".to_owned()],
        ..Opts::default()
    }
}

fn bindings(wit: &Path, world: &str, inline: Option<&str>, options: Opts) -> Result<String> {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_dir(wit)?;
    if let Some(text) = inline {
        package = resolve.push_str("inline.wit", text)?;
    }
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = Files::default();
    let mut generator = options.build();
    generator.generate(&mut resolve, world, &mut files)?;
    let (_, bytes) = files.iter().next().context("no file was generated")?;
    String::from_utf8(bytes.to_vec()).context("generated text")
}

/// Writes the file as `cargo fmt` does.
fn write(path: &Path, text: &str) -> Result<()> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("rustfmt is needed, which rustup brings")?;
    let mut input = child.stdin.take().context("an input")?;
    let text = text.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() || writer.join().is_err() {
        bail!("rustfmt: {}", output.status);
    }
    fs::write(path, output.stdout).with_context(|| format!("write {}", path.display()))
}
