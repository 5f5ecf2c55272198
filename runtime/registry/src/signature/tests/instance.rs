//! An instance of Sigstore for images of ours: an authority, and a log of one entry.

use super::*;
use crate::lookup::{Pulled, Wanted};
use crate::manifest::ComponentLayer;
use crate::policy::GuestPolicy;
use crate::reference::Reference;
use crate::registries::{Registries, RegistryOptions};
use crate::signature::keyless::KeylessError;
use crate::store::{Place, Store};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair as RcgenPair, SanType, date_time_ymd,
};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::time::Duration;
use windlass_fleet::cluster::ProxyFromEnvironment;
use windlass_fleet::name::NamePattern;

const WORKFLOW: &str = "https://git.example.com/team/guests/release.yml@refs/tags/v1";
const ISSUER: &str = "https://login.example.com";
/// A time in 2026, and one in 2028, in seconds.
const IN_2026: u64 = 1_780_000_000;
const IN_2028: u64 = 1_840_000_000;

/// The private keys of an instance.
struct Instance {
    authority: Issuer<'static, RcgenPair>,
    log: Signer,
    root: Json,
}

impl Instance {
    fn new() -> Self {
        let key = RcgenPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let log = Signer::p256();
        let root = json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "certificateAuthorities": [{"certChain": {"certificates": [{"rawBytes": STANDARD.encode(certificate.der())}]}}],
            "tlogs": [{
                "publicKey": {"rawBytes": STANDARD.encode(log.public_der())},
                "logId": {"keyId": STANDARD.encode(log.id())},
            }],
        });
        Self {
            authority: Issuer::new(params, key),
            log,
            root,
        }
    }

    /// Who may sign here, and the root.
    fn trusts(&self) -> (Vec<KeylessSigner>, TrustedRoot) {
        let signer = KeylessSigner {
            identity: NamePattern::new("https://git.example.com/team/*"),
            issuer: ISSUER.to_owned(),
        };
        let root = TrustedRoot::parse(self.root.to_string().as_bytes()).unwrap();
        (vec![signer], root)
    }

    /// A signer with its certificate of the year 2026 or so.
    fn certify(&self) -> (Signer, rcgen::Certificate) {
        let (key, mut params) = (
            RcgenPair::generate().unwrap(),
            CertificateParams::new(Vec::new()).unwrap(),
        );
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params.subject_alt_names = vec![SanType::URI(WORKFLOW.try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        let issuer = [
            &[0x0c, u8::try_from(ISSUER.len()).unwrap()],
            ISSUER.as_bytes(),
        ]
        .concat();
        let oid = [1, 3, 6, 1, 4, 1, 57264, 1, 8];
        params.custom_extensions = vec![CustomExtension::from_oid_content(&oid, issuer)];
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            key.serialized_der(),
            &SystemRandom::new(),
        );
        (Signer::P256(pair.unwrap()), certificate)
    }

    /// A signature of an image by a certificate of the year 2026 or so, with its entry in the log.
    fn sign(&self, image: ImageDigest, time: u64) -> Json {
        let (signer, certificate) = self.certify();
        let Signature::Bundle(text) = signer.bundle(&statement(image, SIGNS_IMAGE)) else {
            panic!("made so")
        };
        let mut bundle: Json = serde_json::from_str(&text).unwrap();
        let payload = bundle["dsseEnvelope"]["payload"].as_str().unwrap();
        let body = json!({"apiVersion": "0.0.1", "kind": "dsse", "spec": {
            "payloadHash": {"algorithm": "sha256", "value": ImageDigest::of(&STANDARD.decode(payload).unwrap()).hex()},
            "signatures": [{
                "signature": bundle["dsseEnvelope"]["signatures"][0]["sig"],
                "verifier": STANDARD.encode(certificate.pem()),
            }],
        }});
        bundle["verificationMaterial"] = json!({
            "certificate": {"rawBytes": STANDARD.encode(certificate.der())},
            "tlogEntries": [self.log(&body.to_string(), time)],
        });
        bundle
    }

    /// The same in cosign's older format.
    fn sign_simply(&self, image: ImageDigest, time: u64) -> (Signature, Json) {
        let (signer, certificate) = self.certify();
        let Signature::Simple {
            payload, signature, ..
        } = signer.simple(&payload(image, SIGNS_IMAGE))
        else {
            panic!("made so")
        };
        let body = json!({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": ImageDigest::of(payload.as_bytes()).hex()}},
            "signature": {"content": signature, "publicKey": {"content": STANDARD.encode(certificate.pem())}},
        }});
        let entry = self.log(&body.to_string(), time);
        let id: String = self
            .log
            .id()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let log = json!({
            "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
            "Payload": {"body": entry["canonicalizedBody"], "integratedTime": time, "logIndex": 0, "logID": id},
        });
        let annotations = json!({
            "dev.sigstore.cosign/certificate": certificate.pem(),
            "dev.sigstore.cosign/bundle": log.to_string(),
        });
        let signature = Signature::Simple {
            payload,
            signature,
            beside: Beside::read(&annotations),
        };
        (signature, annotations)
    }

    /// An entry with this body, the only one of the log.
    fn log(&self, body: &str, time: u64) -> Json {
        let (id, hash) = (
            self.log.id(),
            Sha256::new().chain_update([0]).chain_update(body),
        );
        let (body, root) = (STANDARD.encode(body), STANDARD.encode(hash.finalize()));
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{hex}","logIndex":0}}"#);
        let note = format!("log.example.com\n1\n{root}\n");
        let signature = STANDARD.decode(self.log.sign(note.as_bytes())).unwrap();
        let signature = STANDARD.encode([&id[..4], &signature].concat());
        json!({
            "logId": {"keyId": STANDARD.encode(&id)},
            "integratedTime": time.to_string(),
            "inclusionPromise": {"signedEntryTimestamp": self.log.sign(promised.as_bytes())},
            "inclusionProof": {
                "treeSize": "1",
                "rootHash": root,
                "checkpoint": {"envelope": format!("{note}\n— log.example.com {signature}\n")},
            },
            "canonicalizedBody": body,
        })
    }
}

fn check(bundle: &Json, instance: &Instance, keys: &[PublicKey]) -> Result<(), SignatureError> {
    let (signers, root) = instance.trusts();
    let trust = Trust {
        keys,
        signers: &signers,
        root: Some(&root),
    };
    let verified = verify(&[Signature::Bundle(bundle.to_string())], image(), &trust);
    verified.map_err(Option::unwrap)
}

#[test]
fn a_keyless_signature_of_the_image_counts_beside_keys() {
    let instance = Instance::new();
    let bundle = instance.sign(image(), IN_2026);
    let key = Signer::p256();
    assert_eq!(check(&bundle, &instance, &[]), Ok(()));
    assert_eq!(check(&bundle, &instance, &[key.public()]), Ok(()));
    let Signature::Bundle(by_key) = key.bundle(&statement(image(), SIGNS_IMAGE)) else {
        panic!("made so")
    };
    let by_key = serde_json::from_str(&by_key).unwrap();
    assert_eq!(check(&by_key, &instance, &[key.public()]), Ok(()));
    assert_eq!(
        check(&by_key, &instance, &[]),
        Err(SignatureError::OtherKey)
    );
}

#[test]
fn a_keyless_signature_by_a_stranger_or_of_another_image_does_not_count() {
    let (instance, stranger) = (Instance::new(), Instance::new());
    let other = instance.sign(ImageDigest::of(b"other"), IN_2026);
    assert_eq!(
        check(&other, &instance, &[]),
        Err(SignatureError::OtherImage)
    );
    let error = check(&stranger.sign(image(), IN_2026), &instance, &[]);
    let unknown = KeylessError::Entry("of a log that the trusted root does not have");
    assert_eq!(error, Err(unknown.into()));
    // The same log, and another authority.
    let mut root = stranger;
    root.root["tlogs"] = instance.root["tlogs"].clone();
    let error = check(&instance.sign(image(), IN_2026), &root, &[]);
    assert!(
        matches!(
            error,
            Err(SignatureError::Certificate(KeylessError::Chain { .. }))
        ),
        "{error:?}"
    );
}

#[test]
fn a_signature_after_the_end_of_its_certificate_does_not_count() {
    let instance = Instance::new();
    let error = check(&instance.sign(image(), IN_2028), &instance, &[]);
    assert!(
        matches!(
            error,
            Err(SignatureError::Certificate(KeylessError::Chain { .. }))
        ),
        "{error:?}"
    );
}

#[test]
fn the_entry_of_another_signature_by_the_same_signer_does_not_count() {
    let instance = Instance::new();
    let (mut bundle, other) = (
        instance.sign(image(), IN_2026),
        instance.sign(image(), IN_2026),
    );
    let entries = &mut bundle["verificationMaterial"]["tlogEntries"];
    *entries = other["verificationMaterial"]["tlogEntries"].clone();
    let about = KeylessError::Entry("about another signature, certificate or image");
    assert_eq!(check(&bundle, &instance, &[]), Err(about.into()));
}

#[test]
fn without_a_trusted_root_a_keyless_signature_does_not_count() {
    let instance = Instance::new();
    let (signers, _) = instance.trusts();
    let trust = Trust {
        keys: &[],
        signers: &signers,
        root: None,
    };
    let bundle = Signature::Bundle(instance.sign(image(), IN_2026).to_string());
    let missing = SignatureError::Certificate(KeylessError::NoTrustedRoot);
    let (simple, _) = instance.sign_simply(image(), IN_2026);
    for signature in [bundle, simple] {
        let error = verify(&[signature], image(), &trust);
        assert_eq!(error, Err(Some(missing.clone())));
    }
}

#[test]
fn the_older_format_counts_if_its_log_has_promised_to_take_it() {
    let (instance, stranger) = (Instance::new(), Instance::new());
    let (signers, root) = instance.trusts();
    let trust = Trust {
        keys: &[],
        signers: &signers,
        root: Some(&root),
    };
    let check =
        |signature: Signature| verify(&[signature], image(), &trust).map_err(Option::unwrap);
    let (signature, annotations) = instance.sign_simply(image(), IN_2026);
    assert_eq!(check(signature.clone()), Ok(()));
    let with = |name: &str, value: Json| {
        let mut annotations = annotations.clone();
        annotations[format!("dev.sigstore.cosign/{name}")] = value;
        let mut signature = signature.clone();
        if let Signature::Simple { beside, .. } = &mut signature {
            *beside = Beside::read(&annotations);
        }
        check(signature)
    };
    let error = |error: KeylessError| Err(SignatureError::Certificate(error));
    assert_eq!(with("bundle", Json::Null), error(KeylessError::Entries(0)));
    // An hour later than the log has signed.
    let log = annotations["dev.sigstore.cosign/bundle"].as_str().unwrap();
    let later = log.replace(&IN_2026.to_string(), &(IN_2026 + 3600).to_string());
    let unsigned = KeylessError::Entry("with a time that its log has not signed");
    assert_eq!(with("bundle", later.into()), error(unsigned));
    let (_, other) = instance.sign_simply(image(), IN_2026);
    let entry = with("bundle", other["dev.sigstore.cosign/bundle"].clone());
    let about = KeylessError::Entry("about another signature, certificate or image");
    assert_eq!(entry, error(about));
    let unknown = KeylessError::Entry("of a log that the trusted root does not have");
    let by_stranger = stranger.sign_simply(image(), IN_2026).0;
    assert_eq!(check(by_stranger), error(unknown));
    let late = check(instance.sign_simply(image(), IN_2028).0);
    let is_late = matches!(
        late,
        Err(SignatureError::Certificate(KeylessError::Chain { .. }))
    );
    assert!(is_late, "{late:?}");
    let other_image = instance.sign_simply(ImageDigest::of(b"other"), IN_2026).0;
    assert_eq!(check(other_image), Err(SignatureError::OtherImage));
    // A bundle has to have the proof itself.
    let mut bundle = instance.sign(image(), IN_2026);
    bundle["verificationMaterial"]["tlogEntries"][0]["inclusionProof"] = Json::Null;
    let no_proof = KeylessError::Entry("without a proof that the log has it");
    assert_eq!(
        check(Signature::Bundle(bundle.to_string())),
        error(no_proof)
    );
}

/// What came of the look-up of an image that is pinned, on disk, and signed by an instance. Its registry is down.
async fn looked_up(signed_by: &Instance, root: &str) -> Result<Pulled, String> {
    let folder = tempfile::tempdir().unwrap();
    let reference = format!("127.0.0.1:1/team/hello@{}", image());
    let (reference, pulled) = (
        Reference::parse(&reference).unwrap(),
        folder.path().join("pulled"),
    );
    let store = Store::open(pulled.clone(), 1 << 20).unwrap();
    let draft = store.draft().unwrap();
    fs::write(draft.component(), b"wasm").unwrap();
    let layer = ComponentLayer {
        digest: ImageDigest::of(b"wasm"),
        size: 4,
    };
    let signature = Signature::Bundle(signed_by.sign(image(), IN_2026).to_string());
    let place = Place::of(&reference, image());
    store.keep(draft, &place, layer, vec![signature]).unwrap();
    store.set_name("team-a", &reference.to_string(), image());
    let trusted_root = folder.path().join("trusted_root.json");
    fs::write(&trusted_root, root).unwrap();
    let registries = Registries::new(RegistryOptions {
        authorities: None,
        trusted_root: Some(trusted_root),
        plain_http: Vec::new(),
        proxy: ProxyFromEnvironment::default(),
        docker_config: None,
        usual_docker_config: None,
        folder: Some(pulled),
        temporary: folder.path().to_owned(),
        kept_bytes: 1 << 20,
        largest: 1 << 20,
        timeout: Duration::from_secs(30),
    });
    let (signers, _) = signed_by.trusts();
    let wanted = Wanted {
        image: reference,
        tenant: "team-a".to_owned(),
        secret: None,
        interval: Duration::from_secs(60),
        policy: GuestPolicy {
            signers,
            ..GuestPolicy::default()
        },
        any_by_default: true,
        last_will_do: false,
    };
    registries.look_up(wanted, None).await.outcome
}

#[tokio::test]
async fn an_image_is_verified_with_the_trusted_root_of_the_operator_and_without_its_registry() {
    let (instance, stranger) = (Instance::new(), Instance::new());
    let found = looked_up(&instance, &instance.root.to_string()).await;
    assert_eq!(found.map(|pulled| pulled.digest), Ok(image()));
    // The registry may have another signature by now.
    let error = looked_up(&instance, &stranger.root.to_string()).await;
    assert!(
        error.as_ref().unwrap_err().contains("cannot be reached"),
        "{error:?}"
    );
    let error = looked_up(&instance, "{}").await;
    assert!(
        error
            .as_ref()
            .unwrap_err()
            .contains("spec.registries.trustedRoot"),
        "{error:?}"
    );
}
