//! Signatures that count, and those that do not.

mod instance;

use super::bundle::to_be_signed;
use super::key::KeyError;
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

/// A key pair that signs.
enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    fn p256() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap())
    }

    fn ed25519() -> Self {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap())
    }

    fn public(&self) -> PublicKey {
        let der = STANDARD.encode(self.public_der());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
        PublicKey::parse(&pem).unwrap()
    }

    /// As a log names itself.
    fn id(&self) -> Vec<u8> {
        Sha256::digest(self.public_der()).to_vec()
    }

    fn public_der(&self) -> Vec<u8> {
        let (start, key): (&[u8], _) = match self {
            Self::P256(pair) => (
                b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00",
                pair.public_key().as_ref(),
            ),
            Self::Ed25519(pair) => (
                b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00",
                pair.public_key().as_ref(),
            ),
        };
        [start, key].concat()
    }

    fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(match self {
            Self::P256(pair) => pair
                .sign(&SystemRandom::new(), message)
                .unwrap()
                .as_ref()
                .to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        })
    }

    fn bundle(&self, statement: &Json) -> Signature {
        let (kind, payload) = ("application/vnd.in-toto+json", statement.to_string());
        let signature = self.sign(&to_be_signed(kind, payload.as_bytes()));
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": "any"}},
            "dsseEnvelope": {
                "payloadType": kind,
                "payload": STANDARD.encode(payload),
                "signatures": [{"sig": signature}],
            },
        });
        Signature::Bundle(bundle.to_string())
    }

    fn simple(&self, payload: &Json) -> Signature {
        let payload = payload.to_string();
        let signature = self.sign(payload.as_bytes());
        Signature::Simple {
            payload,
            signature,
            beside: None,
        }
    }
}

/// As cosign writes what it signs with a certificate.
fn keyless(signature: Signature) -> Signature {
    match signature {
        Signature::Bundle(text) => {
            let certificate = r#""certificate":{"rawBytes":"MIIB"}"#;
            Signature::Bundle(text.replace(r#""publicKey":{"hint":"any"}"#, certificate))
        }
        Signature::Simple {
            payload, signature, ..
        } => Signature::Simple {
            payload,
            signature,
            beside: Beside::read(&json!({"dev.sigstore.cosign/certificate": "any"})),
        },
    }
}

/// Trust in these keys alone.
fn by(keys: &[PublicKey]) -> Trust<'_> {
    Trust {
        keys,
        signers: &[],
        root: None,
    }
}

fn image() -> ImageDigest {
    ImageDigest::of(b"manifest")
}

fn statement(image: ImageDigest, predicate: &str) -> Json {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": image.hex()}}],
        "predicateType": predicate,
        "predicate": {},
    })
}

fn payload(image: ImageDigest, kind: &str) -> Json {
    json!({"critical": {
        "identity": {"docker-reference": "registry.example.com/guest"},
        "image": {"docker-manifest-digest": image.to_string()},
        "type": kind,
    }, "optional": null})
}

#[test]
fn one_of_several_keys_is_enough_in_either_format() {
    let stranger = Signer::p256().public();
    for signer in [Signer::p256(), Signer::ed25519()] {
        let keys = [stranger.clone(), signer.public()];
        for signature in [
            signer.bundle(&statement(image(), SIGNS_IMAGE)),
            signer.simple(&payload(image(), "cosign container image signature")),
        ] {
            let before = Signature::Bundle("{".to_owned());
            assert_eq!(verify(&[before, signature], image(), &by(&keys)), Ok(()));
        }
    }
}

#[test]
fn a_signature_by_a_stranger_does_not_count() {
    let keys = [Signer::p256().public(), Signer::ed25519().public()];
    let stranger = Signer::p256();
    for signature in [
        stranger.bundle(&statement(image(), SIGNS_IMAGE)),
        stranger.simple(&payload(image(), SIGNS_IMAGE)),
    ] {
        let error = verify(&[signature], image(), &by(&keys));
        assert_eq!(error, Err(Some(SignatureError::OtherKey)));
    }
    assert_eq!(verify(&[], image(), &by(&keys)), Err(None));
    for signature in [
        stranger.bundle(&statement(image(), SIGNS_IMAGE)),
        stranger.simple(&payload(image(), SIGNS_IMAGE)),
    ] {
        let error = verify(&[keyless(signature)], image(), &by(&keys));
        assert_eq!(error, Err(Some(SignatureError::Keyless)));
    }
}

#[test]
fn a_signature_of_another_image_does_not_count() {
    let (signer, other) = (Signer::p256(), ImageDigest::of(b"other"));
    for signature in [
        signer.bundle(&statement(other, SIGNS_IMAGE)),
        signer.simple(&payload(other, SIGNS_IMAGE)),
    ] {
        let error = verify(&[signature], image(), &by(&[signer.public()]));
        assert_eq!(error, Err(Some(SignatureError::OtherImage)));
    }
}

#[test]
fn an_attestation_about_an_image_is_no_signature_of_it() {
    let (signer, kind) = (Signer::p256(), "https://slsa.dev/provenance/v1");
    for signature in [
        signer.bundle(&statement(image(), kind)),
        signer.simple(&payload(image(), kind)),
    ] {
        let error = verify(&[signature], image(), &by(&[signer.public()]));
        assert_eq!(error, Err(Some(SignatureError::Kind(kind.to_owned()))));
    }
}

#[test]
fn every_changed_byte_of_a_signed_payload_ends_its_signature() {
    let signer = Signer::p256();
    let signed = signer.simple(&payload(image(), SIGNS_IMAGE));
    let Signature::Simple {
        payload, signature, ..
    } = signed
    else {
        panic!("made above")
    };
    for at in 0..payload.len() {
        let mut changed = payload.clone().into_bytes();
        changed[at] ^= 1;
        let Ok(payload) = String::from_utf8(changed) else {
            continue;
        };
        let changed = Signature::Simple {
            payload,
            signature: signature.clone(),
            beside: None,
        };
        assert!(
            verify(&[changed], image(), &by(&[signer.public()])).is_err(),
            "{at}"
        );
    }
}

#[test]
fn what_is_no_usable_key_is_refused() {
    let rsa = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBALRiMLAh9iimur8VA7qVvdqxevEuUkW4\n-----END PUBLIC KEY-----\n";
    assert_eq!(PublicKey::parse(rsa), Err(KeyError::Algorithm));
    for text in ["", "cosign.pub", "-----BEGIN PUBLIC KEY-----\n"] {
        assert_eq!(PublicKey::parse(text), Err(KeyError::Pem), "{text}");
    }
}
