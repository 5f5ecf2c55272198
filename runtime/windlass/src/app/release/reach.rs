//! Where a reconciler may have put finalizers, by its rules. Entry point: [`Reach::of`].

use crate::app::App;
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::{Configuration, Document};
use crate::guests::{ControllerPolicy, TenantPolicy};
use std::sync::Arc;
use windlass_fleet::grant::Namespaces;
use windlass_fleet::source::ClusterSelection;
use windlass_fleet::{Cluster, ClusterName, ControllerName, Grant, Resource, TenantName};

/// The objects that a reconciler may write.
pub(crate) struct Reach {
    grant: Arc<Grant>,
    clusters: ClusterSelection,
    /// Whether it works in the local cluster.
    in_local: bool,
}

impl Reach {
    /// Of a Reconciler under a configuration.
    ///
    /// # Errors
    /// Why the document cannot be read, which a checked one excludes.
    pub(super) fn of(
        app: &App,
        configuration: &Configuration,
        (tenant, name): (&TenantName, &ControllerName),
        document: &Document,
        spec: &ReconcilerSpec,
    ) -> Result<Self, String> {
        let policy = TenantPolicy::in_effect(configuration, spec.tenant(), document.origin);
        let policy = ControllerPolicy::of(spec, &policy).map_err(|error| error.to_string())?;
        // A watch of a guest may ask for it too.
        let works = app.manager.engages(tenant, name, &ClusterName::local());
        let is_asked = policy
            .clusters
            .local
            .unwrap_or(!configuration.has_provider());
        Ok(Self {
            grant: policy.rights.grant,
            clusters: policy.clusters,
            in_local: works || is_asked,
        })
    }

    /// The namespaces of a cluster in which it may write objects of a kind.
    pub(super) fn namespaces(&self, cluster: &Cluster, resource: &Resource) -> Namespaces {
        let labels = cluster.labels();
        let is_own = if cluster.name().is_local() {
            self.in_local
        } else {
            self.clusters.only.admits(cluster)
        };
        let facts = cluster.facts(&labels, is_own);
        let kind = &resource.kind;
        self.grant.writes(&facts, &kind.group, &resource.plural)
    }
}
