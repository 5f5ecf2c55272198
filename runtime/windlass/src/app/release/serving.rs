//! Whether a reconciler would put its finalizers back. Entry points: [`Search::check_release`] and [`exists`].

use super::{Refusal, Search};
use crate::app::App;
use crate::config::kinds::{API_VERSION, Identity, Kind};
use crate::config::load::Configuration;
use serde_json::Value as Json;
use std::time::SystemTime;
use windlass_fleet::api::{ApiCode, ApiError, ListOptions, Projection, ReadMode};
use windlass_fleet::{ClusterName, Grant, GroupVersionKind};

impl Search {
    /// Checks that objects may be let go: no other process leads, and the reconciler does not work.
    ///
    /// # Errors
    /// [`Refusal::Impossible`]
    pub(super) async fn check_release(
        &self,
        app: &App,
        configuration: &Configuration,
    ) -> Result<(), Refusal> {
        let refused = |message: String| Err(Refusal::Impossible(message));
        // Each member of a sharding lets go what is in its own clusters.
        let follows =
            app.manager.shards().is_none() && !app.manager.works_on(&ClusterName::local());
        if follows {
            let holder = app.manager.owner_of(&ClusterName::local());
            let holder = holder.as_deref().unwrap_or_default();
            return refused(format!(
                "another process leads, {holder:?}, and only that one writes: call that one"
            ));
        }
        let name = self.name.as_str();
        let identity = Identity {
            kind: Kind::Reconciler,
            name: name.to_owned(),
        };
        let controllers = app.manager.controllers().into_iter();
        let mut controllers =
            controllers.filter(|one| one.name == name && one.tenant == self.tenant.as_str());
        let controller = controllers.next();
        let works = configuration.get(&identity).is_some() || controller.is_some();
        if works && !self.is_paused(app) {
            return refused(format!(
                "{identity} is at work and would put its finalizers back: remove it, or pause it with windlass pause --reconciler {name}"
            ));
        }
        let running = controller.map_or(0, |controller| controller.running);
        if running > 0 {
            return refused(format!("runs of {identity} are still under way: try again"));
        }
        if !works && exists(app, name).await.unwrap_or_default() {
            return refused(format!(
                "{identity} exists, and this process does not handle it: another one may, of its class. Ask that one"
            ));
        }
        Ok(())
    }

    /// Whether a pause holds its reconciler as a whole.
    fn is_paused(&self, app: &App) -> bool {
        let (pauses, now) = (app.manager.pauses(), SystemTime::now());
        let whole = (self.tenant.clone(), self.name.clone());
        let own = pauses.reconcilers.get(&whole);
        let all = own.into_iter().chain(pauses.tenants.get(&self.tenant));
        all.into_iter().any(|pause| pause.left(now).is_some())
    }
}

/// Whether the local cluster has a Reconciler of this name that is not being deleted, whichever process handles it.
///
/// # Errors
/// When the local cluster does not say.
pub(crate) async fn exists(app: &App, name: &str) -> Result<bool, ApiError> {
    let local = app.manager.fleet().cluster(&ClusterName::local());
    let Some(((namespace, name), local)) = name.split_once('/').zip(local) else {
        return Ok(false);
    };
    let kind = GroupVersionKind::from_api_version(API_VERSION, Kind::Reconciler.as_str());
    // The process may list its objects, and not get them.
    let options = ListOptions {
        namespace: Some(namespace.to_owned()),
        field_selector: Some(format!("metadata.name={name}")),
        mode: ReadMode::Live,
        projection: Projection::Metadata,
        ..ListOptions::default()
    };
    match local.client(Grant::all()).list(&kind, &options).await {
        Ok(page) => Ok(page.items.iter().any(|item| !is_deleting(item))),
        Err(error) if error.code == ApiCode::UnknownKind => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_deleting(object: &[u8]) -> bool {
    let object: Json = serde_json::from_slice(object).unwrap_or_default();
    object["metadata"]["deletionTimestamp"].is_string()
}
