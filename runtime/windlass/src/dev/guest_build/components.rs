//! The components that earlier builds of this user made, by their inputs. Entry point: [`Components::of_user`].
//!
//! componentize-qjs and componentize-py write the time and random numbers of the machine into a component: a second run makes another one,
//! which the hosts of a fleet would load and compile for nothing. So the same inputs get the component that was made of them first, in
//! whatever folder the project is.

use super::fetched::tools_of_user;
use super::inputs::Inputs;
use super::{BuildError, io_error};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use windlass_fleet::file;

/// The folder among the tools of a user.
const FOLDER: &str = "components";

/// Most bytes of them together.
const MOST: u64 = 1 << 30;

/// A folder of components.
pub(super) struct Components {
    /// None: nothing is kept but what the project itself has.
    folder: Option<PathBuf>,
    most: u64,
}

impl Components {
    /// Those of this user. Without a home folder, there are none: a project may not bring its own.
    pub(super) fn of_user() -> Self {
        Self {
            folder: tools_of_user().map(|tools| tools.join(FOLDER)),
            most: MOST,
        }
    }

    /// None, for builds that nobody else is to see.
    pub(super) fn none() -> Self {
        Self {
            folder: None,
            most: 0,
        }
    }

    /// Whether `output` is the component of these inputs: it already was, or it is now.
    pub(super) fn has(&self, inputs: &Inputs, output: &Path) -> Result<bool, BuildError> {
        if inputs.made(output) {
            return Ok(true);
        }
        let known = self.path(inputs).and_then(|path| self.read(&path));
        let Some(component) = known else {
            return Ok(false);
        };
        fs::write(output, component).map_err(io_error(output))?;
        inputs.note(output)?;
        Ok(true)
    }

    /// Keeps `output`, which was made of these inputs. If another build was faster, `output` becomes the component that it made.
    pub(super) fn keep(&self, inputs: &Inputs, output: &Path) -> Result<(), BuildError> {
        if let Some(path) = self.path(inputs) {
            match self.add(&path, output) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if self.has(inputs, output)? {
                        return Ok(());
                    }
                }
                Err(error) => tracing::warn!(
                    path = %path.display(), %error,
                    "a component cannot be kept: a build in another folder makes another one"
                ),
            }
        }
        inputs.note(output)
    }

    fn path(&self, inputs: &Inputs) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(inputs.name()).with_extension("wasm"))
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let component = file::read(path, self.most).ok()?;
        // The time orders removal. If this fails, the component is just removed earlier.
        let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(component)
    }

    /// Adds a component, unless there is one: the first one stays.
    fn add(&self, path: &Path, output: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        // Sources may be private, and components are made of them.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut draft = tempfile::NamedTempFile::new_in(folder)?;
        io::copy(&mut File::open(output)?, draft.as_file_mut())?;
        draft.flush()?;
        draft.as_file().sync_all()?;
        draft.persist_noclobber(path).map_err(|kept| kept.error)?;
        self.sweep(folder, path);
        Ok(())
    }

    /// Removes those that were not used for longest until the rest fits, but never the newest.
    fn sweep(&self, folder: &Path, newest: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut all: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        all.sort();
        let mut bytes: u64 = all.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in all {
            if bytes <= self.most {
                break;
            }
            if path != newest {
                bytes -= size;
                let _ = fs::remove_file(path); // another build may have been faster
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn components(folder: &Path, most: u64) -> Components {
        Components {
            folder: Some(folder.join("kept")),
            most,
        }
    }

    #[test]
    fn the_first_component_of_the_same_inputs_stays() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), MOST);
        let inputs = |word: &str| Inputs::new(&[word]);
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        assert!(!of_user.has(&inputs("a"), &other).unwrap());
        fs::write(&one, "first").unwrap();
        of_user.keep(&inputs("a"), &one).unwrap();
        assert!(of_user.has(&inputs("a"), &other).unwrap());
        assert_eq!(fs::read_to_string(&other).unwrap(), "first");
        // Two builds at once.
        fs::write(&other, "second").unwrap();
        of_user.keep(&inputs("a"), &other).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "first");
        assert!(inputs("a").made(&other));
        assert!(!of_user.has(&inputs("b"), &other).unwrap());
        // What nobody is to see is known in its own place alone.
        let none = Components::none();
        assert!(none.has(&inputs("a"), &one).unwrap());
        fs::remove_file(&one).unwrap();
        assert!(!none.has(&inputs("a"), &one).unwrap());
    }

    #[test]
    fn those_that_were_not_used_for_longest_leave() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), 2500);
        let output = folder.path().join("output");
        let has = |word: &str| of_user.has(&Inputs::new(&[word]), &output).unwrap();
        for (word, size) in [("old", 1000), ("used", 1000), ("new", 1000), ("huge", 2400)] {
            fs::write(&output, vec![0; size]).unwrap();
            of_user.keep(&Inputs::new(&[word]), &output).unwrap();
            let path = of_user.path(&Inputs::new(&[word])).unwrap();
            let long_ago = SystemTime::now() - Duration::from_secs(60);
            File::open(path).unwrap().set_modified(long_ago).unwrap();
            match word {
                "used" => assert!(has("old") && has("used")),
                "new" => {
                    fs::remove_file(&output).unwrap();
                    assert!(!has("used") || !has("old"));
                    assert!(has("new"));
                }
                "huge" => {
                    fs::remove_file(&output).unwrap();
                    assert!(!has("new") && has("huge"));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_fails_no_build() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kept"), "a file").unwrap();
        let (of_user, output) = (
            components(folder.path(), MOST),
            folder.path().join("output"),
        );
        fs::write(&output, "made").unwrap();
        of_user.keep(&Inputs::new(&["a"]), &output).unwrap();
        assert_eq!(fs::read_to_string(&output).unwrap(), "made");
    }
}
