//! What the program counts of guests is what happened: the values in its metrics, its API and its tables.

use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, client_of, fleet_with, start, table};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Instant;
use windlass_apiserver::{Faults, RequestFault, Rule, Verb};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;

/// A reconciler between two of its runs, and the metrics of then.
struct Told {
    item: Json,
    metrics: String,
}

impl Told {
    /// Once it has run so often and nothing of it runs.
    async fn of(http: &Http, name: &str, attempts: u64) -> Result<Self> {
        let what = format!("{name} at rest");
        let told = eventually(SOON, &what, || async {
            let before = item(http, "reconcilers", name).await?;
            let (_, metrics) = http.get("/metrics").await?;
            let item = item(http, "reconcilers", name).await?;
            Ok(Seen::of((before, metrics, item), |(before, _, after)| {
                after["attempts"].as_u64() >= Some(attempts)
                    && [before, after].iter().all(|told| told["running"] == 0)
                    && before["attempts"] == after["attempts"]
            }))
        });
        let (_, metrics, item) = told.await?;
        Ok(Self { item, metrics })
    }

    fn number(&self, pointer: &str) -> f64 {
        self.item
            .pointer(pointer)
            .and_then(Json::as_f64)
            .unwrap_or(f64::NAN)
    }

    /// The sum of a reconciler's series with these labels.
    fn metric(&self, family: &str, labels: &[&str]) -> f64 {
        let own = format!(
            "reconciler=\"{}\"",
            self.item["name"].as_str().unwrap_or_default()
        );
        let lines = self.metrics.lines();
        let series = lines.filter_map(|line| line.strip_prefix(family)?.strip_prefix('{'));
        let series = series.filter(|line| line.contains(&own));
        let series = series.filter(|line| labels.iter().all(|label| line.contains(label)));
        let values = series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum()
    }

    /// That all its attempts failed, by this fault and for this reason.
    fn assert_failed(&self, blame: &str, reason: &str) -> f64 {
        let (item, attempts) = (&self.item, self.number("/attempts"));
        assert_eq!(self.number("/failed"), attempts, "{item}");
        assert_eq!(self.number("/succeeded"), 0.0, "{item}");
        for fault in ["guest", "host", "api"] {
            let expected = if fault == blame { attempts } else { 0.0 };
            assert_eq!(
                self.number(&format!("/usage/failedBy/{fault}")),
                expected,
                "{item}"
            );
            let label = format!("blame=\"{fault}\"");
            let counted = self.metric("windlass_reconcile_failures_total", &[&label]);
            assert_eq!(counted, expected, "{label} of {item}");
        }
        let why = [format!("blame=\"{blame}\""), format!("reason=\"{reason}\"")];
        let counted = self.metric("windlass_reconcile_failures_total", &[&why[0], &why[1]]);
        assert_eq!(counted, attempts, "{why:?} of {item}");
        let errors = self.metric("controller_runtime_reconcile_total", &["result=\"error\""]);
        assert_eq!(errors, attempts, "{item}");
        attempts
    }
}

async fn item(http: &Http, list: &str, name: &str) -> Result<Json> {
    let (_, body) = http.get(&format!("/api/v1/{list}")).await?;
    let answer: Json = serde_json::from_str(&body)?;
    let items = answer["items"].as_array().context("items")?;
    let found = items.iter().find(|item| item["name"] == name);
    found
        .cloned()
        .with_context(|| format!("{name} in {answer}"))
}

/// Seconds that a call of the guest that never returns may take.
const TIMEOUT: f64 = 1.0;

/// One that never returns, one that takes more memory than it may, one that the server refuses, one that no rule lets write.
fn documents() -> [String; 4] {
    let wrong = |name, of, limit| {
        let document = reconciler(name, &guest(of));
        format!("{document}  limits: {{{limit}, concurrency: 1}}\n")
    };
    let hello = |name: &str| reconciler(name, &guest("hello"));
    [
        wrong("loops", "test-loop", "timeout: 1s"),
        wrong("hoards", "test-memory", "memory: 8Mi"),
        hello("unlucky"),
        hello("denied").replace("[get, list, watch, create, patch]", "[get, list, watch]"),
    ]
}

#[tokio::test]
async fn what_is_told_of_guests_is_what_they_did() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&documents())?;
    let faults = Arc::new(Faults::default());
    let refused = RequestFault::Status {
        code: 500,
        retry_after: None,
    };
    faults.add(Rule::new(refused).verb(Verb::Patch).resource("configmaps"));
    let _server = fleet_with(&project, &["alpha"], Some(faults)).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let began = Instant::now();
    let (_program, address) = start(&project).await?;
    let http = Http {
        address: address.clone(),
    };

    let loops = Told::of(&http, "loops", 3).await?;
    let elapsed = began.elapsed().as_secs_f64();
    let attempts = loops.assert_failed("guest", "timeout");
    // One that waits for its turn as its time ends, which others on this machine decide about, is none of the guest's doing.
    let hits = loops.number("/usage/limitHits/timeout");
    assert!((1.0..=attempts).contains(&hits), "{}", loops.item);
    let counted = loops.metric("windlass_guest_limit_hits_total", &["limit=\"timeout\""]);
    assert_eq!(counted, hits);
    // One call at a time, each cut off at its deadline: no more than that, and all of it but for what it waited for a processor.
    let cpu = loops.number("/usage/cpuSeconds");
    let waited = loops.number("/usage/cpuWaitedSeconds");
    let allowed = attempts * TIMEOUT;
    assert!(
        cpu <= 1.3 * allowed && cpu <= elapsed,
        "{cpu} of {allowed} in {elapsed}"
    );
    assert!(
        cpu + waited >= 0.75 * allowed,
        "{cpu} and {waited} of {allowed}"
    );
    assert!(cpu > 0.0, "{waited} of {allowed}");
    let counted = loops.metric("windlass_guest_cpu_seconds_total", &[]);
    assert!((counted - cpu).abs() < 0.01, "{counted}, {cpu}");
    let peak = loops.number("/usage/memoryPeak");
    assert!((65_536.0..4e6).contains(&peak), "{peak}");

    let hoards = Told::of(&http, "hoards", 2).await?;
    let attempts = hoards.assert_failed("guest", "memory");
    assert!(
        hoards.number("/usage/limitHits/memory") >= attempts,
        "{}",
        hoards.item
    );
    let peak = hoards.number("/usage/memoryPeak");
    assert!((6e6..=f64::from(8 << 20)).contains(&peak), "{peak}");
    assert_eq!(hoards.metric("windlass_guest_memory_peak_bytes", &[]), peak);

    let unlucky = Told::of(&http, "unlucky", 2).await?;
    unlucky.assert_failed("api", "api");
    assert_eq!(unlucky.number("/usage/denials"), 0.0);

    let denied = Told::of(&http, "denied", 2).await?;
    let attempts = denied.assert_failed("guest", "error");
    assert_eq!(denied.number("/usage/denials"), attempts);
    assert_eq!(denied.metric("windlass_guest_denials_total", &[]), attempts);
    let missing = denied.item["missingRules"][0].as_str().unwrap_or_default();
    assert!(missing.contains("patch"), "{missing}");

    // The same, as people read it.
    let rows = table(&project, &address, &["get", "reconcilers", "-o", "wide"]).await?;
    let row = |name: &str| {
        let row = rows.iter().find(|row| row["RECONCILER"] == name);
        row.with_context(|| format!("{name} in {rows:?}"))
    };
    let (looping, unlucky) = (row("loops")?, row("unlucky")?);
    let revision = loops.item["revision"].as_str().unwrap_or_default();
    assert_eq!(looping["REVISION"], revision[..12]);
    assert!(
        looping["ATTEMPTS"].parse::<f64>()? >= allowed,
        "{looping:?}"
    );
    assert!(
        looping["BY GUEST"].parse::<f64>()? >= allowed,
        "{looping:?}"
    );
    assert_eq!(
        (&*looping["HOST"], &*looping["API"]),
        ("0", "0"),
        "{looping:?}"
    );
    assert!(looping["CPU"].ends_with('s'), "{looping:?}");
    assert!(looping["LIMITS HIT"].contains("timeout "), "{looping:?}");
    assert_eq!(
        (&*looping["DENIED"], &*looping["RELOAD"]),
        ("0", "-"),
        "{looping:?}"
    );
    assert_eq!(unlucky["BY GUEST"], "0", "{unlucky:?}");
    assert!(unlucky["API"].parse::<u64>()? >= 2, "{unlucky:?}");
    assert!(row("denied")?["DENIED"].parse::<u64>()? >= 2, "{rows:?}");
    assert!(row("hoards")?["MEMORY PEAK"].ends_with("MiB"), "{rows:?}");
    let rows = table(&project, &address, &["get", "reconcilers"]).await?;
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows.iter().all(|row| row["FAILED"] != "0"), "{rows:?}");

    let tenant = item(&http, "tenants", "team-a").await?;
    for fault in ["guest", "api"] {
        assert!(
            tenant["usage"]["failedBy"][fault].as_u64() >= Some(2),
            "{tenant}"
        );
    }
    assert!(
        tenant["usage"]["denials"].as_f64() >= Some(attempts),
        "{tenant}"
    );
    assert!(
        tenant["usage"]["cpuSeconds"].as_f64() >= Some(cpu),
        "{tenant}"
    );
    let rows = table(&project, &address, &["get", "tenants", "-o", "wide"]).await?;
    assert_eq!((rows.len(), &*rows[0]["TENANT"]), (1, "team-a"), "{rows:?}");
    assert_eq!(
        (&*rows[0]["CONCURRENCY"], &*rows[0]["RECONCILERS"]),
        ("32", "4")
    );
    assert!(rows[0]["LIMITS HIT"].contains("timeout "), "{rows:?}");
    let narrow = table(&project, &address, &["get", "tenants"]).await?;
    assert_eq!(narrow[0].get("LIMITS HIT"), None, "{narrow:?}");
    Ok(())
}
