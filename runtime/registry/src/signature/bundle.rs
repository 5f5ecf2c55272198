//! A Sigstore bundle v0.3 with a signed statement about an image. Entry point: [`verify`].

use super::{PublicKey, SIGNS_IMAGE, SignatureError, check_signed, decode, read};
use crate::digest::ImageDigest;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The media types of a bundle v0.3, as its own field has them.
const BUNDLES: [&str; 2] = [
    super::BUNDLE,
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
];
/// The type of a statement, in its envelope.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// How the statement's own type begins; versions follow.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    dsse_envelope: Option<Envelope>,
    #[serde(default)]
    verification_material: Material,
}

/// Where the key of a signature is from.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Material {
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Sig>,
}

#[derive(Deserialize)]
struct Sig {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    statement_type: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
}

/// Whether one of the keys signed the image.
///
/// # Errors
/// [`SignatureError`]
pub(super) fn verify(
    text: &str,
    image: ImageDigest,
    keys: &[PublicKey],
) -> Result<(), SignatureError> {
    let bundle: Bundle = read(text.as_bytes())?;
    if !BUNDLES.contains(&bundle.media_type.as_str()) {
        return Err(SignatureError::Kind(bundle.media_type));
    }
    let envelope = bundle.dsse_envelope.ok_or_else(|| {
        SignatureError::Kind("a signature of a file, without a statement".to_owned())
    })?;
    if envelope.payload_type != STATEMENT {
        return Err(SignatureError::Kind(envelope.payload_type));
    }
    // A bundle has exactly one.
    let [signature] = &envelope.signatures[..] else {
        let count = envelope.signatures.len();
        return Err(SignatureError::Unreadable(format!("{count} signatures")));
    };
    let payload = decode(&envelope.payload)?;
    check_statement(&payload, image)?;
    let message = to_be_signed(&envelope.payload_type, &payload);
    check_signed(keys, &message, &decode(&signature.sig)?)
}

/// Whether a certificate stands for the key of a bundle.
pub(super) fn is_keyless(text: &str) -> bool {
    let material = read::<Bundle>(text.as_bytes()).map(|bundle| bundle.verification_material);
    material.is_ok_and(|material| {
        material.certificate.is_some() || material.x509_certificate_chain.is_some()
    })
}

/// Whether the statement says that this image is signed.
fn check_statement(payload: &[u8], image: ImageDigest) -> Result<(), SignatureError> {
    let statement: Statement = read(payload)?;
    if !statement.statement_type.starts_with(STATEMENT_TYPE) {
        return Err(SignatureError::Kind(statement.statement_type));
    }
    if statement.predicate_type != SIGNS_IMAGE {
        return Err(SignatureError::Kind(statement.predicate_type));
    }
    let hex = image.hex();
    let mut subjects = statement.subject.iter();
    match subjects.any(|subject| subject.digest.get("sha256") == Some(&hex)) {
        true => Ok(()),
        false => Err(SignatureError::OtherImage),
    }
}

/// The bytes that an envelope's signature is of (DSSE's pre-authentication encoding).
pub(super) fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let (kind, size) = (payload_type.len(), payload.len());
    let mut message = format!("DSSEv1 {kind} {payload_type} {size} ").into_bytes();
    message.extend(payload);
    message
}
