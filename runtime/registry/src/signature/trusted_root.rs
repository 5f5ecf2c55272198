//! Whom keyless signatures are trusted by: Sigstore's `trusted_root.json`, read offline. Entry point: [`TrustedRoot::parse`].
//!
//! It names authorities of certificates and of timestamps, and logs of signatures and of certificates, each with the time for which it counts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use serde::Deserialize;
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, RawPublicKeyEntity, VerifiedPath, anchor_from_trusted_cert};

/// How the type of the file begins; versions follow.
const TYPE: &str = "application/vnd.dev.sigstore.trustedroot";
/// Most authorities or logs of a sort, and most certificates of an authority.
const MOST: usize = 100;
const MOST_CERTIFICATES: usize = 10;

/// Authorities and logs.
#[derive(Debug)]
pub(crate) struct TrustedRoot {
    pub(super) authorities: Vec<Authority>,
    /// Logs of signatures.
    pub(super) logs: Vec<Log>,
    /// Logs of certificates.
    pub(super) certificate_logs: Vec<Log>,
    pub(super) timestamp_authorities: Vec<Authority>,
}

/// Why a file is no trusted root.
#[derive(Debug, thiserror::Error)]
pub enum TrustedRootError {
    /// Another file.
    #[error("it is not Sigstore's trusted_root.json: {0}")]
    Unreadable(String),
    /// More than is looked at.
    #[error("it has more than {0} {1}: name a trusted root with fewer")]
    TooMany(usize, &'static str),
    /// An authority without a certificate that can be used.
    #[error(
        "its authority {0} has no certificate that can be used: take the file from its publisher again"
    )]
    Authority(String),
    /// No authority, or no log: nothing could ever be verified.
    #[error("it has no {0}: name the trusted root of a Sigstore instance")]
    Lacks(&'static str),
}

/// The time for which something counts, both ends included.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Validity {
    start: Option<Timestamp>,
    end: Option<Timestamp>,
}

/// An authority of certificates.
#[derive(Debug)]
pub(super) struct Authority {
    anchors: Vec<TrustAnchor<'static>>,
    /// All of its certificates.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) validity: Validity,
}

/// A log, and the key with which it signs.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) id: Vec<u8>,
    key: SubjectPublicKeyInfoDer<'static>,
    pub(super) validity: Validity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    media_type: String,
    #[serde(default)]
    tlogs: Vec<LogFile>,
    #[serde(default)]
    ctlogs: Vec<LogFile>,
    #[serde(default)]
    certificate_authorities: Vec<AuthorityFile>,
    #[serde(default)]
    timestamp_authorities: Vec<AuthorityFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogFile {
    public_key: KeyFile,
    log_id: IdFile,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyFile {
    raw_bytes: String,
    valid_for: Option<RangeFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdFile {
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorityFile {
    #[serde(default)]
    uri: String,
    cert_chain: ChainFile,
    valid_for: Option<RangeFile>,
}

#[derive(Deserialize)]
struct ChainFile {
    certificates: Vec<CertificateFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CertificateFile {
    raw_bytes: String,
}

#[derive(Deserialize)]
struct RangeFile {
    start: Timestamp,
    end: Option<Timestamp>,
}

impl TrustedRoot {
    /// Reads the file.
    ///
    /// # Errors
    /// [`TrustedRootError`]
    pub(crate) fn parse(json: &[u8]) -> Result<Self, TrustedRootError> {
        let file: File = serde_json::from_slice(json).map_err(unreadable)?;
        if !file.media_type.starts_with(TYPE) {
            let kind = file.media_type;
            return Err(TrustedRootError::Unreadable(format!(
                "its type is {kind:?}"
            )));
        }
        let logs = |logs: Vec<LogFile>| {
            let logs = within(logs, MOST, "logs")?.into_iter().map(Log::read);
            logs.collect::<Result<Vec<_>, _>>()
        };
        let authorities = |authorities: Vec<AuthorityFile>| {
            let authorities = within(authorities, MOST, "authorities")?.into_iter();
            authorities
                .map(Authority::read)
                .collect::<Result<Vec<_>, _>>()
        };
        let root = Self {
            authorities: authorities(file.certificate_authorities)?,
            logs: logs(file.tlogs)?,
            certificate_logs: logs(file.ctlogs)?,
            timestamp_authorities: authorities(file.timestamp_authorities)?,
        };
        match (root.authorities.is_empty(), root.logs.is_empty()) {
            (true, _) => Err(TrustedRootError::Lacks("certificateAuthorities")),
            (_, true) => Err(TrustedRootError::Lacks("tlogs")),
            _ => Ok(root),
        }
    }
}

impl Validity {
    fn read(range: Option<RangeFile>) -> Self {
        range.map_or_else(Self::default, |range| Self {
            start: Some(range.start),
            end: range.end,
        })
    }

    pub(super) fn covers(self, time: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= time) && self.end.is_none_or(|end| time <= end)
    }
}

impl Authority {
    fn read(file: AuthorityFile) -> Result<Self, TrustedRootError> {
        let chain = within(
            file.cert_chain.certificates,
            MOST_CERTIFICATES,
            "certificates of an authority",
        )?;
        let certificates = chain
            .iter()
            .map(|one| Ok(CertificateDer::from(decode(&one.raw_bytes)?)));
        let certificates = certificates.collect::<Result<Vec<CertificateDer<'static>>, _>>()?;
        let anchor = |certificate| Some(anchor_from_trusted_cert(certificate).ok()?.to_owned());
        // The root is the one that names itself. A chain without it ends in what is trusted.
        let mut anchors: Vec<_> = certificates
            .iter()
            .filter(|one| names_itself(one))
            .filter_map(anchor)
            .collect();
        if anchors.is_empty() {
            anchors.extend(certificates.last().and_then(anchor));
        }
        if anchors.is_empty() {
            return Err(TrustedRootError::Authority(file.uri));
        }
        Ok(Self {
            anchors,
            certificates,
            validity: Validity::read(file.valid_for),
        })
    }

    /// The path from a certificate for this usage to this authority, if there was one at that time.
    pub(super) fn path<'p>(
        &'p self,
        certificate: &'p EndEntityCert<'p>,
        time: Timestamp,
        usage: KeyUsage,
    ) -> Result<VerifiedPath<'p>, webpki::Error> {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let algorithms = webpki::ALL_VERIFICATION_ALGS;
        certificate.verify_for_usage(
            algorithms,
            &self.anchors,
            &self.certificates,
            time,
            usage,
            None,
            None,
        )
    }
}

impl Log {
    fn read(file: LogFile) -> Result<Self, TrustedRootError> {
        Ok(Self {
            id: decode(&file.log_id.key_id)?,
            key: SubjectPublicKeyInfoDer::from(decode(&file.public_key.raw_bytes)?),
            validity: Validity::read(file.public_key.valid_for),
        })
    }

    /// Whether this log signed the message. A key that cannot be read has signed nothing.
    pub(super) fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(key) = RawPublicKeyEntity::try_from(&self.key) else {
            return false;
        };
        let mut algorithms = webpki::ALL_VERIFICATION_ALGS.iter();
        algorithms.any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok())
    }
}

/// Whether a certificate has its own subject as its issuer.
fn names_itself(certificate: &CertificateDer<'_>) -> bool {
    let read = EndEntityCert::try_from(certificate);
    read.is_ok_and(|read| read.issuer() == read.subject())
}

fn within<T>(list: Vec<T>, most: usize, what: &'static str) -> Result<Vec<T>, TrustedRootError> {
    if list.len() > most {
        return Err(TrustedRootError::TooMany(most, what));
    }
    Ok(list)
}

fn decode(text: &str) -> Result<Vec<u8>, TrustedRootError> {
    STANDARD
        .decode(text)
        .map_err(|error| TrustedRootError::Unreadable(error.to_string()))
}

fn unreadable(error: serde_json::Error) -> TrustedRootError {
    TrustedRootError::Unreadable(error.to_string())
}
