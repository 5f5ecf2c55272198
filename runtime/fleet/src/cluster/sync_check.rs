//! Compares a cluster's caches with its server now, for `--exit-when-idle` and for tests. Entry point: [`Cluster::sync_check`].
//!
//! Unlike [`drift`](crate::cache::drift) it lists every cached kind at once and waits for nothing: an event that is on its way
//! counts as a difference. So it is for callers that ask until the answer is empty, and not for every second.

use super::Cluster;
use super::call_scope::{CallScope, Caller};
use super::client::Client;
use super::scope::Scope;
use crate::api::{ApiError, GetOptions, ListOptions, Projection, ReadMode};
use crate::cache::store::{Query, Store};
use crate::grant::Grant;
use crate::json::Object;
use crate::kind::GroupVersionKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The status that answers a list where nobody may list.
const NO_LIST: u16 = 405;

/// Resource versions by key.
type Versions = BTreeMap<String, String>;

impl Cluster {
    /// The caches that differ from the server, for people; empty if none does. Caches whose watch has a problem are left out: the
    /// cluster's status shows them.
    pub(crate) async fn sync_check(self: &Arc<Self>) -> Vec<String> {
        let cluster = self.name().as_str();
        let Some(backend) = self.backend() else {
            return vec![format!("cluster {cluster:?} is not connected")];
        };
        let scope = CallScope::new(Caller::program(), self.token().child_token(), None);
        let client = Client::new(self.clone(), Arc::new(Grant::all()), scope, None);
        let mut problems = Vec::new();
        for store in backend.stores.all() {
            // Cluster-scoped kinds are cached for the readers of the whole server. What the owner of a workspace refuses is empty there.
            let is_ours = self.scope().check_kind(&store.resource).is_ok()
                && self.check_claims(&store.resource).is_ok();
            if !is_ours || store.progress().borrow().problem.is_some() {
                continue;
            }
            match server_versions(&client, &store).await {
                Ok(versions) if versions == cached_versions(&store, self.scope()).await => {}
                Err(error) if error.http_status == NO_LIST => {
                    problems.extend(self.sync_check_each(&client, &store).await);
                }
                Ok(_) => problems.push(not_in_sync(&store.key.kind, cluster)),
                Err(error) => {
                    problems.push(format!("cluster {cluster:?} does not answer: {error}"))
                }
            }
        }
        problems
    }

    /// The same for a kind that may be watched and not listed, as the LogicalCluster of a workspace of kcp that begins or ends: each cached
    /// object is compared by itself. One that is missing in the cache is not noticed.
    async fn sync_check_each(&self, client: &Client, store: &Store) -> Option<String> {
        let cluster = self.name().as_str();
        let kind = &store.key.kind;
        let options = GetOptions {
            mode: ReadMode::Live,
            projection: Projection::Metadata,
            ..GetOptions::default()
        };
        for object in cached(store, self.scope()).await {
            let now = match client.get(kind, &object.key(), &options).await {
                Ok(now) => now.and_then(|json| Object::parse(json).ok()),
                Err(error) => return Some(format!("cluster {cluster:?} does not answer: {error}")),
            };
            if now.is_none_or(|now| now.resource_version() != object.resource_version()) {
                return Some(not_in_sync(kind, cluster));
            }
        }
        None
    }
}

fn not_in_sync(kind: &GroupVersionKind, cluster: &str) -> String {
    format!("the cache of {kind} in cluster {cluster:?} is not in sync yet")
}

async fn cached(store: &Store, scope: &Scope) -> Vec<Object> {
    let part = scope.part();
    let query = Query {
        part: part.as_deref(),
        ..Query::default()
    };
    let objects = store.page(&query, None, usize::MAX).await.objects;
    let shown = objects.into_iter().filter_map(|object| scope.shown(object));
    shown.collect()
}

async fn cached_versions(store: &Store, scope: &Scope) -> Versions {
    cached(store, scope).await.iter().map(entry).collect()
}

fn entry(object: &Object) -> (String, String) {
    (
        object.key().to_string(),
        object.resource_version().into_owned(),
    )
}

async fn server_versions(client: &Client, store: &Store) -> Result<Versions, ApiError> {
    let text = |selector: &str| Some(selector.to_owned()).filter(|s| !s.is_empty());
    let mut options = ListOptions {
        namespace: store.key.namespace.as_deref().map(str::to_owned),
        label_selector: text(&store.key.label_selector),
        field_selector: text(&store.key.field_selector),
        mode: ReadMode::Live,
        projection: Projection::Metadata,
        ..ListOptions::default()
    };
    let mut versions = Versions::new();
    loop {
        let page = client.list(&store.key.kind, &options).await?;
        versions.extend(
            page.items
                .into_iter()
                .filter_map(|json| Object::parse(json).ok())
                .map(|object| entry(&object)),
        );
        match page.continue_token {
            Some(token) => options.continue_token = Some(token),
            None => return Ok(versions),
        }
    }
}
