//! Knows whether a step of a build would make again what it made before: for tools that take long, or make something else of the
//! same each time, for which the host would compile the guest anew. Entry point: [`Inputs::new`].

use super::{BuildError, io_error};
use crate::guests::Digest;
use std::path::{Path, PathBuf};

/// What a step makes its output of.
#[derive(Default)]
pub(super) struct Inputs {
    /// Each with its length before it, so that no two lists of inputs are the same bytes.
    bytes: Vec<u8>,
}

impl Inputs {
    /// These words: names and versions of tools, settings.
    pub(super) fn new(words: &[&str]) -> Self {
        let mut inputs = Self::default();
        for word in words {
            inputs.add(word.as_bytes());
        }
        inputs
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&bytes.len().to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// And a file, or every file below a folder but what tools leave there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn path(mut self, path: &Path) -> Result<Self, BuildError> {
        self.walk(path)?;
        Ok(self)
    }

    fn walk(&mut self, path: &Path) -> Result<(), BuildError> {
        if !path.is_dir() {
            let bytes = std::fs::read(path).map_err(io_error(path))?;
            self.add(path.to_string_lossy().as_bytes());
            self.add(&bytes);
            return Ok(());
        }
        let mut below: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io_error(path))? {
            let entry = entry.map_err(io_error(path))?;
            if !crate::watch::is_left_by_tools(&entry.file_name().to_string_lossy()) {
                below.push(entry.path());
            }
        }
        below.sort();
        below.iter().try_for_each(|path| self.walk(path))
    }

    /// Whether `output` is what was made of the same inputs.
    pub(super) fn made(&self, output: &Path) -> bool {
        output.is_file() && std::fs::read(stamp(output)).is_ok_and(|known| known == self.digest())
    }

    /// Notes that `output` was made of them.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn note(&self, output: &Path) -> Result<(), BuildError> {
        let stamp = stamp(output);
        std::fs::write(&stamp, self.digest()).map_err(io_error(&stamp))
    }

    fn digest(&self) -> Vec<u8> {
        Digest::of(&self.bytes).to_string().into_bytes()
    }
}

fn stamp(output: &Path) -> PathBuf {
    output.with_added_extension("inputs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_of_the_same_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let source = write("source/deep/a.js", "one");
        let inputs = |words: &[&str]| {
            Inputs::new(words)
                .path(&folder.path().join("source"))
                .unwrap()
        };
        let output = folder.path().join("out.wasm");
        inputs(&["1.0"]).note(&output).unwrap();
        assert!(!inputs(&["1.0"]).made(&output), "there is no output");
        write("out.wasm", "made");
        assert!(inputs(&["1.0"]).made(&output));
        assert!(!inputs(&["1.1"]).made(&output));
        write("source/node_modules/x.js", "not a source");
        assert!(inputs(&["1.0"]).made(&output));
        std::fs::write(source, "two").unwrap();
        assert!(!inputs(&["1.0"]).made(&output));
    }
}
