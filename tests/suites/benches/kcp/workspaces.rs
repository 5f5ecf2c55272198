//! The work on workspaces of a real kcp. Entry point: [`work_of`].

use crate::rivals::work::{Given, Place, SLOTS, Work};
use anyhow::{Context as _, Result};
use futures::{StreamExt, TryStreamExt};
use kube_client::Api;
use std::path::{Path, PathBuf};
use windlass_harness::testenv::Kcp;
use windlass_harness::testenv::kcp::{Claim, Export};

/// Keys of all workspaces that run at once: one server has all of them.
const ALL_SLOTS: usize = 320;
/// Workspaces that are made at once.
const AT_ONCE: usize = 8;

/// Every workspace that binds an export is a cluster. The export claims ConfigMaps.
pub(crate) async fn work_of(
    kcp: &Kcp,
    folder: &Path,
    name: &str,
    workspaces: usize,
    objects: usize,
) -> Result<Work> {
    let client = kcp.client().await?;
    let provider = client.workspace("root", name).await?;
    let export = Export {
        name: name.to_owned(),
        schemas: Vec::new(),
        claims: vec![Claim {
            group: "",
            resource: "configmaps",
            verbs: &["*"],
        }],
    };
    client.publish(&provider, &export).await?;
    let consumers = (0..workspaces).map(|n| {
        let (client, provider, export) = (&client, &provider, &export);
        async move {
            let consumer = client.workspace(&provider.path, &format!("c{n}")).await?;
            client.bind(&consumer, provider, export, true).await?;
            anyhow::Ok(consumer)
        }
    });
    let consumers = futures::stream::iter(consumers).buffered(AT_ONCE);
    let consumers: Vec<_> = consumers.try_collect().await?;
    let endpoint = client.endpoint(&provider, name).await?;
    let write = |name: &str, path: &str| -> Result<PathBuf> {
        let file = folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&file, kcp.kubeconfig_below(path))?;
        Ok(file)
    };
    let mut kubeconfigs = Vec::new();
    for consumer in &consumers {
        // As the owner of an export reaches them, who has no rights in the workspaces themselves.
        let path = format!("{endpoint}/clusters/{}", consumer.cluster);
        kubeconfigs.push(write(&consumer.cluster, &path)?);
    }
    let all = kcp.client_below(&format!("{endpoint}/clusters/*")).await?;
    let places = consumers
        .iter()
        .map(|consumer| Place::new(client.clone(), &consumer.at("")));
    let slots = (ALL_SLOTS / workspaces).clamp(1, SLOTS.into());
    let given = Given {
        kubeconfigs,
        provider: Some(write(name, &provider.at(""))?),
        objects,
        slots: u16::try_from(slots).context("slots")?,
    };
    Ok(Work {
        given,
        places: places.collect(),
        watched: vec![Api::all(all)],
    })
}
