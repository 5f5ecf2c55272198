//! The work on servers, each of which is a cluster. Entry point: [`work_on`].

use super::work::{Given, Place, SLOTS, Work};
use anyhow::Result;
use kube_client::Api;
use windlass_harness::testenv::Environment;
use windlass_harness::testenv::kcp::Client;

/// Every server is a cluster.
pub(crate) async fn work_on(environment: &Environment, objects: usize) -> Result<Work> {
    let (mut places, mut watched, mut kubeconfigs) = (Vec::new(), Vec::new(), Vec::new());
    for server in environment.servers() {
        let file = format!("{}.kubeconfig", server.name());
        let path = environment.folder().join(file);
        server.write_kubeconfig(&path)?;
        let client = Client::new(&std::fs::read_to_string(&path)?).await?;
        places.push(Place::new(client, "/"));
        watched.push(Api::namespaced(server.client().await?, "default"));
        kubeconfigs.push(path);
    }
    let given = Given {
        kubeconfigs,
        provider: None,
        objects,
        slots: SLOTS,
    };
    Ok(Work {
        given,
        places,
        watched,
    })
}
