//! Metrics of what waits in memory for controllers, besides caches and the queue. Entry points: [`events`] and [`answers`].

use super::{Read, Writer, get, of};
use crate::metrics::controller::ControllerMetrics;
use crate::metrics::{AnswersNow, Snapshot};
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::sync::Arc;

/// Events that wait for a mapper or for room in the queue.
pub(super) fn events(
    writer: &mut Writer<'_>,
    controllers: &[Arc<ControllerMetrics>],
    now: &Snapshot,
) -> fmt::Result {
    let all = || now.controllers.iter();
    writer.gauges(
        "windlass_events_unmapped",
        "Events that wait for the reconciler's mapper.",
        all().map(|c| (of(&c.metrics), c.unmapped as f64)),
    )?;
    writer.gauges(
        "windlass_deletions_waiting",
        "Requests for deleted objects that wait for room in the reconciler's part of the queue.",
        all().map(|c| (of(&c.metrics), c.missed as f64)),
    )?;
    writer.counters(
        "windlass_deletions_lost",
        "Deletions that never reached the reconciler's mapper, because too many events waited for it.",
        controllers.iter().map(|c| (of(c), get(&c.deletions_lost))),
    )
}

/// Answers of API servers.
pub(super) fn answers(writer: &mut Writer<'_>, now: &Snapshot) -> fmt::Result {
    let gauges: [Read<AnswersNow, usize>; 3] = [
        (
            "windlass_answer_bytes",
            "Bytes of API servers' answers to reconcilers' calls that are in memory.",
            |answers| answers.held,
        ),
        (
            "windlass_answer_bytes_peak",
            "Most of these bytes that were in memory at once.",
            |answers| answers.peak,
        ),
        (
            "windlass_answer_bytes_limit",
            "Most of these bytes that may be in memory at once.",
            |answers| answers.limit,
        ),
    ];
    for (name, help, value) in gauges {
        let sum: usize = now.answers.iter().map(value).sum();
        writer.gauge(name, help, sum as f64)?;
    }
    let rejected: u64 = now.answers.iter().map(|answers| answers.rejected).sum();
    let (name, help) = (
        "windlass_answers_rejected",
        "Calls that were rejected because there was no room for their answers in time.",
    );
    let mut family = writer
        .0
        .encode_descriptor(name, help, None, MetricType::Counter)?;
    family.encode_counter::<NoLabelSet, _, f64>(&rejected, None)
}
