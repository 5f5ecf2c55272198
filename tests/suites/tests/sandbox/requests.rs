//! Guests that have as many API requests as they can, in many runs at once, in batches and by the events that they record: a server
//! sees no more of them than their limits allow, and none of calls once the runs have ended.

use crate::fixture::{RunningGuest, Stage, config_map};
use anyhow::Result;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_apiserver::{AnswerVerdict, Call, Hook, RequestVerdict, Verb};
use windlass_fleet::backoff::Backoff;
use windlass_harness::eventually::{Seen, wait};
use windlass_sandbox::Rate;

/// Requests that may be under way.
const IN_FLIGHT: usize = 4;
/// Requests that may begin per second, and at once after a pause.
const PER_SECOND: u32 = 20;

/// Keeps account of the reads of `s…`, which only guests ask for.
struct Reads {
    /// How long one takes; none is ever answered without.
    takes: Option<Duration>,
    seen: Mutex<Account>,
}

#[derive(Default)]
struct Account {
    under_way: usize,
    most: usize,
    arrived: Vec<Instant>,
}

impl Reads {
    fn taking(takes: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            takes,
            seen: Mutex::default(),
        })
    }

    fn arrived(&self) -> Vec<Instant> {
        self.seen.lock().arrived.clone()
    }
}

fn is_read(call: &Call) -> bool {
    call.verb == Verb::Get && call.name.starts_with('s')
}

impl Hook for Reads {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if !is_read(call) {
            return RequestVerdict::Proceed;
        }
        let mut seen = self.seen.lock();
        seen.arrived.push(Instant::now());
        seen.under_way += 1;
        seen.most = seen.most.max(seen.under_way);
        match self.takes {
            Some(time) => RequestVerdict::Delay(time),
            None => RequestVerdict::Silence,
        }
    }

    fn answer(&self, _: &str, call: &Call, _: &bytes::Bytes) -> AnswerVerdict {
        if is_read(call) {
            self.seen.lock().under_way -= 1;
        }
        AnswerVerdict::Send
    }
}

/// What holds the requests back.
#[derive(Clone, Copy)]
enum Held {
    /// By how many are under way, of all guests of the tenant.
    InFlight,
    /// By how many begin, of one guest.
    Rate,
    /// By how many begin, of all guests of the tenant.
    TenantRate,
}

/// Two guests of one tenant, or one where the limit is its own, each of which has calls one after the other or batches of this size.
/// No run is tried again.
async fn storms(
    stage: &Stage,
    name: &str,
    held: Held,
    batches: &[usize],
    (calls, timeout): (u32, Duration),
) -> Result<Vec<RunningGuest>> {
    let rate = Some(Rate {
        per_second: PER_SECOND,
    });
    let mut guests: Vec<RunningGuest> = Vec::new();
    for batch in batches {
        let builder = stage
            .guest("test-storm")
            .name(&format!("{name}-{batch}"))
            .config(json!({"live": true, "batch": batch, "labels": "test.windlass.dev/run"}))
            .limits(|limits| {
                (limits.host_calls, limits.timeout) = (calls, timeout);
                if let Held::Rate = held {
                    limits.requests_per_second = rate;
                }
            })
            .tenant(|limits| match held {
                Held::InFlight => limits.requests_in_flight = IN_FLIGHT,
                Held::TenantRate => limits.requests_per_second = rate,
                Held::Rate => {}
            })
            .controller(|options| {
                options.concurrency_per_cluster = 8;
                options.backoff = Backoff::new(HOUR, HOUR);
            });
        let builder = match guests.first() {
            Some(first) => builder.tenant_of(first),
            None => builder,
        };
        guests.push(builder.run().await?);
    }
    Ok(guests)
}

const HOUR: Duration = Duration::from_secs(3600);

/// So many objects for the storms.
fn begin(stage: &Stage, objects: usize) -> Result<()> {
    (0..objects).try_for_each(|at| {
        let mut object = config_map(&format!("s{at}"), json!({}));
        object["metadata"]["labels"] = json!({"test.windlass.dev/run": "yes"});
        stage.apply("alpha", object)
    })
}

/// Has a neighbour of another tenant greet, and returns once it has.
async fn served(stage: &Stage, neighbour: &RunningGuest, name: &str) -> Result<()> {
    let mut object = config_map(name, json!({}));
    object["metadata"]["labels"] = json!({"hello.windlass.dev/greet": "world"});
    stage.apply("alpha", object)?;
    let right = |data: &serde_json::Value| data["greeting"] == "hello, world, from alpha";
    stage
        .data("alpha", &format!("{name}-greeting"), right)
        .await?;
    neighbour
        .outcome("alpha", name)
        .await?
        .expect("the neighbour greets");
    Ok(())
}

async fn neighbour(stage: &Stage, name: &str) -> Result<RunningGuest> {
    let builder = stage.guest("hello").name(&format!("beside-{name}"));
    let builder = builder.limits(|limits| limits.timeout = Duration::from_secs(60));
    builder.run().await
}

/// Waits for the end of so many runs of each, and returns what each said.
async fn ended(guests: &[RunningGuest], runs: usize) -> Result<Vec<String>> {
    for running in guests {
        wait("the runs to end", || {
            Seen::of(running.runs(), |ended| *ended >= runs)
        })
        .await?;
    }
    Ok(guests.iter().flat_map(RunningGuest::failures).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_a_tenant_have_no_more_requests_under_way_than_it_may() -> Result<()> {
    const CALLS: u32 = 100;
    let reads = Reads::taking(Some(Duration::from_millis(5)));
    let stage = Stage::hooked(&["alpha"], reads.clone()).await?;
    let beside = neighbour(&stage, "many-under-way").await?;
    let bounds = (CALLS, Duration::from_secs(60));
    let guests = storms(&stage, "under-way", Held::InFlight, &[0, 50], bounds).await?;
    begin(&stage, 4)?;
    served(&stage, &beside, "a").await?;
    for said in ended(&guests, 4).await? {
        assert!(said.contains("limit-exceeded"), "{said}");
        assert!(said.contains("raise limits.hostCalls"), "{said}");
    }
    {
        let seen = reads.seen.lock();
        assert_eq!(seen.most, IN_FLIGHT, "the most under way at once");
        assert_eq!(seen.under_way, 0);
        assert_eq!(seen.arrived.len(), 8 * CALLS as usize, "each call once");
    }
    for running in &guests {
        let hits = running.guest.status().limit_hits;
        assert!(hits["tenant.requestsInFlight"] > 0, "{hits:?}");
        assert_eq!(running.requests_in_flight(), 0);
    }
    Ok(())
}

/// Eight runs beyond a rate: the server gets as many requests as it allows, by the time of each request.
async fn at_a_rate(held: Held, batches: &[usize], limit: &str) -> Result<()> {
    const CALLS: u32 = 10;
    let reads = Reads::taking(Some(Duration::ZERO));
    let stage = Stage::hooked(&["alpha"], reads.clone()).await?;
    let name = limit.replace('.', "-").to_lowercase();
    let beside = neighbour(&stage, &name).await?;
    let bounds = (CALLS, Duration::from_secs(60));
    let guests = storms(&stage, &name, held, batches, bounds).await?;
    let began = Instant::now();
    let objects = 8 / batches.len();
    begin(&stage, objects)?;
    served(&stage, &beside, "a").await?;
    for said in ended(&guests, objects).await? {
        assert!(said.contains("raise limits.hostCalls"), "{said}");
    }
    let arrived = reads.arrived();
    assert_eq!(arrived.len(), 8 * CALLS as usize, "each call once");
    for (at, arrived) in (1u32..).zip(arrived) {
        let earliest = Duration::from_secs(1) * at.saturating_sub(PER_SECOND) / PER_SECOND;
        let after = arrived.duration_since(began);
        assert!(after >= earliest, "request {at} came after {after:?}");
    }
    let hits = guests
        .iter()
        .map(|running| running.guest.status().limit_hits);
    let waited: u64 = hits.filter_map(|hits| hits.get(limit).copied()).sum();
    assert!(waited > 0, "no request had to wait");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_guest_begin_no_more_requests_per_second_than_it_may() -> Result<()> {
    at_a_rate(Held::Rate, &[5], "requestsPerSecond").await
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_of_a_tenant_begin_no_more_requests_per_second_than_it_may() -> Result<()> {
    at_a_rate(Held::TenantRate, &[0, 5], "tenant.requestsPerSecond").await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_end_with_their_calls() -> Result<()> {
    let reads = Reads::taking(None);
    let stage = Stage::hooked(&["alpha"], reads.clone()).await?;
    let beside = neighbour(&stage, "silence").await?;
    // Far more than may be under way: half of the runs have sixteen of a batch in line.
    let bounds = (10_000, Duration::from_secs(6));
    let guests = storms(&stage, "in-line", Held::InFlight, &[0, 500], bounds).await?;
    begin(&stage, 4)?;
    wait("as many requests as there may be", || {
        Seen::of(reads.arrived().len(), |arrived| *arrived == IN_FLIGHT)
    })
    .await?;
    served(&stage, &beside, "a").await?;
    let storming: usize = guests.iter().map(RunningGuest::under_way).sum();
    assert_eq!(storming, 8, "the neighbour was served meanwhile");
    assert_eq!(reads.arrived().len(), IN_FLIGHT);

    // Those in line say so before their time is over.
    for said in ended(&guests, 4).await? {
        let known = ["cancelled", "timeout", "limit-exceeded"];
        assert!(known.iter().any(|end| said.contains(end)), "{said}");
    }
    let ended = Instant::now();
    wait("no request under way", || {
        Seen::of(guests[0].requests_in_flight(), |under_way| *under_way == 0)
    })
    .await?;
    // A read that nobody waits for any more would be given up by itself after ten seconds.
    assert!(ended.elapsed() < Duration::from_secs(5));
    served(&stage, &beside, "b").await?;
    let late = reads.arrived().into_iter().filter(|at| *at > ended);
    assert_eq!(late.count(), 0, "requests after the end of all runs");
    Ok(())
}

/// Notes when requests arrive that events make: of a guest that records them about objects called `absent…`.
#[derive(Default)]
struct Recorded(Mutex<Vec<Instant>>);

impl Hook for Recorded {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        let is_event = call.resource == "events" && call.namespace == "default";
        if is_event || call.name.starts_with("absent") {
            self.0.lock().push(Instant::now());
        }
        RequestVerdict::Proceed
    }
}

fn records(namespace: &str, name: &str) -> serde_json::Value {
    json!({"do": "record-event", "kind": ["v1", "ConfigMap"], "key": [namespace, name]})
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_guest_begin_no_more_requests_per_second_than_it_may() -> Result<()> {
    const EVENTS: usize = 900;
    /// More than wait to be written.
    const REFUSED: u64 = 500;
    let recorded = Arc::new(Recorded::default());
    let stage = Stage::hooked(&["alpha"], recorded.clone()).await?;
    let quiet = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quiet"}});
    stage.apply("alpha", quiet)?;
    let steps = (0..EVENTS).map(|at| records("default", &format!("absent-{at}")));
    let steps: Vec<_> = steps.collect();
    let guest = |name: &str, steps| {
        let guest = stage.guest("test-calls").name(name);
        guest.config(json!({"steps": steps}))
    };
    let flood = guest("floods-events", json!(steps)).limits(|limits| {
        limits.requests_per_second = Some(Rate { per_second: 1 });
        limits.timeout = Duration::from_secs(60);
    });
    let flood = flood.run().await?;
    let beside = guest("beside-events", json!([records("quiet", "absent")])).run();
    let beside = beside.await?;
    let began = Instant::now();
    stage.apply("alpha", config_map("run", json!({})))?;
    flood.failure("alpha", "run").await?;
    beside.failure("alpha", "run").await?;
    let hits = flood.guest.status().limit_hits;
    assert!(hits["events"] >= REFUSED, "{hits:?}");
    let server = stage.simulated("alpha");
    wait("the neighbour's event", || {
        Seen::of(
            server.list("v1", "Event", "quiet").unwrap_or_default(),
            |all| all.len() == 1,
        )
    })
    .await?;
    // The neighbour's own read is one of them.
    wait("requests of events", || {
        Seen::of(recorded.0.lock().len(), |arrived| *arrived >= 5)
    })
    .await?;
    for (at, arrived) in (0..).zip(recorded.0.lock().iter()) {
        let earliest = Duration::from_secs(1) * u32::saturating_sub(at, 1);
        let after = arrived.duration_since(began);
        assert!(after >= earliest, "request {at} came after {after:?}");
    }
    let hits = flood.guest.status().limit_hits;
    assert!(hits["requestsPerSecond"] > 0, "{hits:?}");
    Ok(())
}
