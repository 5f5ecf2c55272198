//! The entry of a signature in a transparency log, Rekor's first or second version. Entry point: [`LogEntry::check`].
//!
//! An entry counts if its body is about this signature, this certificate and what was signed, and a log of the trusted root has it: a path of
//! hashes leads from the body to a root of the log's tree, and the log has signed that root. The time at which the first version took the
//! entry is signed beside it. The second version has none.
//! In cosign's older format an entry has no path. There the log has signed, with the time, that it takes the entry, and that counts too. Not
//! guaranteed then: that the log has the entry, so that those who watch it see it.

use super::keyless::{KeylessError, Signed};
use super::trusted_root::{Log, TrustedRoot};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

/// Most hashes on a path: a tree of all numbers has no more.
const MOST_HASHES: usize = 64;
/// Most signatures of a checkpoint: witnesses sign it too.
const MOST_SIGNATURES: usize = 32;

type Hash = [u8; 32];

/// An entry, as a bundle has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogEntry {
    log_id: LogId,
    #[serde(default, deserialize_with = "number")]
    log_index: u64,
    #[serde(default, deserialize_with = "number")]
    integrated_time: u64,
    inclusion_promise: Option<Promise>,
    inclusion_proof: Option<Proof>,
    canonicalized_body: String,
    /// Of the older format.
    #[serde(skip)]
    needs_no_proof: bool,
}

/// An entry, as the older format has it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Promised {
    signed_entry_timestamp: String,
    payload: PromisedPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromisedPayload {
    body: String,
    integrated_time: u64,
    log_index: u64,
    /// In hex.
    #[serde(rename = "logID")]
    log_id: String,
}

impl From<Promised> for LogEntry {
    fn from(promised: Promised) -> Self {
        let payload = promised.payload;
        Self {
            log_id: LogId {
                key_id: base64_of_hex(&payload.log_id),
            },
            log_index: payload.log_index,
            integrated_time: payload.integrated_time,
            inclusion_promise: Some(Promise {
                signed_entry_timestamp: promised.signed_entry_timestamp,
            }),
            inclusion_proof: None,
            canonicalized_body: payload.body,
            needs_no_proof: true,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogId {
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Promise {
    signed_entry_timestamp: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Proof {
    #[serde(default, deserialize_with = "number")]
    log_index: u64,
    #[serde(default, deserialize_with = "number")]
    tree_size: u64,
    root_hash: String,
    #[serde(default)]
    hashes: Vec<String>,
    checkpoint: Checkpoint,
}

#[derive(Deserialize)]
struct Checkpoint {
    envelope: String,
}

/// What an entry is about: a kind of Rekor, and its version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    kind: String,
    api_version: String,
    spec: Json,
}

impl LogEntry {
    /// The log that took the entry, and when, if it says so.
    ///
    /// # Errors
    /// [`KeylessError::Entry`]
    pub(super) fn check<'r>(
        &self,
        root: &'r TrustedRoot,
        signed: &Signed<'_>,
    ) -> Result<(&'r Log, Option<Timestamp>), KeylessError> {
        let id = decode(&self.log_id.key_id)?;
        let known = root.logs.iter().find(|log| log.id == id);
        let log = known.ok_or(KeylessError::Entry(
            "of a log that the trusted root does not have",
        ))?;
        let body = decode(&self.canonicalized_body)?;
        check_body(&body, signed)?;
        match &self.inclusion_proof {
            Some(proof) => proof.check(log, &body)?,
            None if self.needs_no_proof => {}
            None => return Err(KeylessError::Entry("without a proof that the log has it")),
        }
        let Some(promise) = &self.inclusion_promise else {
            return Ok((log, None));
        };
        if !log.signed(
            self.promised(&id).as_bytes(),
            &decode(&promise.signed_entry_timestamp)?,
        ) {
            return Err(KeylessError::Entry(
                "with a time that its log has not signed",
            ));
        }
        let seconds = i64::try_from(self.integrated_time).ok();
        let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let time = time.ok_or(KeylessError::Entry("with a time that is none"))?;
        Ok((log, Some(time)))
    }

    /// What the log signed when it took the entry: canonical JSON.
    fn promised(&self, id: &[u8]) -> String {
        let (body, time, index) = (
            &self.canonicalized_body,
            self.integrated_time,
            self.log_index,
        );
        let id = hex(id);
        format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{id}","logIndex":{index}}}"#)
    }
}

impl Proof {
    /// Whether the log has this body.
    fn check(&self, log: &Log, body: &[u8]) -> Result<(), KeylessError> {
        let root = decode(&self.root_hash)?;
        if self.hashes.len() > MOST_HASHES {
            return Err(KeylessError::Entry("with a proof that is too long"));
        }
        let path = self.hashes.iter().map(|hash| decode(hash));
        let path = path.collect::<Result<Vec<_>, _>>()?;
        let leaf = Sha256::new()
            .chain_update([0])
            .chain_update(body)
            .finalize();
        let found = climb(leaf.into(), self.log_index, self.tree_size, &path);
        if found.is_none_or(|found| found[..] != root[..]) {
            return Err(KeylessError::Entry(
                "with a proof that does not lead to the root of the log",
            ));
        }
        if self.checkpoint.says(log, self.tree_size, &root) {
            return Ok(());
        }
        Err(KeylessError::Entry(
            "with a root that its log has not signed",
        ))
    }
}

impl Checkpoint {
    /// Whether the log has signed this root of its tree (a signed note: C2SP's tlog-checkpoint).
    fn says(&self, log: &Log, size: u64, root: &[u8]) -> bool {
        let Some((text, signatures)) = self.envelope.split_once("\n\n") else {
            return false;
        };
        let mut lines = text.lines();
        let has_origin = lines.next().is_some_and(|origin| !origin.is_empty());
        let says = has_origin
            && lines.next() == Some(size.to_string().as_str())
            && lines.next() == Some(STANDARD.encode(root).as_str());
        let message = format!("{text}\n");
        let signed = |line: &str| {
            let signature = line
                .strip_prefix("— ")
                .and_then(|rest| rest.split_once(' '));
            let signature = signature.and_then(|(_, text)| STANDARD.decode(text).ok());
            // Four bytes name the key.
            let signature = signature
                .as_deref()
                .and_then(<[u8]>::split_first_chunk::<4>);
            signature.is_some_and(|(key, signature)| {
                log.id.starts_with(key) && log.signed(message.as_bytes(), signature)
            })
        };
        says && signatures.lines().take(MOST_SIGNATURES).any(signed)
    }
}

/// The root of a tree of that size to which a path leads from a leaf (RFC 9162, section 2.1.3.2).
fn climb(leaf: Hash, index: u64, size: u64, path: &[Vec<u8>]) -> Option<Hash> {
    let mut last = size.checked_sub(1).filter(|last| index <= *last)?;
    let (mut at, mut hash) = (index, leaf);
    let both = |left: &[u8], right: &[u8]| -> Hash {
        let hash = Sha256::new().chain_update([1]);
        hash.chain_update(left)
            .chain_update(right)
            .finalize()
            .into()
    };
    for other in path {
        if last == 0 || other.len() != hash.len() {
            return None;
        }
        if at % 2 == 1 || at == last {
            hash = both(other, &hash);
            // A subtree that has no right side is its left side.
            while at % 2 == 0 && at != 0 {
                (at, last) = (at / 2, last / 2);
            }
        } else {
            hash = both(&hash, other);
        }
        (at, last) = (at / 2, last / 2);
    }
    (last == 0).then_some(hash)
}

/// Whether an entry is about this signature, this certificate and what was signed.
fn check_body(body: &[u8], signed: &Signed<'_>) -> Result<(), KeylessError> {
    const OTHER: KeylessError =
        KeylessError::Entry("about another signature, certificate or image");
    let body: Body = read(body)?;
    let (spec, second) = (&body.spec, body.api_version == "0.0.2");
    let (hash, signature, certificate, signed_bytes) = match (body.kind.as_str(), second) {
        ("hashedrekord", true) => {
            let spec = &spec["hashedRekordV002"];
            let signature = &spec["signature"];
            (
                &spec["data"],
                &signature["content"],
                &signature["verifier"],
                signed.message,
            )
        }
        ("hashedrekord", false) => {
            let signature = &spec["signature"];
            let certificate = &signature["publicKey"]["content"];
            (
                &spec["data"]["hash"],
                &signature["content"],
                certificate,
                signed.message,
            )
        }
        ("dsse", true) => {
            let (spec, signature) = (&spec["dsseV002"], only(&spec["dsseV002"]["signatures"])?);
            (
                &spec["payloadHash"],
                &signature["content"],
                &signature["verifier"],
                signed.payload,
            )
        }
        ("dsse", false) => {
            let signature = only(&spec["signatures"])?;
            (
                &spec["payloadHash"],
                &signature["signature"],
                &signature["verifier"],
                signed.payload,
            )
        }
        _ => return Err(KeylessError::Entry("of a kind that is not understood")),
    };
    if !second && body.api_version != "0.0.1" {
        return Err(KeylessError::Entry("of a version that is not understood"));
    }
    let digest = Sha256::digest(signed_bytes);
    let same_hash = if second {
        hash["algorithm"] == "SHA2_256" && is(&hash["digest"], &digest)
    } else {
        hash["algorithm"] == "sha256" && hash["value"] == hex(&digest)
    };
    let same_certificate = if second {
        let der = &certificate["x509Certificate"]["rawBytes"];
        is(der, signed.certificate)
    } else {
        let pem = certificate.as_str().map(decode).transpose()?;
        CertificateDer::from_pem_slice(&pem.unwrap_or_default())
            .is_ok_and(|der| der.as_ref() == signed.certificate)
    };
    if same_hash && same_certificate && is(signature, signed.signature) {
        return Ok(());
    }
    Err(OTHER)
}

/// The one element of a list.
fn only(list: &Json) -> Result<&Json, KeylessError> {
    match list.as_array().map(Vec::as_slice) {
        Some([one]) => Ok(one),
        _ => Err(KeylessError::Entry("of several signatures")),
    }
}

/// Whether a text is these bytes in base64.
fn is(text: &Json, bytes: &[u8]) -> bool {
    text.as_str()
        .is_some_and(|text| text == STANDARD.encode(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is no hex becomes the name of no log.
fn base64_of_hex(text: &str) -> String {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(digits, 16).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    STANDARD.encode(bytes.unwrap_or_default())
}

fn decode(text: &str) -> Result<Vec<u8>, KeylessError> {
    let decoded = STANDARD.decode(text);
    decoded.map_err(|_| KeylessError::Entry("that cannot be read"))
}

fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, KeylessError> {
    serde_json::from_slice(json).map_err(|_| KeylessError::Entry("that cannot be read"))
}

/// A number, which JSON of protobuf writes as a text.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Number(u64),
    }
    match Number::deserialize(deserializer)? {
        Number::Text(text) => text.parse().map_err(serde::de::Error::custom),
        Number::Number(number) => Ok(number),
    }
}
