//! The component of a Reconciler: a file, a guest of the platform, or an image in a registry. Entry point: [`GuestSpec`].

use crate::config::kinds::bounded::{DAY, SECOND};
use crate::config::kinds::{Interval, Origin, Refusal, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use windlass_registry::{ImageDigest, Reference};

/// Where the component is: exactly one of `path`, `name` and `image`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct GuestSpec {
    /// A .wasm file, or a source folder that `dev` and `build` build; relative to the document's folder. Only in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    /// A guest of the platform, by its name in `spec.guests` of the Manager. Only in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// An image in a registry, `HOST/NAME:TAG`. Its tag is looked up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    /// The digest of the image's manifest, `sha256:…`: no other image is used. Default: that of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// How often the tag is looked up; a tenth more or less. Default: 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<Within<Interval, { 10 * SECOND }, DAY>>,
    /// The Secret with the login for the registry, a kubernetes.io/dockerconfigjson. Default: the login of this process's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_secret: Option<PullSecretSpec>,
}

/// A Secret of the local cluster, of the type kubernetes.io/dockerconfigjson.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PullSecretSpec {
    /// Its namespace. In a cluster it is that of the Reconciler, and not to be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// Its name.
    pub(crate) name: String,
}

/// The source of a checked guest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum GuestSource<'a> {
    /// A file or a folder.
    Path(&'a PathBuf),
    /// An image, pinned if the document pins it.
    Image(Reference),
}

impl GuestSpec {
    const DEFAULT_INTERVAL: Interval = Interval::seconds(300);

    /// The file or folder, also of a guest of the platform once that has been looked up; none: an image.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    /// How often the tag is looked up, the default filled in.
    pub(crate) fn interval(&self) -> Interval {
        self.interval.map_or(Self::DEFAULT_INTERVAL, Within::get)
    }

    /// Where the component is.
    ///
    /// # Errors
    /// What is wrong with the fields, which a checked document excludes.
    pub(crate) fn source(&self) -> Result<GuestSource<'_>, Refusal> {
        match (&self.path, &self.image) {
            (Some(path), None) => self.of_path(path),
            (None, Some(image)) => self.of_image(image),
            (Some(_), Some(_)) => Err(Refusal::new(
                "spec.guest",
                "both path and image are given: keep one of them",
            )),
            (None, None) => Err(Refusal::new(
                "spec.guest",
                "nothing is named: give the path of a file or the image of a registry",
            )),
        }
    }

    /// What only an image has.
    fn check_no_image(&self) -> Result<(), Refusal> {
        let others = [
            ("spec.guest.digest", self.digest.is_some()),
            ("spec.guest.interval", self.interval.is_some()),
            ("spec.guest.pullSecret", self.pull_secret.is_some()),
        ];
        match others.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((field, _)) => Err(Refusal::new(field, "only an image has it: leave it out")),
        }
    }

    fn of_path<'a>(&self, path: &'a PathBuf) -> Result<GuestSource<'a>, Refusal> {
        self.check_no_image().map(|()| GuestSource::Path(path))
    }

    fn of_image(&self, image: &str) -> Result<GuestSource<'_>, Refusal> {
        let bare = |field: &str, message: String| Refusal::new(field, message);
        let digest = match &self.digest {
            None => None,
            Some(text) => Some(ImageDigest::parse(text).ok_or_else(|| {
                let message = format!("{text:?} is not a digest: write sha256: and 64 digits");
                bare("spec.guest.digest", message)
            })?),
        };
        // A digest of its own is enough.
        let shown = match (digest, image.contains('@')) {
            (Some(digest), false) => format!("{image}@{digest}"),
            _ => image.to_owned(),
        };
        let reference = Reference::parse(&shown);
        let reference = reference.map_err(|error| bare("spec.guest.image", error.to_string()))?;
        match digest {
            Some(digest) if reference.digest() != Some(digest) => Err(bare(
                "spec.guest.digest",
                "it differs from the digest in image: keep one of them".to_owned(),
            )),
            _ => Ok(GuestSource::Image(reference)),
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self, origin: Origin) -> Result<(), Refusal> {
        match (origin, &self.path, &self.name, &self.image) {
            (Origin::File, _, Some(_), _) => {
                let message = "it is for Reconcilers in a cluster: leave it out";
                return Err(Refusal::new("spec.guest.name", message));
            }
            (Origin::Cluster, Some(_), ..) => {
                let message =
                    "a path is for files only: give name, a guest of the platform, or image";
                return Err(Refusal::new("spec.guest.path", message));
            }
            (Origin::Cluster, None, Some(_), Some(_)) | (Origin::Cluster, None, None, None) => {
                let message = "give exactly one of name, a guest of the platform, and image";
                return Err(Refusal::new("spec.guest", message));
            }
            (Origin::Cluster, None, Some(_), None) => self.check_no_image()?,
            (Origin::File, ..) | (Origin::Cluster, None, None, Some(_)) => _ = self.source()?,
        }
        let secret = self.pull_secret.as_ref();
        secret.map_or(Ok(()), |secret| secret.check(origin))
    }
}

impl PullSecretSpec {
    fn check(&self, origin: Origin) -> Result<(), Refusal> {
        let has_namespace = self.namespace.as_ref().is_some_and(|name| !name.is_empty());
        let message = match origin {
            Origin::Cluster if self.namespace.is_some() => {
                let message = "it is the namespace of the Reconciler: leave it out";
                return Err(Refusal::new("spec.guest.pullSecret.namespace", message));
            }
            Origin::File if !has_namespace => {
                "namespace and name are needed: those of a Secret of the local cluster"
            }
            _ if self.name.is_empty() => {
                "a name is needed: that of a Secret of the Reconciler's namespace"
            }
            _ => return Ok(()),
        };
        Err(Refusal::new("spec.guest.pullSecret", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn image(image: &str, digest: Option<&str>) -> Result<String, String> {
        let spec = GuestSpec {
            image: Some(image.to_owned()),
            digest: digest.map(str::to_owned),
            ..GuestSpec::default()
        };
        match spec.source() {
            Ok(GuestSource::Image(image)) => Ok(image.to_string()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_digest_pins_an_image_wherever_it_is_written() {
        let pinned = Ok(format!("r.io/x:1@{DIGEST}"));
        assert_eq!(image("r.io/x:1", Some(DIGEST)), pinned);
        assert_eq!(image(&format!("r.io/x:1@{DIGEST}"), None), pinned);
        assert_eq!(image(&format!("r.io/x:1@{DIGEST}"), Some(DIGEST)), pinned);
        assert_eq!(
            image("r.io/x", Some(DIGEST)),
            Ok(format!("r.io/x@{DIGEST}"))
        );
        assert_eq!(image("r.io/x:1", None), Ok("r.io/x:1".to_owned()));
        let other = DIGEST.replace("e3", "e4");
        assert!(image(&format!("r.io/x:1@{other}"), Some(DIGEST)).is_err());
        assert!(image("r.io/x", None).is_err());
    }

    #[test]
    fn exactly_one_source_is_given() {
        let refused = |spec: GuestSpec| spec.check(Origin::File).unwrap_err().path;
        let path = || Some(PathBuf::from("a.wasm"));
        let both = GuestSpec {
            path: path(),
            image: Some("r.io/x:1".to_owned()),
            ..GuestSpec::default()
        };
        assert_eq!(refused(both), "spec.guest");
        assert_eq!(refused(GuestSpec::default()), "spec.guest");
        let of_images = GuestSpec {
            path: path(),
            interval: Within::new(Interval::seconds(60)),
            ..GuestSpec::default()
        };
        assert_eq!(refused(of_images), "spec.guest.interval");
    }

    #[test]
    fn a_cluster_has_guests_of_the_platform_and_images_with_secrets_of_the_own_namespace() {
        let refused = |spec: GuestSpec| {
            spec.check(Origin::Cluster)
                .err()
                .map(|refusal| refusal.path)
        };
        let of_image = |namespace: Option<&str>| GuestSpec {
            image: Some("r.io/x:1".to_owned()),
            pull_secret: Some(PullSecretSpec {
                namespace: namespace.map(str::to_owned),
                name: "login".to_owned(),
            }),
            ..GuestSpec::default()
        };
        assert_eq!(refused(of_image(None)), None);
        let elsewhere = refused(of_image(Some("other")));
        assert_eq!(
            elsewhere.as_deref(),
            Some("spec.guest.pullSecret.namespace")
        );
        let both = GuestSpec {
            name: Some("hello".to_owned()),
            ..of_image(None)
        };
        assert_eq!(refused(both).as_deref(), Some("spec.guest"));
    }
}
