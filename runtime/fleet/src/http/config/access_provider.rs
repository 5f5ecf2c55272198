//! A server that an object describes, with credentials from a plugin of the operator's own. Entry point:
//! [`ClusterConfig::from_access_provider`].

use super::kubeconfig::{Entry, Kubeconfig, KubeconfigCluster, KubeconfigContext, Variable};
use super::{
    ClusterConfig, ConfigError, Exec, ExecPolicy, InteractiveMode, KubeconfigPolicy, User,
};

/// A credential plugin that the operator configured: a program that prints an `ExecCredential`. It is run as those of kubeconfigs are, with
/// the same deadline and limits, and never has a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialPlugin {
    /// The program: a path, or a name that is looked up in PATH.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its environment, beside those of this process. Of equal names the last one counts.
    pub env: Vec<(String, String)>,
    /// The version of `client.authentication.k8s.io` that it speaks. Default: `client.authentication.k8s.io/v1`.
    pub api_version: Option<String>,
    /// What errors quote if the program is not there.
    pub install_hint: Option<String>,
    /// Whether the cluster is passed to it, as `ExecCredential.spec.cluster`. Default: no.
    pub provide_cluster_info: bool,
}

impl CredentialPlugin {
    fn exec(&self) -> Exec {
        let variable = |(name, value): &(String, String)| Variable {
            name: name.clone(),
            value: value.clone(),
        };
        Exec {
            api_version: self.api_version.clone(),
            command: Some(self.command.clone()),
            args: Some(self.args.clone()),
            env: Some(self.env.iter().map(variable).collect()),
            install_hint: self.install_hint.clone(),
            interactive_mode: Some(InteractiveMode::Never),
            provide_cluster_info: self.provide_cluster_info,
            cluster: None,
        }
    }
}

impl ClusterConfig {
    /// The server that `cluster` describes, in the fields of a kubeconfig's `cluster`. What it may name, the policy says. The plugin is
    /// no part of the object, so [`KubeconfigPolicy::exec`] does not concern it. `name` is the access provider's, for errors.
    ///
    /// # Errors
    /// [`ConfigError`], as for a kubeconfig.
    pub fn from_access_provider(
        name: &str,
        cluster: &serde_json::Value,
        plugin: &CredentialPlugin,
        policy: &KubeconfigPolicy,
    ) -> Result<Self, ConfigError> {
        // The parser's error may quote the object.
        let cluster: KubeconfigCluster =
            serde_json::from_value(cluster.clone()).map_err(|_| ConfigError::Unusable {
                context: name.to_owned(),
                reason: "its cluster has not the fields of a kubeconfig's cluster".to_owned(),
            })?;
        let user = User {
            exec: Some(plugin.exec()),
            ..User::default()
        };
        let context = KubeconfigContext {
            cluster: name.to_owned(),
            user: name.to_owned(),
            namespace: String::new(),
        };
        let kubeconfig = Kubeconfig {
            clusters: [(name.to_owned(), Entry::new(cluster, &None))].into(),
            users: [(name.to_owned(), Entry::new(user, &None))].into(),
            contexts: [(name.to_owned(), context)].into(),
            current_context: None,
        };
        let policy = KubeconfigPolicy {
            exec: ExecPolicy::Allow,
            ..policy.clone()
        };
        kubeconfig.context(Some(name), &policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plugin() -> CredentialPlugin {
        CredentialPlugin {
            command: "plugin".to_owned(),
            args: vec!["one".to_owned()],
            provide_cluster_info: true,
            ..CredentialPlugin::default()
        }
    }

    fn config(cluster: &Value, policy: &KubeconfigPolicy) -> Result<ClusterConfig, ConfigError> {
        ClusterConfig::from_access_provider("own", cluster, &plugin(), policy)
    }

    fn extended(tenant: &str) -> Value {
        json!({"server": "https://cluster.example.com", "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"tenant": tenant}}]})
    }

    #[test]
    fn an_object_names_the_server_and_the_operator_the_plugin() {
        let config = config(&extended("a"), &KubeconfigPolicy::object()).unwrap();
        assert_eq!(config.server(), "https://cluster.example.com/");
        let exec = config.access().user.exec.as_ref().unwrap();
        assert_eq!(exec.command.as_deref(), Some("plugin"));
        assert_eq!(exec.interactive_mode, Some(InteractiveMode::Never));
        let info = exec.cluster.as_ref().unwrap();
        assert_eq!(info["config"], json!({"tenant": "a"}));
    }

    #[test]
    fn what_a_plugin_is_passed_is_part_of_the_configuration() {
        let policy = KubeconfigPolicy::object();
        let [a, b] = ["a", "b"].map(|tenant| config(&extended(tenant), &policy).unwrap());
        assert!(a.same(&config(&extended("a"), &policy).unwrap()));
        assert!(!a.same(&b) && a.same_server(&b));
    }

    #[test]
    fn an_object_may_not_name_files_or_switch_off_tls_verification_or_name_any_server() {
        let policy = KubeconfigPolicy::object();
        for cluster in [
            json!({"server": "https://cluster.example.com", "certificate-authority": "/etc/passwd"}),
            json!({"server": "https://cluster.example.com", "insecure-skip-tls-verify": true}),
            json!({"server": "https://127.0.0.1"}),
            json!({"server": ["https://cluster.example.com"]}),
            json!({}),
        ] {
            assert!(config(&cluster, &policy).is_err(), "{cluster}");
        }
    }
}
