//! The state that the admin endpoints show. Entry points: one function for each list.

use crate::app::App;
use crate::config::kinds::TenantSpec;
use crate::status::view::{
    BlameView, ClusterView, ConfigurationView, ExplanationView, Items, KeyView, ProblemView,
    ProviderView, ReconcilerView, ReloadView, RequeueReply, RequeueRequest, TenantView, UsageView,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use windlass_fleet::manager::{ControllerStatus, Explanation, KeyFilter, KeyStatus};
use windlass_fleet::paused::Pause;
use windlass_fleet::provider::Problem;
use windlass_fleet::{ClusterName, ControllerName, Request, TenantName};
use windlass_sandbox::GuestStatus;

/// Most keys in one answer.
const MAX_KEYS: usize = 10_000;

/// The query of `/api/v1/keys`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyQuery {
    tenant: Option<String>,
    reconciler: Option<String>,
    cluster: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    /// The position at which an earlier answer ended.
    #[serde(rename = "continue")]
    next: Option<u32>,
}

/// The query of `/api/v1/explain`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    key: String,
    reconciler: Option<String>,
}

impl ExplainQuery {
    pub(super) fn key(&self) -> &str {
        &self.key
    }
}

/// Why a key was not requeued.
pub(super) enum RequeueError {
    /// The request is invalid.
    Wrong(String),
    /// No reconciler has work in that cluster.
    Unknown(String),
    /// Too many ask for the same.
    Busy(String),
}

/// The source of the clusters that `dev` starts, which no document names.
const IN_MEMORY: &str = "inMemory";

/// The documents that are in effect, and those that are not.
pub(super) fn configuration(app: &App) -> ConfigurationView {
    let documents = app.configuration.load_full();
    let documents = documents.documents().iter();
    let names = documents.map(|document| document.identity.to_string());
    let needs_restart = app.needs_restart.load_full();
    let needs_restart = needs_restart.iter();
    ConfigurationView {
        documents: names.collect(),
        problems: app.all_problems(),
        needs_restart: needs_restart.map(|field| (*field).to_owned()).collect(),
    }
}

/// The cluster of a status, which names the local one by no text.
fn name_of(name: &str) -> Option<ClusterName> {
    if name.is_empty() {
        return Some(ClusterName::local());
    }
    ClusterName::new(name).ok()
}

/// The engaged clusters, and the entries that providers cannot use.
pub(crate) fn clusters(app: &App) -> Items<ClusterView> {
    let now = now();
    let pauses = app.manager.pauses();
    let none = pauses.clusters.is_empty() && pauses.providers.is_empty();
    let paused = |name: &str| {
        let name = ClusterName::new(name).ok().filter(|_| !none);
        let own = name.as_ref().and_then(|name| pauses.clusters.get(name));
        let cluster = name.and_then(|name| app.manager.fleet().cluster(&name));
        let provider = cluster.as_ref().and_then(|cluster| cluster.provider());
        let provider = provider.and_then(|name| pauses.providers.get(name));
        match (lasting(own), lasting(provider)) {
            (own, provider) if own.is_empty() => provider,
            (own, _) => own,
        }
    };
    let is_sharded = app.manager.shards().is_some();
    let own = |name: &str| name_of(name).is_some_and(|name| app.manager.works_on(&name));
    let owner = |name: &str| {
        let name = name_of(name).filter(|_| is_sharded);
        let owner = name.and_then(|name| app.manager.owner_of(&name));
        owner.map_or_else(String::new, |owner| owner.to_string())
    };
    let views = app
        .manager
        .clusters()
        .into_iter()
        .map(|status| ClusterView {
            paused: paused(&status.name),
            owner: owner(&status.name),
            is_own: own(&status.name),
            name: status.name,
            state: status.state.as_str().to_owned(),
            reason: status.reason,
            since_seconds: now.saturating_sub(status.since),
            next_attempt_seconds: status.next_attempt.map(|at| at.saturating_sub(now)),
            server: status.server,
            connections: (status.connections.http1.open + status.connections.http2.open) as u64,
            objects: status.objects as u64,
            bytes: status.bytes as u64,
            stores: status.stores.len() as u64,
            replacement: status.replacement.map(Into::into),
        });
    let unusable = app.manager.provider_problems().into_iter();
    let unusable = unusable.map(|problem| ClusterView {
        name: problem.subject,
        state: ClusterView::UNUSABLE.to_owned(),
        reason: problem.message,
        ..ClusterView::default()
    });
    Items::all(views.chain(unusable).collect())
}

/// The providers, and what they have found.
pub(super) fn providers(app: &App) -> Items<ProviderView> {
    let configuration = app.configuration.load();
    let views = app.manager.providers().into_iter().map(|status| {
        let document = configuration.provider(&status.name);
        let source = document.and_then(|(_, spec)| spec.source().ok());
        ProviderView {
            source: source.map_or(IN_MEMORY, |source| source.name()).to_owned(),
            found: status.found as u64,
            engaged: status.engaged as u64,
            refused: status.refused as u64,
            listed_seconds: status.last_listed.map(|ago| ago.as_secs()),
            problems: status.problems.into_iter().map(ProblemView::from).collect(),
            name: status.name,
        }
    });
    Items::all(views.collect())
}

/// The reconcilers of the documents, including those that do not run. Their figures are running counts: no key is read.
pub(crate) fn reconcilers(app: &App) -> Items<ReconcilerView> {
    let mut running: BTreeMap<_, _> = app
        .manager
        .controllers()
        .into_iter()
        .map(|status| (status.name.clone(), status))
        .collect();
    let pauses = app.manager.pauses();
    let paused = |tenant: &str, name: &str| {
        let of = TenantName::new(tenant)
            .ok()
            .zip(ControllerName::new(name).ok());
        lasting(of.and_then(|of| pauses.reconcilers.get(&of)))
    };
    let views = app.statuses.all().into_iter().map(|(name, entry)| {
        let mut view = ReconcilerView {
            paused: paused(&entry.tenant, &name),
            revision: entry.revision.unwrap_or_default(),
            previous: entry.previous.unwrap_or_default(),
            rolled_back: entry.rolled_back,
            guest: entry.guest.clone(),
            reload: entry.changed.map(|changed| ReloadView {
                ago_seconds: now().saturating_sub(since_epoch(changed.at)),
                took_seconds: changed.took.as_secs_f64(),
                in_effect: entry.problem.is_none(),
            }),
            problem: entry.problem.unwrap_or_default(),
            loading: entry.loading.is_some(),
            loading_seconds: entry.loading.map_or(0, |began| began.elapsed().as_secs()),
            tenant: entry.tenant,
            ..ReconcilerView::default()
        };
        if let Some(guest) = app.guest_registry.guest(&name) {
            show_guest(&mut view, guest.status());
        }
        if let Some(status) = running.remove(&name) {
            show_controller(app, &mut view, status);
        }
        view.name = name;
        view
    });
    Items::all(views.collect())
}

/// The manager's view of a reconciler.
fn show_controller(app: &App, view: &mut ReconcilerView, status: ControllerStatus) {
    view.serves = true;
    view.clusters = match app.manager.shards() {
        None => status.clusters as u64,
        Some(_) => own_clusters(app, &status),
    };
    view.ready = status.ready as u64;
    view.running = status.running as u64;
    view.delayed = status.delayed as u64;
    view.backoff = status.backoff as u64;
    view.paused_keys = status.paused as u64;
    view.terminal = status.terminal as u64;
    view.attempts = status.attempts.all();
    view.succeeded = status.attempts.succeeded;
    view.failed = status.attempts.failed;
    view.usage.failed_by = BlameView {
        guest: status.failed_by.guest,
        host: status.failed_by.host,
        api: status.failed_by.api,
    };
    view.watch_problems = status.problems;
    view.last_error = status.last_error.unwrap_or_default();
}

/// How many of the clusters that a controller watches this process works on: watches with mappers are in the others too.
fn own_clusters(app: &App, status: &ControllerStatus) -> u64 {
    let of = TenantName::new(status.tenant.as_str()).ok();
    let Some((tenant, name)) = of.zip(ControllerName::new(status.name.as_str()).ok()) else {
        return 0;
    };
    let clusters = app.manager.fleet().clusters();
    let own = clusters.iter().map(|cluster| cluster.name());
    let own = own.filter(|cluster| app.manager.works_on(cluster));
    own.filter(|cluster| app.manager.engages(&tenant, &name, cluster))
        .count() as u64
}

/// The description of a guest.
fn show_guest(view: &mut ReconcilerView, status: GuestStatus) {
    let hits = status.limit_hits.into_iter();
    view.usage = UsageView {
        cpu_seconds: status.cpu_seconds,
        cpu_waited_seconds: status.cpu_waited_seconds,
        memory_peak: status.memory_peak as u64,
        idle_instances: status.idle_instances as u64,
        limit_hits: hits
            .map(|(limit, count)| (limit.to_owned(), count))
            .collect(),
        denials: status.denials,
        failed_by: BlameView::default(),
    };
    let rules = status.missing_rules.iter();
    view.missing_rules = rules.map(|rule| format!("- {rule}")).collect();
    view.serves_seconds = now().saturating_sub(status.loaded);
}

/// A pause in words, unless it has ended.
fn lasting(pause: Option<&Pause>) -> String {
    let pause = pause.filter(|pause| pause.left(SystemTime::now()).is_some());
    pause.map_or_else(String::new, ToString::to_string)
}

/// By the wall clock, for people: in seconds since the epoch.
fn now() -> u64 {
    since_epoch(SystemTime::now())
}

fn since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// The tenants with a document or a reconciler.
pub(super) fn tenants(app: &App) -> Items<TenantView> {
    let configuration = app.configuration.load();
    let documents = configuration.tenants();
    let mut views: BTreeMap<String, TenantView> = documents
        .map(|(document, spec)| {
            let name = &document.identity.name;
            (name.clone(), tenant(app, name, spec))
        })
        .collect();
    for of in reconcilers(app).items {
        let view = views
            .entry(of.tenant)
            .or_insert_with_key(|name| tenant(app, name, &TenantSpec::default()));
        view.usage.add(&of.usage);
        view.reconcilers += 1;
        view.running += of.running;
        view.attempts += of.attempts;
        view.failed += of.failed;
    }
    Items::all(views.into_values().collect())
}

/// A tenant, without the figures of its reconcilers.
fn tenant(app: &App, name: &str, spec: &TenantSpec) -> TenantView {
    let tenant = app.guest_registry.tenant(name);
    let pauses = app.manager.pauses();
    let of = TenantName::new(name).ok();
    let paused = lasting(of.and_then(|of| pauses.tenants.get(&of)));
    let limits = spec.guests();
    TenantView {
        name: name.to_owned(),
        paused,
        weight: spec.weight(),
        concurrency: spec.limits.concurrency.map(|limit| limit.get() as u64),
        memory: limits.memory as u64,
        memory_used: tenant.as_ref().map_or(0, |t| t.memory_used() as u64),
        cpu: limits.cpu_millis.map(|millis| f64::from(millis) / 1000.0),
        requests_in_flight: tenant.map_or(0, |t| t.requests_in_flight() as u64),
        usage: UsageView::default(),
        ceiling: spec.rules.is_some(),
        reconcilers: 0,
        running: 0,
        attempts: 0,
        failed: 0,
    }
}

/// The keys that match the query.
pub(super) fn keys(app: &App, query: &KeyQuery) -> Result<Items<KeyView>, String> {
    const STATES: [&str; 9] = [
        "ready",
        "held",
        "running",
        "delayed",
        "backoff",
        "throttled",
        "paused",
        "terminal",
        "failing",
    ];
    if let Some(state) = &query.state
        && !STATES.contains(&state.as_str())
    {
        return Err(format!(
            "{state:?} is no state of a key: use one of {}",
            STATES.join(", ")
        ));
    }
    let cluster = query
        .cluster
        .as_ref()
        .map(ClusterName::new)
        .transpose()
        .map_err(|error| error.to_string())?;
    let filter = KeyFilter {
        tenant: query.tenant.clone(),
        controller: query.reconciler.clone(),
        cluster,
        state: query.state.clone(),
        limit: query.limit.unwrap_or(MAX_KEYS).min(MAX_KEYS),
    };
    let page = app.manager.keys_page(&filter, query.next.unwrap_or(0));
    // While a cluster passes on, two processes have its keys. They are shown by its owner, and by both while it has none.
    let is_sharded = app.manager.shards().is_some();
    let is_ours = |key: &KeyStatus| {
        let cluster = &key.queued.request.cluster;
        app.manager.works_on(cluster) || app.manager.owner_of(cluster).is_none()
    };
    let keys = page.keys.into_iter();
    let keys = keys.filter(|key| !is_sharded || is_ours(key));
    Ok(Items {
        items: keys.map(key_view).collect(),
        next: page.next.map(|next| next.to_string()),
    })
}

/// Why a key is not reconciled, by reconciler.
pub(super) fn explain(app: &App, query: &ExplainQuery) -> Result<Items<ExplanationView>, String> {
    let request: Request = query.key.parse().map_err(|error| format!("{error}"))?;
    let explanations = app.manager.explain(&request, query.reconciler.as_deref());
    if explanations.is_empty() {
        let none = match &query.reconciler {
            Some(name) => format!("the reconciler {name} does not serve"),
            None => "no reconciler serves".to_owned(),
        };
        return Err(format!("{none}: see windlass get reconcilers"));
    }
    let problems = app.manager.provider_problems();
    let views = explanations.into_iter().map(|explanation| {
        let mut view = explanation_view(&request, explanation);
        let engaged = app.manager.fleet().cluster(&request.cluster).is_some();
        if !engaged && !problems.is_empty() {
            let why = why_unknown(&problems, &request.cluster.to_string());
            view.why.push_str(&format!("; {why}"));
        }
        view
    });
    Ok(Items::all(views.collect()))
}

/// Why providers do not know a cluster: the problem that names it, else that there are some.
fn why_unknown(problems: &[Problem], cluster: &str) -> String {
    let name = cluster.rsplit('#').next().unwrap_or(cluster);
    let of_cluster = problems
        .iter()
        .find(|problem| names(&problem.subject, name) || names(&problem.message, name));
    match of_cluster {
        Some(problem) => format!("{}: {}", problem.subject, problem.message),
        None => format!(
            "no problem of a provider names it, and there are {}: see windlass get providers",
            problems.len()
        ),
    }
}

/// Whether a text has a name, and not as a part of a longer one.
fn names(text: &str, name: &str) -> bool {
    let of_names = |character: char| character.is_alphanumeric() || "-_".contains(character);
    let is_part = |neighbour: Option<char>| neighbour.is_some_and(of_names);
    let mut found = text.match_indices(name).filter(|_| !name.is_empty());
    found.any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

fn explanation_view(request: &Request, explanation: Explanation) -> ExplanationView {
    let key = explanation.key.map(key_view);
    let state = key.as_ref().map_or("idle", |key| key.state.as_str());
    ExplanationView {
        key: request.to_string(),
        tenant: explanation.tenant,
        reconciler: explanation.controller,
        state: state.to_owned(),
        why: explanation.why,
        last_result: explanation.last_result.unwrap_or_default().to_owned(),
        last_ended_seconds: explanation.last_ended,
        ..key.map_or_else(ExplanationView::default, |key| ExplanationView {
            attempts: key.attempts,
            runs_in_seconds: key.runs_in_seconds,
            last_error: key.last_error,
            blame: key.blame,
            cause: key.cause,
            source: key.source,
            ..ExplanationView::default()
        })
    }
}

/// A key as JSON.
pub(crate) fn key_view(status: KeyStatus) -> KeyView {
    let now = Instant::now();
    let key = status.queued;
    let seconds = |time: Duration| time.as_secs_f64();
    let since = key.state.since();
    let runs_in = match &status.paused {
        // Without an end nobody knows.
        Some(paused) => Some(paused.left).filter(|left| *left != Duration::MAX),
        None => {
            let runs_at = key.state.runs_at();
            runs_at.map(|at| at.saturating_duration_since(now))
        }
    };
    let failure = key.last_failure.as_ref();
    KeyView {
        key: key.request.to_string(),
        tenant: status.tenant.to_string(),
        reconciler: status.controller.to_string(),
        state: key.state.as_str().to_owned(),
        attempts: key.attempts.into(),
        since_seconds: since.map(|at| seconds(now.saturating_duration_since(at))),
        runs_in_seconds: runs_in.map(seconds),
        last_error: failure.map_or_else(String::new, |failure| failure.message.to_string()),
        reason: failure.map_or("", |failure| failure.reason).to_owned(),
        blame: failure
            .map_or("", |failure| failure.blame.as_str())
            .to_owned(),
        cause: key.cause.as_str().to_owned(),
        source: status
            .source
            .map_or_else(String::new, |kind| kind.to_string()),
        priority: key.priority.into(),
        paused: status
            .paused
            .map_or_else(String::new, |paused| paused.to_string()),
    }
}

/// Runs a key now.
pub(super) fn requeue(app: &App, asked: &RequeueRequest) -> Result<RequeueReply, RequeueError> {
    let request: Request = asked
        .key
        .parse()
        .map_err(|error| RequeueError::Wrong(format!("{error}")))?;
    let reconciler = asked
        .reconciler
        .as_ref()
        .map(ControllerName::new)
        .transpose();
    let reconciler = reconciler.map_err(|error| RequeueError::Wrong(error.to_string()))?;
    match app.manager.requeue(&request, reconciler.as_ref()) {
        0 => {
            let whose = reconciler.map_or_else(
                || "no reconciler".to_owned(),
                |name| format!("no reconciler {name}"),
            );
            let cluster = request.cluster.as_str();
            Err(RequeueError::Unknown(format!(
                "{whose} works in cluster {cluster:?}: see windlass get clusters and get reconcilers"
            )))
        }
        requeued => Ok(RequeueReply {
            requeued: requeued as u64,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_unknown_is_told_its_own_problem_alone() {
        let problems = [
            ("clusters/alphabet.kubeconfig", "it is empty"),
            ("alpha", "it has no server"),
        ];
        let problems = problems.map(|(subject, message)| Problem {
            subject: subject.to_owned(),
            message: message.to_owned(),
        });
        let why = |cluster: &str| why_unknown(&problems, cluster);
        assert_eq!(why("alpha"), "alpha: it has no server");
        assert_eq!(why("kcp#alpha"), "alpha: it has no server");
        assert_eq!(why("alphabet"), "clusters/alphabet.kubeconfig: it is empty");
        for other in ["beta", ""] {
            assert!(why(other).contains("there are 2"), "{}", why(other));
        }
    }
}
