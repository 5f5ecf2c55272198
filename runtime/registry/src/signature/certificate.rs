//! The certificate of a keyless signature: who it is for, and who issued and logged it. Entry point: [`Certificate::read`].

use super::der::{OBJECT, OCTETS, Reader, SEQUENCE, UTF8, wrap};
use super::keyless::KeylessError;
use super::trusted_root::{Authority, TrustedRoot};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

/// The extended usage that signs code.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
/// Extensions: names, usages, and times that certificate transparency logs signed (RFC 6962).
const NAMES: &[u8] = &[0x55, 0x1d, 17];
const USAGES: &[u8] = &[0x55, 0x1d, 37];
const LOGGED: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 2];
/// Who vouched for the identity, of Fulcio: a text in DER, and before that the text itself.
const ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 8];
const OLD_ISSUER: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xbf, 0x30, 1, 1];
/// The tags of an address and of a URL among names, and of the extensions in a certificate.
const EMAIL: u8 = 0x81;
const URL: u8 = 0x86;
const EXTENSIONS: u8 = 0xa3;
/// Most extensions, names and signed times that are looked at.
const MOST: usize = 64;

/// A certificate that a signature has beside it.
pub(super) struct Certificate<'a> {
    parsed: EndEntityCert<'a>,
    /// What stands before the extensions.
    head: &'a [u8],
    extensions: Vec<Extension<'a>>,
}

#[derive(Clone, Copy)]
struct Extension<'a> {
    id: &'a [u8],
    value: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads a certificate. Nothing of it is trusted yet.
    ///
    /// # Errors
    /// [`KeylessError::Certificate`]
    pub(super) fn read(der: &'a CertificateDer<'a>) -> Result<Self, KeylessError> {
        let parsed = EndEntityCert::try_from(der);
        let parsed = parsed.map_err(|error| KeylessError::Certificate(error.to_string()))?;
        let (head, extensions) = parts(der)
            .ok_or_else(|| KeylessError::Certificate("it has no extensions".to_owned()))?;
        Ok(Self {
            parsed,
            head,
            extensions,
        })
    }

    /// Whether the key of this certificate signed the message.
    pub(super) fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let mut algorithms = webpki::ALL_VERIFICATION_ALGS.iter();
        let verified = |algorithm| self.parsed.verify_signature(algorithm, message, signature);
        algorithms.any(|algorithm| verified(*algorithm).is_ok())
    }

    /// Whether an authority issued the certificate for signatures, so that it was valid at that time, and a log has it.
    ///
    /// # Errors
    /// [`KeylessError::Chain`] and [`KeylessError::Unlogged`]
    pub(super) fn check(&self, root: &TrustedRoot, time: Timestamp) -> Result<(), KeylessError> {
        let mut reason = "the trusted root has no authority of that time".to_owned();
        let authorities = root.authorities.iter();
        for authority in authorities.filter(|authority| authority.validity.covers(time)) {
            match self.issued_by(authority, time, CODE_SIGNING) {
                Ok(issuer_key) => return self.check_logged(root, &issuer_key),
                Err(error) => reason = error,
            }
        }
        Err(KeylessError::Chain { time, reason })
    }

    /// The hash of the key that issued the certificate for this usage, if the authority vouches for it at that time.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn issued_by(
        &self,
        authority: &Authority,
        time: Timestamp,
        usage: &'static [u8],
    ) -> Result<Vec<u8>, String> {
        let usages = self
            .extension(USAGES)
            .and_then(|usages| Reader::new(usages).enter(SEQUENCE));
        if !usages.is_some_and(|mut usages| usages.any(|one| one.value == usage)) {
            return Err("it is for another usage".to_owned());
        }
        // Authorities' own certificates need not say what they are for.
        let usage = KeyUsage::required_if_present(usage);
        let path = authority.path(&self.parsed, time, usage);
        path.map(|path| key_of_issuer(&path))
            .map_err(|error| error.to_string())
    }

    /// The addresses and URLs that the certificate is for.
    pub(super) fn identities(&self) -> Vec<&'a str> {
        let names = self
            .extension(NAMES)
            .and_then(|names| Reader::new(names).enter(SEQUENCE));
        let names = names.into_iter().flatten().take(MOST);
        let names = names.filter(|name| [EMAIL, URL].contains(&name.tag));
        names
            .filter_map(|name| str::from_utf8(name.value).ok())
            .collect()
    }

    /// Who vouched for the identity.
    pub(super) fn issuer(&self) -> Option<&'a str> {
        let bytes = match self.extension(ISSUER) {
            Some(value) => Reader::new(value).element(UTF8)?.value,
            None => self.extension(OLD_ISSUER)?,
        };
        str::from_utf8(bytes).ok()
    }

    fn extension(&self, id: &[u8]) -> Option<&'a [u8]> {
        let found = self.extensions.iter().find(|extension| extension.id == id);
        found.map(|extension| extension.value)
    }

    /// Whether a log has the certificate, if the trusted root has logs of certificates.
    fn check_logged(&self, root: &TrustedRoot, issuer_key: &[u8]) -> Result<(), KeylessError> {
        if root.certificate_logs.is_empty() {
            return Ok(());
        }
        let list = self
            .extension(LOGGED)
            .and_then(|value| Reader::new(value).element(OCTETS));
        let logged = list
            .and_then(|list| SignedTime::list(list.value))
            .unwrap_or_default();
        let certificate = self.without_times();
        let is_good = |time: &SignedTime<'_>| {
            let logs = root.certificate_logs.iter();
            let mut logs = logs.filter(|log| log.id == time.log && log.validity.covers(time.time));
            let message = time.message(issuer_key, &certificate);
            logs.any(|log| log.signed(&message, time.signature))
        };
        if logged.iter().any(is_good) {
            return Ok(());
        }
        Err(KeylessError::Unlogged)
    }

    /// What the logs signed: the certificate before their times were added to it.
    fn without_times(&self) -> Vec<u8> {
        let kept = self.extensions.iter().filter(|one| one.id != LOGGED);
        let kept: Vec<u8> = kept.flat_map(|one| one.whole).copied().collect();
        let extensions = wrap(EXTENSIONS, &wrap(SEQUENCE, &kept));
        wrap(SEQUENCE, &[self.head, &extensions].concat())
    }
}

/// What stands before the extensions of a certificate, and those.
fn parts(der: &[u8]) -> Option<(&[u8], Vec<Extension<'_>>)> {
    let signed = Reader::new(der).enter(SEQUENCE)?.element(SEQUENCE)?.value;
    let last = Reader::new(signed).last()?;
    let head = &signed[..signed.len().checked_sub(last.whole.len())?];
    let list = Reader::new(last.whole).enter(EXTENSIONS)?.enter(SEQUENCE)?;
    let mut extensions = Vec::new();
    for element in list.take(MOST) {
        let mut parts = Reader::new(element.whole).enter(SEQUENCE)?;
        let id = parts.element(OBJECT)?.value;
        // Whether it is critical may stand between.
        let value = parts.find(|part| part.tag == OCTETS)?.value;
        let whole = element.whole;
        extensions.push(Extension { id, value, whole });
    }
    Some((head, extensions))
}

/// The hash of the key that issued the certificate at the path's start.
fn key_of_issuer(path: &VerifiedPath<'_>) -> Vec<u8> {
    let key = match path.intermediate_certificates().next() {
        Some(issuer) => issuer.subject_public_key_info().to_vec(),
        None => wrap(SEQUENCE, &path.anchor().subject_public_key_info),
    };
    Sha256::digest(key).to_vec()
}

/// The time at which a log took a certificate, signed by the log.
struct SignedTime<'a> {
    log: &'a [u8],
    time: Timestamp,
    stamp: &'a [u8],
    extensions: &'a [u8],
    signature: &'a [u8],
}

impl<'a> SignedTime<'a> {
    fn list(bytes: &'a [u8]) -> Option<Vec<Self>> {
        let (mut list, _) = sized(bytes)?;
        let mut found = Vec::new();
        while !list.is_empty() && found.len() < MOST {
            let (one, rest) = sized(list)?;
            found.extend(Self::read(one));
            list = rest;
        }
        Some(found)
    }

    /// Reads one of version 1.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[0])?;
        let (log, rest) = rest.split_at_checked(32)?;
        let (stamp, rest) = rest.split_at_checked(8)?;
        let (extensions, rest) = sized(rest)?;
        // Two bytes name the algorithm. The key of the log says which one it is.
        let (signature, _) = sized(rest.get(2..)?)?;
        let milliseconds = i64::from_be_bytes(stamp.try_into().ok()?);
        Some(Self {
            log,
            time: Timestamp::from_millisecond(milliseconds).ok()?,
            stamp,
            extensions,
            signature,
        })
    }

    /// What the log signed (RFC 6962, section 3.2): an entry of a certificate that is not complete yet.
    fn message(&self, issuer_key: &[u8], certificate: &[u8]) -> Vec<u8> {
        let size = |length: usize| (length as u64).to_be_bytes();
        let (certificate_size, extensions_size) =
            (size(certificate.len()), size(self.extensions.len()));
        [
            &[0, 0],
            self.stamp,
            &[0, 1],
            issuer_key,
            &certificate_size[5..],
            certificate,
            &extensions_size[6..],
            self.extensions,
        ]
        .concat()
    }
}

/// Bytes behind their length in two bytes, and what follows.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*size)))
}
