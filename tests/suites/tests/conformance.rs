//! Each behaviour of `conformance/cases/*.http`, asked of the in-memory server and of a real kube-apiserver with its controllers, and
//! the answers compared.
//!
//! Without real servers the behaviours still run against the in-memory server, which must not fail a step that waits for something.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use windlass_apiserver::Server;
use windlass_harness::testenv::{Environment, Spec};

mod conformance {
    pub(crate) mod client;
    pub(crate) mod compare;
    mod kcp;
    pub(crate) mod normal;
    pub(crate) mod play;
    pub(crate) mod script;
}

use conformance::client::Target;
use conformance::play::play;
use conformance::script::{Case, cases};

/// Cases at once; most of them only wait.
const AT_ONCE: usize = 8;

fn all_cases() -> Result<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases");
    let mut all = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    for file in files {
        let text = std::fs::read_to_string(file.path())?;
        all.extend(cases(&text).with_context(|| format!("read {}", file.path().display()))?);
    }
    ensure!(
        all.len() > 50,
        "only {} behaviours were found in {}",
        all.len(),
        folder.display()
    );
    Ok(all)
}

async fn in_memory() -> Result<(Server, Arc<Target>)> {
    let server = Server::builder()
        .cluster("alpha")
        .bind("127.0.0.1:0")
        .await?;
    let target = Target::plain(&server.url("alpha"))?;
    Ok((server, Arc::new(target)))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_behaviour_runs_to_its_end_on_the_in_memory_server() -> Result<()> {
    let (server, memory) = in_memory().await?;
    let played = futures::stream::iter(all_cases()?).map(|case| {
        let memory = Arc::clone(&memory);
        async move {
            play(&memory, &case)
                .await
                .with_context(|| case.name.clone())
        }
    });
    let played: Vec<_> = played.buffer_unordered(AT_ONCE).collect().await;
    for transcript in played {
        ensure!(!transcript?.is_empty(), "a behaviour asks nothing");
    }
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn the_in_memory_server_answers_as_a_real_one_does() -> Result<()> {
    // Pods get no ServiceAccount in memory, as the page docs/in-memory.md says.
    let spec = Spec::new("real").with_controllers();
    let spec = spec.with_arg("--disable-admission-plugins=ServiceAccount");
    let environment = Environment::start([spec]).await?;
    let real = environment.server("real");
    let real = Arc::new(Target::secure(&real.url(), real.token(), real.ca_pem())?);
    let (server, memory) = in_memory().await?;
    let compared = futures::stream::iter(all_cases()?).map(|case| {
        let (real, memory) = (Arc::clone(&real), Arc::clone(&memory));
        async move {
            let (wanted, got) = futures::try_join!(play(&real, &case), play(&memory, &case))
                .with_context(|| case.name.clone())?;
            Ok::<_, anyhow::Error>(conformance::compare::difference(&case.name, &wanted, &got))
        }
    });
    let compared: Vec<_> = compared.buffer_unordered(AT_ONCE).collect().await;
    let mut differences = Vec::new();
    for outcome in compared {
        differences.extend(outcome?);
    }
    server.shutdown().await;
    ensure!(
        differences.is_empty(),
        "{} behaviours differ (- real, + in memory):\n\n{}",
        differences.len(),
        differences.join("\n\n")
    );
    Ok(())
}
