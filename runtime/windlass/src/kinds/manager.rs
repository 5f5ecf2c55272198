//! Kind `Manager`: the process. Entry point: [`ManagerSpec`].

use crate::kinds::leader_election::LeaderElectionSpec;
use crate::kinds::{Interval, Refusal, at_least_one};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// What the process itself is asked for. The document may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ManagerSpec {
    /// The local (hub) cluster. Default: the cluster that this process runs in, if it runs in one, else there is none.
    pub(crate) local: Option<LocalSpec>,
    /// How much runs at once.
    pub(crate) concurrency: ConcurrencySpec,
    /// The admin endpoints.
    pub(crate) admin: AdminSpec,
    /// How long a stop waits for what is running. Default: 30s.
    pub(crate) drain_timeout: Option<Interval>,
    /// One of several processes works, the others wait.
    pub(crate) leader_election: LeaderElectionSpec,
}

/// The local cluster: `kubeconfig` or `inCluster`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct LocalSpec {
    /// A kubeconfig file, relative to the document's folder.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of `kubeconfig`. Default: its current context.
    pub(crate) context: Option<String>,
    /// The cluster that this process runs in, by its service account. Default: false.
    pub(crate) in_cluster: bool,
}

/// How many reconciles run at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ConcurrencySpec {
    /// In the whole process. Default: 64.
    pub(crate) global: Option<usize>,
    /// In one cluster. Default: a quarter of its tenant's, at least 1.
    pub(crate) per_cluster: Option<usize>,
}

/// Where state, probes and metrics are served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct AdminSpec {
    /// Address and port. Default: 127.0.0.1:8080.
    pub(crate) address: Option<String>,
}

impl ManagerSpec {
    /// Where the admin endpoints listen when nothing else is said.
    pub(crate) const DEFAULT_ADMIN: &'static str = "127.0.0.1:8080";
    /// How long a stop waits when nothing else is said.
    pub(crate) const DEFAULT_DRAIN: Interval = Interval::seconds(30);
    /// How many reconciles run at once when nothing else is said.
    pub(crate) const DEFAULT_GLOBAL: usize = 64;

    /// Refuses what cannot be honoured.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if let Some(local) = &self.local {
            local.check()?;
        }
        at_least_one("spec.concurrency.global", self.concurrency.global)?;
        at_least_one("spec.concurrency.perCluster", self.concurrency.per_cluster)?;
        if let Some(address) = &self.admin.address
            && address.parse::<SocketAddr>().is_err()
        {
            let message = format!(
                "{address:?} is not an address: write an IP and a port, for example 127.0.0.1:8080"
            );
            return Err(Refusal::new("spec.admin.address", message));
        }
        self.leader_election.check()
    }
}

impl LocalSpec {
    fn check(&self) -> Result<(), Refusal> {
        match (&self.kubeconfig, self.in_cluster) {
            (Some(_), true) => Err(Refusal::new(
                "spec.local",
                "both kubeconfig and inCluster are given: keep one of them",
            )),
            (None, true) if self.context.is_some() => Err(Refusal::new(
                "spec.local.context",
                "a context needs a kubeconfig: remove it or give kubeconfig",
            )),
            (None, false) => Err(Refusal::new(
                "spec.local",
                "no cluster is named: give kubeconfig or inCluster: true",
            )),
            _ => Ok(()),
        }
    }
}
