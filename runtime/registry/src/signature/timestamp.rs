//! A signed timestamp of a signature (RFC 3161). Entry point: [`time_of`].
//!
//! It counts if an authority of the trusted root signed it, with a certificate for timestamps that was valid then, and if it is of this signature.

use super::certificate::Certificate;
use super::der::{Element, INTEGER, OBJECT, OCTETS, Reader, SEQUENCE, SET, TIME, wrap};
use super::trusted_root::{Authority, TrustedRoot};
use jiff::Timestamp;
use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::pki_types::CertificateDer;

/// The extended usage that signs timestamps.
const TIME_STAMPING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 8];
/// Signed data, and its attributes: the type and the hash of its content (CMS, RFC 5652).
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2];
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 3];
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 4];
/// The type of the content: a timestamp.
const TIMESTAMP: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 16, 1, 4];
/// The tag of an optional part, and of what is beside an explicit one.
const FIRST: u8 = 0xa0;
const SECOND: u8 = 0xa1;
/// Most certificates beside a timestamp that are looked at.
const MOST_CERTIFICATES: usize = 8;

/// What a timestamp says, as far as it matters here.
struct Token<'a> {
    content: &'a [u8],
    certificates: Vec<CertificateDer<'a>>,
    /// How the content is hashed.
    hash: &'static Algorithm,
    attributes: Element<'a>,
    signature: &'a [u8],
}

/// When a signature existed, as an authority of the trusted root says. `None`: none says so.
pub(super) fn time_of(signature: &[u8], response: &[u8], root: &TrustedRoot) -> Option<Timestamp> {
    let token = Token::read(response)?;
    let time = token.time_of(signature)?;
    let mut authorities = root.timestamp_authorities.iter();
    let signed = authorities.any(|authority| token.is_signed_by(authority, time));
    signed.then_some(time)
}

impl<'a> Token<'a> {
    fn read(response: &'a [u8]) -> Option<Self> {
        let mut response = Reader::new(response).enter(SEQUENCE)?;
        // Granted, perhaps with changes.
        let status = response.enter(SEQUENCE)?.element(INTEGER)?.value;
        if !matches!(status, [0 | 1]) {
            return None;
        }
        let mut content = response.enter(SEQUENCE)?;
        content
            .element(OBJECT)
            .filter(|kind| kind.value == SIGNED_DATA)?;
        let mut signed = content.enter(FIRST)?.enter(SEQUENCE)?;
        signed.element(INTEGER)?;
        signed.element(SET)?;
        let mut inner = signed.enter(SEQUENCE)?;
        inner
            .element(OBJECT)
            .filter(|kind| kind.value == TIMESTAMP)?;
        let content = inner.enter(FIRST)?.element(OCTETS)?.value;
        let certificates = signed
            .enter(FIRST)
            .into_iter()
            .flatten()
            .take(MOST_CERTIFICATES);
        let certificates = certificates
            .map(|one| CertificateDer::from(one.whole))
            .collect();
        // Lists of revoked certificates: the trusted root says what counts.
        signed.element(SECOND);
        let mut signer = signed.enter(SET)?.enter(SEQUENCE)?;
        signer.element(INTEGER)?;
        // The name of its certificate: each that is known is tried.
        signer.next()?;
        let hash = algorithm(signer.enter(SEQUENCE)?)?;
        let attributes = signer.element(FIRST)?;
        signer.element(SEQUENCE)?;
        let signature = signer.element(OCTETS)?.value;
        Some(Self {
            content,
            certificates,
            hash,
            attributes,
            signature,
        })
    }

    /// The time, if this is about that signature.
    fn time_of(&self, signature: &[u8]) -> Option<Timestamp> {
        let mut content = Reader::new(self.content).enter(SEQUENCE)?;
        content.element(INTEGER)?;
        content.element(OBJECT)?;
        let mut imprint = content.enter(SEQUENCE)?;
        let hash = algorithm(imprint.enter(SEQUENCE)?)?;
        let imprint = imprint.element(OCTETS)?.value;
        content.element(INTEGER)?;
        let time = read_time(content.element(TIME)?.value)?;
        (imprint == digest(hash, signature).as_ref()).then_some(time)
    }

    /// Whether an authority signed the content, at that time.
    fn is_signed_by(&self, authority: &Authority, time: Timestamp) -> bool {
        let hash = digest(self.hash, self.content);
        let is = |id: &[u8], value: &[u8]| self.attribute(id).is_some_and(|one| one.value == value);
        if !is(CONTENT_TYPE, TIMESTAMP) || !is(MESSAGE_DIGEST, hash.as_ref()) {
            return false;
        }
        // What is signed has the tag of a set.
        let message = wrap(SET, self.attributes.value);
        let certificates = self.certificates.iter().chain(&authority.certificates);
        let mut certificates = certificates.filter_map(|one| Certificate::read(one).ok());
        authority.validity.covers(time)
            && certificates.any(|certificate| {
                certificate.signed(&message, self.signature)
                    && certificate
                        .issued_by(authority, time, TIME_STAMPING)
                        .is_ok()
            })
    }

    /// The value of an attribute.
    fn attribute(&self, id: &[u8]) -> Option<Element<'a>> {
        let attributes = Reader::new(self.attributes.value);
        let mut found = attributes.filter_map(|one| {
            let mut parts = Reader::new(one.value);
            parts.element(OBJECT).filter(|found| found.value == id)?;
            parts.enter(SET)?.next()
        });
        found.next()
    }
}

/// The algorithm of a hash. Weak ones are none.
fn algorithm(mut parts: Reader<'_>) -> Option<&'static Algorithm> {
    match parts.element(OBJECT)?.value {
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1] => Some(&SHA256),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2] => Some(&SHA384),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3] => Some(&SHA512),
        _ => None,
    }
}

/// A time such as `20250725195304Z`; parts of a second may follow.
fn read_time(text: &[u8]) -> Option<Timestamp> {
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    let (date, time) = whole.split_at_checked(8)?;
    format!("{date}T{time}Z").parse().ok()
}
