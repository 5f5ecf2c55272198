//! A Sigstore bundle v0.3 with a signed statement about an image. Entry point: [`verify`].

use super::keyless;
use super::{SIGNS_IMAGE, SignatureError, Trust, check_signed, decode, read};
use crate::digest::ImageDigest;
use serde::Deserialize;
use serde_json::Value as Json;
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
    /// What the signature is to be verified with. Only keyless ones need it.
    #[serde(default)]
    verification_material: Json,
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

/// Whether a key or a signer that is trusted signed the image.
///
/// # Errors
/// [`SignatureError`]
pub(super) fn verify(
    text: &str,
    image: ImageDigest,
    trust: &Trust<'_>,
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
    let (signature, material) = (decode(&signature.sig)?, bundle.verification_material);
    match check_signed(trust.keys, &message, &signature) {
        Err(SignatureError::OtherKey) if is_keyless(&material) => {}
        verified => return verified,
    }
    if trust.signers.is_empty() {
        return Err(SignatureError::Keyless);
    }
    let material = serde_json::from_value(material);
    let material = material.map_err(|error| SignatureError::Unreadable(error.to_string()))?;
    let signed = (&message[..], &payload[..], &signature[..]);
    Ok(keyless::verify(
        &material,
        signed,
        trust.signers,
        trust.root,
    )?)
}

/// Whether a certificate stands for the key of a bundle. Older versions have a chain.
fn is_keyless(material: &Json) -> bool {
    let certificates = ["certificate", "x509CertificateChain"];
    certificates.iter().any(|name| material[name].is_object())
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
    if subjects.any(|subject| subject.digest.get("sha256") == Some(&hex)) {
        Ok(())
    } else {
        Err(SignatureError::OtherImage)
    }
}

/// The bytes that an envelope's signature is of (DSSE's pre-authentication encoding).
pub(super) fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let (kind, size) = (payload_type.len(), payload.len());
    let mut message = format!("DSSEv1 {kind} {payload_type} {size} ").into_bytes();
    message.extend(payload);
    message
}
