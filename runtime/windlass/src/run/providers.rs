//! Starts, replaces and removes providers as their documents ask. Entry point: [`Providers::apply`].

use super::Rehearsal;
use crate::config::clusters;
use crate::config::kinds::{Kind, ProviderSpec, Source};
use crate::config::load::{Configuration, Document, Merged};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use windlass_files::Problem;
use windlass_fleet::engage::Engage;
use windlass_fleet::file;
use windlass_fleet::manager::ManagerHandle;
use windlass_fleet::provider::kubeconfig_files::LARGEST;
use windlass_fleet::provider::selected::{Selected, Selection};
use windlass_fleet::provider::{self, Provider, ProviderError};

/// The provider that stands for those of a local cluster that has not been read. No document has such a name.
const UNREAD: &str = "the local cluster";
/// The provider that stands for documents that are not valid. No document has such a name.
const REFUSED: &str = "a document that is not valid";

/// The providers of the documents, by name.
#[derive(Default)]
pub(super) struct Providers {
    by_name: BTreeMap<String, Applied>,
    /// [`UNREAD`] and [`REFUSED`], as far as they run, with what they report.
    unknown: BTreeMap<&'static str, String>,
    /// Whether reconcilers engage the local cluster by default, for lack of any provider.
    is_local: bool,
    /// The clusters that take part in a rehearsal; none: it is no rehearsal.
    selection: Option<Selection>,
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
    /// No providers yet.
    pub(super) fn of(rehearsal: Option<&Arc<Rehearsal>>) -> Self {
        Self {
            selection: rehearsal.map(|rehearsal| rehearsal.selection.clone()),
            ..Self::default()
        }
    }

    /// Starts, replaces and removes providers as the documents ask. `unread`: the objects of the local cluster count too, and have not been
    /// read. Returns the problems.
    pub(super) fn apply(
        &mut self,
        manager: &ManagerHandle,
        documents: &Merged,
        unread: bool,
    ) -> Vec<Problem> {
        let configuration = &documents.configuration;
        let unknown = self.unknown(documents, unread);
        for (name, message) in &unknown {
            if self.unknown.get(name) != Some(message) {
                // It fails only while the process ends.
                let _ = manager.put_provider(Unusable::of(name, message.clone()));
            }
        }
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
        for name in self.unknown.keys() {
            if !unknown.contains_key(name) {
                manager.remove_provider(name);
            }
        }
        self.unknown = unknown;
        self.is_local = !configuration.has_provider() && self.unknown.is_empty();
        let problems = self.by_name.values();
        problems
            .filter_map(|applied| applied.problem.clone())
            .collect()
    }

    /// Providers without clusters for those that are not known, with the reasons. Without any provider, reconcilers would begin with the local
    /// cluster. Where they work there already, they go on.
    fn unknown(&self, documents: &Merged, unread: bool) -> BTreeMap<&'static str, String> {
        let configuration = &documents.configuration;
        let mut unknown = BTreeMap::new();
        if self.is_local {
            return unknown;
        }
        if unread && !configuration.has(Kind::Provider) {
            let message = "its Providers have not been read yet".to_owned();
            unknown.insert(UNREAD, message);
        }
        if let Some(bad) = documents.left_out(Kind::Provider)
            && !configuration.has_provider()
        {
            unknown.insert(REFUSED, bad.problem.to_string());
        }
        unknown
    }

    /// The problems of providers that run as an earlier version of their document asks.
    pub(super) fn kept(&self) -> impl Iterator<Item = Problem> {
        let kept = self.by_name.values().filter(|applied| applied.runs);
        kept.filter_map(|applied| applied.problem.clone())
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
            Ok(provider) => (Some(self.selected(provider)), None),
            // Without any provider, reconcilers would engage the local cluster. So one without clusters takes the place.
            Err(problem) if !ran => (Some(Unusable::of(name, problem.to_string())), Some(problem)),
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

    /// Those of its clusters that take part.
    fn selected(&self, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.selection {
            Some(selection) => Arc::new(Selected::new(provider, selection.clone())),
            None => provider,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::{load, merge};
    use std::fs;
    use windlass_fleet::manager::Manager;

    const MANAGER: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: m}\n";

    fn provider(spec: &str) -> String {
        format!(
            "{MANAGER}---\napiVersion: windlass.dev/v1alpha1\nkind: Provider\nmetadata: {{name: fleet}}\nspec: {spec}\n"
        )
    }

    /// The providers that run after each of these texts of a file. `None`: reconcilers engage the local cluster by default.
    fn running(texts: &[&str]) -> Vec<Option<Vec<String>>> {
        let bound = Manager::builder().build().unwrap().bind();
        let manager = bound.handle();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windlass.yaml");
        let (mut providers, mut last) = (Providers::default(), Configuration::default());
        let mut apply = |text: &&str| {
            fs::write(&file, text).unwrap();
            let merged = merge(&last, &load(std::slice::from_ref(&file)));
            providers.apply(&manager, &merged, false);
            last = merged.configuration;
            let names = manager.providers().into_iter().map(|status| status.name);
            Some(names.collect()).filter(|_| !providers.is_local)
        };
        texts.iter().map(&mut apply).collect()
    }

    #[tokio::test]
    async fn the_local_cluster_does_not_take_the_place_of_a_provider_that_is_refused() {
        let (good, bad) = (provider("{kubeconfigFiles: {paths: [a]}}"), provider("{}"));
        let only = |name: &str| Some(vec![name.to_owned()]);
        // It was refused from the start on, then corrected, and removed.
        assert_eq!(
            running(&[&bad, &bad, &good, MANAGER]),
            [only(REFUSED), only(REFUSED), only("fleet"), None]
        );
        // What cannot be read may be a Provider.
        assert_eq!(
            running(&[&format!("{MANAGER}---\na: ["), MANAGER]),
            [only(REFUSED), None]
        );
        // Another one takes the place of one that was good.
        let other = bad.replace("name: fleet", "name: other");
        assert_eq!(running(&[&good, &other]), [only("fleet"), only(REFUSED)]);
        // A bad document does not end what works in the local cluster.
        assert_eq!(running(&[MANAGER, &bad]), [None, None]);
        // It is as in effect as before.
        assert_eq!(running(&[&good, &bad]), [only("fleet"), only("fleet")]);
    }
}
