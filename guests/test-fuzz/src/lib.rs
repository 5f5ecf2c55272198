//! Calls the host with random arguments. Entry point: [`Fuzz`]; the generator is in `random`, the texts that it mangles are in
//! `words`.

mod calls;
mod random;
mod wants;
mod words;

use random::Random;
use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The configuration.
#[derive(Deserialize)]
struct Config {
    /// The seed of a random description; without a seed the description is valid.
    #[serde(default)]
    seed: Option<u64>,
    /// Calls in a run.
    #[serde(default)]
    calls: u32,
}

/// The guest. A request named `seed-<number>` makes the calls that follow from the number.
struct Fuzz;
windlass_sdk::guest!(Fuzz);

impl Reconciler for Fuzz {
    fn describe() -> Result<Description> {
        let Some(seed) = config::<Config>()?.seed else {
            let watch = Watch::of(GroupVersionKind::new("v1", "ConfigMap"));
            return Ok(Description::new("calls at random")
                .primary_watch(watch.labels("test.windlass.dev/run")));
        };
        Ok(wants::description(&mut Random::new(seed)))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let seed = request.key.name.strip_prefix("seed-");
        let Some(seed) = seed.and_then(|seed| seed.parse().ok()) else {
            return Ok(Action::Done); // made by an earlier run
        };
        let mut random = Random::new(seed);
        for _ in 0..config::<Config>()?.calls {
            calls::make_one(&mut random, cluster.raw());
        }
        Ok(Action::Done)
    }
}
