//! Keyless signatures: by the key of a certificate that an authority issued to an identity for some minutes. Entry point: [`verify`].
//!
//! The key is thrown away after it has signed once. So a signature counts if all of this holds, without a question to anybody:
//! * The certificate's key signed the message.
//! * A log of the trusted root has an entry of this signature, this certificate and this message.
//! * The log, or an authority of timestamps, says when. Each such time is within the certificate's.
//! * An authority of the trusted root issued the certificate, and a log of certificates has it, if the root names any.
//! * The certificate is for an identity that the policy names, and the issuer that the policy names vouched for it.
//!
//! It does not say that nobody else has been given the certificate of that identity: watch the logs for that.

use super::certificate::Certificate;
use super::log_entry::{LogEntry, Promised};
use super::timestamp;
use super::trusted_root::TrustedRoot;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use windlass_fleet::name::NamePattern;

/// Most entries and most timestamps of a signature.
const MOST: usize = 8;
/// How much of a name in a certificate is shown.
const SHOWN: usize = 200;

/// Who may sign without a key of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeylessSigner {
    /// The address or the URL that its certificate is for. `*` stands for any characters.
    pub identity: NamePattern,
    /// The URL of the one who vouches for it, as the certificate has it.
    pub issuer: String,
}

/// Why a keyless signature does not count. Reads behind "it".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeylessError {
    /// Nothing to compare it with.
    #[error(
        "is keyless, and no trusted root is named: name the file in spec.registries.trustedRoot of the Manager"
    )]
    NoTrustedRoot,
    /// No certificate, or a damaged one.
    #[error("has a certificate that cannot be read: {0}")]
    Certificate(String),
    /// Another key made the signature.
    #[error("is not by the key of its certificate")]
    OtherKey,
    /// Its entry in a log is missing, damaged, or another's.
    #[error("has an entry of a log that does not count: one {0}")]
    Entry(&'static str),
    /// No entry, or more than are looked at.
    #[error("has {0} entries of transparency logs: sign with 1 to {MOST}")]
    Entries(usize),
    /// Neither a log nor an authority that is trusted says when it was made.
    #[error(
        "has no time that a log or an authority of timestamps in the trusted root has signed: sign with a log entry or a timestamp"
    )]
    NoTime,
    /// The log's key did not count any more, or not yet.
    #[error("is of {time}, when the trusted root did not trust the log of its entry")]
    LogThen {
        /// When it was made.
        time: Timestamp,
    },
    /// No authority issued its certificate, or not for that time.
    #[error(
        "has a certificate that no authority of the trusted root vouches for at {time}: {reason}"
    )]
    Chain {
        /// When it was made.
        time: Timestamp,
        /// The cause.
        reason: String,
    },
    /// The certificate was issued in secret.
    #[error("has a certificate that no log of certificates in the trusted root has")]
    Unlogged,
    /// Somebody else made it.
    #[error(
        "is by {identity}, for whom {issuer} vouches: spec.guests.signatures.keyless of the Tenant does not name the two"
    )]
    Identity {
        /// Whose it is.
        identity: String,
        /// Who vouches.
        issuer: String,
    },
}

/// What a keyless signature has beside it, as a bundle has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Material {
    certificate: RawBytes,
    #[serde(default)]
    tlog_entries: Vec<LogEntry>,
    #[serde(default)]
    timestamp_verification_data: Timestamps,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBytes {
    raw_bytes: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Timestamps {
    rfc3161_timestamps: Vec<SignedTimestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedTimestamp {
    signed_timestamp: String,
}

/// What was signed, and by what.
pub(super) struct Signed<'a> {
    /// The bytes that the signature is of.
    pub(super) message: &'a [u8],
    /// The payload in them.
    pub(super) payload: &'a [u8],
    pub(super) signature: &'a [u8],
    /// In DER.
    pub(super) certificate: &'a [u8],
}

/// Whether one of the signers made the signature of this message, in which the payload is.
///
/// # Errors
/// [`KeylessError`]
pub(super) fn verify(
    material: &Material,
    (message, payload, signature): (&[u8], &[u8], &[u8]),
    signers: &[KeylessSigner],
    root: Option<&TrustedRoot>,
) -> Result<(), KeylessError> {
    let root = root.ok_or(KeylessError::NoTrustedRoot)?;
    let der = STANDARD.decode(&material.certificate.raw_bytes);
    let der = der.map_err(|error| KeylessError::Certificate(error.to_string()))?;
    let der = CertificateDer::from(der);
    let certificate = Certificate::read(&der)?;
    if !certificate.signed(message, signature) {
        return Err(KeylessError::OtherKey);
    }
    let signed = Signed {
        message,
        payload,
        signature,
        certificate: &der,
    };
    for time in material.times(root, &signed)? {
        certificate.check(root, time)?;
    }
    check_signer(&certificate, signers)
}

impl Material {
    /// Of the older format.
    pub(super) fn of(
        certificate: CertificateDer<'_>,
        entry: Option<Promised>,
        timestamp: Option<String>,
    ) -> Self {
        let timestamp = timestamp.map(|signed_timestamp| SignedTimestamp { signed_timestamp });
        Self {
            certificate: RawBytes {
                raw_bytes: STANDARD.encode(certificate),
            },
            tlog_entries: entry.into_iter().map(LogEntry::from).collect(),
            timestamp_verification_data: Timestamps {
                rfc3161_timestamps: timestamp.into_iter().collect(),
            },
        }
    }

    /// When the signature was made, as logs and authorities of timestamps say: at least one time.
    fn times(
        &self,
        root: &TrustedRoot,
        signed: &Signed<'_>,
    ) -> Result<Vec<Timestamp>, KeylessError> {
        let count = self.tlog_entries.len();
        if !(1..=MOST).contains(&count) {
            return Err(KeylessError::Entries(count));
        }
        let stamps = self
            .timestamp_verification_data
            .rfc3161_timestamps
            .iter()
            .take(MOST);
        // Of authorities that are not trusted they say nothing.
        let stamps = stamps.filter_map(|stamp| {
            let response = STANDARD.decode(&stamp.signed_timestamp).ok()?;
            timestamp::time_of(signed.signature, &response, root)
        });
        let mut times: Vec<Timestamp> = stamps.collect();
        let mut logs = Vec::new();
        for entry in &self.tlog_entries {
            let (log, time) = entry.check(root, signed)?;
            logs.push(log);
            times.extend(time);
        }
        if times.is_empty() {
            return Err(KeylessError::NoTime);
        }
        let untrusted = |time: &&Timestamp| logs.iter().any(|log| !log.validity.covers(**time));
        match times.iter().find(untrusted) {
            Some(time) => Err(KeylessError::LogThen { time: *time }),
            None => Ok(times),
        }
    }
}

/// Whether the certificate is for one of the signers.
fn check_signer(
    certificate: &Certificate<'_>,
    signers: &[KeylessSigner],
) -> Result<(), KeylessError> {
    let identities = certificate.identities();
    let issuer = certificate.issuer().unwrap_or("nobody");
    let is_for = |signer: &KeylessSigner| {
        let mut identities = identities.iter();
        signer.issuer == issuer && identities.any(|identity| signer.identity.matches(identity))
    };
    if signers.iter().any(is_for) {
        Ok(())
    } else {
        Err(KeylessError::Identity {
            identity: shown(identities.first().copied().unwrap_or("nobody")),
            issuer: shown(issuer),
        })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
