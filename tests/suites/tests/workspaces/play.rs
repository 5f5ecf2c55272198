//! A running manager with a keeper of widgets. Entry point: [`Play::start`].

use crate::keeper::Keeper;
use anyhow::{Context as _, Result};
use std::ops::Deref;
use std::sync::Arc;
use windlass_fleet::Grant;
use windlass_fleet::cluster::{Client, Cluster};
use windlass_fleet::manager::Builder;
use windlass_fleet::provider::Problem;
use windlass_harness::eventually::{DEADLINE, Seen, eventually, wait};
use windlass_harness::fleet::RunningManager;
use windlass_harness::testenv::kcp::Workspace;

/// A running manager. Its parts are used through `Deref`.
pub(crate) struct Play {
    manager: RunningManager,
    pub(crate) keeper: Arc<Keeper>,
}

impl Deref for Play {
    type Target = RunningManager;

    fn deref(&self) -> &RunningManager {
        &self.manager
    }
}

impl Play {
    pub(crate) fn start(builder: Builder, keeper: Arc<Keeper>) -> Result<Self> {
        Ok(Self {
            manager: RunningManager::start(builder)?,
            keeper,
        })
    }

    /// Names of the clusters that are engaged, the local one left out.
    pub(crate) fn names(&self) -> Vec<String> {
        let clusters = self.handle.clusters().into_iter();
        let names = clusters.map(|cluster| cluster.name.to_string());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Waits until exactly these workspaces are engaged, by their logical clusters.
    pub(crate) async fn engaged(&self, wanted: &[&Workspace]) -> Result<()> {
        let mut wanted: Vec<&str> = wanted.iter().map(|one| &*one.cluster).collect();
        wanted.sort_unstable();
        self.engaged_as(&wanted).await
    }

    /// Waits until exactly the clusters of these names are engaged.
    pub(crate) async fn engaged_as(&self, wanted: &[&str]) -> Result<()> {
        wait("the engaged workspaces", || {
            let problems = self.handle.provider_problems();
            Seen::of((self.names(), problems), |(names, _)| *names == wanted)
        })
        .await
        .map(drop)
    }

    /// The cluster of a workspace.
    pub(crate) fn engaged_now(&self, workspace: &Workspace) -> Result<Arc<Cluster>> {
        let found = self.manager.engaged(&workspace.cluster);
        found.with_context(|| format!("{} is not engaged", workspace.path))
    }

    /// A client of a workspace that is engaged, with everything granted.
    pub(crate) async fn client(&self, workspace: &Workspace) -> Result<Client> {
        let ready = self.ready(&workspace.cluster).await?;
        Ok(ready.client(Grant::all()))
    }

    /// Waits until a problem of a provider is reported whose message has this text.
    pub(crate) async fn problem(&self, part: &str) -> Result<()> {
        let has = |all: &Vec<Problem>| all.iter().any(|problem| problem.message.contains(part));
        wait(&format!("a problem with {part:?}"), || {
            Seen::of(self.handle.provider_problems(), has)
        })
        .await
        .map(drop)
    }

    /// Waits until nothing is left to do, and holds that no key failed for good and none ran twice at once.
    pub(crate) async fn settles(&self) -> Result<()> {
        eventually(DEADLINE, "nothing left to do", || async {
            let idle = self.handle.idle().await;
            let seen = (idle.busy, idle.failing, idle.terminal);
            Ok(Seen::of(seen, |(busy, failing, terminal)| {
                busy.is_empty() && failing.is_empty() && terminal.is_empty()
            }))
        })
        .await?;
        let overlaps = self.keeper.overlaps();
        anyhow::ensure!(overlaps.is_empty(), "ran twice at once: {overlaps:?}");
        Ok(())
    }

    /// Ends the manager.
    pub(crate) async fn end(self) -> Result<()> {
        self.manager.stop().await
    }
}
