//! The kubeconfig of a ClusterProfile, from a Secret that its manager has written for a consumer. Entry point: [`config`].

use crate::cluster::{ClusterConfig, KubeconfigPolicy};
use crate::hub::HubObject;
use crate::provider::inventory::Related;
use crate::provider::secret;
use crate::request::ObjectKey;
use crate::selector::LabelSelector;

/// The label with the consumer that a Secret is for.
pub(super) const CONSUMER: &str = "x-k8s.io/cluster-inventory-consumer";
/// The label with the name of the Secret's ClusterProfile.
const PROFILE: &str = "x-k8s.io/cluster-profile";
/// The key of the kubeconfig in a Secret.
const KEY: &str = "Config";

/// Why the Secrets of a ClusterProfile give no kubeconfig. Quotes nothing of a Secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretError {
    #[error(
        "no Secret in its namespace has the labels {CONSUMER}={consumer} and {PROFILE}=<its name>: its manager must write one"
    )]
    None { consumer: String },
    #[error(
        "{count} Secrets in its namespace have the labels {CONSUMER}={consumer} and {PROFILE}=<its name>, such as {names}: leave one"
    )]
    Several {
        count: usize,
        names: String,
        consumer: String,
    },
    #[error("Secret {secret}: {error}")]
    Unusable {
        secret: ObjectKey,
        error: secret::SecretError,
    },
}

/// Selects the Secrets of all ClusterProfiles for a consumer. `None`: no label can have this value.
pub(super) fn selector(consumer: &str) -> Option<LabelSelector> {
    let text = format!("{CONSUMER}={consumer},{PROFILE}");
    let selector = LabelSelector::parse(&text).ok()?;
    // A text that the selector does not print alike had a syntax of its own in it.
    (selector.to_string() == text).then_some(selector)
}

/// Secrets by the ClusterProfile that they are for. Those that are being deleted do not count.
pub(super) fn by_profile(secrets: impl Iterator<Item = HubObject>) -> Related {
    let mut related = Related::new();
    for secret in secrets.filter(|secret| !secret.is_deleting()) {
        if let Some(profile) = secret.label(PROFILE) {
            let key = secret.key().sibling(&profile);
            related.entry(key).or_default().push(secret);
        }
    }
    related
}

/// The configuration by the kubeconfig in the only one of these Secrets.
pub(super) fn config(
    consumer: &str,
    secrets: &[HubObject],
    policy: &KubeconfigPolicy,
) -> Result<ClusterConfig, SecretError> {
    let consumer = || consumer.to_owned();
    let secret = match secrets {
        [] => {
            return Err(SecretError::None {
                consumer: consumer(),
            });
        }
        [secret] => secret,
        several => {
            let names = several.iter().take(3);
            let names: Vec<String> = names.map(|secret| secret.key().name.to_string()).collect();
            return Err(SecretError::Several {
                count: several.len(),
                names: names.join(", "),
                consumer: consumer(),
            });
        }
    };
    secret::config(secret, KEY, None, policy).map_err(|error| SecretError::Unusable {
        secret: secret.key(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    fn secret(name: &str, data: &Value) -> HubObject {
        HubObject::of(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "namespace": "ns", "name": name, "labels": {CONSUMER: "us", PROFILE: "prod"}}, "data": data}))
    }

    fn kubeconfig(user: &str) -> Value {
        let text = format!(
            "current-context: a\nclusters: [{{name: c, cluster: {{server: 'https://cluster.example.com'}}}}]\n\
             contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        json!({KEY: STANDARD.encode(text)})
    }

    fn server(secrets: &[HubObject]) -> Result<String, String> {
        let config = config("us", secrets, &KubeconfigPolicy::object());
        config
            .map(|config| config.server())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_are_found_by_the_profile_that_they_name_in_their_own_namespace() {
        let leaving = HubObject::of(&json!({"metadata": {"namespace": "ns", "name": "c",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {PROFILE: "prod"}}}));
        let elsewhere = HubObject::of(&json!({"metadata": {"namespace": "other", "name": "a",
            "labels": {PROFILE: "prod"}}}));
        let all = [secret("a", &json!({})), elsewhere, leaving];
        let found: Vec<(String, usize)> = by_profile(all.into_iter())
            .into_iter()
            .map(|(key, secrets)| (key.to_string(), secrets.len()))
            .collect();
        assert_eq!(
            found,
            [("ns/prod".to_owned(), 1), ("other/prod".to_owned(), 1)]
        );
    }

    #[test]
    fn exactly_one_secret_with_the_key_gives_the_configuration() {
        let good = secret("a", &kubeconfig("{token: t}"));
        let found = server(std::slice::from_ref(&good));
        assert_eq!(found.as_deref(), Ok("https://cluster.example.com/"));
        assert_eq!(
            server(&[]).unwrap_err(),
            "no Secret in its namespace has the labels x-k8s.io/cluster-inventory-consumer=us and x-k8s.io/cluster-profile=<its name>: \
             its manager must write one"
        );
        let several = server(&[good, secret("b", &json!({}))]).unwrap_err();
        assert!(
            several.starts_with("2 Secrets") && several.ends_with("such as a, b: leave one"),
            "{several}"
        );
        for (data, reason) in [
            (json!({}), "has no key \"Config\""),
            (json!({"config": "eA=="}), "has no key \"Config\""),
            (Value::Null, "has no key \"Config\""),
            (json!({KEY: "hush!"}), "is not UTF-8 text"),
            (json!({KEY: "eA=="}), "not a kubeconfig"),
        ] {
            let error = server(&[secret("a", &data)]).unwrap_err();
            assert!(
                error.contains("Secret ns/a") && error.contains(reason),
                "{error}"
            );
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_kubeconfig_of_a_secret_runs_no_program_and_names_no_file() {
        for user in [
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: id}}",
            "{tokenFile: /etc/passwd}",
        ] {
            assert!(server(&[secret("a", &kubeconfig(user))]).is_err(), "{user}");
        }
    }
}
