//! What the tools of authors need of the program: this machine, the sandbox, and the in-memory fleet of a configuration. Entry points:
//! [`builder`] and [`fleet`].

pub(crate) mod native;
pub(crate) mod socket;
pub(crate) mod test_fleet;
mod workspaces;

use crate::config::load::Configuration;
use crate::config::schema::Schema;
use crate::guests::engine::usual_cache;
use crate::run::builds::SourceBuilder;
use crate::run::{Expected, StandIns};
use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_author::guest_build::{self, Bases, GuestBuilder, Machine, NotTaken};
use windlass_author::seed::{Asked, Seed};
use windlass_author::simulated::{Membership, Simulated};
use windlass_sandbox::{Sandbox, SnapshotError};

/// The variable that names the folder of tools, if it is not in the user's cache.
const TOOLS: &str = "WINDLASS_TOOLS";

/// Builds guests with the tools of this machine, as they are published.
pub(crate) fn builder() -> GuestBuilder {
    GuestBuilder::new(machine(), add_config_schema)
}

/// The tools of this machine, by the environment.
fn machine() -> Machine {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = |name| value(name).map(PathBuf::from);
    let tools = folder(TOOLS).or_else(|| Some(usual_cache()?.join("tools")));
    let path = value("PATH");
    Machine {
        tools: tools.map(|tools| std::path::absolute(&tools).unwrap_or(tools)),
        path: path.iter().flat_map(std::env::split_paths).collect(),
        virtual_env: folder("VIRTUAL_ENV"),
        wasi_sdk: folder("WASI_SDK_PATH"),
    }
}

fn add_config_schema(component: Vec<u8>, schema: &str) -> Result<Vec<u8>, String> {
    Schema::parse(schema).map_err(|error| error.to_string())?;
    windlass_sandbox::with_config_schema(component, schema).map_err(|error| error.to_string())
}

impl SourceBuilder for GuestBuilder {
    fn package(&self, folder: &Path) -> PathBuf {
        guest_build::package(folder)
    }

    fn build(&self, folder: PathBuf) -> BoxFuture<'static, Result<PathBuf>> {
        let builder = self.clone();
        async move { Ok(guest_build::build(&folder, &builder).await?) }.boxed()
    }
}

/// Bases that run in a sandbox.
struct Sandboxed(Sandbox);

impl Bases for Sandboxed {
    fn snapshot<'a>(
        &'a self,
        base: &'a Path,
        guest: &'a Path,
        program: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, NotTaken>> {
        let taken = async move {
            let taken = self.0.snapshot(base, guest, program).await;
            taken.map_err(|error| match error {
                SnapshotError::Refused(why) => NotTaken::Refused(why),
                error => NotTaken::Failed(error.into()),
            })
        };
        taken.boxed()
    }
}

/// Runs bases in a sandbox.
pub(crate) fn bases(sandbox: Sandbox) -> Arc<dyn Bases> {
    Arc::new(Sandboxed(sandbox))
}

/// What documents ask for beside the objects of a seed.
pub(crate) fn asked(configuration: &Configuration) -> Asked {
    let has = |is_kcp: bool| {
        let mut providers = configuration.providers();
        providers.any(|(_, spec)| spec.is_kcp() == is_kcp && !spec.is_none())
    };
    let (kcp, others) = (has(true), has(false));
    Asked {
        local: configuration.asks_for_local(),
        kcp,
        no_clusters: configuration.is_local_only() || (kcp && !others),
    }
}

/// Starts the clusters of a seed on 127.0.0.1, in place of those of the documents.
///
/// # Errors
/// When the port is taken, the fleet refuses an object of the seed, or a Provider `kcp` does not find its workspace.
pub(crate) async fn fleet(
    seed: &Seed,
    configuration: &Configuration,
    port: u16,
    folder: &Path,
) -> Result<(Arc<Simulated>, Arc<StandIns>)> {
    let fleet = Arc::new(Simulated::start(seed, port, folder).await?);
    let stand_ins = stand_ins(&fleet, configuration)?;
    Ok((fleet, Arc::new(stand_ins)))
}

/// The clusters of a fleet for one run, in place of those of the documents.
///
/// # Errors
/// When a Provider `kcp` does not find its workspace.
pub(crate) fn stand_ins(fleet: &Arc<Simulated>, configuration: &Configuration) -> Result<StandIns> {
    let mut providers = workspaces::providers(fleet.server(), configuration, fleet.kubeconfig())?;
    providers.extend(fleet.provider.clone());
    let (counted, members) = (fleet.clone(), fleet.clone());
    Ok(StandIns {
        local: fleet.local.clone(),
        providers,
        expected: Box::new(move || {
            let Membership {
                there,
                gone,
                failed,
            } = members.membership();
            Expected {
                there,
                gone,
                failed,
            }
        }),
        changes: Box::new(move |cluster| counted.changes(cluster)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_config_becomes_a_part_of_the_component() {
        let add = |schema| add_config_schema(b"\0asm\x0d\0\x01\0".to_vec(), schema);
        let built = add("{\"type\": \"object\"}").unwrap();
        assert!(built.ends_with(b"windlass:config-schema{\"type\": \"object\"}"));
        let error = add("{\"typ\": \"object\"}").unwrap_err();
        assert_eq!(
            error,
            "#: the keyword \"typ\" is not supported: did you mean \"type\"?"
        );
    }
}
