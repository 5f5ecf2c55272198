//! The component of a Reconciler: a file, or an image in a registry. Entry point: [`GuestSpec`].

use crate::config::kinds::{Interval, Refusal};
use crate::registry::{ImageDigest, Reference};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the component is: `path` or `image`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct GuestSpec {
    /// A .wasm file, or a source folder that `dev` and `build` build; relative to the document's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    /// An image in a registry, `HOST/NAME:TAG`. Its tag is looked up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    /// The digest of the image's manifest, `sha256:…`: no other image is used. Default: that of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// How often the tag is looked up, 10s to 24h; a tenth more or less. Default: 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<Interval>,
    /// The login for the registry. Default: that of this process's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_secret: Option<PullSecretSpec>,
}

/// A Secret of the local cluster, of the type kubernetes.io/dockerconfigjson.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PullSecretSpec {
    /// Its namespace.
    pub(crate) namespace: String,
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
    const LEAST_INTERVAL: Interval = Interval::seconds(10);
    const LONGEST_INTERVAL: Interval = Interval::seconds(24 * 3600);

    /// The file or folder; none: an image.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    /// How often the tag is looked up, the default filled in.
    pub(crate) fn interval(&self) -> Interval {
        self.interval.unwrap_or(Self::DEFAULT_INTERVAL)
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

    fn of_path<'a>(&self, path: &'a PathBuf) -> Result<GuestSource<'a>, Refusal> {
        let others = [
            ("spec.guest.digest", self.digest.is_some()),
            ("spec.guest.interval", self.interval.is_some()),
            ("spec.guest.pullSecret", self.pull_secret.is_some()),
        ];
        match others.into_iter().find(|(_, given)| *given) {
            None => Ok(GuestSource::Path(path)),
            Some((field, _)) => Err(Refusal::new(field, "only an image has it: remove it")),
        }
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
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.source()?;
        let range = Self::LEAST_INTERVAL..=Self::LONGEST_INTERVAL;
        if let Some(interval) = self.interval {
            super::within("spec.guest.interval", interval, &range)?;
        }
        if let Some(secret) = &self.pull_secret
            && (secret.namespace.is_empty() || secret.name.is_empty())
        {
            let message = "namespace and name are needed: those of a Secret of the local cluster";
            return Err(Refusal::new("spec.guest.pullSecret", message));
        }
        Ok(())
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
        let refused = |spec: GuestSpec| spec.check().unwrap_err().path;
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
            interval: Some(Interval::seconds(60)),
            ..GuestSpec::default()
        };
        assert_eq!(refused(of_images), "spec.guest.interval");
        let often = GuestSpec {
            image: Some("r.io/x:1".to_owned()),
            interval: Some(Interval::seconds(1)),
            ..GuestSpec::default()
        };
        assert_eq!(refused(often), "spec.guest.interval");
    }
}
