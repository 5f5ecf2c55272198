//! Clusters of an inventory of ClusterProfiles. Entry point: [`ClusterProfilesSpec`].

use super::hub::{self, HubSpec, OnUnready, ReadySpec};
use crate::config::kinds::{Origin, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use windlass_fleet::provider::cluster_profiles::{
    AccessProvider, AccessStrategy, AccessStrategyError, CredentialPlugin, ProfileArgs,
    ProfileVariables,
};

/// ClusterProfiles, and how their clusters are reached: by `accessProviders` or by `secrets`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ClusterProfilesSpec {
    /// The cluster that has the ClusterProfiles. Default: the local cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<HubSpec>,
    /// Namespaces of the ClusterProfiles. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespaces: Option<Vec<String>>,
    /// Labels of the ClusterProfiles, as `kubectl -l` takes them. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
    /// When a cluster is engaged: `Always`, or once `{condition: TYPE}` is true. Default: once `ControlPlaneHealthy` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<ReadySpec>,
    /// What happens to an engaged cluster that is not ready any more: `Keep` or `Disengage`. Default: Keep.
    pub(crate) on_unready: OnUnready,
    /// Programs that print credentials. The first one that a ClusterProfile has in its status is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access_providers: Option<Vec<AccessProviderSpec>>,
    /// Secrets beside the ClusterProfiles, with kubeconfigs for a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secrets: Option<ConsumerSpec>,
}

/// An access provider: as in the configuration file of the Cluster Inventory API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct AccessProviderSpec {
    /// The name in `status.accessProviders`.
    pub(crate) name: String,
    /// The program, as `exec` of a kubeconfig's user. Default: that of the Manager, by `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exec_config: Option<ExecConfigSpec>,
    /// Whether a ClusterProfile's arguments count: `Append` or `Ignore`. Default: Ignore.
    #[serde(default, rename = "profileSourcedCLIArgsPolicy")]
    pub(crate) arguments: ProfileArgsPolicy,
    /// Whether its variables count: `AppendIfNotExists`, `Replace` or `Ignore`. Default: Ignore.
    #[serde(default, rename = "profileSourcedEnvVarsPolicy")]
    pub(crate) variables: ProfileEnvPolicy,
}

/// A program that prints credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ExecConfigSpec {
    /// A path, relative to the document's folder, or a name on the PATH.
    pub(crate) command: String,
    /// Arguments. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    /// Variables of its environment, beside those of this process. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) env: Vec<VariableSpec>,
    /// The version of the credentials that it prints. Default: client.authentication.k8s.io/v1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_version: Option<String>,
    /// Whether it is told about the cluster. Default: false.
    #[serde(default)]
    pub(crate) provide_cluster_info: bool,
    /// What an error says if the program is not there. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) install_hint: Option<String>,
}

/// A variable of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct VariableSpec {
    /// Its name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
}

/// Whose Secrets count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ConsumerSpec {
    /// The Secrets' label `x-k8s.io/cluster-inventory-consumer`.
    pub(crate) consumer: String,
}

/// What happens to arguments of a ClusterProfile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum ProfileArgsPolicy {
    /// They are left out.
    #[default]
    Ignore,
    /// They are added.
    Append,
}

/// What happens to variables of a ClusterProfile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum ProfileEnvPolicy {
    /// They are left out.
    #[default]
    Ignore,
    /// Those are added that the document does not set.
    AppendIfNotExists,
    /// They are added, in place of those that the document sets.
    Replace,
}

/// The source's field.
const PATH: &str = "spec.clusterProfiles";

impl ClusterProfilesSpec {
    /// How the clusters are reached. Commands that are paths start from a folder.
    ///
    /// # Errors
    /// A [`Refusal`] when that cannot be used, which a checked document excludes.
    pub(crate) fn access(&self, folder: &Path) -> Result<AccessStrategy, Refusal> {
        match (&self.access_providers, &self.secrets) {
            (Some(providers), None) => {
                let providers = providers.iter().map(|provider| provider.engine(folder));
                AccessStrategy::access_providers(providers.collect::<Result<_, _>>()?)
                    .map_err(|error| refusal("accessProviders", error))
            }
            (None, Some(secrets)) => AccessStrategy::secret(&secrets.consumer)
                .map_err(|error| refusal("secrets.consumer", error)),
            (None, None) => Err(Refusal::new(
                PATH,
                "it does not say how the clusters are reached: give accessProviders or secrets",
            )),
            (Some(_), Some(_)) => Err(Refusal::new(
                PATH,
                "accessProviders and secrets are both given: keep one of them, or make two documents of it",
            )),
        }
    }

    pub(super) fn check(&self, origin: Origin) -> Result<(), Refusal> {
        let Self {
            from,
            namespaces,
            selector,
            ..
        } = self;
        hub::check(
            PATH,
            from.as_ref(),
            namespaces.as_deref(),
            selector.as_deref(),
        )?;
        match (origin, &self.access_providers) {
            (Origin::Cluster, Some(providers)) if self.secrets.is_none() => check_names(providers),
            _ => self.access(Path::new("")).map(drop),
        }
    }
}

/// Refuses programs: in a cluster, access providers are those of the Manager's file, by their names.
fn check_names(providers: &[AccessProviderSpec]) -> Result<(), Refusal> {
    let path = format!("{PATH}.accessProviders");
    if providers.is_empty() {
        return Err(Refusal::new(path, "the list is empty: name at least one"));
    }
    match providers
        .iter()
        .find(|provider| provider.exec_config.is_some())
    {
        None => Ok(()),
        Some(_) => Err(Refusal::new(
            path,
            "execConfig names a program, and is for files only: leave it out, and name an access provider of the Manager",
        )),
    }
}

fn refusal(field: &str, error: AccessStrategyError) -> Refusal {
    Refusal::new(format!("{PATH}.{field}"), error.to_string())
}

impl AccessProviderSpec {
    fn engine(&self, folder: &Path) -> Result<AccessProvider, Refusal> {
        let Some(exec) = &self.exec_config else {
            let message = format!("{:?} has no execConfig: name its program", self.name);
            return Err(Refusal::new(format!("{PATH}.accessProviders"), message));
        };
        let variables = exec.env.iter();
        Ok(AccessProvider {
            name: self.name.clone(),
            plugin: CredentialPlugin {
                command: exec.command_from(folder),
                args: exec.args.clone(),
                env: variables
                    .map(|variable| (variable.name.clone(), variable.value.clone()))
                    .collect(),
                api_version: exec.api_version.clone(),
                install_hint: exec.install_hint.clone(),
                provide_cluster_info: exec.provide_cluster_info,
            },
            arguments: match self.arguments {
                ProfileArgsPolicy::Ignore => ProfileArgs::Ignore,
                ProfileArgsPolicy::Append => ProfileArgs::Append,
            },
            variables: match self.variables {
                ProfileEnvPolicy::Ignore => ProfileVariables::Ignore,
                ProfileEnvPolicy::AppendIfNotExists => ProfileVariables::AppendIfNotExists,
                ProfileEnvPolicy::Replace => ProfileVariables::Replace,
            },
        })
    }
}

impl ExecConfigSpec {
    /// Makes a path of another document's one that starts from the current folder.
    pub(crate) fn resolve(&mut self, path_of: impl FnOnce(&Path) -> PathBuf) {
        if self.command.contains('/') {
            let path = path_of(Path::new(&self.command));
            // Without a slash it would be looked up on the PATH.
            self.command = Path::new(".").join(path).to_string_lossy().into_owned();
        }
    }

    /// The command. As in kubeconfigs, one with a slash is a path, any other is looked up on the PATH.
    fn command_from(&self, folder: &Path) -> String {
        if self.command.contains('/') {
            folder.join(&self.command).to_string_lossy().into_owned()
        } else {
            self.command.clone()
        }
    }
}
