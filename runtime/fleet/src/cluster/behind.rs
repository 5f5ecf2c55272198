//! Whether a cluster's caches hold what its server holds. Entry point: [`Cluster::behind`].

use super::Cluster;
use super::client::Client;
use super::scope::{CallScope, Caller};
use crate::api::{ApiError, ListOptions, Projection, ReadMode};
use crate::cache::store::{Query, Store};
use crate::grant::Grant;
use crate::json::Object;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Cluster {
    /// What the caches lack, for people; empty when they are in step. Lists every cached kind live: for scripts and tests, not for
    /// every second.
    pub(crate) async fn behind(self: &Arc<Self>) -> Vec<String> {
        let Some(backend) = self.backend() else {
            return vec![format!(
                "cluster {:?} is not connected",
                self.name().as_str()
            )];
        };
        let scope = CallScope::new(Caller::program(), self.token().child_token(), None);
        let client = Client::new(self.clone(), Arc::new(Grant::all()), scope, true);
        let mut behind = Vec::new();
        for store in backend.stores.all() {
            if store.progress().borrow().problem.is_some() {
                continue;
            }
            let cluster = self.name().as_str();
            match live(&client, &store).await {
                Ok(versions) if versions == held(&store).await => {}
                Ok(_) => behind.push(format!(
                    "the cache of {} in cluster {cluster:?} is not in step yet",
                    store.key.kind
                )),
                Err(error) => behind.push(format!("cluster {cluster:?} cannot be asked: {error}")),
            }
        }
        behind
    }
}

type Versions = BTreeMap<String, String>;

async fn held(store: &Store) -> Versions {
    let page = store.page(&Query::default(), None, usize::MAX).await;
    page.objects.iter().map(entry).collect()
}

fn entry(object: &Object) -> (String, String) {
    (
        object.key().to_string(),
        object.resource_version().into_owned(),
    )
}

async fn live(client: &Client, store: &Store) -> Result<Versions, ApiError> {
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
