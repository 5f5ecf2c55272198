//! A program whose guests compute without end: what that costs others, and where it is told.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, ask, client_of, fleet, start};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::time::{Duration, Instant};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;

/// A guest that never returns.
fn looping() -> String {
    let document = reconciler("loops", &guest("test-loop"));
    format!("{document}  limits: {{timeout: 2s}}\n")
}

async fn list(http: &Http, what: &str) -> Result<Vec<Json>> {
    let (_, body) = http.get(&format!("/api/v1/{what}")).await?;
    let answer: Json = serde_json::from_str(&body)?;
    Ok(answer["items"].as_array().cloned().unwrap_or_default())
}

async fn item(http: &Http, what: &str, name: &str) -> Result<Option<Json>> {
    let items = list(http, what).await?.into_iter();
    Ok(items.into_iter().find(|item| item["name"] == name))
}

async fn computed(http: &Http) -> Result<f64> {
    let loops = item(http, "reconcilers", "loops")
        .await?
        .unwrap_or_default();
    Ok(loops["usage"]["cpuSeconds"].as_f64().unwrap_or_default())
}

async fn busy(http: &Http) -> Result<()> {
    let from = computed(http).await?;
    eventually(SOON, "loops on the guests' threads", || async {
        Ok(Seen::of(computed(http).await?, |now| *now > from + 1.0))
    })
    .await?;
    Ok(())
}

/// More than guests' threads compute for other guests, in ticks of the system.
const COMPUTED: u64 = 20;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// How long a probe takes, and an object from its creation until it is in the cache.
async fn latencies(http: &Http, maps: &ConfigMaps, round: &str) -> Result<(Duration, Duration)> {
    let (mut probes, mut arrivals) = (Vec::new(), Vec::new());
    for at in 0..9 {
        for path in ["/livez", "/readyz"] {
            let began = Instant::now();
            let (status, body) = http.get(path).await?;
            assert_eq!(status, 200, "{body}");
            probes.push(began.elapsed());
        }
        let objects = async || -> Result<u64> {
            let clusters = list(http, "clusters").await?;
            clusters[0]["objects"].as_u64().context("a count")
        };
        let before = objects().await?;
        maps.ask(&format!("{round}-{at}"), "world").await?;
        let began = Instant::now();
        while objects().await? <= before {
            assert!(began.elapsed() < SOON, "the object is not seen");
        }
        arrivals.push(began.elapsed());
    }
    Ok((median(probes), median(arrivals)))
}

#[tokio::test]
async fn busy_guests_hold_up_neither_probes_nor_watches() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(std::slice::from_ref(&hello))?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (program, address) = start(&project).await?;
    let http = Http { address };
    eventually(SOON, "readiness", || async {
        Ok(Seen::of(http.get("/readyz").await?, |(status, _)| {
            *status == 200
        }))
    })
    .await?;
    let maps = client_of(&project, "alpha").await?;
    let idle = latencies(&http, &maps, "idle").await?;
    project.write_config(&[hello, looping()])?;
    let pid = program.pid().context("a running program")?;
    busy(&http).await?;
    let busy = latencies(&http, &maps, "busy").await?;
    // Were guests on the same threads, and did they not yield, both would take as long as their loops.
    let bound = |idle: Duration| 20 * idle + Duration::from_millis(250);
    assert!(
        busy.0 <= bound(idle.0),
        "probes: {:?}, idle {:?}",
        busy.0,
        idle.0
    );
    assert!(
        busy.1 <= bound(idle.1),
        "watches: {:?}, idle {:?}",
        busy.1,
        idle.1
    );
    let before = computed_by_guests(pid)?;
    eventually(SOON, "guests that compute on their own threads", || async {
        Ok(Seen::of(computed_by_guests(pid)?, |now| {
            *now > before + COMPUTED
        }))
    })
    .await?;
    // A neighbour is served beside them.
    maps.expect_greeted("busy-8").await?;
    Ok(())
}

/// Processor time of the guests' threads, in ticks.
fn computed_by_guests(process: u32) -> Result<u64> {
    let mut computed = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let Ok(stat) = std::fs::read_to_string(task?.path().join("stat")) else {
            continue; // it has ended
        };
        let (head, rest) = stat.rsplit_once(')').context("a name")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if head.contains("(windlass-guest") {
            computed += fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        }
    }
    Ok(computed)
}

#[tokio::test]
async fn what_guests_use_is_told_and_forgotten_with_them() -> Result<()> {
    let project = Project::new()?;
    let hello = reconciler("hello", &guest("hello"));
    project.write_config(&[hello.clone(), looping()])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let maps = client_of(&project, "alpha").await?;
    maps.ask("a", "world").await?;
    let (_program, address) = start(&project).await?;
    let http = Http {
        address: address.clone(),
    };
    maps.expect_greeted("a").await?;
    busy(&http).await?;
    let (_, metrics) = http.get("/metrics").await?;
    let series = |name: &str, labels: &str| format!("{name}{{tenant=\"team-a\"{labels}}} ");
    let loops = ",reconciler=\"loops\"";
    for wanted in [
        series("windlass_guest_cpu_seconds_total", loops),
        series("windlass_guest_memory_peak_bytes", ",reconciler=\"hello\""),
        series("windlass_guest_denials_total", loops),
        series("windlass_guest_reload_refused", loops),
        series("windlass_tenant_cpu_seconds_total", ""),
        series("windlass_tenant_memory_bytes", ""),
    ] {
        assert!(metrics.contains(&wanted), "{wanted} in {metrics}");
    }
    let tenant = item(&http, "tenants", "team-a").await?.context("team-a")?;
    assert!(
        tenant["usage"]["cpuSeconds"].as_f64() > Some(1.0),
        "{tenant}"
    );
    assert!(tenant["memoryUsed"].as_u64() > Some(0), "{tenant}");
    let told = ask(&project, &address, &["get", "reconcilers"]).await?;
    assert_eq!(told["items"][0]["usage"]["failedBy"]["host"], 0, "{told}");
    // A limit that changes is a reload.
    let limited =
        format!("{hello}  limits: {{hostCalls: 100, requestsPerSecond: 50}}\n  isolation: reuse\n");
    project.write_config(&[limited])?;
    eventually(SOON, "the reload", || async {
        let hello = item(&http, "reconcilers", "hello")
            .await?
            .unwrap_or_default();
        Ok(Seen::of(hello, |hello| hello["reload"]["inEffect"] == true))
    })
    .await?;
    maps.ask("b", "world").await?;
    maps.expect_greeted("b").await?;
    eventually(SOON, "an instance that waits for another call", || async {
        let hello = item(&http, "reconcilers", "hello")
            .await?
            .unwrap_or_default();
        Ok(Seen::of(hello, |hello| {
            hello["usage"]["idleInstances"].as_u64() > Some(0)
        }))
    })
    .await?;
    eventually(SOON, "the loops forgotten", || async {
        let (_, metrics) = http.get("/metrics").await?;
        // What runs still ends, and is counted by the manager until then.
        let told = |line: &str| line.starts_with("windlass_guest_") && line.contains(loops);
        Ok(Seen::of(metrics, |metrics| !metrics.lines().any(told)))
    })
    .await?;
    Ok(())
}

/// A tenant that bounds each of its reconcilers, with one that never returns and one that eats memory. Both ask for more.
fn bounded(memory: &str, timeout: &str) -> Vec<String> {
    let tenant = format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: team-b}}\n\
         spec: {{limits: {{perReconciler: {{memory: {memory}, timeout: {timeout}}}}}}}\n"
    );
    let asking = |name: &str, of: &str| {
        let document = reconciler(name, &guest(of)).replace("team-a", "team-b");
        format!("{document}  limits: {{memory: 128Mi, timeout: 1h}}\n")
    };
    vec![
        tenant,
        asking("loops", "test-loop"),
        asking("eats", "test-memory"),
    ]
}

#[tokio::test]
async fn no_reconciler_has_more_than_its_tenant_lets_each_have() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&bounded("8Mi", "700ms"))?;
    let _server = fleet(&project, &["alpha"]).await?;
    let maps = client_of(&project, "alpha").await?;
    maps.ask("a", "world").await?;
    let (_program, address) = start(&project).await?;
    let http = Http { address };
    let fails = async |name: &str, so: &str| {
        eventually(SOON, so, || async {
            let item = item(&http, "reconcilers", name).await?.unwrap_or_default();
            let error = item["lastError"].as_str().unwrap_or_default().to_owned();
            Ok(Seen::of(error, |error| error.contains(so)))
        })
        .await
        .map(drop)
    };
    fails("loops", "no result within 700ms").await?;
    fails("eats", "its memory limit of 8 MiB").await?;
    // What the tenant's document says next is in effect for both, though theirs are as they were.
    project.write_config(&bounded("16Mi", "900ms"))?;
    fails("loops", "no result within 900ms").await?;
    fails("eats", "its memory limit of 16 MiB").await
}

#[tokio::test]
async fn what_guests_compute_as_they_are_loaded_keeps_no_thread_of_the_host() -> Result<()> {
    const COUNT: usize = 6;
    let project = Project::new()?;
    let document = |number| {
        let name = format!("endless{number}");
        reconciler(&name, &guest("test-describe")).replace("{greeting: hello}", "{way: loop}")
    };
    let mut documents: Vec<String> = (0..COUNT).map(document).collect();
    documents.push(reconciler("hello", &guest("hello")));
    project.write_config(&documents)?;
    let _server = fleet(&project, &["alpha"]).await?;
    let (program, address) = start(&project).await?;
    let http = Http { address };
    eventually(SOON, "all of them to be refused", || async {
        let items = list(&http, "reconcilers").await?;
        Ok(Seen::of(items, |items| {
            let refused = items.iter().filter(|item| {
                let problem = item["problem"].as_str().unwrap_or_default();
                problem.contains("describe must only say what the guest wants")
            });
            refused.count() == COUNT
        }))
    })
    .await?;
    let computed = computed_by_guests(program.pid().context("it runs")?)?;
    // How much depends on what other programs leave: a guest is cut off by the time that it has waited, too.
    assert!(computed >= COUNT as u64, "{computed} ticks");
    Ok(())
}
