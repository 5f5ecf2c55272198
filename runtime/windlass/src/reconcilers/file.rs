//! The file that a guest is read from: one of the operator, or one of an image. Entry points: [`component()`] and [`File::read`].

use super::records::Records;
use crate::config::kinds::{Bytes, GuestSource, ReconcilerSpec};
use crate::config::load::Document;
use crate::config::record::KnownRevision;
use crate::guests::{Desired, LoadFailure, TenantPolicy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::built;
use windlass_fleet::Digest;
use windlass_fleet::file::{self, FileError};
use windlass_registry::{Lookup, PullSecret, Reference, Registries, Wanted};

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

/// What was read for a reconciler.
pub(super) struct File {
    /// The guest that the document names.
    pub(super) guest: Found,
    /// The revision of a rollback.
    pub(super) pinned: Option<(KnownRevision, Found)>,
}

/// What came of the search for a component.
pub(super) struct Found {
    pub(super) component: Result<Component, LoadFailure>,
    /// What came of the look-up of its image; none: it is no image.
    pub(super) lookup: Option<Lookup>,
}

/// A component that is on this machine.
pub(super) struct Component {
    pub(super) path: PathBuf,
    pub(super) digest: Digest,
    /// Its image, with the digest of the manifest; none: it is a file of the operator.
    pub(super) image: Option<String>,
}

/// A revision that is read beside the guest that the document names.
#[derive(Clone)]
pub(super) struct Pin {
    pub(super) revision: KnownRevision,
    /// What came of the last look-up of its image.
    pub(super) lookup: Option<Lookup>,
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
            Some(pin) => Some(Found::pinned(desired, sources, pin).await),
            None => None,
        };
        let guest = match desired.spec.guest.source() {
            Ok(GuestSource::Image(image)) => Found::image(desired, sources, image, before).await,
            _ => Found::file(of_path(desired, sources, most).await),
        };
        Self { guest, pinned }
    }

    /// Whether the documents name another file by now.
    pub(super) fn has_moved(&self, desired: &Desired) -> bool {
        let Found { component, lookup } = &self.guest;
        match (desired.spec.guest.source(), lookup) {
            (Ok(GuestSource::Image(image)), Some(lookup)) => *lookup.image() != image,
            (Ok(GuestSource::Image(_)), None) | (Ok(GuestSource::Path(_)), Some(_)) => true,
            _ => match (component, self::component(&desired.document, &desired.spec)) {
                (Ok(read), Ok(path)) => read.path != path,
                _ => false,
            },
        }
    }
}

impl Found {
    fn file(component: Result<Component, LoadFailure>) -> Self {
        Self {
            component,
            lookup: None,
        }
    }

    /// Looks an image up. Its component was compared with its digest when it was pulled or found here, and is again when it is loaded.
    async fn image(
        desired: &Desired,
        sources: &Sources,
        image: Reference,
        before: Option<Lookup>,
    ) -> Self {
        let wanted = wanted(&desired.spec, &desired.policy, image);
        let lookup = sources.registry.look_up(wanted, before).await;
        let component = match &lookup.outcome {
            Ok(pulled) => Ok(Component {
                path: pulled.path.clone(),
                digest: pulled.component,
                image: Some(lookup.image().at(pulled.digest).to_string()),
            }),
            // The look-up knows when to try again.
            Err(problem) => Err(LoadFailure::permanent(problem)),
        };
        Self {
            component,
            lookup: Some(lookup),
        }
    }

    /// Finds a revision that may be neither what the document names now, nor where that is.
    async fn pinned(desired: &Desired, sources: &Sources, pin: Pin) -> (KnownRevision, Self) {
        let Pin { revision, lookup } = pin;
        let found = match revision.image.as_deref().map(Reference::parse) {
            None => Self::file(kept_copy(desired, sources, revision.digest).await),
            Some(Err(error)) => Self::file(Err(LoadFailure::permanent(error))),
            Some(Ok(image)) => {
                let mut found = Self::image(desired, sources, image.clone(), lookup).await;
                if let Ok(other) = &found.component
                    && other.digest != revision.digest
                {
                    let problem = format!("{image} has {}", other.digest.short());
                    found.component = Err(LoadFailure::permanent(problem));
                }
                found
            }
        };
        (revision, found)
    }
}

/// The component of a file, or of a source folder.
async fn of_path(
    desired: &Arc<Desired>,
    sources: &Sources,
    most: usize,
) -> Result<Component, LoadFailure> {
    let named = named(desired);
    check_file(desired, sources, &named)?;
    let asked = desired.clone();
    let read = move || {
        let path = component(&asked.document, &asked.spec)?;
        Ok(Component {
            digest: digest(&path, most as u64)?,
            path,
            image: None,
        })
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(unreadable(&named, &error)))
}

/// The copy of a component that was a file.
async fn kept_copy(
    desired: &Desired,
    sources: &Sources,
    digest: Digest,
) -> Result<Component, LoadFailure> {
    let named = named(desired);
    check_file(desired, sources, &named)?;
    let records = sources.records.clone();
    let found = tokio::task::spawn_blocking(move || records.component(digest)).await;
    let found = found.map_err(|error| unreadable(&named, &error))?;
    let path = found.ok_or_else(|| {
        LoadFailure::permanent("it was a file, and this process has no copy of it")
    })?;
    Ok(Component {
        path,
        digest,
        image: None,
    })
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
