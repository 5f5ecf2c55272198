//! Warns of Reconcilers that are removed while objects hold finalizers of them. Entry points: [`Removals::start`] and [`Removals::note`].
//!
//! Such an object cannot be deleted any more. One removal at a time is looked at, in the background and within bounds of time, and only kinds
//! that the Reconciler's rules let it write: the count is a lower bound. Only the process that works on the local cluster looks. The finalizers of a run
//! that ends later than the search are not among them.

use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::app::release::{Cursor, Found, Search, exists};
use crate::config::kinds::Identity;
use crate::config::load::Configuration;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_fleet::ClusterName;
use windlass_fleet::api::EventType;

/// How long one search takes at most.
const LONGEST: Duration = Duration::from_secs(60);
/// Removals that may wait.
const BACKLOG: usize = 64;

/// A Reconciler that is not in effect any more.
struct Removed {
    identity: Identity,
    tenant: String,
    search: Search,
}

/// Looks at removals until it is dropped.
pub(super) struct Removals {
    sender: mpsc::Sender<Removed>,
    worker: JoinHandle<()>,
}

impl Drop for Removals {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

impl Removals {
    /// Begins with none. Call it on a tokio runtime.
    pub(super) fn start(app: Arc<App>) -> Self {
        let (sender, mut removed) = mpsc::channel(BACKLOG);
        let worker = tokio::spawn(async move {
            while let Some(removed) = removed.recv().await {
                look(&app, removed).await;
            }
        });
        Self { sender, worker }
    }

    /// Notes the Reconcilers that one configuration has and the next one has not. Never waits. Call it while their controllers are still there.
    pub(super) fn note(&self, app: &App, last: &Configuration, now: &Configuration) {
        let gone = last
            .reconcilers()
            .filter(|(document, _)| now.get(&document.identity).is_none());
        for (document, spec) in gone {
            let identity = document.identity.clone();
            // Checked documents can be read.
            let Ok(search) = Search::of(app, last, document, spec) else {
                continue;
            };
            let removed = Removed {
                identity,
                tenant: spec.tenant().to_owned(),
                search,
            };
            if let Err(error) = self.sender.try_send(removed) {
                let removed = error.into_inner();
                let reconciler = removed.identity.name;
                tracing::warn!(
                    reconciler,
                    "too many reconcilers were removed at once to look for objects that finalizers of this one hold"
                );
            }
        }
    }
}

async fn look(app: &App, removed: Removed) {
    let name = removed.identity.name.as_str();
    if !app.manager.works_on(&ClusterName::local()) {
        return;
    }
    // It may only have left this process: another one is of its class, or owns the objects.
    match exists(app, name).await {
        Ok(false) => {}
        Ok(true) => return,
        Err(error) => {
            tracing::debug!(reconciler = name, %error, "the local cluster does not say whether a reconciler was removed");
            return;
        }
    }
    let searched = removed.search.run(app, Cursor::default(), LONGEST).await;
    let Ok((found, left)) = searched else {
        return;
    };
    report(app, &removed, &found, left.is_none());
}

/// `is_whole`: there was time for all clusters.
fn report(app: &App, removed: &Removed, found: &Found, is_whole: bool) {
    let (reconciler, tenant) = (removed.identity.name.as_str(), removed.tenant.as_str());
    let (objects, deleting) = (found.count(), found.deleting());
    let (clusters, unread) = (found.clusters(), found.unread_count());
    if objects == 0 {
        if unread > 0 || !is_whole {
            tracing::info!(
                reconciler,
                tenant,
                unread,
                is_whole,
                "a reconciler was removed, and not all clusters could be searched for its finalizers"
            );
        }
        return;
    }
    let command = command(reconciler, tenant);
    tracing::warn!(
        reconciler,
        tenant,
        objects,
        clusters,
        deleting,
        unread,
        is_whole,
        command,
        "a reconciler was removed, and objects hold finalizers of it"
    );
    let event = OwnEvent {
        event_type: EventType::Warning,
        reason: "FinalizersLeft",
        action: "Remove",
        note: format!(
            "{objects} objects in {clusters} clusters hold finalizers of it, {deleting} of them being deleted: see {command}"
        ),
        tenant: None,
    };
    own_events::record(app, &removed.identity, event);
}

/// The command that shows the objects.
fn command(reconciler: &str, tenant: &str) -> String {
    if reconciler.contains('/') || tenant == "default" {
        return format!("windlass release {reconciler}");
    }
    format!("windlass release {reconciler} --tenant {tenant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_tenant_where_the_name_does_not_tell_it() {
        assert_eq!(command("team-a/x", "a"), "windlass release team-a/x");
        assert_eq!(command("x", "default"), "windlass release x");
        assert_eq!(command("x", "a"), "windlass release x --tenant a");
    }
}
