//! Waiting for what ends a measurement. Entry point: [`until`].
//!
//! `windlass_harness::eventually` looks every 20 ms, which is long against what is measured here.

use anyhow::{Context as _, Result};
use std::time::Duration;

/// Time between two looks: short against what is measured, long against what a look costs.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(300);

/// Looks again and again until `holds`. `what` completes the sentence "waited in vain for …".
///
/// # Errors
/// When it does not hold within five minutes.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let looks = async {
        let mut look = tokio::time::interval(LOOK);
        while !holds() {
            look.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, looks)
        .await
        .with_context(|| format!("waited in vain for {what}"))
}
