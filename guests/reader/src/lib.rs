//! Reads what its config asks for, and does nothing with it. Entry point: [`Reader`].
//!
//! `cargo bench --bench tenants` uses it to measure the cost of calls between guest and host.

use serde::Deserialize;
use windlass_sdk::prelude::*;
use windlass_sdk::{GetOptions, GroupVersionKind, ListOptions};

/// How much it reads in a reconcile.
#[derive(Deserialize)]
struct Config {
    /// Reads of the object.
    gets: u32,
    /// Lists of the objects around it.
    lists: u32,
    /// Objects in each list.
    #[serde(default)]
    limit: u32,
}

/// The guest.
struct Reader;
windlass_sdk::guest!(Reader);

impl Reconciler for Reader {
    fn describe() -> Result<Description> {
        config::<Config>()?;
        Ok(Description::new("reads")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let (config, kind) = (
            config::<Config>()?,
            GroupVersionKind::new("v1", "ConfigMap"),
        );
        for _ in 0..config.gets {
            std::hint::black_box(
                cluster
                    .raw()
                    .get(&kind, &request.key, &GetOptions::default())?,
            );
        }
        for _ in 0..config.lists {
            let options = ListOptions {
                limit: config.limit,
                ..ListOptions::default()
            };
            std::hint::black_box(cluster.raw().list(&kind, &options)?);
        }
        Ok(Action::Done)
    }
}
