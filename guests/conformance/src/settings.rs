//! Cases about events, the log, the configuration and the time. Entry points: a function for each.

use crate::Scene;
use crate::words::{ConfigMap, names};
use serde::Deserialize;
use windlass_sdk::prelude::*;

/// What the case `config` reads of the configuration.
#[derive(Deserialize)]
struct Config {
    greeting: String,
    count: u32,
    list: Vec<String>,
    nested: Nested,
}

#[derive(Deserialize)]
struct Nested {
    deep: bool,
}

/// One event of each type.
pub(crate) fn events(scene: &Scene) {
    scene.cluster.event(scene.primary, "Checked", "all is well");
    let apple = ConfigMap::with(&scene.at("apple"), []);
    scene
        .cluster
        .warn(&apple, "Odd", "the apple is odd: \"żółty\"");
    info!("told");
}

/// Each level; values that have to be quoted, are empty or have control characters; no values.
pub(crate) fn log() {
    debug!("looked", at = "apple");
    info!("did", what = "two words", count = 2);
    warn!("odd", text = "żółty = \"yellow\"", empty = "");
    error!("broken", line = "one\ntwo");
    info!("no values");
    info!("cut", text = cut());
}

/// Text whose last character is cut, as the other languages' reaches the host.
pub(crate) fn cut() -> String {
    String::from_utf8_lossy(b"half \xf0").into_owned()
}

/// Values of every type.
pub(crate) fn config() -> Result<()> {
    let config: Config = windlass_sdk::config()?;
    info!(
        "config",
        greeting = config.greeting,
        count = config.count,
        list = names(config.list.iter().map(String::as_str)),
        deep = config.nested.deep,
    );
    Ok(())
}

/// The format of the time, and that it goes forward.
pub(crate) fn clock() {
    let (first, second) = (now(), now());
    info!(
        "clock",
        length = first.len(),
        zone = &first[first.len().saturating_sub(1)..],
        forward = second >= first
    );
}
