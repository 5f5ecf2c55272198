//! Makes a component of a core module that knows neither the contract nor WASI 0.2, as compilers of Go and C leave it. Entry
//! point: [`componentize`].

use super::settings::World;
use super::{BuildError, contract, io_error};
use std::path::{Path, PathBuf};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Writes the component of `core` beside it and returns its path. Function names stay.
///
/// # Errors
/// When the module does not fit the world: the reason names the function.
pub(super) async fn componentize(
    guest: &Path,
    core: &Path,
    world: World,
) -> Result<PathBuf, BuildError> {
    let wit = contract::folder(guest)?;
    let component = core.with_extension("component.wasm");
    let job = {
        let (core, component) = (core.to_owned(), component.clone());
        let encode = move || {
            let module = std::fs::read(&core).map_err(io_error(&core))?;
            let bytes = encode(module, &wit, world).map_err(|error| BuildError::Component {
                module: core,
                world,
                why: format!("{error:#}"),
            })?;
            std::fs::write(&component, bytes).map_err(io_error(&component))
        };
        tokio::task::spawn_blocking(encode)
    };
    match job.await {
        Ok(done) => done.map(|()| component),
        Err(error) => Err(BuildError::Component {
            module: core.to_owned(),
            world,
            why: error.to_string(),
        }),
    }
}

fn encode(mut module: Vec<u8>, wit: &Path, world: World) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let id = resolve.select_world(&[package], Some(world.name()))?;
    embed_component_metadata(&mut module, &resolve, id, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter(
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        )?
        .encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_module_without_the_exports_of_its_world_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let core = folder.path().join("core.wasm");
        std::fs::write(&core, b"\0asm\x01\0\0\0").unwrap();
        let error = componentize(folder.path(), &core, World::Reconcile).await;
        let said = error.unwrap_err().to_string();
        assert!(
            said.contains("windlass:runtime/reconciler@0.1.0") && said.contains("world reconcile"),
            "{said}"
        );
    }
}
