//! Metrics of what providers announce and the fleet does not have yet. Entry point: [`write`].

use super::{Snapshot, Writer, summed};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn write(writer: &mut Writer<'_>, now: &Snapshot) -> fmt::Result {
    let pending = summed(now, |cluster| u64::from(cluster.replacement_pending));
    writer.gauges(
        "windlass_cluster_replacement_pending",
        "Whether the cluster has another server now that has not taken over yet; the one before still serves.",
        pending
            .iter()
            .map(|(cluster, count)| ([("cluster", *cluster)], *count as f64)),
    )?;
    // Operators write providers: there are few.
    writer.gauges(
        "windlass_provider_clusters",
        "Clusters that a provider has found, by what came of them: engaged, or refused because another provider's cluster has the name.",
        now.providers.iter().flat_map(|provider| {
            let counts = [("engaged", provider.engaged), ("refused", provider.refused)];
            counts.map(|(result, count)| {
                let labels = [("provider", provider.name.as_str()), ("result", result)];
                (labels, count as f64)
            })
        }),
    )?;
    writer.gauges(
        "windlass_provider_listed_timestamp_seconds",
        "When a provider last read its source to the end; 0 until it has.",
        now.providers.iter().map(|provider| {
            let labels = [("provider", provider.name.as_str())];
            (labels, provider.last_listed.map_or(0.0, timestamp))
        }),
    )?;
    writer.gauges(
        "windlass_provider_problems",
        "Files, contexts, objects and clusters that a provider cannot use.",
        now.providers.iter().map(|provider| {
            let labels = [("provider", provider.name.as_str())];
            (labels, provider.problems as f64)
        }),
    )
}

/// The time so long ago, in whole seconds since the epoch.
fn timestamp(ago: Duration) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().saturating_sub(ago).as_secs() as f64
}
