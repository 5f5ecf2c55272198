//! Knows whether a step of a build would make again what it made before: for tools that take long, or make something else of the
//! same each time, for which the host would compile the guest anew. Entry point: [`Inputs::new`].

use super::{BuildError, io_error};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How much of a file is read at a time.
const PIECE: usize = 64 * 1024;

/// What is in a folder of packages that Python was told to keep apart, whatever the folder is called.
const ENVIRONMENT: &str = "pyvenv.cfg";

/// What a step makes its output of.
#[derive(Default)]
pub(super) struct Inputs {
    /// Of each with its length before it, so that no two lists of inputs are the same bytes.
    digest: Sha256,
    /// Folders that were looked through: links may lead to one of them again.
    seen: BTreeSet<PathBuf>,
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
        self.digest.update(bytes.len().to_le_bytes());
        self.digest.update(bytes);
    }

    /// And a file, or every file below a folder but what tools leave there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn path(self, path: &Path) -> Result<Self, BuildError> {
        std::fs::metadata(path).map_err(io_error(path))?;
        self.entry(path)
    }

    /// The same of an entry of a folder, which may be a link that leads nowhere.
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
        // Neither what waits for a writer, nor what was looked through by another name.
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

    /// Whether `output` is what was made of the same inputs, here.
    pub(super) fn made(&self, output: &Path) -> bool {
        let noted = self.noted(output);
        noted.is_some_and(|noted| std::fs::read(stamp(output)).is_ok_and(|known| known == noted))
    }

    /// Notes that `output` was made of them.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn note(&self, output: &Path) -> Result<(), BuildError> {
        let stamp = stamp(output);
        let noted = self.noted(output).unwrap_or_default();
        std::fs::write(&stamp, noted).map_err(io_error(&stamp))
    }

    /// What is noted: the inputs, and which file the output is. Nobody can put an output into a repository with a note that holds where
    /// it is checked out: the file has another number there, and was changed at another time.
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
