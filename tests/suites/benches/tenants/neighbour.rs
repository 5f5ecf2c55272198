//! A tenant's guest with 10,000 keys that are always due, beside the guests of 99 quiet tenants. Entry point: [`measure`].

use super::stage::{Setup, Stage, component};
use crate::fleet::noise::{AGAIN, HEADS, Noise, QUIET, SLOTS, layout, options};
use crate::fleet::simulated::Simulated;
use crate::fleet::subject::{Sent, read, settled, watching};
use crate::rig;
use crate::workload::Workload;
use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use windlass_fleet::{Action, Context, Failure, Reconciler, TenantName};
use windlass_sandbox::Guest;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "neighbour",
    title: "16 slots for 1 tenant's guest with 10,000 keys always due and the guests of 99 tenants with 1 update/s; quiet: due to reconciled, ms; middle of 3 rounds",
    heads: HEADS,
    runs: &[&["1"], &["100"]],
};

/// What a quiet guest does: it reads its object from the cache.
const QUIET_READS: &str = "1";

pub(crate) async fn measure(hot_reads: &str) -> Result<Vec<String>> {
    let mut server = Simulated::start(layout()).await?;
    let stage = Stage::new()?;
    let noise = Noise::new();
    let revision = stage.load(component("reader")).await?;
    let guest = async |tenant: &str, reads: &str| {
        let config = format!(r#"{{"gets": {reads}, "lists": 0}}"#);
        let setup = Setup {
            tenant,
            config: &config,
            ..Setup::default()
        };
        stage.guest(revision.clone(), setup).await
    };
    let hot = Hot {
        guest: guest("noisy", hot_reads).await?,
        noise: noise.clone(),
    };
    let hot = watching("hot", Some("set=hot"), SLOTS)?
        .tenant(TenantName::new("noisy")?)
        .build(Arc::new(hot))?;
    let mut builder = windlass_fleet::Manager::builder()
        .options(options())
        .controller(hot);
    for n in 0..QUIET {
        let tenant = format!("quiet-{n}");
        let quiet = Quiet {
            guest: guest(&tenant, QUIET_READS).await?,
            noise: noise.clone(),
        };
        let controller = watching("quiet", Some(&format!("name=quiet-{n}")), 1)?
            .tenant(TenantName::new(&tenant)?)
            .build(Arc::new(quiet))?;
        builder = builder.controller(controller);
    }
    let manager = rig::engage(builder, server.specs()?).await?;
    settled(&manager).await?;
    let mut cells = vec!["guests".to_owned(), format!("{hot_reads} reads")];
    cells.extend(noise.compare(&mut server).await?);
    manager.stop().await?;
    Ok(cells)
}

/// A guest that runs again and again for every key while the noise is on.
struct Hot {
    guest: Arc<Guest>,
    noise: Arc<Noise>,
}

impl Reconciler for Hot {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        async move {
            let name = context.request.key.name.clone();
            if self.noise.is_on() {
                self.guest.reconcile(context).await?;
            }
            Ok(if self.noise.ran(&name) {
                Action::RequeueAfter(AGAIN)
            } else {
                Action::Done
            })
        }
        .boxed()
    }
}

/// A guest that runs once for each update.
struct Quiet {
    guest: Arc<Guest>,
    noise: Arc<Noise>,
}

impl Reconciler for Quiet {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        async move {
            let (_, object) = read(&context).await?;
            let sent = match &object {
                Some(object) => Sent::of(object)?.at(),
                None => 0,
            };
            let action = self.guest.reconcile(context).await?;
            self.noise.quiet(sent);
            Ok(action)
        }
        .boxed()
    }
}
