//! Maps events badly, in the way that its config says. Entry point: [`Mapping`].

use serde::Deserialize;
use windlass_sdk::prelude::*;
use windlass_sdk::{GroupVersionKind, Mapper};

/// How badly.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Loop,
    Trap,
    /// More requests than a host accepts.
    Flood,
    /// Requests for clusters that do not exist.
    Forge,
    /// A request with a name that is too long.
    Huge,
}

/// The configuration.
#[derive(Deserialize)]
struct Config {
    way: Way,
}

/// The guest.
struct Mapping;
windlass_sdk::guest!(Mapping, mapper);

impl Reconciler for Mapping {
    fn describe() -> Result<Description> {
        let watch = Watch::of(GroupVersionKind::new("v1", "Secret")).enqueue(Enqueue::Mapped);
        Ok(Description::new("maps events badly").watch(watch))
    }

    fn reconcile(request: &Request, _: &Cluster) -> Result<Action> {
        Err(Error::terminal(format!("asked for {request}")))
    }
}

impl Mapper for Mapping {
    #[expect(clippy::panic, reason = "this is what the guest is for")]
    fn map(cluster: &Cluster, _: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let request = |cluster: String| Request {
            cluster,
            key: objects[0].key(),
        };
        let named = |name: String| Request {
            cluster: cluster.name(),
            key: objects[0].key().sibling(&name),
        };
        Ok(match config::<Config>()?.way {
            Way::Loop => loop {
                std::hint::black_box(());
            },
            Way::Trap => panic!("no way to map this"),
            Way::Flood => vec![request(cluster.name()); 200_000],
            Way::Huge => vec![named("x".repeat(1 << 20))],
            Way::Forge => ["", "..", "gamma/../alpha", "gamma"]
                .map(|name| request(name.to_owned()))
                .into(),
        })
    }
}
