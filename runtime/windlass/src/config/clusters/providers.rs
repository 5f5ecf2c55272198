//! Makes the provider of a document. Entry point: [`provider`].

use super::read_kubeconfig;
use crate::config::kinds::{
    ClusterApiSpec, ClusterProfilesSpec, HubSecretSpec, HubSpec, KcpSpec, KindSpec,
    KubeconfigFilesSpec, KubeconfigSecretsSpec, NamespacesSpec, ProviderSpec, ReadySpec, Refusal,
    SingleSpec, Source,
};
use crate::config::load::Document;
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_files::Problem;
use windlass_fleet::ClusterName;
use windlass_fleet::engage::{ClusterSpec, Engage};
use windlass_fleet::kubectl;
use windlass_fleet::provider::cluster_api::{ClusterApi, ClusterApiOptions};
use windlass_fleet::provider::cluster_profiles::{ClusterProfiles, ClusterProfilesOptions};
use windlass_fleet::provider::hub_source::HubSource;
use windlass_fleet::provider::kcp::{Kcp, KcpOptions};
use windlass_fleet::provider::kind::{Kind, KindOptions};
use windlass_fleet::provider::kubeconfig_files::{KubeconfigFiles, KubeconfigFilesOptions};
use windlass_fleet::provider::kubeconfig_secrets::{KubeconfigSecrets, KubeconfigSecretsOptions};
use windlass_fleet::provider::namespaces::{Namespaces, NamespacesOptions};
use windlass_fleet::provider::none::NoClusters;
use windlass_fleet::provider::prefixed::Prefixed;
use windlass_fleet::provider::single::Single;
use windlass_fleet::provider::{Provider, ProviderError};
use windlass_fleet::selector::LabelSelector;

/// Makes the provider of a document.
///
/// # Errors
/// When the kubeconfig of a `single` cannot be used. Files and hubs of other sources are watched, and may be bad or absent.
pub(crate) fn provider(
    document: &Document,
    spec: &ProviderSpec,
) -> Result<Arc<dyn Provider>, Problem> {
    let making = Making { document, spec };
    let provider: Arc<dyn Provider> = match making.honour(spec.source())? {
        Source::KubeconfigFiles(files) => making.kubeconfig_files(files)?,
        Source::Single(single) => making.single(single)?,
        Source::KubeconfigSecret(secret) => Arc::new(making.kubeconfig_secret(secret)?),
        Source::KubeconfigSecrets(secrets) => Arc::new(making.kubeconfig_secrets(secrets)?),
        Source::ClusterApi(clusters) => Arc::new(making.cluster_api(clusters)?),
        Source::ClusterProfiles(profiles) => Arc::new(making.cluster_profiles(profiles)?),
        Source::Kind(kind) => Arc::new(making.kind(kind)),
        Source::Namespaces(namespaces) => Arc::new(making.namespaces(namespaces)?),
        Source::Kcp(kcp) => Arc::new(making.kcp(kcp)?),
        Source::None => Arc::new(NoClusters::new(making.name())),
    };
    Ok(match &spec.prefix {
        Some(prefix) => Arc::new(Prefixed::new(prefix, provider)),
        None => provider,
    })
}

/// A document whose provider is being made.
struct Making<'a> {
    document: &'a Document,
    spec: &'a ProviderSpec,
}

impl Making<'_> {
    fn name(&self) -> &str {
        &self.document.identity.name
    }

    /// A checked document is not refused any more.
    fn honour<T>(&self, result: Result<T, Refusal>) -> Result<T, Problem> {
        result.map_err(|refusal| self.document.problem(refusal.message))
    }

    fn selector(&self, text: Option<&str>) -> Result<Option<LabelSelector>, Problem> {
        let parsed = text.map(LabelSelector::parse).transpose();
        parsed.map_err(|error| self.document.problem(error))
    }

    fn single(&self, single: &SingleSpec) -> Result<Arc<dyn Provider>, Problem> {
        let config = read_kubeconfig(
            self.document,
            &single.kubeconfig,
            single.context.as_deref(),
            &self.spec.file_policy(),
        )?;
        let name = ClusterName::new(self.name()).map_err(|error| self.document.problem(error))?;
        let cluster = ClusterSpec {
            on_server_change: self.spec.on_server_change.engine(),
            ..ClusterSpec::new(name, config)
        };
        Ok(Named::wrap(self.name(), Arc::new(Single::new(cluster))))
    }

    fn kubeconfig_files(&self, files: &KubeconfigFilesSpec) -> Result<Arc<dyn Provider>, Problem> {
        let (base, paths) = match &files.paths {
            Some(paths) => (self.document.resolve(Path::new(".")), paths.clone()),
            // Those of a relative list start from the process's folder, as kubectl's do.
            None => (PathBuf::new(), kubectl::files()),
        };
        let options = KubeconfigFilesOptions {
            base,
            paths,
            merged: files.paths.is_none(),
            globs: files.globs.clone(),
            name: self.honour(files.name())?,
            labels: files.labels(),
            exec: self.spec.file_policy().exec,
            on_server_change: self.spec.on_server_change.engine(),
        };
        let provider = KubeconfigFiles::new(options);
        Ok(Named::wrap(self.name(), Arc::new(provider)))
    }

    fn kubeconfig_secret(&self, secret: &HubSecretSpec) -> Result<KubeconfigSecrets, Problem> {
        let name = ClusterName::new(self.name()).map_err(|error| self.document.problem(error))?;
        let key = secret.key.as_deref();
        let options = KubeconfigSecretsOptions {
            namespaces: [secret.namespace.clone()].into(),
            label_selector: LabelSelector::default(),
            only: Some((secret.name.clone(), name)),
            key: key.unwrap_or(HubSource::SECRET_KEY).to_owned(),
            context: secret.context.clone(),
            policy: self.honour(self.spec.object_policy())?,
            on_server_change: self.spec.on_server_change.engine(),
            ..KubeconfigSecretsOptions::default()
        };
        Ok(KubeconfigSecrets::new(self.name(), options))
    }

    fn kubeconfig_secrets(
        &self,
        from: &KubeconfigSecretsSpec,
    ) -> Result<KubeconfigSecrets, Problem> {
        let default = KubeconfigSecretsOptions::default();
        let selector = self.selector(from.selector.as_deref())?;
        let options = KubeconfigSecretsOptions {
            from: self.hub(from.from.as_ref())?,
            namespaces: from.namespaces.iter().flatten().cloned().collect(),
            label_selector: selector.unwrap_or(default.label_selector),
            key: from.key.clone().unwrap_or(default.key),
            context: from.context.clone(),
            policy: self.honour(self.spec.object_policy())?,
            on_server_change: self.spec.on_server_change.engine(),
            only: None,
        };
        Ok(KubeconfigSecrets::new(self.name(), options))
    }

    fn cluster_api(&self, from: &ClusterApiSpec) -> Result<ClusterApi, Problem> {
        let options = ClusterApiOptions {
            from: self.hub(from.from.as_ref())?,
            namespaces: from.namespaces.iter().flatten().cloned().collect(),
            label_selector: self.selector(from.selector.as_deref())?.unwrap_or_default(),
            ready: ReadySpec::engine(from.ready.as_ref()),
            on_unready: from.on_unready.engine(),
            policy: self.honour(self.spec.object_policy())?,
            on_server_change: self.spec.on_server_change.engine(),
        };
        Ok(ClusterApi::new(self.name(), options))
    }

    fn cluster_profiles(&self, from: &ClusterProfilesSpec) -> Result<ClusterProfiles, Problem> {
        let options = ClusterProfilesOptions {
            from: self.hub(from.from.as_ref())?,
            namespaces: from.namespaces.iter().flatten().cloned().collect(),
            label_selector: self.selector(from.selector.as_deref())?.unwrap_or_default(),
            ready: ReadySpec::engine(from.ready.as_ref()),
            on_unready: from.on_unready.engine(),
            access: self.honour(from.access(self.document.folder()))?,
            policy: self.honour(self.spec.object_policy())?,
            on_server_change: self.spec.on_server_change.engine(),
        };
        Ok(ClusterProfiles::new(self.name(), options))
    }

    fn kind(&self, from: &KindSpec) -> Kind {
        let default = KindOptions::default();
        let program = from.program.as_deref();
        let options = KindOptions {
            program: program.map_or(default.program, |program| self.program(program)),
            name_prefix: from.name_prefix.clone().unwrap_or(default.name_prefix),
        };
        Kind::new(self.name(), options)
    }

    /// A program: a name is looked for on the PATH, a path starts from the document's folder.
    fn program(&self, program: &Path) -> PathBuf {
        match program.components().count() {
            1 => program.to_owned(),
            _ => self.document.resolve(program),
        }
    }

    fn namespaces(&self, from: &NamespacesSpec) -> Result<Namespaces, Problem> {
        let options = NamespacesOptions {
            from: self.hub(from.from.as_ref())?,
            label_selector: self.selector(from.selector.as_deref())?.unwrap_or_default(),
            on_server_change: self.spec.on_server_change.engine(),
        };
        Ok(Namespaces::new(self.name(), options))
    }

    fn kcp(&self, from: &KcpSpec) -> Result<Kcp, Problem> {
        let allow_servers = match &self.spec.allow_servers {
            Some(_) => Some(self.honour(self.spec.object_policy())?.allow_servers),
            None => None,
        };
        let options = KcpOptions {
            from: self.hub(from.from.as_ref())?,
            workspaces: self.honour(from.workspaces())?,
            names: from.names.engine(),
            allow_servers,
        };
        Ok(Kcp::new(self.name(), options))
    }

    /// The cluster that a source reads: the local one, or the one that it names.
    fn hub(&self, from: Option<&HubSpec>) -> Result<HubSource, Problem> {
        let Some(from) = from else {
            return Ok(HubSource::Local);
        };
        if let Some(path) = &from.kubeconfig {
            return Ok(HubSource::Kubeconfig {
                path: self.document.resolve(path),
                context: from.context.clone(),
                policy: self.spec.file_policy(),
            });
        }
        // A checked document names one of the two.
        let Some(secret) = &from.kubeconfig_secret else {
            return Ok(HubSource::Local);
        };
        let key = secret.key.as_deref();
        Ok(HubSource::Secret {
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
            key: key.unwrap_or(HubSource::SECRET_KEY).to_owned(),
            context: secret.context.clone(),
            policy: self.honour(self.spec.object_policy())?,
        })
    }
}

/// A provider with the name of its document.
struct Named {
    name: String,
    provider: Arc<dyn Provider>,
}

impl Named {
    fn wrap(name: &str, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(Self {
            name: name.to_owned(),
            provider,
        })
    }
}

impl Provider for Named {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        self.provider.clone().run(engage, stop)
    }

    fn problems(&self) -> Vec<windlass_fleet::provider::Problem> {
        self.provider.problems()
    }

    fn provides_clusters(&self) -> bool {
        self.provider.provides_clusters()
    }
}
