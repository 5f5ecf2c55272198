//! Writes the table of files that the program carries: the contract, the SDKs, the templates of new projects, and the workspace's
//! manifest, which the Rust SDK's refers to. Included by `src/embedded.rs`.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What tools leave beside sources, and nobody should be given.
const LEFT_BEHIND: [&str; 10] = [
    ".git",
    ".windlass",
    ".venv",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "node_modules",
    "target",
    "Cargo.lock",
];

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let repository = here.join("../..").canonicalize()?;
    let roots = [
        ("Cargo.toml", repository.join("Cargo.toml")),
        ("wit", repository.join("wit")),
        ("guest-sdk/c", repository.join("guest-sdk/c")),
        ("guest-sdk/go", repository.join("guest-sdk/go")),
        ("guest-sdk/js", repository.join("guest-sdk/js")),
        ("guest-sdk/python", repository.join("guest-sdk/python")),
        ("guest-sdk/rust", repository.join("guest-sdk/rust")),
        ("templates", here.join("templates")),
    ];
    let mut files = Vec::new();
    for (name, path) in &roots {
        println!("cargo::rerun-if-changed={}", path.display());
        collect(path, name, &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in files {
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),")?;
    }
    table.push_str("]\n");
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("embedded.rs");
    fs::write(out, table)?;
    Ok(())
}

/// Every file at or below a path, with the name that it has in the program.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> std::io::Result<()> {
    if path.is_file() {
        files.push((name.to_owned(), path.to_owned()));
        return Ok(());
    }
    if !path.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if !LEFT_BEHIND.contains(&file.as_str()) {
            collect(&entry.path(), &format!("{name}/{file}"), files)?;
        }
    }
    Ok(())
}
