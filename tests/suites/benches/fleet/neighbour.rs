//! A noisy neighbour of native reconcilers, and of kube-rs's in the same slots. Entry point: [`measure`].
//!
//! Hot runs either wait, as for an API server, or compute. No runtime can preempt a native run that computes: with more of them than
//! processors a quiet run waits for one to end. Guests can be preempted; the bench `tenants` has the same work for them.

use super::noise::{AGAIN, HEADS, HOT, Noise, QUIET, SLOTS, layout, options};
use super::peer::{self, Peers, Work};
use super::simulated::Simulated;
use super::subject::{Sent, read, settled, watching};
use crate::rig;
use crate::workload::Workload;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_fleet::{Action, Context, Controller, Failure, TenantName};

/// What a hot run takes.
const WORK: Duration = Duration::from_millis(1);

pub(crate) const WORKLOAD: Workload = Workload {
    name: "neighbour",
    title: "16 slots for 1 tenant with 10,000 keys always due (1 ms a run) and 99 tenants with 1 update/s; quiet: due to started, ms; middle of 3 rounds",
    heads: HEADS,
    runs: &[
        &["windlass", "waits"],
        &["kube-rs", "waits"],
        &["windlass", "computes"],
        &["kube-rs", "computes"],
    ],
};

/// A run of a hot key, the same for every subject.
#[derive(Clone)]
struct Hot {
    noise: Arc<Noise>,
    computes: bool,
}

impl Hot {
    /// Returns whether the key is to run again.
    async fn run(&self, name: &str) -> bool {
        if self.noise.is_on() {
            if self.computes {
                let began = Instant::now();
                while began.elapsed() < WORK {
                    std::hint::spin_loop();
                }
            } else {
                // Not a wait: it is the work.
                tokio::time::sleep(WORK).await;
            }
        }
        self.noise.ran(name)
    }
}

pub(crate) async fn measure(who: &str, hot_run: &str) -> Result<Vec<String>> {
    let mut server = Simulated::start(layout()).await?;
    let noise = Noise::new();
    let work = Hot {
        noise: noise.clone(),
        computes: hot_run == "computes",
    };
    let mut cells = vec![who.to_owned(), hot_run.to_owned()];
    match who {
        "windlass" => {
            let mut builder = windlass_fleet::Manager::builder()
                .options(options())
                .controller(hot(work)?);
            for n in 0..QUIET {
                builder = builder.controller(quiet(&noise, n)?);
            }
            let manager = rig::engage(builder, server.specs()?).await?;
            settled(&manager).await?;
            cells.extend(noise.compare(&mut server).await?);
            manager.stop().await?;
        }
        "kube-rs" => {
            let peers = Peers::start(&server, 1, SLOTS, all(work))?;
            peers.all_seen(HOT + QUIET).await?;
            cells.extend(noise.compare(&mut server).await?);
            // The bar is ours.
            cells.pop();
        }
        other => bail!("no subject {other:?}"),
    }
    Ok(cells)
}

fn hot(work: Hot) -> Result<Controller> {
    let reconcile = move |context: Context| {
        let work = work.clone();
        async move {
            Ok(if work.run(&context.request.key.name).await {
                Action::RequeueAfter(AGAIN)
            } else {
                Action::Done
            })
        }
    };
    Ok(watching("hot", Some("set=hot"), SLOTS)?
        .tenant(TenantName::new("noisy")?)
        .build(Arc::new(reconcile))?)
}

fn quiet(noise: &Arc<Noise>, n: usize) -> Result<Controller> {
    let noise = noise.clone();
    let reconcile = move |context: Context| {
        let noise = noise.clone();
        async move {
            let (_, object) = read(&context).await?;
            if let Some(object) = object {
                noise.quiet(Sent::of(&object)?.at());
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    let selector = format!("name=quiet-{n}");
    Ok(watching("quiet", Some(&selector), 1)?
        .tenant(TenantName::new(format!("quiet-{n}"))?)
        .build(Arc::new(reconcile))?)
}

/// Both sorts of keys in one controller: it knows no tenants.
fn all(work: Hot) -> Work {
    Arc::new(move |object| {
        let work = work.clone();
        Box::pin(async move {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            if name.starts_with("quiet") {
                work.noise.quiet(peer::sent(&object));
                return peer::Action::await_change();
            }
            if work.run(name).await {
                peer::Action::requeue(AGAIN)
            } else {
                peer::Action::await_change()
            }
        })
    })
}
