//! Finds the signatures of an image in its registry. Entry point: [`Session::signatures`].

use super::{MAX_MANIFEST, Session};
use crate::digest::ImageDigest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Manifest};
use crate::signature::{BUNDLE, Beside, SIMPLE, SIMPLE_SIGNATURE, Signature};
use http::{Method, StatusCode};

/// Signatures of each format that are looked at: the newest, which registries and signers append. A user who may push can add more, and so
/// hide signatures, but not make one.
const MAX_SIGNATURES: usize = 16;
/// The type of a config that holds nothing.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Largest signature, in bytes.
const MAX_SIGNATURE: u64 = 256 << 10;

impl Session<'_> {
    /// The signatures of an image, trusted or not: bundles that refer to it, by the referrers API and by the tag that stands in for
    /// it, and payloads behind the tag `….sig`.
    ///
    /// # Errors
    /// When the registry does not answer. An artifact that is not as it should be is no signature.
    pub(crate) async fn signatures(
        &self,
        image: ImageDigest,
    ) -> Result<Vec<Signature>, RegistryError> {
        let mut found = Vec::new();
        let hex = image.hex();
        let referrers = format!("referrers/{image}");
        for path in [referrers, format!("manifests/sha256-{hex}")] {
            let Some(index) = self.manifest_at(&path).await? else {
                continue;
            };
            for artifact in newest(index.manifests.iter().filter(|one| may_be_bundle(one))) {
                found.extend(self.bundles(artifact).await?);
            }
            if !found.is_empty() {
                break;
            }
        }
        if let Some(manifest) = self
            .manifest_at(&format!("manifests/sha256-{hex}.sig"))
            .await?
        {
            let layers = manifest.layers.iter();
            for layer in newest(layers.filter(|layer| layer.media_type == SIMPLE)) {
                let signature = layer.annotations[SIMPLE_SIGNATURE].as_str();
                if let (Some(signature), Some(payload)) = (signature, self.text(layer).await?) {
                    let signature = signature.to_owned();
                    found.push(Signature::Simple {
                        payload,
                        signature,
                        beside: Beside::read(&layer.annotations),
                    });
                }
            }
        }
        Ok(found)
    }

    /// The bundles of an artifact.
    async fn bundles(&self, artifact: &Descriptor) -> Result<Vec<Signature>, RegistryError> {
        let Some(digest) = ImageDigest::parse(&artifact.digest) else {
            return Ok(Vec::new());
        };
        let bytes = self.manifest(digest).await;
        let Some(manifest) = counted(bytes)?.and_then(|bytes| Manifest::read(&bytes).ok()) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for layer in newest(
            manifest
                .layers
                .iter()
                .filter(|one| one.media_type == BUNDLE),
        ) {
            found.extend(self.text(layer).await?.map(Signature::Bundle));
        }
        Ok(found)
    }

    async fn text(&self, layer: &Descriptor) -> Result<Option<String>, RegistryError> {
        let Some(digest) = ImageDigest::parse(&layer.digest) else {
            return Ok(None);
        };
        let bytes = counted(self.small_blob(digest, MAX_SIGNATURE).await)?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// A manifest or an index; `None`: there is none that can be read.
    async fn manifest_at(&self, path: &str) -> Result<Option<Manifest>, RegistryError> {
        let answer = self.get(Method::GET, path).await?;
        // A registry without the API of referrers says so in one of these ways.
        let absent = [
            StatusCode::NOT_FOUND,
            StatusCode::BAD_REQUEST,
            StatusCode::METHOD_NOT_ALLOWED,
        ];
        if absent.contains(&answer.status) {
            return Ok(None);
        }
        let answer = self.succeeded(answer, Method::GET, path).await?;
        let bytes = answer.read("a list of signatures", MAX_MANIFEST).await?;
        Ok(Manifest::read(&bytes).ok())
    }
}

/// Registries that do not fill the type in, or take it from the empty config, are asked for the artifact itself.
fn may_be_bundle(artifact: &Descriptor) -> bool {
    let kind = artifact.artifact_type.as_deref();
    kind.is_none_or(|kind| kind == BUNDLE || kind == EMPTY)
}

fn newest<'a>(found: impl Iterator<Item = &'a Descriptor>) -> impl Iterator<Item = &'a Descriptor> {
    let mut found: Vec<&Descriptor> = found.collect();
    found.drain(..found.len().saturating_sub(MAX_SIGNATURES));
    found.into_iter().rev()
}

/// What was read. Damaged, missing and too large artifacts are left out.
fn counted(read: Result<Vec<u8>, RegistryError>) -> Result<Option<Vec<u8>>, RegistryError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_silence() => Err(error),
        Err(_) => Ok(None),
    }
}
