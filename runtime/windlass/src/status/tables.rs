//! Views as tables for people. Entry points: one function for each view.

use crate::output::Column::{Always, Wide};
use crate::output::{Cell, Table, Tone, age, size, spent};
use crate::status::view::{
    ClusterView, ExplanationView, HeldView, KeyView, MemberView, ProviderView, ReconcilerView,
    RecordingView, TenantView, UsageView,
};

/// The local cluster has no name of its own to print.
pub(crate) fn cluster_name(name: &str) -> &str {
    if name.is_empty() { "(local)" } else { name }
}

/// Clusters: state, since when, what is cached.
pub(crate) fn clusters(views: &[ClusterView], wide: bool) -> Table {
    let columns = [
        Always("CLUSTER"),
        Always("STATE"),
        Always("SINCE"),
        Always("OBJECTS"),
        Always("SIZE"),
        Wide("CONNECTIONS"),
        Wide("OWNER"),
        Wide("SERVER"),
        Always("REASON"),
    ];
    let mut table = Table::with(&columns, wide);
    for view in views {
        let tone = match view.state.as_str() {
            "Ready" if view.replacement.is_none() && view.paused.is_empty() => Tone::Good,
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
            Cell::text(&view.owner),
            Cell::text(&view.server),
            Cell::text(reason_of(view)),
        ]);
    }
    table
}

/// Why a cluster is in its state, and when the next attempt is.
fn reason_of(view: &ClusterView) -> String {
    let mut text = cluster_reason(view);
    if !view.paused.is_empty() {
        let separator = if text.is_empty() { "" } else { "; " };
        text = format!("{}{separator}{text}", view.paused);
    }
    if let Some(seconds) = view.next_attempt_seconds {
        text.push_str(&format!("; next attempt in {seconds} s"));
    }
    text
}

/// Why a cluster is in its state. A server that cannot take over comes first, because objects are still written to the former one.
fn cluster_reason(view: &ClusterView) -> String {
    let Some(next) = &view.replacement else {
        return view.reason.clone();
    };
    let mut text = format!(
        "this server is still used: the kubeconfig names {} now, which is {}",
        next.server, next.state
    );
    for (separator, reason) in [(": ", &next.reason), ("; ", &view.reason)] {
        if !reason.is_empty() {
            text.push_str(separator);
            text.push_str(reason);
        }
    }
    text
}

/// Members of a sharding: what each works on.
pub(crate) fn shards(views: &[MemberView], wide: bool) -> Table {
    let columns = [
        Always("MEMBER"),
        Always("STATE"),
        Always("CLUSTERS"),
        Always("SHARDS"),
        Always("NEXT"),
        Wide("WEIGHT"),
    ];
    let mut table = Table::with(&columns, wide);
    for view in views {
        let tone = match view.state.as_str() {
            MemberView::WORKING => Tone::Good,
            MemberView::DEAD => Tone::Bad,
            _ => Tone::Warn,
        };
        table.row([
            Cell::text(&view.name),
            Cell::toned(&view.state, tone),
            Cell::number(view.clusters),
            Cell::number(view.shards),
            Cell::number(view.next),
            Cell::number(view.weight),
        ]);
    }
    table
}

/// Recordings: of which run, why, and how that ended.
pub(crate) fn recordings(views: &[RecordingView], wide: bool) -> Table {
    let columns = [
        Always("ID"),
        Always("TIME"),
        Always("WHY"),
        Wide("TENANT"),
        Always("RECONCILER"),
        Always("KEY"),
        Always("CALLS"),
        Always("SIZE"),
        Always("OUTCOME"),
    ];
    let mut table = Table::with(&columns, wide);
    for view in views {
        let tone = match (view.failed, &view.problem) {
            (false, None) => Tone::Good,
            _ => Tone::Bad,
        };
        let outcome = view.problem.as_ref().unwrap_or(&view.outcome);
        table.row([
            Cell::text(&view.id),
            Cell::text(&view.time),
            Cell::text(&view.why),
            Cell::text(&view.tenant),
            Cell::text(&view.reconciler),
            Cell::text(&view.key),
            Cell::number(view.calls),
            Cell::number(size(view.bytes)),
            Cell::toned(outcome, tone),
        ]);
    }
    table
}

/// Objects that finalizers of a reconciler hold.
pub(crate) fn held(views: &[HeldView], wide: bool) -> Table {
    let columns = [
        Always("CLUSTER"),
        Always("KIND"),
        Always("NAMESPACE"),
        Always("NAME"),
        Always("FINALIZERS"),
        Wide("ALSO OF"),
        Always("DELETING"),
        Always("STATE"),
    ];
    let mut table = Table::with(&columns, wide);
    for view in views {
        let state = match (view.released, view.problem.as_str()) {
            (true, _) => Cell::toned("let go", Tone::Good),
            (false, "") => Cell::text("held"),
            (false, problem) => Cell::toned(problem, Tone::Bad),
        };
        table.row([
            Cell::text(cluster_name(&view.cluster)),
            Cell::text(&view.kind),
            Cell::text(&view.namespace),
            Cell::text(&view.name),
            Cell::text(view.finalizers.join(",")),
            Cell::text(view.also_of.join(",")),
            Cell::text(if view.deleting { "yes" } else { "no" }),
            state,
        ]);
    }
    table
}

/// Problems of a provider that its table shows.
const SHOWN_PROBLEMS: usize = 5;

/// Providers: what each has found, and a row for each of its first problems; wide, for each problem.
pub(crate) fn providers(views: &[ProviderView], wide: bool) -> Table {
    const FIGURES: usize = 7;
    let columns = [
        Always("PROVIDER"),
        Always("SOURCE"),
        Always("FOUND"),
        Always("ENGAGED"),
        Always("REFUSED"),
        Wide("PROBLEMS"),
        Always("LISTED"),
        Always("SUBJECT"),
        Always("PROBLEM"),
    ];
    let shown = if wide { usize::MAX } else { SHOWN_PROBLEMS };
    let mut table = Table::with(&columns, wide);
    for view in views {
        let listed = match view.listed_seconds {
            Some(seconds) => Cell::text(format!("{} ago", age(seconds))),
            None => Cell::toned("not yet", Tone::Warn),
        };
        let figures: [Cell; FIGURES] = [
            Cell::text(&view.name),
            Cell::text(&view.source),
            Cell::number(view.found),
            Cell::number(view.engaged),
            Cell::bad_number(view.refused),
            Cell::bad_number(view.problems.len() as u64),
            listed,
        ];
        let problems = problem_cells(view, shown);
        let mut rows = problems.into_iter();
        table.row(figures.into_iter().chain(rows.next().into_iter().flatten()));
        for problem in rows {
            let blank = std::iter::repeat_n(Cell::text(" "), FIGURES);
            table.row(blank.chain(problem));
        }
    }
    table
}

/// Subject and message of the first problems, and how many more there are.
fn problem_cells(view: &ProviderView, shown: usize) -> Vec<[Cell; 2]> {
    let problems = view.problems.iter().take(shown);
    let mut rows: Vec<[Cell; 2]> = problems
        .map(|problem| [Cell::text(&problem.subject), Cell::text(&problem.message)])
        .collect();
    let more = view.problems.len().saturating_sub(shown);
    if more > 0 {
        let rest = format!("{more} more: add -o wide");
        rows.push([Cell::text(""), Cell::toned(rest, Tone::Dim)]);
    }
    rows
}

/// Reconcilers: attempts, failing keys and problems; wide, all keys by state, usage, limits that were hit, denials, and the last reload.
pub(crate) fn reconcilers(views: &[ReconcilerView], wide: bool) -> Table {
    let columns = [
        Always("TENANT"),
        Always("RECONCILER"),
        Always("STATE"),
        Wide("REVISION"),
        Wide("PREVIOUS"),
        Wide("RELOAD"),
        Always("CLUSTERS"),
        Always("ATTEMPTS"),
        Always("FAILED"),
        Wide("BY GUEST"),
        Wide("HOST"),
        Wide("API"),
        Wide("RUNNING"),
        Wide("READY"),
        Always("FAILING"),
        Wide("BACKOFF"),
        Wide("PAUSED"),
        Wide("TERMINAL"),
        Wide("CPU"),
        Wide("CPU WAITED"),
        Wide("MEMORY PEAK"),
        Wide("IDLE"),
        Wide("LIMITS HIT"),
        Wide("DENIED"),
        Wide("MISSING RULE"),
        Always("PROBLEM"),
    ];
    let mut table = Table::with(&columns, wide);
    for view in views {
        let usage = &view.usage;
        let missing = view.missing_rules.first();
        table.row([
            Cell::text(&view.tenant),
            Cell::text(&view.name),
            state_of(view),
            Cell::text(short(&view.revision)),
            Cell::text(short(&view.previous)),
            reload_of(view),
            Cell::number(view.clusters),
            Cell::number(view.attempts),
            Cell::bad_number(view.failed),
            Cell::bad_number(usage.failed_by.guest),
            Cell::bad_number(usage.failed_by.host),
            Cell::bad_number(usage.failed_by.api),
            Cell::number(view.running),
            Cell::number(view.ready),
            Cell::bad_number(view.backoff + view.terminal),
            Cell::bad_number(view.backoff),
            Cell::number(view.paused_keys),
            Cell::bad_number(view.terminal),
            Cell::number(spent(usage.cpu_seconds)),
            Cell::number(spent(usage.cpu_waited_seconds)),
            Cell::number(size(usage.memory_peak)),
            Cell::number(usage.idle_instances),
            hits(usage),
            Cell::bad_number(usage.denials),
            Cell::text(missing.map_or("", String::as_str)),
            problem_of(view),
        ]);
    }
    table
}

fn state_of(view: &ReconcilerView) -> Cell {
    if view.loading {
        let word = if view.serves { "Reloading" } else { "Loading" };
        let age = age(view.loading_seconds);
        return Cell::toned(format!("{word} {age}"), Tone::Warn);
    }
    let (state, tone) = match (view.serves, view.problem.is_empty()) {
        (true, true) if !view.paused.is_empty() => ("Paused", Tone::Warn),
        (true, true) if view.rolled_back => ("RolledBack", Tone::Warn),
        (true, true) => ("Serves", Tone::Good),
        (true, false) => ("Stale", Tone::Warn),
        (false, _) => ("Stopped", Tone::Bad),
    };
    Cell::toned(state, tone)
}

fn problem_of(view: &ReconcilerView) -> Cell {
    let problems = [&view.problem, &view.paused, &view.last_error]
        .into_iter()
        .chain(&view.watch_problems);
    let problem = problems.into_iter().find(|problem| !problem.is_empty());
    Cell::text(problem.map_or("", String::as_str))
}

fn reload_of(view: &ReconcilerView) -> Cell {
    match &view.reload {
        None => Cell::text(""),
        Some(reload) if reload.in_effect => {
            Cell::toned(format!("{} ago", age(reload.ago_seconds)), Tone::Good)
        }
        Some(reload) => Cell::toned(
            format!("refused {} ago", age(reload.ago_seconds)),
            Tone::Bad,
        ),
    }
}

/// The limits that were hit, the most often hit first.
fn hits(usage: &UsageView) -> Cell {
    /// As many as fit a column.
    const SHOWN: usize = 2;
    let mut hits: Vec<_> = usage.limit_hits.iter().collect();
    hits.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let more = hits.len().saturating_sub(SHOWN);
    let mut words: Vec<String> = hits
        .iter()
        .take(SHOWN)
        .map(|(limit, count)| format!("{limit} {count}"))
        .collect();
    words.extend((more > 0).then(|| format!("{more} more")));
    Cell::toned(words.join(", "), Tone::Warn)
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Tenants: their share and what they use of it; wide, what bounds them and whose fault their failures were too.
pub(crate) fn tenants(views: &[TenantView], wide: bool) -> Table {
    let is_any_paused = views.iter().any(|view| !view.paused.is_empty());
    let columns = [
        Always("TENANT"),
        Always("WEIGHT"),
        Wide("CONCURRENCY"),
        Always("MEMORY"),
        Wide("MEMORY PEAK"),
        Wide("IDLE"),
        Wide("CPU LIMIT"),
        Wide("CEILING"),
        Always("RECONCILERS"),
        Always("RUNNING"),
        Wide("REQUESTS"),
        Always("ATTEMPTS"),
        Always("FAILED"),
        Wide("BY GUEST"),
        Wide("HOST"),
        Wide("API"),
        Always("CPU"),
        Wide("CPU WAITED"),
        Wide("LIMITS HIT"),
        Wide("DENIED"),
        if is_any_paused {
            Always("PAUSE")
        } else {
            Wide("PAUSE")
        },
    ];
    let mut table = Table::with(&columns, wide);
    for view in views {
        let usage = &view.usage;
        table.row([
            Cell::text(&view.name),
            Cell::number(view.weight),
            Cell::number(or_dash(view.concurrency)),
            memory_of(view),
            Cell::number(size(usage.memory_peak)),
            Cell::number(usage.idle_instances),
            Cell::number(or_dash(view.cpu)),
            Cell::text(if view.ceiling { "yes" } else { "no" }),
            Cell::number(view.reconcilers),
            Cell::number(view.running),
            Cell::number(view.requests_in_flight),
            Cell::number(view.attempts),
            Cell::bad_number(view.failed),
            Cell::bad_number(usage.failed_by.guest),
            Cell::bad_number(usage.failed_by.host),
            Cell::bad_number(usage.failed_by.api),
            Cell::number(spent(usage.cpu_seconds)),
            Cell::number(spent(usage.cpu_waited_seconds)),
            hits(usage),
            Cell::bad_number(usage.denials),
            Cell::text(&view.paused),
        ]);
    }
    table
}

fn memory_of(view: &TenantView) -> Cell {
    let (used, most) = (size(view.memory_used), size(view.memory));
    Cell::number(format!("{used} of {most}"))
}

fn or_dash(limit: Option<impl ToString>) -> String {
    limit.map_or("-".to_owned(), |limit| limit.to_string())
}

/// Keys: what they do and why.
pub(crate) fn keys(views: &[KeyView], wide: bool) -> Table {
    let columns = [
        Always("KEY"),
        Always("RECONCILER"),
        Always("STATE"),
        Wide("SINCE"),
        Always("FAILURES"),
        Always("NEXT"),
        Wide("BLAME"),
        Wide("CAUSE"),
        Always("ERROR"),
    ];
    let mut table = Table::with(&columns, wide);
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
            Cell::text(if view.paused.is_empty() {
                &view.last_error
            } else {
                &view.paused
            }),
        ]);
    }
    table
}

/// What reconcilers make of a key: the longest last.
pub(crate) fn explanations(views: &[ExplanationView], wide: bool) -> Table {
    let columns = [
        Always("RECONCILER"),
        Always("STATE"),
        Always("FAILURES"),
        Wide("CAUSE"),
        Always("LAST RUN"),
        Wide("BLAME"),
        Always("WHY"),
    ];
    let mut table = Table::with(&columns, wide);
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
            Cell::lines(&why),
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
        "backoff" | "held" | "throttled" | "paused" => Tone::Warn,
        "running" => Tone::Good,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests;
