//! Where a tenant's guests may come from, and who must have signed them. Entry point: [`GuestsSpec`].

use crate::config::kinds::{Items, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_registry::{GuestPolicy, ImagePattern, PublicKey};

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
    /// Public keys in PEM, ECDSA P-256 or Ed25519, of which one must have signed.
    pub(crate) keys: Items<String, 1, 100>,
}

impl GuestsSpec {
    /// The same, read. What cannot be read has been refused.
    pub(crate) fn policy(&self) -> GuestPolicy {
        let patterns = |texts: &Items<String, 0, 100>| {
            let patterns = texts.iter().map(|text| ImagePattern::parse(text));
            patterns.flatten().collect()
        };
        let keys = self.signatures.iter().flat_map(|spec| spec.keys.iter());
        GuestPolicy {
            registries: self.registries.as_ref().map(patterns),
            keys: keys.filter_map(|key| PublicKey::parse(key).ok()).collect(),
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
        let path = "spec.guests.signatures.keys";
        for (index, key) in signatures.keys.iter().enumerate() {
            if let Err(error) = PublicKey::parse(key) {
                return Err(Refusal::new(path, format!("key {}: {error}", index + 1)));
            }
        }
        Ok(())
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
        let keys = Items::new(vec!["cosign.pub".to_owned()]).unwrap();
        let signatures = GuestsSpec {
            registries: None,
            signatures: Some(SignaturesSpec { keys }),
        };
        assert_eq!(refused(signatures), "spec.guests.signatures.keys");
    }
}
