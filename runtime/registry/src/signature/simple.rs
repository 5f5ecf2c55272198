//! A payload of cosign's older format and its signature. Entry point: [`verify`].

use super::{PublicKey, SIGNS_IMAGE, SignatureError, check_signed, decode, read};
use crate::digest::ImageDigest;
use serde::Deserialize;

/// The kinds of a payload that signs an image: by older and by newer versions.
const KINDS: [&str; 2] = ["cosign container image signature", SIGNS_IMAGE];

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

/// Whether one of the keys signed the image.
///
/// # Errors
/// [`SignatureError`]
pub(super) fn verify(
    payload: &str,
    signature: &str,
    image: ImageDigest,
    keys: &[PublicKey],
) -> Result<(), SignatureError> {
    let Payload { critical } = read(payload.as_bytes())?;
    if !KINDS.contains(&critical.kind.as_str()) {
        return Err(SignatureError::Kind(critical.kind));
    }
    if critical.image.docker_manifest_digest != image.to_string() {
        return Err(SignatureError::OtherImage);
    }
    check_signed(keys, payload.as_bytes(), &decode(signature)?)
}
