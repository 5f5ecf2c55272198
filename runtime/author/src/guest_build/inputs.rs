//! Decides whether a step of a build can be skipped because its inputs are unchanged. It is for slow tools, and for tools whose
//! output differs in each run: the host would compile the guest again. The same project in another folder has the same inputs.
//! Entry point: [`Inputs::new`].

use super::{BuildError, io_error};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The number of bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// The file that marks a Python virtual environment, whose folder may have any name.
const ENVIRONMENT: &str = "pyvenv.cfg";

/// The file of a Python package that lists what was installed: also programs, whose text has the path of the environment.
const LIST: (&str, &str) = ("dist-info", "RECORD");

/// Most files and folders: links may lead to the same ones on more ways than anybody could walk.
const MOST: usize = 200_000;

/// The inputs of a step.
#[derive(Default)]
pub(super) struct Inputs {
    /// The hash of the inputs. Each has its length before it, so that different lists never have the same bytes.
    digest: Sha256,
    /// The folders around the one that is read: a link may lead to one of them.
    around: Vec<PathBuf>,
    /// How many files and folders were read.
    read: usize,
    /// Links that lead out of this folder are not followed. None: all are.
    within: Option<PathBuf>,
    /// The folder that gets a copy of what is read.
    copy: Option<PathBuf>,
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

    /// From here on links that lead out of a folder are not followed, because a project may come from a stranger. What is read is copied
    /// into `copy`, byte by byte, for a tool that would read more than that, or read it later.
    ///
    /// # Errors
    /// When there is no such folder.
    pub(super) fn within(
        mut self,
        folder: &Path,
        copy: Option<PathBuf>,
    ) -> Result<Self, BuildError> {
        self.within = Some(std::fs::canonicalize(folder).map_err(io_error(folder))?);
        self.copy = copy;
        Ok(self)
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
        self.walk(path, Path::new(path.file_name().unwrap_or_default()))?;
        Ok(self)
    }

    /// `name` is the path below the folder of the entry.
    fn walk(&mut self, path: &Path, name: &Path) -> Result<(), BuildError> {
        self.read += 1;
        if self.read > MOST {
            let many = format!(
                "it has more than {MOST} files for the build: move what is no source elsewhere"
            );
            return Err(io_error(path)(std::io::Error::other(many)));
        }
        let metadata = std::fs::metadata(path).ok();
        let Some(metadata) = metadata.filter(|_| !self.leads_out(path)) else {
            return self.link(path, name);
        };
        if metadata.is_file() {
            self.named("file", name);
            return self.content(path, name);
        }
        self.named("folder", name);
        // Skips pipes, because a read would block.
        if !metadata.is_dir() || path.join(ENVIRONMENT).is_file() {
            return Ok(());
        }
        let real = std::fs::canonicalize(path).map_err(io_error(path))?;
        if self.around.contains(&real) {
            let between = self.around.iter().rev().take_while(|it| **it != real);
            let up = between.count();
            self.add(&up.to_le_bytes());
            return Ok(());
        }
        if let Some(copy) = self.copy.as_ref().map(|copy| copy.join(name)) {
            std::fs::create_dir_all(&copy).map_err(io_error(&copy))?;
        }
        self.around.push(real);
        let is_packages_own = name.extension().is_some_and(|it| it == LIST.0);
        let mut below: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(io_error(path))? {
            let path = entry.map_err(io_error(path))?.path();
            let is_list = is_packages_own && path.ends_with(LIST.1);
            if !is_list && !windlass_files::is_left_by_tools(&path) {
                below.push(path);
            }
        }
        below.sort();
        for path in below {
            self.walk(&path, &name.join(path.file_name().unwrap_or_default()))?;
        }
        self.around.pop();
        Ok(())
    }

    fn leads_out(&self, path: &Path) -> bool {
        let leads_out = |within| {
            let real = std::fs::canonicalize(path);
            path.is_symlink() && !real.is_ok_and(|real| real.starts_with(within))
        };
        self.within.as_ref().is_some_and(leads_out)
    }

    /// A link that is not followed.
    fn link(&mut self, path: &Path, name: &Path) -> Result<(), BuildError> {
        let leads = match std::fs::read_link(path) {
            Ok(leads) => leads,
            // It was there for a moment, as what an editor writes.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io_error(path)(error)),
        };
        self.named("link", name);
        self.add(leads.as_os_str().as_encoded_bytes());
        Ok(())
    }

    fn named(&mut self, what: &str, name: &Path) {
        self.add(what.as_bytes());
        self.add(name.as_os_str().as_encoded_bytes());
    }

    /// The content of a file, piece by piece.
    fn content(&mut self, path: &Path, name: &Path) -> Result<(), BuildError> {
        let mut file = File::open(path).map_err(io_error(path))?;
        let copy = self.copy.as_ref().map(|copy| copy.join(name));
        let mut copy = copy.as_deref().map(create).transpose()?;
        let (mut content, mut piece) = (Sha256::new(), vec![0; PIECE]);
        loop {
            let read = file.read(&mut piece).map_err(io_error(path))?;
            if read == 0 {
                break;
            }
            content.update(&piece[..read]);
            if let Some(copy) = &mut copy {
                copy.write_all(&piece[..read]).map_err(io_error(path))?;
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

    /// A name for these inputs, in hexadecimal digits.
    pub(super) fn name(&self) -> String {
        let mut name = String::new();
        for byte in self.digest.clone().finalize() {
            // A String takes everything.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// The record: the inputs, and the inode and time of the output. A repository cannot contain an output with a valid record: in a
    /// checkout the file has another inode and another time.
    fn noted(&self, output: &Path) -> Option<Vec<u8>> {
        let file = std::fs::metadata(output).ok().filter(|it| it.is_file())?;
        let mut text = self.name();
        let (changed, part) = (file.ctime(), file.ctime_nsec());
        let of = (file.dev(), file.ino(), file.len());
        writeln!(text, " {} {} {} {changed}.{part:09}", of.0, of.1, of.2).ok()?;
        Some(text.into_bytes())
    }
}

/// Creates a file, with the folders around it.
fn create(path: &Path) -> Result<File, BuildError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(io_error(folder))?;
    }
    File::create(path).map_err(io_error(path))
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
    fn the_same_in_another_folder_has_the_same_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let name_of = |place: &str, list: &str, text: &str| {
            let below = folder.path().join(place).join("packages");
            let about = below.join("six-1.0.dist-info");
            std::fs::create_dir_all(&about).unwrap();
            std::fs::write(about.join("RECORD"), list).unwrap();
            std::fs::write(below.join("six.py"), text).unwrap();
            Inputs::default().path(&below).unwrap().name()
        };
        let one = name_of("one", "../../bin/a,sha256=1", "x");
        assert_eq!(name_of("another/deeper", "../../bin/a,sha256=2", "x"), one);
        assert_ne!(name_of("one", "", "y"), one);
    }

    #[test]
    fn a_copy_has_what_was_read_and_nothing_from_elsewhere() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["project/src/deep", "project/src/__pycache__", "secrets"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in [
            "project/src/deep/a.py",
            "project/src/__pycache__/a.pyc",
            "secrets/key",
        ] {
            std::fs::write(at(name), name).unwrap();
        }
        symlink(at("project/src"), at("project/src/deep/up")).unwrap();
        symlink(at("project/src/deep"), at("project/same")).unwrap();
        symlink(at("secrets"), at("project/src/secrets")).unwrap();
        let name_of = |copy: Option<PathBuf>| {
            let inputs = Inputs::default().within(&at("project"), copy).unwrap();
            inputs.path(&at("project")).unwrap().name()
        };
        let name = name_of(Some(at("copy")));
        assert_eq!(name_of(None), name);
        std::fs::write(at("secrets/key"), "another").unwrap();
        assert_eq!(name_of(None), name);
        for name in ["project/src/deep/a.py", "project/same/a.py"] {
            let copied = std::fs::read_to_string(at("copy").join(name)).unwrap();
            assert_eq!(copied, "project/src/deep/a.py");
        }
        for name in ["src/__pycache__", "src/secrets", "src/deep/up"] {
            assert!(!at("copy/project").join(name).exists(), "{name}");
        }
    }

    #[test]
    fn files_links_and_folders_of_one_name_are_different_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let name = || Inputs::default().path(folder.path()).unwrap().name();
        std::fs::write(&path, "b").unwrap();
        let file = name();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("b", &path).unwrap();
        let link = name();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let empty = name();
        assert!(file != link && link != empty && empty != file);
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
    fn links_that_lead_nowhere_and_round_are_not_followed() {
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
