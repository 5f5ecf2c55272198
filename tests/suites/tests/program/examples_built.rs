//! Documents of our own examples and guests, with guests that are built. Entry point: [`documents`].

use crate::languages::windlass;
use anyhow::{Context, Result};
use std::path::{Component, Path, PathBuf};
use windlass_harness::guests::{guest, javascript};

/// The guests that a text of documents names, as it names them.
pub(crate) fn guests(documents: &str) -> Vec<&str> {
    let lines = documents.lines().map(str::trim);
    let paths = lines.filter_map(|line| line.strip_prefix("guest: {path: ")?.strip_suffix('}'));
    paths.collect()
}

/// The folder that a document names, seen from the folder of the document, without `.` and `..`.
pub(crate) fn folder(base: &Path, named: &str) -> PathBuf {
    let mut folder = base.to_owned();
    for part in Path::new(named).components() {
        match part {
            Component::ParentDir => drop(folder.pop()),
            Component::CurDir => {}
            part => folder.push(part),
        }
    }
    folder
}

/// The text of a file of documents, with the components of its guests in place of their folders. Guests that the tests do not build anyway
/// are built by the program, with the tools of their languages.
pub(crate) async fn documents(file: &Path) -> Result<String> {
    let mut text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let base = file.parent().context("a folder")?;
    let ours = windlass_harness::repository().join("guests");
    let named: Vec<String> = guests(&text).into_iter().map(str::to_owned).collect();
    for path in named {
        let source = folder(base, &path);
        let component = match (source.parent(), source.file_name()) {
            (Some(parent), Some(name)) if parent == ours => guest(&name.to_string_lossy()),
            (Some(parent), Some(name)) if parent == ours.join("js") => {
                javascript(&name.to_string_lossy())
            }
            _ => {
                windlass(&source, ["build"]).await?.expect_code(0)?;
                source.join(".windlass/guest.wasm")
            }
        };
        text = text.replace(
            &format!("guest: {{path: {path}}}"),
            &format!("guest: {{path: {component:?}}}"),
        );
    }
    Ok(text)
}
