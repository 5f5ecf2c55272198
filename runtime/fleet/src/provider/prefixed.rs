//! Another provider's clusters under names with a prefix, so that several providers may use the same names. Entry point:
//! [`Prefixed::new`].

use super::{Problem, Provider, ProviderError};
use crate::cluster::ClusterConfig;
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::hub::{Hub, HubError};
use crate::name::{ClusterName, NameError};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Between the prefix and the name.
const SEPARATOR: char = '#';

/// Provides another provider's clusters as `<prefix>#<name>`, and reports its problems under subjects with the prefix.
pub struct Prefixed {
    prefix: Prefix,
    provider: Arc<dyn Provider>,
}

impl Prefixed {
    /// Puts a prefix before the names of a provider's clusters. A name that the prefix makes unusable is refused when the provider
    /// engages it.
    #[must_use]
    pub fn new(prefix: impl Into<String>, provider: Arc<dyn Provider>) -> Self {
        Self {
            prefix: Prefix(Arc::from(prefix.into())),
            provider,
        }
    }
}

impl Provider for Prefixed {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        let engage = PrefixedEngage {
            prefix: self.prefix.clone(),
            engage,
        };
        self.provider.clone().run(Arc::new(engage), stop)
    }

    fn problems(&self) -> Vec<Problem> {
        let problems = self.provider.problems().into_iter();
        let prefixed = problems.map(|problem| Problem {
            subject: self.prefix.before(&problem.subject),
            message: problem.message,
        });
        prefixed.collect()
    }

    fn provides_clusters(&self) -> bool {
        self.provider.provides_clusters()
    }
}

#[derive(Clone)]
struct Prefix(Arc<str>);

impl Prefix {
    fn before(&self, text: &str) -> String {
        format!("{}{SEPARATOR}{text}", self.0)
    }

    fn name(&self, name: &ClusterName) -> Result<ClusterName, NameError> {
        ClusterName::new(self.before(name.as_str()))
    }
}

/// Engages clusters under names with the prefix.
struct PrefixedEngage {
    prefix: Prefix,
    engage: Arc<dyn Engage>,
}

impl Engage for PrefixedEngage {
    fn engage(&self, mut spec: ClusterSpec) -> Result<(), EngageError> {
        if spec.name.is_local() {
            return Err(EngageError::Local);
        }
        let name = self.prefix.name(&spec.name);
        spec.name = name.map_err(|reason| EngageError::Prefix {
            prefix: self.prefix.0.to_string(),
            reason,
        })?;
        self.engage.engage(spec)
    }

    fn disengage(&self, name: &ClusterName) {
        // A name that cannot be was not engaged.
        if let Ok(name) = self.prefix.name(name) {
            self.engage.disengage(&name);
        }
    }

    fn keep(&self, name: &ClusterName) {
        // A name that cannot be was not engaged.
        if let Ok(name) = self.prefix.name(name) {
            self.engage.keep(&name);
        }
    }

    fn listed(&self) {
        self.engage.listed();
    }

    fn hub(&self, config: Option<ClusterConfig>) -> Result<Hub, HubError> {
        self.engage.hub(config)
    }

    fn freed(&self) -> BoxFuture<'_, ()> {
        self.engage.freed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::clusters::Clusters;
    use super::super::recorder::Recorder;
    use super::*;
    use crate::cluster::ClusterConfig;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    fn spec(name: &str) -> ClusterSpec {
        let config = ClusterConfig::from_url("http://127.0.0.1:1").unwrap();
        ClusterSpec::new(ClusterName::new(name).unwrap(), config)
    }

    /// Runs a provider until it has listed, and returns what it has asked for.
    async fn run(provider: Prefixed, recorder: &Arc<Recorder>) -> Vec<String> {
        let (provider, stop) = (Arc::new(provider), CancellationToken::new());
        let ended = provider.clone().run(recorder.run(), stop.clone());
        let stopped = async {
            recorder.until_listed().await;
            stop.cancel();
        };
        let both = timeout(SOON, futures::future::join(ended, stopped)).await;
        both.unwrap().0.unwrap();
        recorder.log()
    }

    #[tokio::test]
    async fn names_and_the_subjects_of_problems_get_the_prefix() {
        let clusters = Arc::new(Clusters::new("clusters"));
        for name in ["default/prod-eu", "taken"] {
            clusters.put(spec(name));
        }
        let recorder = Arc::new(Recorder::default());
        recorder.refuse("capi#taken");
        let prefixed = Prefixed::new("capi", clusters.clone());
        assert_eq!(prefixed.name(), "clusters");
        assert_eq!(run(prefixed, &recorder).await, ["+capi#default/prod-eu"]);
        let prefixed = Prefixed::new("capi", clusters);
        let problems = prefixed.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].subject, "capi#taken");
        assert!(problems[0].message.contains("provided by other already"));
    }

    #[tokio::test]
    async fn a_cluster_that_leaves_leaves_under_its_prefix() {
        let recorder = Arc::new(Recorder::default());
        let engage = PrefixedEngage {
            prefix: Prefix("a".into()),
            engage: recorder.run(),
        };
        engage.engage(spec("x")).unwrap();
        engage.disengage(&ClusterName::new("x").unwrap());
        assert_eq!(recorder.log(), ["+a#x", "-a#x"]);
    }

    #[tokio::test]
    async fn a_name_that_is_too_long_with_the_prefix_is_refused() {
        let engage = PrefixedEngage {
            prefix: Prefix("edge".into()),
            engage: Arc::new(Recorder::default()).run(),
        };
        let long = "x".repeat(ClusterName::MAX - 4);
        let refused = engage.engage(spec(&long)).unwrap_err();
        assert!(matches!(refused, EngageError::Prefix { .. }), "{refused}");
        assert!(refused.to_string().contains("shorten the prefix"));
        assert!(engage.engage(spec(&long[1..])).is_ok());
        let local = ClusterName::local();
        let local = ClusterSpec::new(local, spec("x").config);
        assert_eq!(engage.engage(local), Err(EngageError::Local));
    }
}
