//! A payload of cosign's older format, its signature, and what stands beside a keyless one. Entry point: [`verify`].

use super::keyless::{self, KeylessError, Material};
use super::log_entry::Promised;
use super::{SIGNS_IMAGE, SignatureError, Trust, check_signed, decode, read};
use crate::digest::ImageDigest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

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

/// What stands beside the signature of a keyless one, as its layer's annotations have it. Nothing of it is trusted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// In PEM.
    certificate: String,
    /// That a log has taken the signature, in JSON.
    log: Option<String>,
    /// When an authority saw it, in JSON.
    timestamp: Option<String>,
}

impl Beside {
    /// `None`: there is no certificate.
    pub(crate) fn read(annotations: &Json) -> Option<Self> {
        let text = |name: &str| {
            let text = annotations[format!("dev.sigstore.cosign/{name}")].as_str();
            text.map(str::to_owned)
        };
        Some(Self {
            certificate: text("certificate")?,
            log: text("bundle"),
            timestamp: text("rfc3161timestamp"),
        })
    }

    fn material(&self) -> Result<Material, SignatureError> {
        let (log, timestamp) = (self.log.as_deref(), self.timestamp.as_deref());
        let promised = log
            .map(|log| read::<Promised>(log.as_bytes()))
            .transpose()?;
        let timestamp = timestamp.map(|text| read::<Stamped>(text.as_bytes()));
        let timestamp = timestamp.transpose()?.map(|it| it.response);
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let certificate =
            certificate.map_err(|error| KeylessError::Certificate(error.to_string()))?;
        Ok(Material::of(certificate, promised, timestamp))
    }
}

/// A timestamp, as an annotation has it.
#[derive(Deserialize)]
struct Stamped {
    #[serde(rename = "SignedRFC3161Timestamp")]
    response: String,
}

/// Whether a key or a signer that is trusted signed the image: a payload, its signature in base64, and what stands beside it.
///
/// # Errors
/// [`SignatureError`]
pub(super) fn verify(
    (payload, signature, beside): (&str, &str, Option<&Beside>),
    image: ImageDigest,
    trust: &Trust<'_>,
) -> Result<(), SignatureError> {
    let Payload { critical } = read(payload.as_bytes())?;
    if !KINDS.contains(&critical.kind.as_str()) {
        return Err(SignatureError::Kind(critical.kind));
    }
    if critical.image.docker_manifest_digest != image.to_string() {
        return Err(SignatureError::OtherImage);
    }
    let (payload, signature) = (payload.as_bytes(), decode(signature)?);
    let by_key = check_signed(trust.keys, payload, &signature);
    let Some(beside) = beside.filter(|_| by_key.is_err()) else {
        return by_key;
    };
    if trust.signers.is_empty() {
        return Err(SignatureError::Keyless);
    }
    let signed = (payload, payload, &signature[..]);
    Ok(keyless::verify(
        &beside.material()?,
        signed,
        trust.signers,
        trust.root,
    )?)
}
