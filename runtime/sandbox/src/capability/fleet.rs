//! The interface `fleet`: clusters other than the request's. Linked only for guests whose rules name clusters.

use crate::contract::handle::{ClusterHandle, Reach, Refused};
use crate::contract::windlass::runtime::client::{Operation, Reply};
use crate::contract::windlass::runtime::fleet as wit;
use crate::contract::windlass::runtime::types::ApiError as WitApiError;
use crate::instance::call::{Call, FleetView, Purpose};
use std::sync::Arc;
use wasmtime::component::Resource;
use windlass_fleet::api::ApiError;
use windlass_fleet::breaks::Breaks;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::{ApiCode, Client, Cluster, ClusterName, Context};

impl wit::Host for Call {
    async fn clusters(
        &mut self,
        label_selector: Option<String>,
    ) -> Result<Vec<wit::ClusterInfo>, Refused> {
        self.spend(1)?;
        let view = self.view()?;
        let selector = LabelSelector::parse(label_selector.as_deref().unwrap_or_default());
        let selector =
            selector.map_err(|error| ApiError::host(ApiCode::Invalid, error.to_string()))?;
        let budget = self.answer_budget();
        let mut infos = Vec::new();
        let mut breaks = Breaks::begin();
        for cluster in view.fleet.clusters() {
            if self.opens(&view.cluster, &cluster) && selector.matches(&cluster.labels()) {
                // A guest that needs the local one opens it.
                if !cluster.name().is_local() {
                    self.guest.note_cluster(&view.cluster, &cluster);
                }
                infos.push(budget.cluster(info(&cluster))?);
            }
            breaks.check().await;
        }
        Ok(infos)
    }

    fn open(&mut self, name: String) -> Result<Resource<ClusterHandle>, Refused> {
        self.spend(1)?;
        let client = self.other(&name)?;
        Ok(self.give(ClusterHandle::new(client, Reach::Everything))?)
    }

    async fn batch(
        &mut self,
        operations: Vec<(String, Operation)>,
    ) -> wasmtime::Result<Vec<Result<Reply, WitApiError>>> {
        if let Some(refusal) = self.refuse_batch(operations.len(), Reach::Everything) {
            return Ok(operations
                .iter()
                .map(|_| Err(refusal.clone().into()))
                .collect());
        }
        let operations: Vec<_> = operations
            .into_iter()
            .map(|(name, operation)| (self.other(&name), self.operation(operation)))
            .collect();
        let passage = self.passage();
        self.answer_budget().batch(operations, passage).await
    }
}

impl Call {
    /// The fleet, for reading: a mapper may list clusters, so that it can request objects of others.
    fn view(&self) -> Result<FleetView, ApiError> {
        match &self.purpose {
            Purpose::Map(view) => Ok(view.clone()),
            _ => self.reconciling().map(|context| FleetView {
                cluster: context.cluster().clone(),
                fleet: context.fleet().clone(),
            }),
        }
    }

    pub(super) fn reconciling(&self) -> Result<&Context, ApiError> {
        match &self.purpose {
            Purpose::Reconcile(context) => Ok(context),
            Purpose::Describe | Purpose::Play | Purpose::Idle => Err(ApiError::host(
                ApiCode::Denied,
                "describe reaches no cluster: do this in reconcile",
            )),
            Purpose::Map(_) => Err(ApiError::host(
                ApiCode::Denied,
                "a mapper reaches the cluster it is given alone: do this in reconcile",
            )),
        }
    }

    fn opens(&self, from: &Arc<Cluster>, cluster: &Arc<Cluster>) -> bool {
        let own = Arc::ptr_eq(cluster, from);
        let labels = cluster.labels();
        self.guest.grant().reaches(&cluster.facts(&labels, own))
    }

    /// A client for a cluster by name. One that no rule opens is denied whether it exists or not, in the same words.
    fn other(&self, name: &str) -> Result<Client, ApiError> {
        let context = self.reconciling()?;
        let grant = &self.guest.grant();
        let Ok(known) = ClusterName::new(name) else {
            return Err(self.denied(name));
        };
        match context.fleet().cluster(&known) {
            Some(cluster) if self.opens(context.cluster(), &cluster) => {
                self.guest.note_cluster(context.cluster(), &cluster);
                let client = context.client_for(&cluster, grant);
                Ok(client.with_policy(self.guest.clone()))
            }
            None if grant.reaches_by_name(&known) => Err(ApiError::host(
                ApiCode::ClusterGone,
                format!("no cluster {name:?} is in the fleet"),
            )),
            _ => Err(self.denied(name)),
        }
    }

    /// A denial of a cluster. It is audited as the denial of a call is.
    fn denied(&self, name: &str) -> ApiError {
        let name: String = name.chars().take(ClusterName::MAX).collect();
        let clusters = if name.is_empty() {
            "local: true".to_owned()
        } else {
            format!("names: [{name:?}]")
        };
        let reason =
            format!("no rule opens a cluster {name:?}: add clusters: {{{clusters}}} to a rule");
        self.guest.history.denials.add(&reason);
        ApiError::host(ApiCode::Denied, reason)
    }
}

fn info(cluster: &Cluster) -> wit::ClusterInfo {
    wit::ClusterInfo {
        name: cluster.name().to_string(),
        labels: cluster.labels().to_map().into_iter().collect(),
        properties: cluster.properties().to_map().into_iter().collect(),
        ready: cluster.is_usable(),
    }
}
