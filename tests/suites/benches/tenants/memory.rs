//! What a tenant with one reconciler costs that has nothing to do. Entry point: [`measure`].

use super::stage::{Setup, Stage, component};
use crate::fleet::simulated::{Layout, Simulated};
use crate::fleet::subject::{settled, watching};
use crate::rig::{self, resident};
use crate::workload::{Workload, tell};
use anyhow::Result;
use std::time::Duration;
use windlass_fleet::TenantName;

const TENANTS: usize = 100;

pub(crate) const WORKLOAD: Workload = Workload {
    name: "memory",
    title: "100 tenants with one reconciler each, all of one component, after each has looked at one object; resident, KiB",
    heads: &[
        "guest       ",
        "the process before",
        "with 100 tenants",
        "of each tenant",
    ],
    runs: &[&[]],
};

pub(crate) async fn measure() -> Result<()> {
    for name in ["echo", "js/hello"] {
        let component = component(name);
        let server = Simulated::start(Layout::new(1, 1)).await?;
        let stage = Stage::new()?;
        let revision = stage.load(component).await?;
        let before = resident()?;
        let mut builder = windlass_fleet::Manager::builder();
        for n in 0..TENANTS {
            let tenant = format!("tenant-{n}");
            let setup = Setup {
                tenant: &tenant,
                ..Setup::default()
            };
            let guest = stage.guest(revision.clone(), setup).await?;
            let controller = watching("guest", Some("set=o"), 4)?
                .tenant(TenantName::new(&tenant)?)
                .build(guest)?;
            builder = builder.controller(controller);
        }
        let manager = rig::engage(builder, server.specs()?).await?;
        settled(&manager).await?;
        // Not a wait: what the start has allocated and freed settles meanwhile.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let after = resident()?;
        let kib = |bytes: usize| bytes as f64 / 1024.0;
        tell(vec![
            name.to_owned(),
            format!("{:.0}", kib(before)),
            format!("{:.0}", kib(after)),
            format!("{:.0}", kib(after.saturating_sub(before)) / TENANTS as f64),
        ])?;
        manager.stop().await?;
    }
    Ok(())
}
