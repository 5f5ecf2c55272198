//! The components that earlier builds of this user made, by their inputs. Entry point: [`Components::of_user`].
//!
//! componentize-qjs and componentize-py write the time and random numbers of the machine into a component: a second run makes another one,
//! which the hosts of a fleet would load and compile for nothing. So the same inputs get the component that was made of them first, in
//! whatever folder the project is. Each file has the SHA-256 of its component before it, so that a damaged one is made again.

use super::inputs::Inputs;
use super::{BuildError, io_error};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use windlass_fleet::file;
use windlass_fleet::private_folder::make_private;

/// The folder among the tools of a user.
const FOLDER: &str = "components";

/// Most bytes of them together.
const MOST: u64 = 1 << 30;

/// The length of the hash before a component.
const HASH: usize = 32;

/// A folder of components.
pub(super) struct Components {
    /// None: nothing is kept but what the project itself has.
    folder: Option<PathBuf>,
    most: u64,
}

impl Components {
    /// Those among the tools of this user. None where others could write them.
    pub(super) fn of_user(tools: &Path) -> Self {
        let usable = Some(tools.join(FOLDER)).filter(|folder| {
            let made = make_private(folder);
            if let Err(error) = &made {
                tracing::warn!(folder = %folder.display(), %error, "components are not kept: a build in another folder makes another one");
            }
            made.is_ok()
        });
        Self {
            folder: usable,
            most: MOST,
        }
    }

    /// None: what changes with each save is of no use to others, and a project may not bring its own.
    pub(super) fn none() -> Self {
        Self {
            folder: None,
            most: 0,
        }
    }

    /// Makes `output` the component that was made of these inputs first. False: none was.
    ///
    /// # Errors
    /// When `output` cannot be written.
    pub(super) fn restore(&self, inputs: &Inputs, output: &Path) -> Result<bool, BuildError> {
        let is_here = inputs.made(output);
        let mut known = self.read(inputs);
        if known.is_none() && is_here {
            self.add(inputs, output);
            known = self.read(inputs); // another build may have been faster
        }
        let Some(component) = known else {
            return Ok(is_here);
        };
        if !is_here || fs::read(output).ok().as_ref() != Some(&component) {
            fs::write(output, component).map_err(io_error(output))?;
            inputs.note(output)?;
        }
        Ok(true)
    }

    /// Keeps `output`, which was made of these inputs. If another build was faster, `output` becomes the component that it made.
    ///
    /// # Errors
    /// When `output` cannot be written.
    pub(super) fn keep(&self, inputs: &Inputs, output: &Path) -> Result<(), BuildError> {
        inputs.note(output)?;
        self.restore(inputs, output).map(drop)
    }

    fn path(&self, inputs: &Inputs) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(inputs.name()))
    }

    fn read(&self, inputs: &Inputs) -> Option<Vec<u8>> {
        let path = self.path(inputs)?;
        let mut component = file::read(&path, self.most).ok()?;
        let hash: Vec<u8> = component.drain(..HASH.min(component.len())).collect();
        if hash != Sha256::digest(&component).as_slice() {
            let _ = fs::remove_file(path); // it is damaged
            return None;
        }
        // The time orders removal. If this fails, the component is just removed earlier.
        let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(component)
    }

    /// Adds a component, unless there is one: the first one stays. A failure is logged.
    fn add(&self, inputs: &Inputs, output: &Path) {
        let (Some(folder), Some(path)) = (&self.folder, self.path(inputs)) else {
            return;
        };
        match write(&path, output) {
            Ok(()) => self.sweep(folder, &path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => tracing::warn!(
                folder = %folder.display(), %error,
                "a component cannot be kept: a build in another folder makes another one"
            ),
        }
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
            if path != newest && fs::remove_file(path).is_ok() {
                bytes -= size;
            }
        }
    }
}

/// Writes the file of a component, unless there is one.
fn write(path: &Path, output: &Path) -> io::Result<()> {
    let component = fs::read(output)?;
    let mut draft = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path))?;
    draft.write_all(&Sha256::digest(&component))?;
    draft.write_all(&component)?;
    draft.as_file().sync_all()?;
    draft.persist_noclobber(path).map_err(|kept| kept.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn components(folder: &Path, most: u64) -> Components {
        let kept = folder.join("kept");
        fs::create_dir(&kept).unwrap();
        Components {
            folder: Some(kept),
            most,
        }
    }

    fn inputs(word: &str) -> Inputs {
        Inputs::new(&[word])
    }

    #[test]
    fn the_first_component_of_the_same_inputs_stays() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), MOST);
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        assert!(!of_user.restore(&inputs("a"), &other).unwrap());
        fs::write(&one, "first").unwrap();
        of_user.keep(&inputs("a"), &one).unwrap();
        assert!(of_user.restore(&inputs("a"), &other).unwrap());
        assert_eq!(fs::read_to_string(&other).unwrap(), "first");
        // Two builds at once, and one that nobody else was to see.
        for known in [&of_user, &Components::none()] {
            fs::write(&other, "second").unwrap();
            known.keep(&inputs("a"), &other).unwrap();
            assert!(inputs("a").made(&other));
            assert!(of_user.restore(&inputs("a"), &other).unwrap());
            assert_eq!(fs::read_to_string(&other).unwrap(), "first");
        }
        assert!(!of_user.restore(&inputs("b"), &other).unwrap());
    }

    #[test]
    fn what_a_project_has_alone_is_given_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), MOST);
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "made").unwrap();
        Components::none().keep(&inputs("a"), &one).unwrap();
        assert!(!of_user.restore(&inputs("a"), &other).unwrap());
        assert!(of_user.restore(&inputs("a"), &one).unwrap());
        assert!(of_user.restore(&inputs("a"), &other).unwrap());
    }

    #[test]
    fn a_damaged_component_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), MOST);
        let output = folder.path().join("output");
        let path = of_user.path(&inputs("a")).unwrap();
        for damage in [&b""[..], b"short", &[7; 64]] {
            fs::write(&output, "made").unwrap();
            of_user.keep(&inputs("a"), &output).unwrap();
            fs::write(&path, damage).unwrap();
            fs::remove_file(&output).unwrap();
            assert!(!of_user.restore(&inputs("a"), &output).unwrap());
            assert!(!path.exists());
        }
    }

    #[test]
    fn those_that_were_not_used_for_longest_leave() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), 2500);
        let output = folder.path().join("output");
        let is_there = |word: &str| of_user.path(&inputs(word)).unwrap().exists();
        let keep = |word: &str, size: usize| {
            fs::write(&output, vec![0; size]).unwrap();
            of_user.keep(&inputs(word), &output).unwrap();
        };
        keep("old", 1000);
        keep("used", 1000);
        for word in ["old", "used"] {
            let long_ago = SystemTime::now() - Duration::from_secs(60);
            let file = File::open(of_user.path(&inputs(word)).unwrap());
            file.unwrap().set_modified(long_ago).unwrap();
        }
        assert!(of_user.restore(&inputs("used"), &output).unwrap());
        keep("new", 1000);
        assert!(!is_there("old") && is_there("used") && is_there("new"));
        // One that alone is too large is kept until the next one comes.
        keep("huge", 3000);
        assert!(!is_there("used") && !is_there("new") && is_there("huge"));
    }

    #[test]
    fn a_folder_that_cannot_be_used_fails_no_build() {
        let folder = tempfile::tempdir().unwrap();
        let of_user = components(folder.path(), MOST);
        fs::remove_dir(folder.path().join("kept")).unwrap();
        let output = folder.path().join("output");
        fs::write(&output, "made").unwrap();
        of_user.keep(&inputs("a"), &output).unwrap();
        assert!(of_user.restore(&inputs("a"), &output).unwrap());
        assert_eq!(fs::read_to_string(&output).unwrap(), "made");
    }
}
