//! Looks an image up: which component it is now. Entry point: [`Registries::look_up`].

use crate::digest::ImageDigest;
use crate::error::RegistryError;
use crate::manifest::Manifest;
use crate::policy::GuestPolicy;
use crate::reference::Reference;
use crate::registries::{Opened, PullSecret, Registries};
use crate::session::Session;
use crate::signature::{self, Signature, Trust};
use crate::store::{Image, Place, Store};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use windlass_fleet::Digest;

/// The wait after the first failure. It doubles with each.
const FIRST: Duration = Duration::from_secs(2);
/// The longest wait for a registry that is silent.
const LONGEST: Duration = Duration::from_secs(60);

/// What is looked up, for whom, and what must hold for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The image. A digest pins it.
    pub image: Reference,
    /// The tenant. It gets no image that only another tenant may read.
    pub tenant: String,
    /// Where the login is; none: with this process's user.
    pub secret: Option<PullSecret>,
    /// How often a tag is looked up again; a tenth more or less.
    pub interval: Duration,
    /// Where it may come from, and who must have signed it.
    pub policy: GuestPolicy,
    /// Whether a policy without registries allows all.
    pub any_by_default: bool,
    /// Whether the image that the registry named last will do while it is silent.
    pub last_will_do: bool,
}

/// An image that is here and may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The file of its component.
    pub path: PathBuf,
    /// The digest of its manifest.
    pub digest: ImageDigest,
    /// The digest of its component.
    pub component: Digest,
}

/// What came of a look-up. It holds until it is due.
#[derive(Debug, Clone)]
pub struct Lookup {
    wanted: Wanted,
    /// The image, or why there is none.
    pub outcome: Result<Pulled, String>,
    /// When to look it up again; none: never, because it is pinned and here.
    pub due: Option<Instant>,
    /// The wait before the next attempt after a failure, and none after success.
    wait: Option<Duration>,
    /// Whether the registry was silent.
    is_silent: bool,
}

/// An image, and why the registry was not asked, if it was silent.
type Found = (Pulled, Option<RegistryError>);

impl Registries {
    /// Looks an image up, and pulls it if it is not here. Asks no registry while the look-up before, of the same, holds.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn look_up(&self, wanted: Wanted, before: Option<Lookup>) -> Lookup {
        let before = before.filter(|before| before.wanted == wanted);
        let before = match before {
            Some(before) if before.holds(Instant::now()) => return before,
            before => before,
        };
        let limit = self.inner.options.timeout;
        let found = match tokio::time::timeout(limit, self.find(&wanted)).await {
            Ok(found) => found,
            Err(_) => Err(RegistryError::Slow {
                image: wanted.image.to_string(),
                after: limit,
            }),
        };
        Lookup::new(wanted, before.as_ref(), found)
    }

    async fn find(&self, wanted: &Wanted) -> Result<Found, RegistryError> {
        wanted.policy.check(&wanted.image, wanted.any_by_default)?;
        let opened = self.opened().await?;
        let (digest, silence) = self.resolve(opened, wanted).await?;
        let place = Place::of(&wanted.image, digest);
        let kept = on_disk(&opened.store, move |store| whole(store, &place)).await?;
        let image = match kept {
            Some(image) => {
                self.checked(opened, wanted, digest, image, silence.is_some())
                    .await?
            }
            None => match silence {
                Some(silence) => return Err(silence),
                None => self.pull(opened, wanted, digest).await?,
            },
        };
        // Only what is good is a name worth keeping.
        let (tenant, name) = (wanted.tenant.clone(), wanted.image.to_string());
        on_disk(&opened.store, move |store| {
            store.set_name(&tenant, &name, digest)
        })
        .await?;
        let Image {
            path, component, ..
        } = image;
        let pulled = Pulled {
            path,
            digest,
            component: component.0,
        };
        Ok((pulled, silence))
    }

    /// The digest of what is wanted, and why the registry was not asked for it, if it was silent.
    async fn resolve(
        &self,
        opened: &Opened,
        wanted: &Wanted,
    ) -> Result<(ImageDigest, Option<RegistryError>), RegistryError> {
        let (tenant, name) = (wanted.tenant.clone(), wanted.image.to_string());
        let known = on_disk(&opened.store, move |store| store.named(&tenant, &name)).await?;
        let pinned = wanted.image.digest();
        if let Some(digest) = pinned
            && known == Some(digest)
        {
            return Ok((digest, None));
        }
        let asked = match pinned {
            Some(digest) => digest.to_string(),
            None => wanted.image.tag().unwrap_or_default().to_owned(),
        };
        let answer = match self.session(opened, wanted).await {
            Ok(session) => session.resolve(&asked).await,
            Err(error) => Err(error),
        };
        match (answer, known) {
            (Ok(found), _) => match pinned.filter(|pinned| *pinned != found) {
                None => Ok((found, None)),
                Some(expected) => Err(RegistryError::Digest {
                    what: wanted.image.to_string(),
                    expected,
                    found,
                }),
            },
            (Err(error), Some(known)) if wanted.last_will_do && error.is_silence() => {
                Ok((known, Some(error)))
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn session<'a>(
        &self,
        opened: &'a Opened,
        wanted: &'a Wanted,
    ) -> Result<Session<'a>, RegistryError> {
        let login = self.login(&wanted.image, wanted.secret.as_ref()).await?;
        Ok(Session::new(&opened.http, &wanted.image, login, "pull"))
    }

    /// An image that is here, if it is signed as the policy asks. New signatures are asked for, unless the registry is silent.
    async fn checked(
        &self,
        opened: &Opened,
        wanted: &Wanted,
        digest: ImageDigest,
        mut image: Image,
        is_silent: bool,
    ) -> Result<Image, RegistryError> {
        let before = check_signed(opened, wanted, digest, &image.signatures);
        if before.is_ok() || is_silent {
            return before.map(|()| image);
        }
        let session = self.session(opened, wanted).await?;
        image.signatures = session.signatures(digest).await?;
        check_signed(opened, wanted, digest, &image.signatures)?;
        let place = Place::of(&wanted.image, digest);
        on_disk(&opened.store, move |store| {
            store.set_signatures(&place, &image);
            image
        })
        .await
    }

    /// Pulls an image. Its component is not asked for before its layout and its signatures are known to be good.
    async fn pull(
        &self,
        opened: &Opened,
        wanted: &Wanted,
        digest: ImageDigest,
    ) -> Result<Image, RegistryError> {
        let session = self.session(opened, wanted).await?;
        let manifest = session.manifest(digest).await?;
        let layer = Manifest::read(&manifest).and_then(|manifest| manifest.component());
        let layer = layer.map_err(|reason| RegistryError::Layout {
            image: wanted.image.to_string(),
            reason,
        })?;
        let most = self.inner.options.largest;
        if layer.size > most {
            return Err(RegistryError::TooLarge {
                what: format!("the component of {}", wanted.image),
                most,
                remedy: "raise spec.registries.maxComponent of the Manager, or make the component smaller",
            });
        }
        let signatures = if wanted.policy.wants_signatures() {
            session.signatures(digest).await?
        } else {
            Vec::new()
        };
        check_signed(opened, wanted, digest, &signatures)?;
        let draft = on_disk(&opened.store, Store::draft).await??;
        let file = tokio::fs::File::create(draft.component()).await;
        let mut file = file.map_err(|error| RegistryError::Store {
            path: draft.component(),
            reason: error.to_string(),
        })?;
        session.blob(layer.digest, layer.size, &mut file).await?;
        drop(file);
        tracing::info!(image = %wanted.image, %digest, bytes = layer.size, "image pulled");
        let place = Place::of(&wanted.image, digest);
        on_disk(&opened.store, move |store| {
            store.keep(draft, &place, layer, signatures)
        })
        .await?
    }
}

impl Lookup {
    fn new(wanted: Wanted, before: Option<&Self>, found: Result<Found, RegistryError>) -> Self {
        let (outcome, failure) = match found {
            Ok((pulled, silence)) => (Ok(pulled), silence),
            Err(error) => (Err(error.to_string()), Some(error)),
        };
        let waited = before.and_then(|before| before.wait);
        let (wait, due) = match &failure {
            None => (None, wanted.next()),
            Some(failure) => {
                let longest = if failure.is_silence() {
                    LONGEST.min(wanted.interval)
                } else {
                    wanted.interval
                };
                let wait = waited.map_or(FIRST, |waited| 2 * waited).min(longest);
                (Some(wait), Some(jittered(wait)))
            }
        };
        let image = &wanted.image;
        match &failure {
            Some(problem) if outcome.is_ok() && waited.is_none() => {
                tracing::warn!(%image, %problem, "the registry is silent, the image that it named last is used");
            }
            None if waited.is_some() => tracing::info!(%image, "the registry answers again"),
            _ => {}
        }
        Self {
            due: due.map(|wait| Instant::now() + wait),
            is_silent: failure.is_some_and(|failure| failure.is_silence()),
            wanted,
            outcome,
            wait,
        }
    }

    /// What was looked up.
    #[must_use]
    pub fn image(&self) -> &Reference {
        &self.wanted.image
    }

    /// Whether there is no image only because the registry was silent.
    #[must_use]
    pub fn found_silence(&self) -> bool {
        self.outcome.is_err() && self.is_silent
    }

    /// Whether it need not be looked up again. An image that has left the disk must be.
    fn holds(&self, now: Instant) -> bool {
        let is_here = self
            .outcome
            .as_ref()
            .map_or(true, |pulled| pulled.path.exists());
        is_here && self.due.is_none_or(|due| now < due)
    }
}

impl Wanted {
    /// How long an answer holds; none: for good.
    fn next(&self) -> Option<Duration> {
        self.image
            .digest()
            .is_none()
            .then(|| jittered(self.interval))
    }
}

fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Whether an image is signed as the policy asks.
fn check_signed(
    opened: &Opened,
    wanted: &Wanted,
    digest: ImageDigest,
    signatures: &[Signature],
) -> Result<(), RegistryError> {
    if !wanted.policy.wants_signatures() {
        return Ok(());
    }
    let trust = Trust {
        keys: &wanted.policy.keys,
        signers: &wanted.policy.signers,
        root: opened.trusted_root.as_ref(),
    };
    let verified = signature::verify(signatures, digest, &trust);
    verified.map_err(|reason| {
        let image = wanted.image.at(digest).to_string();
        match reason {
            None => RegistryError::Unsigned(image),
            Some(reason) => RegistryError::Signature { image, reason },
        }
    })
}

/// An image that is here, if its component is what its digest says; a damaged one is removed.
fn whole(store: &Store, place: &Place) -> Option<Image> {
    let image = store.image(place)?;
    if hash(&image.path).ok() == Some(image.component.0) {
        Some(image)
    } else {
        tracing::warn!(path = %image.path.display(), "a pulled image is damaged on disk, it is pulled again");
        store.remove(place);
        None
    }
}

fn hash(path: &Path) -> std::io::Result<Digest> {
    let (digest, _) = Digest::of_file(std::fs::File::open(path)?, u64::MAX)?;
    Ok(digest)
}

/// Does work with files where it may block.
async fn on_disk<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&Store) -> T + Send + 'static,
) -> Result<T, RegistryError> {
    let store = store.clone();
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.map_err(|error| RegistryError::Store {
        path: PathBuf::from("the cache"),
        reason: error.to_string(),
    })
}
