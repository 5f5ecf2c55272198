//! Views as tables for people. Entry points: one function for each view.

use crate::output::{Cell, Table, Tone, age, size};
use crate::view::{ClusterView, ExplanationView, KeyView, ReconcilerView, TenantView};

/// The local cluster has no name of its own to print.
pub(crate) fn cluster_name(name: &str) -> &str {
    if name.is_empty() { "(local)" } else { name }
}

/// Clusters: state, since when, what is cached.
pub(crate) fn clusters(views: &[ClusterView]) -> Table {
    let mut table = Table::new(&[
        "CLUSTER",
        "STATE",
        "SINCE",
        "OBJECTS",
        "SIZE",
        "CONNECTIONS",
        "SERVER",
        "REASON",
    ]);
    for view in views {
        let tone = match view.state.as_str() {
            "Ready" => Tone::Good,
            "Degraded" | "Gone" => Tone::Bad,
            _ => Tone::Warn,
        };
        table.row([
            Cell::text(cluster_name(&view.name)),
            Cell::toned(&view.state, tone),
            Cell::number(age(view.since_seconds)),
            Cell::number(view.objects),
            Cell::number(size(view.bytes)),
            Cell::number(view.connections),
            Cell::text(&view.server),
            Cell::text(&view.reason),
        ]);
    }
    table
}

/// Reconcilers: what they did, what waits, what is wrong.
pub(crate) fn reconcilers(views: &[ReconcilerView]) -> Table {
    let headings = [
        "TENANT",
        "RECONCILER",
        "STATE",
        "REVISION",
        "PREVIOUS",
        "CLUSTERS",
        "ATTEMPTS",
        "FAILED",
        "RUNNING",
        "WAITING",
        "BACKOFF",
        "TERMINAL",
        "PROBLEM",
    ];
    let mut table = Table::new(&headings);
    for view in views {
        let (state, tone) = match (view.serves, view.problem.is_empty()) {
            (true, true) if view.rolled_back => ("RolledBack", Tone::Warn),
            (true, true) => ("Serves", Tone::Good),
            (true, false) => ("Stale", Tone::Warn),
            (false, _) => ("Stopped", Tone::Bad),
        };
        let problems = [&view.problem, &view.last_error]
            .into_iter()
            .chain(&view.watch_problems);
        let problem = problems.into_iter().find(|problem| !problem.is_empty());
        table.row([
            Cell::text(&view.tenant),
            Cell::text(&view.name),
            Cell::toned(state, tone),
            Cell::text(view.revision.chars().take(12).collect::<String>()),
            Cell::text(view.previous.chars().take(12).collect::<String>()),
            Cell::number(view.clusters),
            Cell::number(view.attempts),
            Cell::bad_number(view.failed),
            Cell::number(view.running),
            Cell::number(view.waiting),
            Cell::bad_number(view.backoff),
            Cell::bad_number(view.terminal),
            Cell::text(problem.map_or("", String::as_str)),
        ]);
    }
    table
}

/// Tenants: their share and what they use of it.
pub(crate) fn tenants(views: &[TenantView]) -> Table {
    let headings = [
        "TENANT",
        "WEIGHT",
        "CONCURRENCY",
        "MEMORY",
        "CEILING",
        "RECONCILERS",
        "RUNNING",
        "ATTEMPTS",
        "FAILED",
    ];
    let mut table = Table::new(&headings);
    for view in views {
        table.row([
            Cell::text(&view.name),
            Cell::number(view.weight),
            Cell::number(
                view.concurrency
                    .map_or("-".to_owned(), |limit| limit.to_string()),
            ),
            Cell::number(size(view.memory)),
            Cell::text(if view.ceiling { "yes" } else { "no" }),
            Cell::number(view.reconcilers),
            Cell::number(view.running),
            Cell::number(view.attempts),
            Cell::bad_number(view.failed),
        ]);
    }
    table
}

/// Keys: what they do and why.
pub(crate) fn keys(views: &[KeyView]) -> Table {
    let headings = [
        "KEY",
        "RECONCILER",
        "STATE",
        "SINCE",
        "FAILURES",
        "NEXT",
        "BLAME",
        "CAUSE",
        "LAST ERROR",
    ];
    let mut table = Table::new(&headings);
    let seconds = |seconds: Option<f64>| {
        seconds.map_or("-".to_owned(), |seconds| age(seconds.max(0.0) as u64))
    };
    for view in views {
        let tone = tone_of_key(&view.state);
        table.row([
            Cell::text(&view.key),
            Cell::text(format!("{}/{}", view.tenant, view.reconciler)),
            Cell::toned(&view.state, tone),
            Cell::number(seconds(view.since_seconds)),
            Cell::number(view.attempts),
            Cell::number(seconds(view.runs_in_seconds)),
            Cell::text(&view.blame),
            Cell::text(cause(&view.cause, &view.source)),
            Cell::text(&view.last_error),
        ]);
    }
    table
}

/// What reconcilers make of a key: the longest last.
pub(crate) fn explanations(views: &[ExplanationView]) -> Table {
    let headings = [
        "RECONCILER",
        "STATE",
        "FAILURES",
        "CAUSE",
        "LAST RUN",
        "BLAME",
        "WHY",
    ];
    let mut table = Table::new(&headings);
    for view in views {
        let last = view.last_ended_seconds.map_or(String::new(), |seconds| {
            format!("{} {} ago", view.last_result, age(seconds.max(0.0) as u64))
        });
        let why = if view.last_error.is_empty() {
            view.why.clone()
        } else {
            format!("{}: {}", view.why, view.last_error)
        };
        table.row([
            Cell::text(format!("{}/{}", view.tenant, view.reconciler)),
            Cell::toned(&view.state, tone_of_key(&view.state)),
            Cell::bad_number(view.attempts),
            Cell::text(cause(&view.cause, &view.source)),
            Cell::text(last),
            Cell::text(&view.blame),
            Cell::text(why),
        ]);
    }
    table
}

/// What enqueued a key: `update of v1/ConfigMap`, `retry (v1/ConfigMap)`, `operator`.
fn cause(cause: &str, source: &str) -> String {
    match cause {
        _ if source.is_empty() => cause.to_owned(),
        "retry" | "requeue" => format!("{cause} ({source})"),
        _ => format!("{cause} of {source}"),
    }
}

fn tone_of_key(state: &str) -> Tone {
    match state {
        "terminal" => Tone::Bad,
        "backoff" | "held" | "throttled" => Tone::Warn,
        "running" => Tone::Good,
        _ => Tone::Plain,
    }
}
