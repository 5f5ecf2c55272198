//! The kcp that a scenario runs on: one in memory, or a real one that the tests of this suite share. Entry points: [`Ground::in_memory`]
//! and [`Ground::real`].

use anyhow::{Context as _, Result};
use std::sync::{Arc, Weak};
use tokio::sync::Mutex;
use windlass_apiserver::{Server, Verb};
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_harness::testenv::Kcp;
use windlass_harness::testenv::kcp::Client;

/// A user of the real kcp who has no rights.
pub(crate) const USER: &str = "deputy";

static SHARED: Mutex<Weak<Kcp>> = Mutex::const_new(Weak::new());

/// A kcp, and its administrator.
pub(crate) struct Ground {
    pub(crate) client: Client,
    server: Kind,
}

enum Kind {
    InMemory(Server),
    Real(Arc<Kcp>),
}

impl Ground {
    /// A kcp in memory of one shard, for one test.
    pub(crate) async fn in_memory() -> Result<Self> {
        windlass_harness::logs::init();
        let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
        let url = server.shard_url(0).context("a server without a shard")?;
        Ok(Self {
            client: Client::plain(url).await?,
            server: Kind::InMemory(server),
        })
    }

    /// The real kcp, which ends with the last test that uses it.
    pub(crate) async fn real() -> Result<Self> {
        let mut shared = SHARED.lock().await;
        let kcp = match shared.upgrade() {
            Some(kcp) => kcp,
            None => Arc::new(Kcp::start(&[USER]).await?),
        };
        *shared = Arc::downgrade(&kcp);
        Self::of(kcp).await
    }

    /// A real kcp that no other test uses, which this one may harm.
    pub(crate) async fn of(kcp: Arc<Kcp>) -> Result<Self> {
        windlass_harness::logs::init();
        Ok(Self {
            client: kcp.client().await?,
            server: Kind::Real(kcp),
        })
    }

    /// How a workspace is reached, by path or by logical cluster.
    pub(crate) fn config(&self, workspace: &str) -> Result<ClusterConfig> {
        match &self.server {
            Kind::InMemory(server) => {
                let url = server.shard_url(0).context("a server without a shard")?;
                Ok(ClusterConfig::from_url(&format!(
                    "{url}/clusters/{workspace}"
                ))?)
            }
            Kind::Real(kcp) => of_text(&kcp.kubeconfig(workspace)),
        }
    }

    /// How many watches of a resource the kcp in memory was asked for. `None` for a real one, which others ask too.
    pub(crate) fn watches(&self, resource: &str) -> Option<u64> {
        match &self.server {
            Kind::InMemory(server) => Some(server.shard(0)?.count(Verb::Watch, resource)),
            Kind::Real(_) => None,
        }
    }

    /// How [`USER`] reaches a workspace. A kcp in memory has no users.
    pub(crate) fn config_of_user(&self, workspace: &str) -> Result<ClusterConfig> {
        match &self.server {
            Kind::InMemory(_) => anyhow::bail!("a kcp in memory has no users"),
            Kind::Real(kcp) => of_text(&kcp.kubeconfig_of(USER, workspace)),
        }
    }
}

fn of_text(kubeconfig: &str) -> Result<ClusterConfig> {
    let policy = KubeconfigPolicy::file();
    Ok(ClusterConfig::from_kubeconfig_text(
        kubeconfig, None, None, &policy,
    )?)
}

/// Makes two tests of each scenario: one on a kcp in memory, one on the real kcp.
macro_rules! on_both {
    ($($scenario:ident,)*) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $scenario() -> anyhow::Result<()> {
                super::$scenario(&crate::ground::Ground::in_memory().await?).await
            })*
        }

        mod real {
            $(#[tokio::test]
            #[ignore = "needs real servers"]
            async fn $scenario() -> anyhow::Result<()> {
                super::$scenario(&crate::ground::Ground::real().await?).await
            })*
        }
    };
}
pub(crate) use on_both;
