//! A public key that signs images. Entry point: [`PublicKey::parse`].

use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

/// What stands before the key itself in the DER of a public key: the one encoding that each algorithm has.
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const ED: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Sizes of the keys themselves, in bytes: a point, uncompressed, and its form in Ed25519.
const P256_SIZE: usize = 65;
const ED_SIZE: usize = 32;

/// The algorithm of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    /// ECDSA over P-256 with SHA-256: cosign's own keys.
    P256,
    Ed25519,
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: Algorithm,
    key: Vec<u8>,
}

/// Why a text is no key that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Another text.
    #[error(
        "it is no public key in PEM: paste the file cosign.pub, from -----BEGIN PUBLIC KEY----- on"
    )]
    Pem,
    /// RSA, for instance.
    #[error("it is of an algorithm that is not supported: use ECDSA P-256 or Ed25519")]
    Algorithm,
}

impl PublicKey {
    /// Reads a key in PEM (`BEGIN PUBLIC KEY`).
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn parse(pem: &str) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| KeyError::Pem)?;
        let der: &[u8] = der.as_ref();
        let known = [
            (P256, P256_SIZE, Algorithm::P256),
            (ED, ED_SIZE, Algorithm::Ed25519),
        ];
        for (start, size, algorithm) in known {
            if let Some(key) = der.strip_prefix(start)
                && key.len() == size
            {
                let key = key.to_vec();
                return Ok(Self { algorithm, key });
            }
        }
        Err(KeyError::Algorithm)
    }

    /// Whether this key's owner signed the message.
    pub(super) fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match self.algorithm {
            Algorithm::P256 => &ECDSA_P256_SHA256_ASN1,
            Algorithm::Ed25519 => &ED25519,
        };
        let key = UnparsedPublicKey::new(algorithm, &self.key);
        key.verify(message, signature).is_ok()
    }
}
