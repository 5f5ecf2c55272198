//! The file that a guest is read from: one of the operator, or one of an image. Entry points: [`component`] and [`File::read`].

use super::records::Records;
use crate::config::kinds::{Bytes, GuestSource, ReconcilerSpec};
use crate::config::load::Document;
use crate::config::record::KnownRevision;
use crate::guests::{Desired, LoadFailure, TenantPolicy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::built;
use windlass_fleet::file::{self, FileError};
use windlass_registry::{Lookup, PullSecret, Reference, Registries, Wanted};
use windlass_sandbox::Digest;

/// Where guests come from.
#[derive(Clone)]
pub(crate) struct Sources {
    /// The registries of images.
    pub(crate) registry: Registries,
    /// What outlives this process.
    pub(crate) records: Records,
    /// Whether files need not follow a tenant's policy: over an in-memory fleet, which is the developer's own.
    pub(crate) trusts_files: bool,
}

/// The file of a guest, as it was read.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// The digest of the component.
    pub(super) digest: Result<Digest, LoadFailure>,
    /// What came of the look-up of its image; none: it is no image.
    pub(super) lookup: Option<Lookup>,
    /// The image, with the digest of its manifest.
    pub(super) image: Option<String>,
    /// The revision of a rollback that was read too.
    pub(super) pinned: Option<Pinned>,
}

/// A revision that is read beside the guest's file.
#[derive(Clone)]
pub(super) struct Pin {
    pub(super) revision: KnownRevision,
    /// What came of the last look-up of its image.
    pub(super) lookup: Option<Lookup>,
}

/// The revision of a rollback, as it was read.
pub(super) struct Pinned {
    pub(super) revision: KnownRevision,
    /// The file of its component.
    pub(super) path: Result<PathBuf, LoadFailure>,
    /// What came of the look-up of its image; none: it was a file.
    pub(super) lookup: Option<Lookup>,
}

impl Pinned {
    /// Finds a revision that may be neither what the document names now, nor where that is.
    async fn read(desired: &Desired, sources: &Sources, pin: Pin) -> Self {
        let Pin { revision, lookup } = pin;
        let (path, lookup) = match revision.image.as_deref().map(Reference::parse) {
            None => (Self::of_path(desired, sources, &revision).await, None),
            Some(Err(error)) => (Err(LoadFailure::permanent(error)), None),
            Some(Ok(image)) => {
                let wanted = wanted(&desired.spec, &desired.policy, image.clone());
                let file = File::of_image(sources.registry.look_up(wanted, lookup).await);
                let path = match file.digest {
                    Ok(digest) if digest == revision.digest => Ok(file.path),
                    Ok(digest) => {
                        let problem = format!("{image} has {}", digest.short());
                        Err(LoadFailure::permanent(problem))
                    }
                    Err(failure) => Err(failure),
                };
                (path, file.lookup)
            }
        };
        Self {
            revision,
            path,
            lookup,
        }
    }

    async fn of_path(
        desired: &Desired,
        sources: &Sources,
        revision: &KnownRevision,
    ) -> Result<PathBuf, LoadFailure> {
        let named = named(desired);
        check_file(desired, sources, &named)?;
        let (records, digest) = (sources.records.clone(), revision.digest);
        let found = tokio::task::spawn_blocking(move || records.component(digest)).await;
        let found = found.map_err(|error| unreadable(&named, &error))?;
        found.ok_or_else(|| {
            LoadFailure::permanent("it was a file, and this process has no copy of it")
        })
    }
}

/// The path that a document names.
fn named(desired: &Desired) -> PathBuf {
    let path = desired.spec.guest.path();
    let path = path.map_or(Path::new(""), PathBuf::as_path);
    desired.document.resolve(path)
}

/// Whether a guest in a file may be used. A guest of the platform was chosen by who runs the process.
fn check_file(desired: &Desired, sources: &Sources, file: &Path) -> Result<(), LoadFailure> {
    if sources.trusts_files || desired.spec.guest.name.is_some() {
        return Ok(());
    }
    let checked = desired.policy.guests.check_file(file);
    checked.map_err(LoadFailure::permanent)
}

impl File {
    /// Reads the guest that a document names, but no more than `most` bytes, and the revision of a rollback. An image is looked up if the
    /// look-up before does not hold.
    pub(super) async fn read(
        desired: &Arc<Desired>,
        sources: &Sources,
        before: Option<Lookup>,
        pin: Option<Pin>,
        most: usize,
    ) -> Self {
        let pinned = match pin {
            Some(pin) => Some(Pinned::read(desired, sources, pin).await),
            None => None,
        };
        let file = match desired.spec.guest.source() {
            Ok(GuestSource::Image(image)) => {
                let wanted = wanted(&desired.spec, &desired.policy, image);
                Self::of_image(sources.registry.look_up(wanted, before).await)
            }
            _ => Self::of_path(desired, sources, most).await,
        };
        Self { pinned, ..file }
    }

    fn refused(failure: LoadFailure) -> Self {
        Self {
            path: PathBuf::new(),
            digest: Err(failure),
            lookup: None,
            image: None,
            pinned: None,
        }
    }

    /// The component of an image. It was compared with its digest when it was looked up, and is again when it is loaded.
    fn of_image(lookup: Lookup) -> Self {
        let pulled = match &lookup.outcome {
            Ok(pulled) => pulled,
            // The look-up knows when to try again.
            Err(problem) => {
                let refused = Self::refused(LoadFailure::permanent(problem));
                return Self {
                    lookup: Some(lookup),
                    ..refused
                };
            }
        };
        let digest = Digest::parse(&pulled.component.hex());
        Self {
            path: pulled.path.clone(),
            digest: digest.ok_or_else(|| LoadFailure::permanent("its component has no digest")),
            image: Some(lookup.image().at(pulled.digest).to_string()),
            lookup: Some(lookup),
            pinned: None,
        }
    }

    async fn of_path(desired: &Arc<Desired>, sources: &Sources, most: usize) -> Self {
        let named = named(desired);
        if let Err(failure) = check_file(desired, sources, &named) {
            return Self::refused(failure);
        }
        let asked = desired.clone();
        let find = move || component(&asked.document, &asked.spec);
        let found = tokio::task::spawn_blocking(find).await;
        match found.unwrap_or_else(|error| Err(unreadable(&named, &error))) {
            Ok(path) => Self {
                digest: in_background(path.clone(), most).await,
                path,
                lookup: None,
                image: None,
                pinned: None,
            },
            Err(failure) => Self::refused(failure),
        }
    }

    /// Whether the documents name another file by now.
    pub(super) fn has_moved(&self, desired: &Desired) -> bool {
        match (desired.spec.guest.source(), &self.lookup) {
            (Ok(GuestSource::Image(image)), Some(lookup)) => *lookup.image() != image,
            (Ok(GuestSource::Image(_)), None) | (Ok(GuestSource::Path(_)), Some(_)) => true,
            _ => component(&desired.document, &desired.spec).is_ok_and(|path| path != self.path),
        }
    }
}

/// What a document asks of registries, within the policy of its tenant.
pub(crate) fn wanted(spec: &ReconcilerSpec, policy: &TenantPolicy, image: Reference) -> Wanted {
    let secret = spec.guest.pull_secret.as_ref();
    Wanted {
        image,
        tenant: spec.tenant().to_owned(),
        secret: secret.map(|secret| PullSecret {
            namespace: secret.namespace.clone().unwrap_or_default(),
            name: secret.name.clone(),
        }),
        interval: spec.guest.interval().0,
        policy: policy.guests.clone(),
        // The policy of a Reconciler in a cluster always has a list.
        any_by_default: true,
        last_will_do: true,
    }
}

/// The file of the component that a document names: the path itself, or the build result of a source folder.
///
/// # Errors
/// When the folder was not built, with what to do; for an image.
pub(crate) fn component(
    document: &Document,
    spec: &ReconcilerSpec,
) -> Result<PathBuf, LoadFailure> {
    let Some(path) = spec.guest.path() else {
        return Err(LoadFailure::permanent("its guest is an image"));
    };
    let path = document.resolve(path);
    if !path.is_dir() {
        return Ok(path);
    }
    built(&path).ok_or_else(|| {
        let path = path.display();
        LoadFailure::permanent(format!(
            "{path} is a source folder that was not built yet: run windlass build {path}"
        ))
    })
}

async fn in_background(path: PathBuf, most: usize) -> Result<Digest, LoadFailure> {
    let there = path.clone();
    let read = tokio::task::spawn_blocking(move || digest(&path, most as u64)).await;
    read.unwrap_or_else(|error| Err(unreadable(&there, &error)))
}

/// The component's digest. A component that is too large is not read.
fn digest(path: &Path, most: u64) -> Result<Digest, LoadFailure> {
    let read_digest = || {
        let file = file::open(path)?;
        let size = file.metadata()?.len();
        if size > most {
            return Ok((None, size));
        }
        // It may grow while it is read.
        let (digest, read) = Digest::of_file(file, most + 1)?;
        Ok::<_, FileError>(((read <= most).then_some(digest), size.max(read)))
    };
    match read_digest() {
        Ok((Some(digest), _)) => Ok(digest),
        Ok((None, size)) => Err(LoadFailure::permanent(format!(
            "{} has {}: at most {} are loaded",
            path.display(),
            Bytes(size),
            Bytes(most)
        ))),
        Err(error) if error.is_not_found() => Err(LoadFailure::permanent(format!(
            "{}: no such file: check spec.guest.path",
            path.display()
        ))),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> LoadFailure {
    LoadFailure::transient(format!(
        "{}: the guest cannot be read: {error}",
        path.display()
    ))
}
