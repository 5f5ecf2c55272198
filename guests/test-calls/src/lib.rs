//! Makes the calls of its config, and returns their results. Entry point: [`Calls`]; [`script`] describes the config.

use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The guest. Its result is the message of a terminal failure.
struct Calls;
windlass_sdk::guest!(Calls);

impl Reconciler for Calls {
    fn describe() -> Result<Description> {
        let watch =
            Watch::of(GroupVersionKind::new("v1", "ConfigMap")).labels("test.windlass.dev/run");
        let mut description = Description::new("calls what it is told to").primary_watch(watch);
        description.indexes.push(windlass_sdk::Index {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            name: "color".to_owned(),
            path: "data.color".to_owned(),
            namespace_path: None,
            options: Vec::new(),
        });
        Ok(description)
    }

    fn reconcile(_: &Request, cluster: &Cluster) -> Result<Action> {
        Err(Error::terminal(script::text(&script::run(cluster.raw())?)))
    }
}
