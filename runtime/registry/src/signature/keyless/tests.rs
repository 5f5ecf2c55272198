//! Signatures that Sigstore's public instances made, and others that every client must refuse. `README.md` says where they are from.

use super::super::bundle::to_be_signed;
use super::*;
use serde_json::{Value as Json, json};

/// What the signatures are of, if not of a statement.
const FILE: &[u8] = b"DO NOT MODIFY ME!\n\nthis is \"a.txt\", a sample input for sigstore-conformance's test suite.\n\nDO NOT MODIFY ME!\n";
const WORKFLOW: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

fn suite() -> Json {
    serde_json::from_str(include_str!("conformance.json")).unwrap()
}

fn signer(identity: &str, issuer: &str) -> KeylessSigner {
    KeylessSigner {
        identity: NamePattern::new(identity),
        issuer: issuer.to_owned(),
    }
}

/// Verifies a bundle, of a statement or of [`FILE`].
fn check(bundle: &Json, root: &Json, signer: KeylessSigner) -> Result<(), KeylessError> {
    let decoded = |text: &Json| STANDARD.decode(text.as_str().unwrap()).unwrap();
    let envelope = &bundle["dsseEnvelope"];
    let (message, payload, signature) = if envelope.is_object() {
        let payload = decoded(&envelope["payload"]);
        let kind = envelope["payloadType"].as_str().unwrap();
        let signature = decoded(&envelope["signatures"][0]["sig"]);
        (to_be_signed(kind, &payload), payload, signature)
    } else {
        let signature = decoded(&bundle["messageSignature"]["signature"]);
        (FILE.to_vec(), FILE.to_vec(), signature)
    };
    let material = Material::deserialize(&bundle["verificationMaterial"]).unwrap();
    let root = TrustedRoot::parse(root.to_string().as_bytes()).unwrap();
    verify(
        &material,
        (&message, &payload, &signature),
        &[signer],
        Some(&root),
    )
}

/// A case of the suite, with what is changed in its bundle and in its root.
fn changed(
    name: &str,
    change: impl FnOnce(&mut Json, &mut Json),
    signer: KeylessSigner,
) -> Result<(), KeylessError> {
    let suite = suite();
    let case = &suite["cases"][name];
    let mut bundle = case["bundle"].clone();
    let mut root = suite["roots"][case["root"].as_str().unwrap()].clone();
    change(&mut bundle, &mut root);
    check(&bundle, &root, signer)
}

fn with(name: &str, change: impl FnOnce(&mut Json, &mut Json)) -> Result<(), KeylessError> {
    changed(name, change, signer(WORKFLOW, ISSUER))
}

/// Makes another text of base64 of the same length.
fn flip(text: &mut Json) {
    let mut bytes = STANDARD.decode(text.as_str().unwrap()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    *text = STANDARD.encode(bytes).into();
}

const HAPPY: &str = "happy-path-intoto-in-dsse-v3";
const SECOND: &str = "rekor2-dsse-happy-path";
const OTHER: KeylessError = KeylessError::Entry("about another signature, certificate or image");
const NO_PATH: KeylessError =
    KeylessError::Entry("with a proof that does not lead to the root of the log");

#[test]
fn the_signatures_of_public_instances_count_and_no_forged_one_does() {
    let suite = suite();
    let cases = suite["cases"].as_object().unwrap();
    for name in cases.keys() {
        let result = with(name, |_, _| {});
        let reason = match name.as_str() {
            "dsse-invalid-sig_fail" => Some(KeylessError::OtherKey),
            "dsse-mismatch-envelope_fail"
            | "dsse-mismatch-sig_fail"
            | "rekor2-dsse-mismatch-envelope_fail"
            | "wrong-hashedrekord-cert-and-sig_fail"
            | "wrong-hashedrekord-entry_fail" => Some(OTHER),
            "inclusion-proof-corrupted-hash_fail" => Some(NO_PATH),
            "rekor2-no-inclusion-proof_fail" => {
                Some(KeylessError::Entry("without a proof that the log has it"))
            }
            "rekor2-no-timestamp_fail"
            | "rekor2-timestamp-payload-mismatch_fail"
            | "rekor2-timestamp-outside-tsa-cert-validity_fail" => Some(KeylessError::NoTime),
            "integrated-time-in-future_fail" | "rekor2-timestamp-with-incorrect-time_fail" => {
                let is_late = matches!(&result, Err(KeylessError::Chain { .. }));
                assert!(is_late, "{name}: {result:?}");
                continue;
            }
            happy => {
                assert!(!happy.ends_with("_fail"), "{happy} has no reason here");
                None
            }
        };
        assert_eq!(result.err(), reason, "{name}");
    }
}

#[test]
fn only_the_identity_that_its_issuer_vouches_for_counts() {
    let by = |identity: &str, issuer: &str| changed(HAPPY, |_, _| {}, signer(identity, issuer));
    let repository = "https://github.com/sigstore-conformance/*@refs/heads/main";
    assert_eq!(by(repository, ISSUER), Ok(()));
    for (identity, issuer) in [
        ("https://github.com/acme/*", ISSUER),
        (&WORKFLOW[..WORKFLOW.len() - 1], ISSUER),
        (WORKFLOW, "https://accounts.google.com"),
        (WORKFLOW, "https://token.actions.githubusercontent.com/"),
        ("*", "*"),
    ] {
        let error = by(identity, issuer).unwrap_err();
        let found = KeylessError::Identity {
            identity: WORKFLOW.to_owned(),
            issuer: ISSUER.to_owned(),
        };
        assert_eq!(error, found, "{identity} {issuer}");
    }
}

#[test]
fn what_the_trusted_root_does_not_name_does_not_count() {
    let suite = suite();
    let staging = suite["roots"]["staging"].clone();
    let other = with(HAPPY, |_, root| *root = staging.clone());
    assert_eq!(
        other,
        Err(KeylessError::Entry(
            "of a log that the trusted root does not have"
        ))
    );
    let other = with(HAPPY, |_, root| {
        root["tlogs"][0]["publicKey"] = staging["tlogs"][0]["publicKey"].clone()
    });
    assert_eq!(
        other,
        Err(KeylessError::Entry(
            "with a root that its log has not signed"
        ))
    );
    let other = with(HAPPY, |_, root| {
        root["certificateAuthorities"] = staging["certificateAuthorities"].clone()
    });
    assert!(
        matches!(other, Err(KeylessError::Chain { .. })),
        "{other:?}"
    );
    let other = with(HAPPY, |_, root| root["ctlogs"] = staging["ctlogs"].clone());
    assert_eq!(other, Err(KeylessError::Unlogged));
    let other = with(HAPPY, |_, root| root["ctlogs"] = json!([]));
    assert_eq!(other, Ok(()));
    let other = with(SECOND, |_, root| root["timestampAuthorities"] = json!([]));
    assert_eq!(other, Err(KeylessError::NoTime));
}

#[test]
fn what_the_trusted_root_trusted_at_another_time_does_not_count() {
    let past = json!({"start": "2021-01-01T00:00:00Z", "end": "2022-01-01T00:00:00Z"});
    let result = with(HAPPY, |_, root| {
        root["tlogs"][0]["publicKey"]["validFor"] = past.clone()
    });
    assert!(
        matches!(result, Err(KeylessError::LogThen { .. })),
        "{result:?}"
    );
    let result = with(HAPPY, |_, root| {
        for authority in root["certificateAuthorities"].as_array_mut().unwrap() {
            authority["validFor"] = past.clone();
        }
    });
    assert!(
        matches!(result, Err(KeylessError::Chain { .. })),
        "{result:?}"
    );
    let result = with(HAPPY, |_, root| {
        for log in root["ctlogs"].as_array_mut().unwrap() {
            log["publicKey"]["validFor"] = past.clone();
        }
    });
    assert_eq!(result, Err(KeylessError::Unlogged));
    let result = with(SECOND, |_, root| {
        root["timestampAuthorities"][0]["validFor"] = past.clone()
    });
    assert_eq!(result, Err(KeylessError::NoTime));
}

#[test]
fn a_changed_entry_does_not_count() {
    let entry = |change: fn(&mut Json)| {
        with(HAPPY, |bundle, _| {
            change(&mut bundle["verificationMaterial"]["tlogEntries"][0])
        })
    };
    let promise = entry(|entry| flip(&mut entry["inclusionPromise"]["signedEntryTimestamp"]));
    let unsigned = Err(KeylessError::Entry(
        "with a time that its log has not signed",
    ));
    assert_eq!(promise, unsigned);
    assert_eq!(
        entry(|entry| entry["integratedTime"] = json!("1734374577")),
        unsigned
    );
    assert_eq!(entry(|entry| entry["logIndex"] = json!("1")), unsigned);
    assert_eq!(
        entry(|entry| flip(&mut entry["inclusionProof"]["hashes"][3])),
        Err(NO_PATH)
    );
    assert_eq!(
        entry(|entry| entry["inclusionProof"]["logIndex"] = json!("7")),
        Err(NO_PATH)
    );
    assert_eq!(
        entry(|entry| flip(&mut entry["inclusionProof"]["rootHash"])),
        Err(NO_PATH)
    );
    let checkpoint = entry(|entry| {
        let envelope = &mut entry["inclusionProof"]["checkpoint"]["envelope"];
        *envelope = envelope
            .as_str()
            .unwrap()
            .replacen("rekor", "rekord", 1)
            .into();
    });
    assert_eq!(
        checkpoint,
        Err(KeylessError::Entry(
            "with a root that its log has not signed"
        ))
    );
    let none = with(HAPPY, |bundle, _| {
        bundle["verificationMaterial"]["tlogEntries"] = json!([])
    });
    assert_eq!(none, Err(KeylessError::Entries(0)));
    // Without the log's promise nothing says when.
    let silent = entry(|entry| entry["inclusionPromise"] = Json::Null);
    assert_eq!(silent, Err(KeylessError::NoTime));
}

#[test]
fn what_is_no_trusted_root_is_refused() {
    let suite = suite();
    let refused = |change: fn(&mut Json)| {
        let mut root = suite["roots"]["staging"].clone();
        change(&mut root);
        let refused = TrustedRoot::parse(root.to_string().as_bytes()).unwrap_err();
        refused.to_string()
    };
    assert!(refused(|root| *root = json!([])).contains("trusted_root.json"));
    assert!(refused(|root| root["mediaType"] = json!("application/json")).contains("type"));
    assert!(refused(|root| root["tlogs"] = json!([])).contains("tlogs"));
    let logs = refused(|root| root["tlogs"] = vec![root["tlogs"][0].clone(); 101].into());
    assert!(logs.contains("100 logs"), "{logs}");
    let range = refused(|root| root["tlogs"][0]["publicKey"]["validFor"] = json!({}));
    assert!(range.contains("start"), "{range}");
    let authority = refused(|root| {
        root["certificateAuthorities"][0]["certChain"]["certificates"] =
            json!([{"rawBytes": "MAA="}]);
    });
    assert!(authority.contains("fulcio.sigstage.dev"), "{authority}");
}
