//! Some of another provider's clusters. Entry point: [`Selected::new`].

use super::{Problem, Provider, ProviderError};
use crate::cluster::ClusterConfig;
use crate::engage::{ClusterSpec, Engage, EngageError};
use crate::hub::{Hub, HubError};
use crate::name::ClusterName;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Whether a cluster is provided. Asked each time that the other provider engages it.
pub type Selection = Arc<dyn Fn(&ClusterSpec) -> bool + Send + Sync>;

/// Provides those clusters of another provider that a selection takes.
pub struct Selected {
    takes: Selection,
    provider: Arc<dyn Provider>,
}

impl Selected {
    /// Leaves out the clusters that `takes` does not take.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, takes: Selection) -> Self {
        Self { takes, provider }
    }
}

impl Provider for Selected {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        let takes = self.takes.clone();
        let engage = SelectedEngage { takes, engage };
        self.provider.clone().run(Arc::new(engage), stop)
    }

    fn problems(&self) -> Vec<Problem> {
        self.provider.problems()
    }

    fn provides_clusters(&self) -> bool {
        self.provider.provides_clusters()
    }
}

struct SelectedEngage {
    takes: Selection,
    engage: Arc<dyn Engage>,
}

impl Engage for SelectedEngage {
    fn engage(&self, spec: ClusterSpec) -> Result<(), EngageError> {
        if (self.takes)(&spec) {
            return self.engage.engage(spec);
        }
        // Its labels may have been others.
        self.engage.disengage(&spec.name);
        Ok(())
    }

    fn disengage(&self, name: &ClusterName) {
        self.engage.disengage(name);
    }

    fn keep(&self, name: &ClusterName) {
        self.engage.keep(name);
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
    use std::time::Duration;

    #[tokio::test]
    async fn clusters_that_are_not_taken_are_never_engaged() {
        let clusters = Arc::new(Clusters::new("all"));
        for name in ["alpha", "beta"] {
            let config = ClusterConfig::from_url("http://127.0.0.1:1").unwrap();
            clusters.put(ClusterSpec::new(ClusterName::new(name).unwrap(), config));
        }
        let takes: Selection = Arc::new(|spec| spec.name.as_str() == "beta");
        let (recorder, stop) = (Arc::new(Recorder::default()), CancellationToken::new());
        let run = Arc::new(Selected::new(clusters, takes)).run(recorder.run(), stop.clone());
        let stopped = async {
            recorder.until_listed().await;
            stop.cancel();
        };
        let both = futures::future::join(run, stopped);
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        both.unwrap().0.unwrap();
        assert_eq!(recorder.names(), ["beta"]);
    }
}
