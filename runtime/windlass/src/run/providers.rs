//! Starts, replaces and removes providers as their documents ask. Entry point: [`Providers::apply`].

use crate::config::clusters;
use crate::config::document::Problem;
use crate::config::kinds::{Kind, ProviderSpec, Source};
use crate::config::load::{Configuration, Document};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_fleet::engage::Engage;
use windlass_fleet::file;
use windlass_fleet::manager::ManagerHandle;
use windlass_fleet::provider::kubeconfig_files::LARGEST;
use windlass_fleet::provider::{self, Provider, ProviderError};

/// The provider that stands for those of a local cluster that has not been read. No document has such a name.
const UNREAD: &str = "the local cluster";

/// The providers of the documents, by name.
#[derive(Default)]
pub(super) struct Providers {
    by_name: BTreeMap<String, Applied>,
    /// Whether [`Self::hold`] is in effect.
    holds: bool,
}

/// A document that was applied.
struct Applied {
    /// The inputs of the last attempt.
    inputs: Inputs,
    /// Whether a provider runs, of this attempt or of an earlier one.
    runs: bool,
    /// Why the last attempt failed.
    problem: Option<Problem>,
}

/// Everything that a provider is made from. It is replaced when this changes.
#[derive(PartialEq)]
struct Inputs {
    document: Document,
    /// The kubeconfig of a `single`, which reads it once. `kubeconfigFiles` watches its files itself.
    kubeconfig: Option<Vec<u8>>,
}

impl Providers {
    /// Until the local cluster has been read: a provider without clusters, unless files have one. Without any, reconcilers would engage the
    /// local cluster.
    pub(super) fn hold(&mut self, manager: &ManagerHandle, configuration: &Configuration) {
        if configuration.has(Kind::Provider) {
            return;
        }
        let message = "its Providers have not been read yet".to_owned();
        self.holds = manager.put_provider(Unusable::of(UNREAD, message)).is_ok();
    }

    /// Ends [`Self::hold`], once the Providers that were read are applied.
    pub(super) fn release(&mut self, manager: &ManagerHandle) {
        if std::mem::take(&mut self.holds) {
            manager.remove_provider(UNREAD);
        }
    }

    /// Starts, replaces and removes providers as the documents ask. Returns the problems.
    pub(super) fn apply(
        &mut self,
        manager: &ManagerHandle,
        configuration: &Configuration,
    ) -> Vec<Problem> {
        let wanted: BTreeSet<&str> = configuration
            .providers()
            .map(|(document, _)| document.identity.name.as_str())
            .collect();
        self.by_name.retain(|name, _| {
            let stays = wanted.contains(name.as_str());
            if !stays {
                manager.remove_provider(name);
                tracing::info!(provider = name, "provider removed");
            }
            stays
        });
        for (document, spec) in configuration.providers() {
            self.put(manager, document, spec);
        }
        let problems = self.by_name.values();
        problems
            .filter_map(|applied| applied.problem.clone())
            .collect()
    }

    fn put(&mut self, manager: &ManagerHandle, document: &Document, spec: &ProviderSpec) {
        let name = &document.identity.name;
        let inputs = Inputs {
            document: document.clone(),
            kubeconfig: kubeconfig(document, spec).and_then(|path| file::read(&path, LARGEST).ok()),
        };
        let before = self.by_name.get(name);
        if before.is_some_and(|applied| applied.inputs == inputs) {
            return;
        }
        let ran = before.is_some_and(|applied| applied.runs);
        let (provider, problem) = match clusters::provider(document, spec) {
            Ok(provider) => (Some(provider), None),
            // Without any provider, reconcilers would engage the local cluster. So one without clusters takes the place.
            Err(problem) if !ran => (Some(Unusable::in_place_of(name, &problem)), Some(problem)),
            Err(problem) => (None, Some(problem)),
        };
        let runs = ran || problem.is_none();
        if let Some(provider) = provider
            && manager.put_provider(provider).is_ok()
            && problem.is_none()
        {
            tracing::info!(
                provider = name,
                replaced = before.is_some(),
                "provider started"
            );
        }
        let applied = Applied {
            inputs,
            runs,
            problem,
        };
        self.by_name.insert(name.clone(), applied);
    }

    /// Files of providers that the providers do not watch themselves.
    pub(super) fn files(configuration: &Configuration) -> BTreeSet<PathBuf> {
        let providers = configuration.providers();
        providers
            .filter_map(|(document, spec)| kubeconfig(document, spec))
            .collect()
    }
}

/// The kubeconfig of a `single`.
fn kubeconfig(document: &Document, spec: &ProviderSpec) -> Option<PathBuf> {
    match spec.source() {
        Ok(Source::Single(single)) => Some(document.resolve(&single.kubeconfig)),
        _ => None,
    }
}

/// Takes the place of a provider that cannot start: it has no clusters and reports why.
struct Unusable {
    name: String,
    problem: provider::Problem,
}

impl Unusable {
    fn in_place_of(name: &str, problem: &Problem) -> Arc<dyn Provider> {
        Self::of(name, problem.to_string())
    }

    fn of(name: &str, message: String) -> Arc<dyn Provider> {
        Arc::new(Self {
            name: name.to_owned(),
            problem: provider::Problem {
                subject: name.to_owned(),
                message,
            },
        })
    }
}

impl Provider for Unusable {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        _: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            stop.cancelled().await;
            Ok(())
        })
    }

    fn problems(&self) -> Vec<provider::Problem> {
        vec![self.problem.clone()]
    }
}
