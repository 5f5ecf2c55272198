//! Clusters behind proxy programs that are killed. Entry point: the test.

use crate::oracle;
use crate::rig::{Rig, Setup};
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_fleet::cluster::{ClusterState, KubeconfigPolicy};
use windlass_harness::testenv::real_proxy::{RealProxy, Scheme};

/// The kubeconfig of all clusters of a rig, by way of a proxy, whose authority is trusted too.
fn through(rig: &Rig, proxy: &RealProxy) -> Result<String> {
    const AUTHORITY: &str = "    certificate-authority-data: ";
    let text = rig.server.kubeconfig();
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some(data) = line.strip_prefix(AUTHORITY) else {
            lines.push(line.to_owned());
            continue;
        };
        let mut both = STANDARD.decode(data)?;
        both.extend(proxy.certificate()?.bytes());
        lines.push(format!("{AUTHORITY}{}", STANDARD.encode(both)));
        lines.push(format!("    proxy-url: '{}'", proxy.url()));
    }
    Ok(lines.join("\n"))
}

fn change(rig: &Rig, clusters: &[&str], value: &str) -> Result<()> {
    for cluster in clusters {
        for n in 0..20 {
            rig.put(cluster, &format!("load-{n}"), value)?;
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_proxy_that_is_killed_and_started_again_under_load_loses_no_key() -> Result<()> {
    let clusters = Scheme::ALL.map(Scheme::as_str);
    let rig = Rig::idle(Setup::of(&clusters).tls()).await?;
    let mut proxies = Vec::new();
    for scheme in Scheme::ALL {
        let proxy = RealProxy::start(scheme, true).await?;
        let text = through(&rig, &proxy)?;
        rig.add_from(scheme.as_str(), &text, &KubeconfigPolicy::file())?;
        proxies.push(proxy);
    }
    change(&rig, &clusters, "first")?;
    oracle::right_within(&rig, oracle::WITHIN).await?;

    for round in 0..3 {
        // Work is under way, and the answers to writes are lost with their connections.
        change(&rig, &clusters, &format!("before {round}"))?;
        for proxy in &proxies {
            proxy.kill();
        }
        change(&rig, &clusters, &format!("without {round}"))?;
        for cluster in clusters {
            rig.delete(cluster, "load-0")?;
            rig.reaches(cluster, ClusterState::Degraded).await?;
        }
        for proxy in &proxies {
            proxy.restart().await?;
        }
        change(&rig, &clusters, &format!("after {round}"))?;
        oracle::right_within(&rig, oracle::WITHIN).await?;
    }
    rig.finish().await
}
