//! Pulled images on disk, by digest, and what tags were resolved to last. Entry point: [`Store`].
//!
//! * `images/<digest of the name>-<digest of the manifest>/`: `component.wasm`, and `image.json` with the digest of the component and the signatures that were
//!   found. Nothing here is trusted: the component is compared with its digest, and the signatures are verified, at each use.
//! * `names/<digest of tenant and reference>`: the digest that the registry named to this tenant. A tenant gets an image from here only if
//!   the registry has shown it to that tenant before. Images of another name are others, so that no registry can give away what only
//!   another one has.
//!
//! Any number of processes may share the folder. It is closed to other users, because images may be private.

use crate::digest::ImageDigest;
use crate::error::RegistryError;
use crate::manifest::ComponentLayer;
use crate::reference::Reference;
use crate::signature::Signature;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use windlass_fleet::file;
use windlass_fleet::private_folder::make_private;

const COMPONENT: &str = "component.wasm";
const ABOUT: &str = "image.json";
/// Largest file about an image, in bytes: as many signatures as are looked at.
const MAX_ABOUT: u64 = 16 << 20;
/// Names that are kept.
const MAX_NAMES: usize = 4096;
/// A draft of this age is removed: its writer has died.
const LEFTOVER: Duration = Duration::from_secs(2 * 3600);
/// How drafts are called.
const DRAFT: &str = ".draft-";

/// An image among those of its name.
#[derive(Debug, Clone)]
pub(super) struct Place(String);

impl Place {
    pub(super) fn of(image: &Reference, digest: ImageDigest) -> Self {
        let name = ImageDigest::of(format!("{}/{}", image.host(), image.name()).as_bytes());
        Self(format!("{:.32}-{}", name.hex(), digest.hex()))
    }
}

/// A folder of images.
#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: PathBuf,
    most: u64,
}

/// An image that was pulled.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// The file of the component.
    pub(super) path: PathBuf,
    /// The digest of the component.
    pub(super) component: ImageDigest,
    /// The signatures that were found.
    pub(super) signatures: Vec<Signature>,
}

/// The file about an image.
#[derive(Serialize, Deserialize)]
struct About {
    component: String,
    signatures: Vec<Signature>,
}

impl Store {
    /// Makes the folder, or checks that it is this user's alone. At most so many bytes are kept. Blocks.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(folder: PathBuf, most: u64) -> Result<Self, RegistryError> {
        for path in [folder.clone(), folder.join("images"), folder.join("names")] {
            make_private(&path).map_err(|error| unusable(&path, error))?;
        }
        Ok(Self { folder, most })
    }

    /// An image, as it was pulled. Blocks.
    pub(super) fn image(&self, place: &Place) -> Option<Image> {
        let folder = self.image_folder(place);
        let about = file::read(&folder.join(ABOUT), MAX_ABOUT).ok()?;
        let about: About = serde_json::from_slice(&about).ok()?;
        let path = folder.join(COMPONENT);
        // The time orders removal. If this fails, the image is just removed earlier.
        fs::File::open(&path)
            .ok()?
            .set_modified(SystemTime::now())
            .ok();
        Some(Image {
            path,
            component: ImageDigest::parse(&about.component)?,
            signatures: about.signatures,
        })
    }

    /// A folder for a component that is being pulled. It is removed on drop, unless it is kept. Blocks.
    pub(super) fn draft(&self) -> Result<Draft, RegistryError> {
        let name = format!("{DRAFT}{}-{}", std::process::id(), fastrand::u64(..));
        let folder = self.folder.join("images").join(name);
        make_private(&folder).map_err(|error| unusable(&folder, error))?;
        Ok(Draft(folder))
    }

    /// Keeps what was pulled. An image of the same component stays: others may read it now. Blocks.
    pub(super) fn keep(
        &self,
        draft: Draft,
        place: &Place,
        layer: ComponentLayer,
        signatures: Vec<Signature>,
    ) -> Result<Image, RegistryError> {
        let folder = self.image_folder(place);
        write_about(&draft.0, layer.digest, &signatures).map_err(|e| unusable(&draft.0, e))?;
        let is_there = || {
            let image = self.image(place);
            image.is_some_and(|image| image.component == layer.digest)
        };
        if !is_there() {
            // What is left of a folder that somebody damaged.
            let _ = fs::remove_dir_all(&folder);
            match fs::rename(&draft.0, &folder) {
                Ok(()) => {}
                // Another process was faster.
                Err(_) if is_there() => {}
                Err(error) => return Err(unusable(&folder, error)),
            }
        }
        self.sweep(&folder);
        Ok(Image {
            path: folder.join(COMPONENT),
            component: layer.digest,
            signatures,
        })
    }

    /// Replaces the signatures of an image. A failure costs a question to the registry later. Blocks.
    pub(super) fn set_signatures(&self, place: &Place, image: &Image) {
        let folder = self.image_folder(place);
        if let Err(error) = write_about(&folder, image.component, &image.signatures) {
            tracing::warn!(path = %folder.display(), %error, "signatures of an image cannot be kept");
        }
    }

    /// Drops an image, because its component is not what its digest says. Blocks.
    pub(super) fn remove(&self, place: &Place) {
        let _ = fs::remove_dir_all(self.image_folder(place));
    }

    /// The digest that the registry named to a tenant last. Blocks.
    pub(super) fn named(&self, tenant: &str, reference: &str) -> Option<ImageDigest> {
        let path = self.name_file(tenant, reference);
        let text = file::read(&path, 1024).ok()?;
        fs::File::open(&path)
            .ok()?
            .set_modified(SystemTime::now())
            .ok();
        ImageDigest::parse(str::from_utf8(&text).ok()?)
    }

    /// Notes the digest that the registry names to a tenant. A failure is logged: only a start without the registry needs it. Blocks.
    pub(super) fn set_name(&self, tenant: &str, reference: &str, digest: ImageDigest) {
        if self.named(tenant, reference) == Some(digest) {
            return;
        }
        let path = self.name_file(tenant, reference);
        let draft = path.with_extension("draft");
        let written =
            fs::write(&draft, digest.to_string()).and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the digest of a tag cannot be kept");
        }
        self.sweep_names();
    }

    fn image_folder(&self, place: &Place) -> PathBuf {
        self.folder.join("images").join(&place.0)
    }

    fn name_file(&self, tenant: &str, reference: &str) -> PathBuf {
        let name = ImageDigest::of(format!("{tenant}\n{reference}").as_bytes());
        self.folder.join("names").join(name.hex())
    }

    /// Removes the images that were not used for longest until the rest fits, but never the newest.
    fn sweep(&self, newest: &Path) {
        let mut kept = Vec::new();
        let mut bytes = 0;
        let entries = fs::read_dir(self.folder.join("images"));
        for path in entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|one| one.path())
        {
            let is_draft = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(DRAFT));
            if is_draft {
                if age(&path).is_some_and(|age| age > LEFTOVER) {
                    let _ = fs::remove_dir_all(&path);
                }
                continue;
            }
            let file = |name| fs::metadata(path.join(name)).ok();
            let (component, about) = (file(COMPONENT), file(ABOUT));
            let used = component
                .as_ref()
                .and_then(|metadata| metadata.modified().ok());
            let size: u64 = [component, about]
                .iter()
                .flatten()
                .map(fs::Metadata::len)
                .sum();
            bytes += size;
            kept.push((used.unwrap_or(SystemTime::UNIX_EPOCH), size, path));
        }
        kept.sort();
        for (_, size, path) in kept {
            if bytes <= self.most {
                break;
            }
            if path != newest {
                bytes -= size;
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    fn sweep_names(&self) {
        let entries = fs::read_dir(self.folder.join("names"))
            .into_iter()
            .flatten();
        let mut names: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .map(|entry| (modified(&entry.path()), entry.path()))
            .collect();
        let many = names.len().saturating_sub(MAX_NAMES);
        if many > 0 {
            names.sort();
            for (_, path) in names.into_iter().take(many) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// A component that is being pulled.
#[derive(Debug)]
pub(super) struct Draft(PathBuf);

impl Draft {
    /// The file of the component.
    pub(super) fn component(&self) -> PathBuf {
        self.0.join(COMPONENT)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone if it was kept.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_about(folder: &Path, component: ImageDigest, signatures: &[Signature]) -> io::Result<()> {
    let about = About {
        component: component.to_string(),
        signatures: signatures.to_vec(),
    };
    let (draft, path) = (folder.join("image.draft"), folder.join(ABOUT));
    fs::write(&draft, serde_json::to_vec(&about)?)?;
    fs::rename(&draft, &path)
}

fn modified(path: &Path) -> SystemTime {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.unwrap_or(SystemTime::UNIX_EPOCH)
}

fn age(path: &Path) -> Option<Duration> {
    modified(path).elapsed().ok()
}

fn unusable(path: &Path, error: io::Error) -> RegistryError {
    RegistryError::Store {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn keep(store: &Store, component: &[u8]) -> Place {
        let (draft, digest) = (store.draft().unwrap(), ImageDigest::of(component));
        fs::write(draft.component(), component).unwrap();
        let size = component.len() as u64;
        let place = Place::of(&Reference::parse("r.io/x:1").unwrap(), digest);
        store
            .keep(draft, &place, ComponentLayer { digest, size }, Vec::new())
            .unwrap();
        place
    }

    #[test]
    fn the_least_used_images_leave_when_the_rest_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("pulled"), 2500).unwrap();
        let old = keep(&store, &[1; 1000]);
        let used = keep(&store, &[2; 1000]);
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        for place in [&old, &used] {
            let file = fs::File::open(store.image(place).unwrap().path).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        store.image(&used).unwrap();
        let new = keep(&store, &[3; 1000]);
        assert!(store.image(&old).is_none());
        assert!(store.image(&used).is_some() && store.image(&new).is_some());
        // One that alone is too large is kept until the next one comes.
        let huge = keep(&store, &[4; 5000]);
        assert!(store.image(&huge).is_some() && store.image(&new).is_none());
    }

    #[test]
    fn an_image_that_two_pull_at_once_stays_where_the_first_one_put_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("pulled"), 1 << 20).unwrap();
        let inode = |place: Place| {
            let path = store.image(&place).unwrap().path;
            fs::metadata(path).unwrap().ino()
        };
        let first = keep(&store, b"x");
        let about = store.image_folder(&first).join(ABOUT);
        let before = inode(first);
        assert_eq!(inode(keep(&store, b"x")), before);
        // What cannot be used is replaced.
        fs::write(about, "{}").unwrap();
        assert_ne!(inode(keep(&store, b"x")), before);
    }

    #[test]
    fn a_draft_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("pulled"), 1 << 20).unwrap();
        let draft = store.draft().unwrap();
        fs::write(draft.component(), "half").unwrap();
        drop(draft);
        let left = fs::read_dir(folder.path().join("pulled/images")).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn an_image_is_of_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("pulled"), 1 << 20).unwrap();
        keep(&store, b"x");
        let other = Reference::parse("evil.io/x:1").unwrap();
        assert!(
            store
                .image(&Place::of(&other, ImageDigest::of(b"x")))
                .is_none()
        );
    }

    #[test]
    fn a_name_is_of_one_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_owned().join("p"), 1 << 20).unwrap();
        let digest = ImageDigest::of(b"x");
        store.set_name("a", "r.io/x:1", digest);
        assert_eq!(store.named("a", "r.io/x:1"), Some(digest));
        assert_eq!(store.named("b", "r.io/x:1"), None);
    }
}
