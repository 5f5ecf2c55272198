//! The server of a ClusterProfile, and the plugin that gives the credentials for it (KEP-5339). Entry point: [`config`].
//!
//! The program of the plugin is always the operator's. A profile adds arguments and variables only where the operator lets it.

use super::profile::{Offered, Status};
use crate::cluster::{ClusterConfig, ConfigError, CredentialPlugin, KubeconfigPolicy};
use serde_json::Value;
use std::collections::BTreeMap;

/// The extension of an access provider's cluster with arguments for the plugin.
const ARGUMENTS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args";
/// The extension of an access provider's cluster with variables for the plugin's environment.
const VARIABLES: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs";

/// Most arguments, and most variables, that a profile may add.
const MAX_ADDED: usize = 100;

/// A way to reach clusters that is configured: the plugin for the access providers of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessProvider {
    /// Its name in `status.accessProviders` of the ClusterProfiles.
    pub name: String,
    /// The plugin that prints the credentials.
    pub plugin: CredentialPlugin,
    /// Whether a ClusterProfile may add arguments.
    pub arguments: ProfileArgs,
    /// Whether a ClusterProfile may add variables.
    pub variables: ProfileVariables,
}

/// What happens to arguments that a ClusterProfile has for the plugin (`profileSourcedCLIArgsPolicy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProfileArgs {
    /// They are added after the configured ones.
    Append,
    /// They are left out.
    #[default]
    Ignore,
}

/// What happens to variables that a ClusterProfile has for the plugin (`profileSourcedEnvVarsPolicy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProfileVariables {
    /// They are added, except those that are configured.
    AppendIfNotExists,
    /// They are added, and replace configured ones.
    Replace,
    /// They are left out.
    #[default]
    Ignore,
}

/// Why a ClusterProfile gives no access.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    #[error(
        "its access providers are {offered}; configured are {configured}: configure one of the first, or let its manager add one of the second"
    )]
    NoneConfigured { offered: String, configured: String },
    #[error("extension {0} of access provider {1:?} is not {2}")]
    Extension(&'static str, String, &'static str),
    #[error("extension {0} of access provider {1:?} has more than {MAX_ADDED} entries")]
    TooMany(&'static str, String),
    #[error("access provider {name:?}: {error}")]
    Config { name: String, error: ConfigError },
}

/// The configuration by the first configured access provider that a profile has.
pub(super) fn config(
    configured: &[AccessProvider],
    status: &Status,
    policy: &KubeconfigPolicy,
) -> Result<ClusterConfig, AccessError> {
    let (provider, cluster) = choose(configured, status)?;
    let plugin = plugin(provider, cluster)?;
    let config = ClusterConfig::from_access_provider(&provider.name, cluster, &plugin, policy);
    config.map_err(|error| AccessError::Config {
        name: provider.name.clone(),
        error,
    })
}

/// The first configured access provider that a profile has, with its cluster. Of equal names that in `accessProviders` counts.
fn choose<'a>(
    configured: &'a [AccessProvider],
    status: &'a Status,
) -> Result<(&'a AccessProvider, &'a Value), AccessError> {
    let offered = || {
        let current = status.access_providers.iter();
        current.chain(&status.credential_providers)
    };
    let find = |provider: &'a AccessProvider| {
        let mut offered = offered();
        let found = offered.find(|offered| offered.name == provider.name)?;
        Some((provider, &found.cluster))
    };
    configured.iter().find_map(find).ok_or_else(|| {
        let offered = offered().map(|Offered { name, .. }| name.as_str());
        let configured = configured.iter().map(|provider| provider.name.as_str());
        AccessError::NoneConfigured {
            offered: listed(offered),
            configured: listed(configured),
        }
    })
}

/// Some names, for people.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.take(10).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// The configured plugin with the profile's arguments and variables, as far as they are let in. A copy: no profile changes another's.
fn plugin(provider: &AccessProvider, cluster: &Value) -> Result<CredentialPlugin, AccessError> {
    let mut plugin = provider.plugin.clone();
    if provider.arguments == ProfileArgs::Append
        && let Some(value) = extension(cluster, ARGUMENTS)
    {
        plugin.args.extend(arguments(value, &provider.name)?);
    }
    let policy = provider.variables;
    if policy != ProfileVariables::Ignore
        && let Some(value) = extension(cluster, VARIABLES)
    {
        let added = variables(value, &provider.name)?;
        plugin.env = merged(&plugin.env, added, policy == ProfileVariables::Replace);
    }
    Ok(plugin)
}

/// The value of an extension of a kubeconfig's `cluster`.
fn extension<'a>(cluster: &'a Value, name: &str) -> Option<&'a Value> {
    let mut extensions = cluster.get("extensions")?.as_array()?.iter();
    let found = extensions.find(|extension| extension.get("name").is_some_and(|is| is == name))?;
    found.get("extension").filter(|value| !value.is_null())
}

fn arguments(value: &Value, provider: &str) -> Result<Vec<String>, AccessError> {
    let refused = || AccessError::Extension(ARGUMENTS, provider.to_owned(), "a list of texts");
    let list = value.as_array().ok_or_else(refused)?;
    if list.len() > MAX_ADDED {
        return Err(AccessError::TooMany(ARGUMENTS, provider.to_owned()));
    }
    let arguments = list.iter().map(text);
    arguments.collect::<Option<_>>().ok_or_else(refused)
}

fn variables(value: &Value, provider: &str) -> Result<BTreeMap<String, String>, AccessError> {
    let refused = || {
        AccessError::Extension(
            VARIABLES,
            provider.to_owned(),
            "an object of names and texts",
        )
    };
    let object = value.as_object().ok_or_else(refused)?;
    if object.len() > MAX_ADDED {
        return Err(AccessError::TooMany(VARIABLES, provider.to_owned()));
    }
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let variables = object.iter().map(|(name, value)| {
        let value = text(value).filter(|_| is_name(name))?;
        Some((name.clone(), value))
    });
    variables.collect::<Option<_>>().ok_or_else(refused)
}

/// A text that a program can be passed. Numbers and booleans are written out, as YAML has them without quotes.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(bool) => bool.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// Configured variables with a profile's. Of equal names one counts: the profile's if that replaces.
fn merged(
    configured: &[(String, String)],
    mut added: BTreeMap<String, String>,
    replaces: bool,
) -> Vec<(String, String)> {
    let mut merged = configured.to_vec();
    if replaces {
        merged.retain(|(name, _)| !added.contains_key(name));
    } else {
        added.retain(|name, _| configured.iter().all(|(other, _)| other != name));
    }
    merged.extend(added);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn provider(name: &str) -> AccessProvider {
        AccessProvider {
            name: name.to_owned(),
            plugin: CredentialPlugin {
                command: format!("{name}-plugin"),
                args: vec!["configured".to_owned()],
                env: vec![("A".to_owned(), "configured".to_owned())],
                ..CredentialPlugin::default()
            },
            arguments: ProfileArgs::default(),
            variables: ProfileVariables::default(),
        }
    }

    fn cluster(host: &str) -> Value {
        json!({"server": format!("https://{host}.example.com"), "extensions": [
            {"name": ARGUMENTS, "extension": [host, 1, true]},
            {"name": VARIABLES, "extension": {"A": host, "B": host}}]})
    }

    fn status(value: Value) -> Status {
        serde_json::from_value(value).unwrap()
    }

    fn server(configured: &[AccessProvider], status: &Status) -> Result<String, AccessError> {
        let config = config(configured, status, &KubeconfigPolicy::object());
        config.map(|config| config.server())
    }

    #[test]
    fn the_first_configured_access_provider_that_a_profile_has_is_chosen() {
        let status = status(json!({"accessProviders": [
            {"name": "other", "cluster": cluster("other")},
            {"name": "second", "cluster": cluster("second")},
            {"name": "first", "cluster": cluster("first")}]}));
        let all = ["absent", "first", "second"].map(provider);
        assert_eq!(server(&all, &status).unwrap(), "https://first.example.com/");
        let error = server(&[provider("absent")], &status).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its access providers are other, second, first; configured are absent: configure one of the first, or let its manager add one of the second"
        );
    }

    #[test]
    fn credential_providers_count_unless_an_access_provider_has_the_name() {
        let old = json!([{"name": "a", "cluster": cluster("old")}]);
        let only_old = status(json!({"credentialProviders": old}));
        assert_eq!(
            server(&[provider("a")], &only_old).unwrap(),
            "https://old.example.com/"
        );
        let both = status(json!({"credentialProviders": old,
            "accessProviders": [{"name": "a", "cluster": cluster("new")}]}));
        assert_eq!(
            server(&[provider("a")], &both).unwrap(),
            "https://new.example.com/"
        );
    }

    fn passed(
        arguments: ProfileArgs,
        variables: ProfileVariables,
        host: &str,
    ) -> (Vec<String>, BTreeMap<String, String>) {
        let provider = AccessProvider {
            arguments,
            variables,
            ..provider("a")
        };
        let plugin = plugin(&provider, &cluster(host)).unwrap();
        (plugin.args, plugin.env.into_iter().collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_profile_adds_to_the_plugin_what_the_policies_let_in() {
        let (args, env) = passed(ProfileArgs::Ignore, ProfileVariables::Ignore, "x");
        assert_eq!(args, ["configured"]);
        assert_eq!(env, pairs(&[("A", "configured")]));
        let (args, env) = passed(
            ProfileArgs::Append,
            ProfileVariables::AppendIfNotExists,
            "x",
        );
        assert_eq!(args, ["configured", "x", "1", "true"]);
        assert_eq!(env, pairs(&[("A", "configured"), ("B", "x")]));
        let (_, env) = passed(ProfileArgs::Ignore, ProfileVariables::Replace, "x");
        assert_eq!(env, pairs(&[("A", "x"), ("B", "x")]));
    }

    #[test]
    fn what_one_profile_adds_reaches_no_other_and_adds_up_nowhere() {
        let provider = AccessProvider {
            arguments: ProfileArgs::Append,
            variables: ProfileVariables::Replace,
            ..provider("a")
        };
        let before = provider.clone();
        for host in ["x", "y", "x"] {
            let plugin = plugin(&provider, &cluster(host)).unwrap();
            assert_eq!(plugin.args, ["configured", host, "1", "true"]);
            let env: BTreeMap<_, _> = plugin.env.into_iter().collect();
            assert_eq!(env, pairs(&[("A", host), ("B", host)]));
        }
        assert_eq!(provider, before);
    }

    #[test]
    fn extensions_that_no_program_can_be_passed_are_refused() {
        let provider = AccessProvider {
            arguments: ProfileArgs::Append,
            variables: ProfileVariables::Replace,
            ..provider("a")
        };
        let many: Vec<String> = vec!["x".to_owned(); MAX_ADDED + 1];
        for (name, value) in [
            (ARGUMENTS, json!("text")),
            (ARGUMENTS, json!([["nested"]])),
            (ARGUMENTS, json!(["nul\0"])),
            (ARGUMENTS, json!(many)),
            (VARIABLES, json!(["a"])),
            (VARIABLES, json!({"A=B": "x"})),
            (VARIABLES, json!({"": "x"})),
            (VARIABLES, json!({"A": null})),
        ] {
            let cluster = json!({"extensions": [{"name": name, "extension": value}]});
            let error = plugin(&provider, &cluster).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
