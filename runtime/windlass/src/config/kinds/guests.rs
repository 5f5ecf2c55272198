//! Where a tenant's guests may come from, and who must have signed them. Entry point: [`GuestsSpec`].

use crate::config::kinds::{Items, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::name::NamePattern;
use windlass_registry::{GuestPolicy, ImagePattern, KeylessSigner, PublicKey};

/// Longest identity and longest issuer.
const LONGEST: usize = 1024;

/// Bounds on the images of a tenant. With any of them, files are no guests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct GuestsSpec {
    /// Registries that are allowed, `HOST[:PORT][/NAME…]`, with `*`. Default: all in files, none in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) registries: Option<Items<String, 0, 100>>,
    /// Signatures by cosign that every image needs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signatures: Option<SignaturesSpec>,
}

/// Signatures by cosign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SignaturesSpec {
    /// Public keys in PEM, ECDSA P-256 or Ed25519, of which one must have signed. Default: none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) keys: Items<String, 0, 100>,
    /// Signers without a key of their own, of whom one must have signed if no key has. Default: none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) keyless: Items<KeylessSpec, 0, 100>,
}

/// A signer without a key of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct KeylessSpec {
    /// The address or the URL in its certificate, such as a workflow's. `*` stands for any characters.
    pub(crate) identity: String,
    /// The URL of the issuer that vouches for the identity, as the certificate has it.
    pub(crate) issuer: String,
}

impl GuestsSpec {
    /// The same, read. What cannot be read has been refused.
    pub(crate) fn policy(&self) -> GuestPolicy {
        let patterns = |texts: &Items<String, 0, 100>| {
            let patterns = texts.iter().map(|text| ImagePattern::parse(text));
            patterns.flatten().collect()
        };
        let keys = self.signatures.iter().flat_map(|spec| spec.keys.iter());
        let signers = self.signatures.iter().flat_map(|spec| spec.keyless.iter());
        GuestPolicy {
            registries: self.registries.as_ref().map(patterns),
            keys: keys.filter_map(|key| PublicKey::parse(key).ok()).collect(),
            signers: signers.map(KeylessSpec::signer).collect(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let path = "spec.guests.registries";
        let patterns = self.registries.as_deref().unwrap_or_default();
        if let Some(text) = patterns
            .iter()
            .find(|text| ImagePattern::parse(text).is_none())
        {
            let message = format!(
                "{text:?} is no pattern of a registry: write a host and the parts of names, for example ghcr.io/acme/*"
            );
            return Err(Refusal::new(path, message));
        }
        let Some(signatures) = &self.signatures else {
            return Ok(());
        };
        signatures.check()
    }
}

impl SignaturesSpec {
    fn check(&self) -> Result<(), Refusal> {
        if self.keys.is_empty() && self.keyless.is_empty() {
            let message = "it names no signer: give keys, or signers in keyless";
            return Err(Refusal::new("spec.guests.signatures", message));
        }
        let path = "spec.guests.signatures.keyless";
        for (index, signer) in self.keyless.iter().enumerate() {
            let is_name = |text: &String| {
                let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
                is_plain && (1..=LONGEST).contains(&text.len())
            };
            if ![&signer.identity, &signer.issuer].into_iter().all(is_name) {
                let message = format!(
                    "signer {}: give its identity and its issuer as its certificate has them, without spaces, each of 1 to {LONGEST} characters",
                    index + 1
                );
                return Err(Refusal::new(path, message));
            }
        }
        let path = "spec.guests.signatures.keys";
        for (index, key) in self.keys.iter().enumerate() {
            if let Err(error) = PublicKey::parse(key) {
                return Err(Refusal::new(path, format!("key {}: {error}", index + 1)));
            }
        }
        Ok(())
    }
}

impl KeylessSpec {
    fn signer(&self) -> KeylessSigner {
        KeylessSigner {
            identity: NamePattern::new(&self.identity),
            issuer: self.issuer.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_cannot_be_read_are_refused_and_never_left_out() {
        let refused = |spec: GuestsSpec| spec.check().unwrap_err().path;
        let registries = GuestsSpec {
            registries: Items::new(vec!["https://ghcr.io".to_owned()]),
            signatures: None,
        };
        assert_eq!(refused(registries), "spec.guests.registries");
        let signer = |identity: &str| KeylessSpec {
            identity: identity.to_owned(),
            issuer: "https://issuer.example.com".to_owned(),
        };
        let of = |keys, keyless| SignaturesSpec {
            keys: Items::new(keys).unwrap(),
            keyless: Items::new(keyless).unwrap(),
        };
        for (keys, keyless, path) in [
            (vec![], vec![], ""),
            (vec!["cosign.pub".to_owned()], vec![], ".keys"),
            (vec![], vec![signer("")], ".keyless"),
            (vec![], vec![signer("me @example.com")], ".keyless"),
        ] {
            let spec = GuestsSpec {
                registries: None,
                signatures: Some(of(keys, keyless)),
            };
            assert_eq!(refused(spec), format!("spec.guests.signatures{path}"));
        }
        let signatures = of(vec![], vec![signer("*@example.com")]);
        let spec = GuestsSpec {
            registries: None,
            signatures: Some(signatures),
        };
        assert_eq!(spec.check(), Ok(()));
        assert!(spec.policy().check_file("guest.wasm".as_ref()).is_err());
    }
}
