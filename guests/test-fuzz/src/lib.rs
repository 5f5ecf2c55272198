//! Hands the host whatever a random generator comes up with. Entry point: [`Fuzz`]; the generator is in `random`, what it mangles
//! in `words`.

mod calls;
mod random;
mod wants;
mod words;

use random::Random;
use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// What the operator may configure.
#[derive(Deserialize)]
struct Config {
    /// Describes itself at random from this seed; without one, well.
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
