//! Decides whether a step of a build can be skipped because its inputs are unchanged. It is for slow tools, and for tools whose
//! output differs in each run: the host would compile the guest again. Entry point: [`Inputs::new`].

use super::{BuildError, io_error};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The number of bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// The file that marks a Python virtual environment, whose folder may have any name.
const ENVIRONMENT: &str = "pyvenv.cfg";

/// The inputs of a step.
#[derive(Default)]
pub(super) struct Inputs {
    /// The hash of the inputs. Each has its length before it, so that different lists never have the same bytes.
    digest: Sha256,
    /// Folders that were read: a link may lead to one of them again.
    seen: BTreeSet<PathBuf>,
}

impl Inputs {
    /// Starts with these words: names and versions of tools, settings.
    pub(super) fn new(words: &[&str]) -> Self {
        let mut inputs = Self::default();
        for word in words {
            inputs.add(word.as_bytes());
        }
        inputs
    }

    fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes.len().to_le_bytes());
        self.digest.update(bytes);
    }

    /// Adds a file, or every file below a folder except files that tools write there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn path(self, path: &Path) -> Result<Self, BuildError> {
        std::fs::metadata(path).map_err(io_error(path))?;
        self.entry(path)
    }

    /// Adds an entry of a folder, which may be a link without a target.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn entry(mut self, path: &Path) -> Result<Self, BuildError> {
        self.walk(path)?;
        Ok(self)
    }

    fn walk(&mut self, path: &Path) -> Result<(), BuildError> {
        self.add(path.as_os_str().as_encoded_bytes());
        let Ok(metadata) = std::fs::metadata(path) else {
            let leads = std::fs::read_link(path).map_err(io_error(path))?;
            self.add(leads.as_os_str().as_encoded_bytes());
            return Ok(());
        };
        if metadata.is_file() {
            return self.content(path);
        }
        // Skips pipes, because a read would block, and folders that were read under another name.
        if !metadata.is_dir() || path.join(ENVIRONMENT).is_file() {
            return Ok(());
        }
        let real = std::fs::canonicalize(path).map_err(io_error(path))?;
        self.add(real.as_os_str().as_encoded_bytes());
        if !self.seen.insert(real) {
            return Ok(());
        }
        let mut below: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io_error(path))? {
            let path = entry.map_err(io_error(path))?.path();
            if !crate::watch::is_left_by_tools(&path) {
                below.push(path);
            }
        }
        below.sort();
        below.iter().try_for_each(|path| self.walk(path))
    }

    /// The content of a file, piece by piece.
    fn content(&mut self, path: &Path) -> Result<(), BuildError> {
        let mut file = std::fs::File::open(path).map_err(io_error(path))?;
        let (mut content, mut piece) = (Sha256::new(), vec![0; PIECE]);
        loop {
            match file.read(&mut piece).map_err(io_error(path))? {
                0 => break,
                read => content.update(&piece[..read]),
            }
        }
        self.add(&content.finalize());
        Ok(())
    }

    /// Whether `output` was made from the same inputs on this machine.
    pub(super) fn made(&self, output: &Path) -> bool {
        let noted = self.noted(output);
        noted.is_some_and(|noted| std::fs::read(stamp(output)).is_ok_and(|known| known == noted))
    }

    /// Records that `output` was made from these inputs.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub(super) fn note(&self, output: &Path) -> Result<(), BuildError> {
        let stamp = stamp(output);
        let noted = self.noted(output).unwrap_or_default();
        std::fs::write(&stamp, noted).map_err(io_error(&stamp))
    }

    /// The record: the inputs, and the inode and time of the output. A repository cannot contain an output with a valid record: in a
    /// checkout the file has another inode and another time.
    fn noted(&self, output: &Path) -> Option<Vec<u8>> {
        let file = std::fs::metadata(output).ok().filter(|it| it.is_file())?;
        let mut text = String::new();
        for byte in self.digest.clone().finalize() {
            write!(text, "{byte:02x}").ok()?;
        }
        let (changed, part) = (file.ctime(), file.ctime_nsec());
        let of = (file.dev(), file.ino(), file.len());
        writeln!(text, " {} {} {} {changed}.{part:09}", of.0, of.1, of.2).ok()?;
        Some(text.into_bytes())
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
        assert!(!inputs(&["1.0"]).made(&output), "it came after the note");
        inputs(&["1.0"]).note(&output).unwrap();
        assert!(inputs(&["1.0"]).made(&output));
        assert!(!inputs(&["1.1"]).made(&output));
        write("source/node_modules/x.js", "not a source");
        assert!(inputs(&["1.0"]).made(&output));
        std::fs::write(source, "two").unwrap();
        assert!(!inputs(&["1.0"]).made(&output));
    }

    #[test]
    fn an_output_that_came_with_its_note_from_elsewhere_is_not_trusted() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let inputs = Inputs::new(&["1.0"]);
        let output = one.path().join("out.wasm");
        std::fs::write(&output, "made").unwrap();
        inputs.note(&output).unwrap();
        assert!(inputs.made(&output));
        let copy = other.path().join("out.wasm");
        std::fs::copy(&output, &copy).unwrap();
        std::fs::copy(stamp(&output), stamp(&copy)).unwrap();
        assert!(!inputs.made(&copy));
        std::fs::rename(&copy, &output).unwrap();
        assert!(!inputs.made(&output), "put in the place of the one made");
    }

    #[test]
    fn links_that_lead_nowhere_and_round_are_looked_at_once() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/x.py"), "one").unwrap();
        symlink("nowhere", at("a/dangling")).unwrap();
        symlink("itself", at("a/itself")).unwrap();
        symlink(folder.path(), at("a/b/up")).unwrap();
        for name in ["1", "2", "3"] {
            symlink(at("a"), at(&format!("a/b/{name}"))).unwrap();
        }
        let digest = || {
            Inputs::default()
                .path(folder.path())
                .unwrap()
                .digest
                .finalize()
        };
        let before = digest();
        assert_eq!(digest(), before);
        std::fs::remove_file(at("a/dangling")).unwrap();
        symlink("elsewhere", at("a/dangling")).unwrap();
        let led = digest();
        assert_ne!(led, before);
        std::fs::write(at("a/b/x.py"), "two").unwrap();
        assert_ne!(digest(), led);
        assert!(Inputs::default().path(&at("a/none")).is_err());
    }

    #[test]
    fn an_environment_is_no_source_and_a_package_called_target_is() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        };
        let digest = || {
            Inputs::default()
                .path(folder.path())
                .unwrap()
                .digest
                .finalize()
        };
        write("env/pyvenv.cfg", "");
        write("target/debug/out", "");
        let before = digest();
        write("env/lib/x.py", "");
        write("target/debug/more", "");
        assert_eq!(digest(), before);
        write("target/module.py", "one");
        let one = digest();
        assert_ne!(one, before);
        write("target/module.py", "two");
        assert_ne!(digest(), one);
    }
}
