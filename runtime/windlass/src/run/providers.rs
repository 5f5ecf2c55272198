//! Providers as their documents ask for them, at the start and when the documents change. Entry point: [`Providers::apply`].

use crate::config::clusters;
use crate::config::document::Problem;
use crate::config::kinds::{ProviderSpec, Source};
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

/// The providers of the documents, by name.
#[derive(Default)]
pub(super) struct Providers {
    slots: BTreeMap<String, Slot>,
}

/// A provider that a document asks for.
struct Slot {
    /// What was tried last.
    recipe: Recipe,
    /// Whether anything runs that finds clusters.
    runs: bool,
    /// Why what was tried last does not run; what ran before it goes on.
    problem: Option<Problem>,
}

/// What a provider is made of: when this changes, it is made anew.
#[derive(PartialEq)]
struct Recipe {
    document: Document,
    /// The kubeconfig of a `single`, which is read once. Those of `kubeconfigFiles` are watched by the provider itself.
    kubeconfig: Option<Vec<u8>>,
}

impl Providers {
    /// Starts, replaces and removes providers until they are as the documents ask. Returns what is not.
    pub(super) fn apply(
        &mut self,
        manager: &ManagerHandle,
        configuration: &Configuration,
    ) -> Vec<Problem> {
        let wanted: BTreeSet<&str> = configuration
            .providers()
            .map(|(document, _)| document.identity.name.as_str())
            .collect();
        self.slots.retain(|name, _| {
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
        let problems = self.slots.values();
        problems.filter_map(|slot| slot.problem.clone()).collect()
    }

    fn put(&mut self, manager: &ManagerHandle, document: &Document, spec: &ProviderSpec) {
        let name = &document.identity.name;
        let recipe = Recipe {
            document: document.clone(),
            kubeconfig: kubeconfig(document, spec).and_then(|path| file::read(&path, LARGEST).ok()),
        };
        let before = self.slots.get(name);
        if before.is_some_and(|slot| slot.recipe == recipe) {
            return;
        }
        let ran = before.is_some_and(|slot| slot.runs);
        let (provider, problem) = match clusters::provider(document, spec) {
            Ok(provider) => (Some(provider), None),
            // Something must stand for it: without any provider reconcilers would turn to the local cluster.
            Err(problem) if !ran => (Some(Unusable::instead(name, &problem)), Some(problem)),
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
        let slot = Slot {
            recipe,
            runs,
            problem,
        };
        self.slots.insert(name.clone(), slot);
    }

    /// Files that providers are made of, and that they do not watch themselves.
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

/// Stands for a provider that cannot be made: knows no cluster, and says why.
struct Unusable {
    name: String,
    problem: provider::Problem,
}

impl Unusable {
    fn instead(name: &str, problem: &Problem) -> Arc<dyn Provider> {
        Arc::new(Self {
            name: name.to_owned(),
            problem: provider::Problem {
                subject: name.to_owned(),
                message: problem.to_string(),
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
