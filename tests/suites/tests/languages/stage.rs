//! A simulated fleet on which a subject goes through cases. Entry point: [`play`].

use crate::book::{Book, Entry, MAPPED, listen};
use crate::cases::{Case, HTTP, SHORT};
use crate::compare::normal;
use crate::replayed::exactly;
use crate::server::Servers;
use crate::subject::{CREDENTIAL, Subject, http, parts, rules};
use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use windlass_fleet::cluster::TransportOptions;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::outcome::Disposition;
use windlass_fleet::{
    Action, ClusterName, Context, Controller, ControllerName, Failure, Grant, ObjectKey,
    Reconciler, Request, TenantName,
};
use windlass_harness::eventually::{DEADLINE, Seen, wait};
use windlass_harness::fleet::TestFleet;
use windlass_harness::outside::Outside;
use windlass_sandbox::Guest;

/// What happened in each case, line by line.
pub(crate) type Traces = BTreeMap<String, Vec<String>>;

/// Largest answer of a server that is read: small, as one never ends.
const MAX_BODY: usize = 2 << 20;
/// The case of an exception of the language's own. What an SDK logs about it, and says of it besides its message, is its own matter.
const EXCEPTION: &str = "exception";
/// Name and tier of the clusters.
const CLUSTERS: [(&str, &str); 3] = [("alpha", "first"), ("beta", "second"), ("gamma", "second")];

/// Has a subject go through cases, one after the other, and returns what happened.
pub(crate) async fn play(subject: &Subject, cases: &[Case], timeout: Duration) -> Result<Traces> {
    let tenant = subject.tenant(timeout);
    let book = Arc::new(Book::default());
    listen(&tenant, &book);
    let stage = Stage::start(subject, book, timeout).await?;
    let mut traces = Traces::new();
    for case in cases {
        let trace = stage.case(case).await;
        let trace = trace.with_context(|| format!("{tenant}, case {}", case.name))?;
        traces.insert(case.name.to_owned(), normal(trace, &tenant));
    }
    let expected: usize = cases.iter().map(|case| case.events).sum();
    let events = stage.events("")?;
    ensure!(
        events.len() == expected,
        "{expected} events are to be recorded: {events:?}"
    );
    // A run that the host has to end has no end of its own. On a busy machine that may be any run in so short a time.
    let ended = !cases
        .iter()
        .any(|case| SHORT.iter().any(|it| it.name == case.name));
    if let Some(guest) = stage.recorded.as_ref().filter(|_| ended) {
        let names: Vec<_> = cases.iter().map(|case| case.name).collect();
        exactly(guest, &names).await?;
    }
    Ok(traces)
}

struct Stage {
    fleet: TestFleet,
    /// A server that is no API server.
    outside: Outside,
    book: Arc<Book>,
    witness: Arc<Witness>,
    /// The guest, if all of its runs are recorded.
    recorded: Option<Arc<Guest>>,
}

impl Stage {
    async fn start(subject: &Subject, book: Arc<Book>, timeout: Duration) -> Result<Self> {
        let hook = Arc::new(Servers { book: book.clone() });
        let outside = Outside::start().await?;
        let http = http(outside.port)?;
        let parts = parts(subject, &book, http, timeout).await?;
        let witness = Arc::new(Witness {
            subject: parts.reconciler,
            seen: Mutex::default(),
            ended: Notify::new(),
        });
        let mut controller = Controller::builder(ControllerName::new("conformance")?)
            .tenant(TenantName::new(subject.tenant(timeout))?)
            .grant(Arc::new(Grant::new(rules())))
            .options(ControllerOptions {
                timeout,
                ..ControllerOptions::default()
            });
        if let Some(primary) = parts.primary {
            controller = controller.primary(primary);
        }
        for watch in parts.watches {
            controller = controller.watch(watch);
        }
        for index in parts.indexes {
            controller = controller.index(index);
        }
        let options = ManagerOptions {
            transport: TransportOptions {
                max_body: MAX_BODY,
                ..TransportOptions::default()
            },
            ..ManagerOptions::default()
        };
        let reconciler: Arc<dyn Reconciler> = witness.clone();
        let controller = controller.build(reconciler)?;
        let names = CLUSTERS.map(|(cluster, _)| cluster);
        let fleet = TestFleet::start_with(hook, &names, |manager| {
            manager.options(options).controller(controller)
        })
        .await?;
        for (cluster, tier) in CLUSTERS {
            let spec = fleet.spec(cluster)?.label("tier", tier);
            fleet
                .provider
                .put(spec.label("fleet", "test").property("region", "north"));
        }
        Ok(Self {
            fleet,
            outside,
            book,
            witness,
            recorded: parts.recorded,
        })
    }

    /// Sets a case up, waits for its end and returns its lines.
    async fn case(&self, case: &Case) -> Result<Vec<String>> {
        let namespace = case.name;
        for (cluster, _) in CLUSTERS {
            self.fleet
                .apply(cluster, named("v1", "Namespace", "", namespace))?;
        }
        let fruits = [("apple", "red"), ("banana", "yellow"), ("cherry", "red")];
        for cluster in ["alpha", "beta"] {
            self.fleet.apply(cluster, web(namespace))?;
            for (fruit, color) in fruits {
                self.fleet
                    .apply(cluster, fruit_map(namespace, fruit, color))?;
            }
        }
        // What was run for is in the cache: the case begins with all of it there.
        for cluster in ["alpha", "beta"] {
            for (fruit, _) in fruits {
                drop(self.outcome(cluster, namespace, fruit).await?);
            }
        }
        let outcomes = if namespace == MAPPED {
            self.mapped().await?
        } else {
            let mut primary = named("v1", "ConfigMap", namespace, "case");
            primary["metadata"]["labels"] = json!({"conformance.windlass.dev/case": namespace});
            if namespace == HTTP {
                let server = format!("http://127.0.0.1:{}", self.outside.port);
                primary["data"] = json!({"server": server});
            }
            self.fleet.apply("alpha", primary)?;
            vec![self.outcome("alpha", namespace, "case").await?]
        };
        let events = self.until_recorded(case).await?;

        let mut entries = self.book.of(namespace);
        if namespace == EXCEPTION {
            entries.retain(|entry| matches!(entry, Entry::Request(_)));
        }
        let mut lines = ordered(entries, case.at_once);
        if namespace == HTTP {
            let seen = |line: &String| line.contains(CREDENTIAL);
            ensure!(
                !lines.iter().any(seen),
                "it has seen a credential: {lines:#?}"
            );
            lines.extend(self.outside.heads().iter().map(|head| arrived(head)));
        }
        lines.extend(events);
        lines.extend(
            outcomes
                .iter()
                .map(|outcome| format!("ends: {}", shown(outcome, namespace))),
        );
        Ok(lines)
    }

    /// A Secret asks for a ConfigMap of one cluster, then of another; and one asks for none.
    async fn mapped(&self) -> Result<Vec<Outcome>> {
        let asking = |name: &str, cluster: Option<&str>| {
            let mut secret = named("v1", "Secret", MAPPED, name);
            secret["metadata"]["labels"] = json!({"conformance.windlass.dev/ask": "yes"});
            if let Some(cluster) = cluster {
                secret["metadata"]["annotations"] =
                    json!({"conformance.windlass.dev/for": cluster});
            }
            secret
        };
        let mut outcomes = Vec::new();
        for cluster in ["beta", "alpha"] {
            self.fleet.apply("alpha", asking("asking", Some(cluster)))?;
            outcomes.push(self.outcome(cluster, MAPPED, "asked").await?);
        }
        self.fleet.apply("alpha", asking("mute", None))?;
        let failure = wait("the mapper's failure", || {
            Seen::of(self.book.failures(), |failures| !failures.is_empty())
        })
        .await?;
        self.book.line(MAPPED, "WARN", "mapper failed", &failure[0]);
        Ok(outcomes)
    }

    /// How the run of a request ended, once it has.
    async fn outcome(&self, cluster: &str, namespace: &str, name: &str) -> Result<Outcome> {
        let key = ObjectKey::namespaced(namespace, name);
        let request = Request::new(ClusterName::new(cluster)?, key);
        let end = async {
            loop {
                let next = self.witness.ended.notified();
                if let Some(Some(outcome)) = self.witness.seen.lock().get(&request) {
                    return outcome.clone();
                }
                next.await;
            }
        };
        tokio::time::timeout(DEADLINE, end)
            .await
            .with_context(|| format!("{request} has not ended within {DEADLINE:?}"))
    }

    /// The events that a case records, which is in the background.
    async fn until_recorded(&self, case: &Case) -> Result<Vec<String>> {
        wait("the events", || match self.events(case.name) {
            Ok(events) => Seen::of(events, |events| events.len() >= case.events),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await
    }

    fn events(&self, namespace: &str) -> Result<Vec<String>> {
        let mut events = Vec::new();
        for (cluster, _) in CLUSTERS {
            let server = self.fleet.simulated(cluster);
            let found = server.list("events.k8s.io/v1", "Event", namespace);
            for event in found.map_err(|error| anyhow!("{error:?}"))? {
                let text = |pointer: &str| match event.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    other => format!("{other:?}"),
                };
                events.push(format!(
                    "event {} {cluster} {}/{}: {} {} by {}: {}",
                    text("/type"),
                    text("/regarding/kind"),
                    text("/regarding/name"),
                    text("/action"),
                    text("/reason"),
                    text("/reportingController"),
                    text("/note"),
                ));
            }
        }
        events.sort();
        Ok(events)
    }
}

type Outcome = Result<Action, Failure>;

/// Runs each request once, and keeps what came of it. To the queue all is done.
struct Witness {
    subject: Arc<dyn Reconciler>,
    /// None: it runs.
    seen: Mutex<BTreeMap<Request, Option<Outcome>>>,
    /// Told whenever a run has ended. One waits at a time.
    ended: Notify,
}

impl Reconciler for Witness {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let request = context.request.clone();
            let first = !self.seen.lock().contains_key(&request);
            if first {
                self.seen.lock().insert(request.clone(), None);
                let running = Running(self, request);
                let outcome = self.subject.reconcile(context).await;
                running.end(outcome);
            }
            Ok(Action::Done)
        })
    }
}

/// A run that has not ended. One that is cut off counts for nothing: it is tried again.
struct Running<'a>(&'a Witness, Request);

impl Running<'_> {
    fn end(self, outcome: Outcome) {
        self.0.seen.lock().insert(self.1.clone(), Some(outcome));
        self.0.ended.notify_one();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut seen = self.0.seen.lock();
        if seen.get(&self.1).is_some_and(Option::is_none) {
            seen.remove(&self.1);
        }
    }
}

/// A request of a server that is no API server, with its headers in order. How long a body is depends on how its JSON is written.
fn arrived(head: &str) -> String {
    let mut lines = head.trim_end().lines();
    let first = lines.next().unwrap_or_default();
    let mut headers: Vec<_> = lines
        .map(str::to_lowercase)
        .filter(|line| !line.starts_with("content-length") && !line.starts_with("host"))
        .collect();
    headers.sort();
    format!("{first}, {}", headers.join(", "))
}

/// Lines in the order in which they happened. Requests that are made at once come in any, and are sorted.
fn ordered(entries: Vec<Entry>, at_once: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut requests = Vec::new();
    for entry in entries {
        match entry {
            Entry::Request(text) => requests.push(text),
            Entry::Line(text) => {
                let text = text.replace('\n', " ");
                flush(&mut lines, &mut requests, at_once);
                lines.push(text);
            }
        }
    }
    flush(&mut lines, &mut requests, at_once);
    lines
}

fn flush(lines: &mut Vec<String>, requests: &mut Vec<String>, at_once: bool) {
    if at_once {
        requests.sort();
    }
    lines.append(requests);
}

/// How a run ended.
fn shown(outcome: &Outcome, case: &str) -> String {
    match outcome {
        Ok(Action::Done) => "done".to_owned(),
        Ok(Action::RequeueAfter(after)) => format!("requeue after {after:?}"),
        Err(failure) => {
            let how = match failure.disposition {
                Disposition::Retry => "retry",
                Disposition::Terminal => "terminal",
            };
            let message = match case {
                EXCEPTION if failure.message.contains("broken") => "… broken …",
                // Where it was thrown in the source is a language's own matter.
                _ => failure.message.split("\nat ").next().unwrap_or_default(),
            };
            format!("{how}: {message}")
        }
    }
}

fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn fruit_map(namespace: &str, fruit: &str, color: &str) -> Value {
    let mut map = named("v1", "ConfigMap", namespace, fruit);
    map["metadata"]["labels"] =
        json!({"set": "fruit", "fruit": fruit, "color": color, "of": namespace});
    map["data"] = json!({"color": color});
    map
}

/// A Deployment with a number that does not fit 32 bits.
fn web(namespace: &str) -> Value {
    let mut web = named("apps/v1", "Deployment", namespace, "web");
    let labels = json!({"app": "web"});
    web["spec"] = json!({
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 5_000_000_000_u64,
                "containers": [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:1"}],
            },
        },
    });
    web
}
