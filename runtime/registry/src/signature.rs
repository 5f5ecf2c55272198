//! Signatures of images, verified offline. Entry point: [`verify`].
//!
//! Read are the two formats of cosign: Sigstore bundles that refer to the image, and the older payloads behind a tag `….sig`. A signature
//! counts only if it says that it signs an image: an attestation about an image, by the same key, may say anything about it.
//! Of a signature by a key that the operator names, certificates, transparency logs and timestamps are not looked at: the key is all the
//! trust there is. A keyless one has all of these, in a bundle or in annotations: [`keyless`] says what must hold for it.

mod der;
mod trusted_root;
mod certificate;
mod log_entry;
mod timestamp;
mod keyless;
mod bundle;
mod key;
mod simple;

pub use key::{KeyError, PublicKey};
pub use keyless::{KeylessError, KeylessSigner};
pub use trusted_root::TrustedRootError;

pub(crate) use simple::Beside;
pub(crate) use trusted_root::TrustedRoot;

use crate::digest::ImageDigest;
use serde::{Deserialize, Serialize};

/// The artifacts and layers that hold signatures.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub(crate) const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation of a layer [`SIMPLE`] that holds the signature.
pub(crate) const SIMPLE_SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// What cosign says that it signs, in either format: an image, by its digest.
const SIGNS_IMAGE: &str = "https://sigstore.dev/cosign/sign/v1";

/// A signature as it was found. Nothing of it is trusted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Signature {
    /// A Sigstore bundle, in JSON.
    Bundle(String),
    /// A payload, in JSON, and its signature, in base64.
    Simple {
        payload: String,
        signature: String,
        /// `None`: it is by a key, and not keyless.
        #[serde(default)]
        beside: Option<Beside>,
    },
}

/// Who may sign.
pub(crate) struct Trust<'a> {
    pub(crate) keys: &'a [PublicKey],
    /// Those who sign without a key of their own.
    pub(crate) signers: &'a [KeylessSigner],
    /// Whom the signers' certificates are trusted by.
    pub(crate) root: Option<&'a TrustedRoot>,
}

/// Why a signature does not count. Reads behind "it".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It is damaged, or no signature.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// An attestation, or the signature of a file.
    #[error("is of another kind: {0:?}")]
    Kind(String),
    /// It does not name the digest of the image.
    #[error("signs another image")]
    OtherImage,
    /// A stranger made it.
    #[error("is by none of the keys in spec.guests.signatures.keys")]
    OtherKey,
    /// A certificate stands for its key.
    #[error(
        "is keyless, by a certificate, and only the keys in spec.guests.signatures.keys count: name its signer in spec.guests.signatures.keyless, or sign the image with cosign sign --key too"
    )]
    Keyless,
    /// A certificate stands for its key.
    #[error(transparent)]
    Certificate(#[from] KeylessError),
}

/// Finds a signature of the image by a key or a signer that is trusted.
///
/// # Errors
/// What is wrong with the signature that came closest; `None`: there is no signature.
pub(crate) fn verify(
    signatures: &[Signature],
    image: ImageDigest,
    trust: &Trust<'_>,
) -> Result<(), Option<SignatureError>> {
    let mut closest: Option<SignatureError> = None;
    for signature in signatures {
        let verified = match signature {
            Signature::Bundle(text) => bundle::verify(text, image, trust),
            Signature::Simple {
                payload,
                signature: signed,
                beside,
            } => simple::verify((payload, signed, beside.as_ref()), image, trust),
        };
        let error = match verified {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // A signature of this image by a stranger says more than damaged ones.
        let is_close = !matches!(
            error,
            SignatureError::Unreadable(_) | SignatureError::Kind(_) | SignatureError::OtherImage
        );
        if closest.is_none() || is_close {
            closest = Some(error);
        }
    }
    Err(closest)
}

/// Whether one of the keys made the signature.
fn check_signed(
    keys: &[PublicKey],
    message: &[u8],
    signature: &[u8],
) -> Result<(), SignatureError> {
    if keys.iter().any(|key| key.signed(message, signature)) {
        Ok(())
    } else {
        Err(SignatureError::OtherKey)
    }
}

fn decode(base64_text: &str) -> Result<Vec<u8>, SignatureError> {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(base64_text);
    decoded.map_err(|error| SignatureError::Unreadable(error.to_string()))
}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, SignatureError> {
    serde_json::from_slice(json).map_err(|error| SignatureError::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests;
