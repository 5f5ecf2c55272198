//! Kind `Provider`: a source of clusters. Entry point: [`ProviderSpec`].

mod files;
mod hub;
mod kcp;
mod kind;
mod namespaces;
mod objects;
mod profiles;
mod trust;

pub(crate) use files::{KubeconfigFilesSpec, SingleSpec};
pub(crate) use hub::{HubSecretSpec, HubSpec, ReadySpec};
pub(crate) use kcp::KcpSpec;
pub(crate) use kind::KindSpec;
pub(crate) use namespaces::NamespacesSpec;
pub(crate) use objects::{ClusterApiSpec, KubeconfigSecretsSpec};
pub(crate) use profiles::{
    AccessProviderSpec, ClusterProfilesSpec, ProfileArgsPolicy, ProfileEnvPolicy,
};
pub(crate) use trust::Exec;

use crate::config::kinds::{Class, Origin, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::ClusterName;
use windlass_fleet::engage::ServerChange;

/// Where clusters come from: exactly one [`Source`], and what holds for its clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ProviderSpec {
    /// Every context of kubeconfig files, which are watched.
    pub(crate) kubeconfig_files: Option<KubeconfigFilesSpec>,
    /// One cluster, named as the provider is.
    pub(crate) single: Option<SingleSpec>,
    /// One cluster, named as the provider is, by the kubeconfig in a Secret of the local cluster.
    pub(crate) kubeconfig_secret: Option<HubSecretSpec>,
    /// A cluster for each Secret of a hub that holds a kubeconfig and has certain labels.
    pub(crate) kubeconfig_secrets: Option<KubeconfigSecretsSpec>,
    /// The clusters of Cluster API, v1beta2 or v1beta1, each named `<namespace>/<name>`.
    #[serde(rename = "clusterAPI")]
    pub(crate) cluster_api: Option<ClusterApiSpec>,
    /// The clusters of an inventory of ClusterProfiles, each named `<namespace>/<name>`.
    pub(crate) cluster_profiles: Option<ClusterProfilesSpec>,
    /// The clusters of the program `kind`, as it lists them.
    pub(crate) kind: Option<KindSpec>,
    /// Each namespace of one cluster, as a cluster of its name whose objects are in its namespace `default`.
    pub(crate) namespaces: Option<NamespacesSpec>,
    /// Workspaces of kcp: those that use an export, or those of a type that begin or end.
    pub(crate) kcp: Option<KcpSpec>,
    /// No clusters, `none: {}`: for a process that works on the local cluster only.
    pub(crate) none: Option<NoneSpec>,
    /// Stands with a `#` before the name of each of its clusters: `prefix: capi` makes `capi#default/prod-eu`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
    /// Whether kubeconfigs in files may run credential plugins: `Allow` or `Deny`. Those in objects never may. Default: Allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exec: Option<Exec>,
    /// The class of the processes that handle it, by `spec.class` of their Manager. Only in a cluster. Default: that of processes without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Class>,
    /// What kubeconfigs in objects, and kcp, name: hosts, `*.example.com`, addresses, CIDRs.
    /// Default: all but loopback, link-local; kcp's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow_servers: Option<Vec<String>>,
    /// Whether kubeconfigs in objects may switch off the verification of certificates. Default: false.
    pub(crate) allow_insecure: bool,
    /// When work on the old server ends if a context names a new one: `keep`, once its caches are filled; `stop`, at once.
    /// Default: keep.
    pub(crate) on_server_change: OnServerChange,
}

/// What happens to a cluster whose context names another server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnServerChange {
    /// The server before is kept until the new one can take over.
    #[default]
    Keep,
    /// Work on the server before ends at once.
    Stop,
}

impl OnServerChange {
    /// The same in the engine's words.
    pub(crate) fn engine(self) -> ServerChange {
        match self {
            Self::Keep => ServerChange::Keep,
            Self::Stop => ServerChange::Stop,
        }
    }
}

/// No clusters. It has no fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoneSpec {}

/// The one source of a checked provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source<'a> {
    /// `kubeconfigFiles`.
    KubeconfigFiles(&'a KubeconfigFilesSpec),
    /// `single`.
    Single(&'a SingleSpec),
    /// `kubeconfigSecret`.
    KubeconfigSecret(&'a HubSecretSpec),
    /// `kubeconfigSecrets`.
    KubeconfigSecrets(&'a KubeconfigSecretsSpec),
    /// `clusterAPI`.
    ClusterApi(&'a ClusterApiSpec),
    /// `clusterProfiles`.
    ClusterProfiles(&'a ClusterProfilesSpec),
    /// `kind`.
    Kind(&'a KindSpec),
    /// `namespaces`.
    Namespaces(&'a NamespacesSpec),
    /// `kcp`.
    Kcp(&'a KcpSpec),
    /// `none`.
    None,
}

impl Source<'_> {
    /// The fields that are sources.
    const NAMES: [&'static str; 10] = [
        "kubeconfigFiles",
        "single",
        "kubeconfigSecret",
        "kubeconfigSecrets",
        "clusterAPI",
        "clusterProfiles",
        "kind",
        "namespaces",
        "kcp",
        "none",
    ];

    /// Its field.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::KubeconfigFiles(_) => "kubeconfigFiles",
            Self::Single(_) => "single",
            Self::KubeconfigSecret(_) => "kubeconfigSecret",
            Self::KubeconfigSecrets(_) => "kubeconfigSecrets",
            Self::ClusterApi(_) => "clusterAPI",
            Self::ClusterProfiles(_) => "clusterProfiles",
            Self::Kind(_) => "kind",
            Self::Namespaces(_) => "namespaces",
            Self::Kcp(_) => "kcp",
            Self::None => "none",
        }
    }

    /// Whether any kubeconfig or server that it reads stands in an object, whose author is not the operator.
    fn reads_objects(&self) -> bool {
        match self {
            Self::KubeconfigSecret(_)
            | Self::KubeconfigSecrets(_)
            | Self::ClusterApi(_)
            | Self::ClusterProfiles(_)
            | Self::Kcp(_) => true,
            Self::Namespaces(namespaces) => namespaces.is_in_object(),
            Self::KubeconfigFiles(_) | Self::Single(_) | Self::Kind(_) | Self::None => false,
        }
    }

    /// The hub that it names.
    fn from(&self) -> Option<&HubSpec> {
        match self {
            Self::KubeconfigSecrets(secrets) => secrets.from.as_ref(),
            Self::ClusterApi(clusters) => clusters.from.as_ref(),
            Self::ClusterProfiles(profiles) => profiles.from.as_ref(),
            Self::Namespaces(namespaces) => namespaces.from.as_ref(),
            Self::Kcp(kcp) => kcp.from.as_ref(),
            Self::KubeconfigFiles(_)
            | Self::Single(_)
            | Self::KubeconfigSecret(_)
            | Self::Kind(_)
            | Self::None => None,
        }
    }

    /// Refuses what names a file or a program of the machine of this process.
    fn check_in_cluster(&self) -> Result<(), Refusal> {
        let own = format!("spec.{}", self.name());
        let remedy = match self {
            Self::KubeconfigFiles(_) | Self::Single(_) => {
                "it reads files, and is for files only: give kubeconfigSecret or kubeconfigSecrets"
            }
            Self::Kind(_) => "it runs a program, and is for files only",
            _ => {
                let in_file = |from: &HubSpec| from.kubeconfig.is_some() || from.context.is_some();
                return match self.from() {
                    Some(from) if in_file(from) => Err(Refusal::new(
                        format!("{own}.from"),
                        "a path is for files only: give kubeconfigSecret",
                    )),
                    _ => Ok(()),
                };
            }
        };
        Err(Refusal::new(own, remedy))
    }

    fn check(&self, origin: Origin) -> Result<(), Refusal> {
        if origin == Origin::Cluster {
            self.check_in_cluster()?;
        }
        match self {
            Self::KubeconfigFiles(files) => files.check(),
            Self::KubeconfigSecret(secret) => secret.check("spec.kubeconfigSecret"),
            Self::KubeconfigSecrets(secrets) => secrets.check(),
            Self::ClusterApi(clusters) => clusters.check(),
            Self::ClusterProfiles(profiles) => profiles.check(origin),
            Self::Kind(kind) => kind.check(),
            Self::Namespaces(namespaces) => namespaces.check(),
            Self::Kcp(kcp) => kcp.check(),
            Self::Single(_) | Self::None => Ok(()),
        }
    }
}

impl ProviderSpec {
    /// The one source.
    ///
    /// # Errors
    /// A [`Refusal`] when there is none or more than one.
    pub(crate) fn source(&self) -> Result<Source<'_>, Refusal> {
        let given: Vec<Source<'_>> = [
            self.kubeconfig_files.as_ref().map(Source::KubeconfigFiles),
            self.single.as_ref().map(Source::Single),
            self.kubeconfig_secret
                .as_ref()
                .map(Source::KubeconfigSecret),
            self.kubeconfig_secrets
                .as_ref()
                .map(Source::KubeconfigSecrets),
            self.cluster_api.as_ref().map(Source::ClusterApi),
            self.cluster_profiles.as_ref().map(Source::ClusterProfiles),
            self.kind.as_ref().map(Source::Kind),
            self.namespaces.as_ref().map(Source::Namespaces),
            self.kcp.as_ref().map(Source::Kcp),
            self.none.as_ref().map(|_| Source::None),
        ]
        .into_iter()
        .flatten()
        .collect();
        match given[..] {
            [source] => Ok(source),
            [] => {
                let message = format!(
                    "no source of clusters: give one of {}",
                    Source::NAMES.join(", ")
                );
                Err(Refusal::new("spec", message))
            }
            [first, second, ..] => {
                let message = format!(
                    "{} and {} are both given: a Provider has one source, make two documents of it",
                    first.name(),
                    second.name()
                );
                Err(Refusal::new("spec", message))
            }
        }
    }

    /// Whether it says that it has no clusters.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.source(), Ok(Source::None))
    }

    /// Whether its clusters are workspaces of kcp.
    pub(crate) fn is_kcp(&self) -> bool {
        matches!(self.source(), Ok(Source::Kcp(_)))
    }

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self, origin: Origin) -> Result<(), Refusal> {
        Class::check_in(self.class.as_ref(), origin)?;
        if origin == Origin::Cluster && self.exec.is_some() {
            let message = "it is for kubeconfigs in files only: leave it out";
            return Err(Refusal::new("spec.exec", message));
        }
        if let Some(prefix) = &self.prefix {
            check_prefix(prefix)?;
        }
        let source = self.source()?;
        source.check(origin)?;
        if self.on_server_change == OnServerChange::Stop && matches!(source, Source::Kcp(_)) {
            let message = "work in a workspace of kcp always goes on until its new caches are filled: leave it out";
            return Err(Refusal::new("spec.onServerChange", message));
        }
        self.check_trust()
    }
}

/// Refuses a prefix that no name of a cluster can begin with, or that does not end where its `#` is.
fn check_prefix(prefix: &str) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::new("spec.prefix", message));
    if prefix.is_empty() {
        return refuse("it is empty: leave it out for no prefix".to_owned());
    }
    if prefix.contains('#') {
        return refuse(format!(
            "{prefix:?} has a #, which is put behind it anyway: leave it out"
        ));
    }
    // The name needs at least one character more.
    let shortest = ClusterName::new(format!("{prefix}#x"));
    shortest.map_or_else(|error| refuse(error.to_string()), |_| Ok(()))
}
