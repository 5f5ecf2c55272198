//! Makes a component from a core module without the contract and without WASI 0.2, the output of compilers for Go and C. Entry
//! point: [`componentize`].

use super::settings::World;
use super::{BuildError, contract, io_error};
use std::path::{Path, PathBuf};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Writes the component of `core` beside it and returns its path. Keeps function names.
///
/// # Errors
/// When the module does not match the world: the reason names the function.
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
                why: explained(format!("{error:#}")),
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

/// The reason, with advice if the module calls a function that its world lacks, or lacks a function of its world.
fn explained(why: String) -> String {
    let remedy = if why.contains("windlass:runtime/fleet@") {
        "a guest that reaches other clusters has world = \"fleet-reconcile\" (or mapped-fleet-reconcile) in windlass.toml"
    } else if why.contains("windlass:runtime/http@") {
        "a guest that calls servers that are no API servers has world = \"http-reconcile\" (or another one of http) in windlass.toml"
    } else if why.contains("windlass:runtime/mapper@") {
        "a guest of this world registers a mapper; one without has no world in windlass.toml, or one without mapped"
    } else {
        return why;
    };
    format!("{why}; {remedy}")
}

fn encode(module: Vec<u8>, wit: &Path, world: World) -> anyhow::Result<Vec<u8>> {
    let mut module = without_debug_information(&module).unwrap_or(module);
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

/// The module without DWARF sections, which nothing uses; function names stay. `None` if the bytes are not a module.
///
/// Some compilers write function names only together with debug information, which is by far the larger part of the module.
fn without_debug_information(module: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    const CUSTOM: u8 = 0;
    let mut kept = module.get(..HEADER)?.to_vec();
    let mut at = HEADER;
    while at < module.len() {
        let (length, body) = number(module, at + 1)?;
        let end = body.checked_add(length)?;
        let section = module.get(body..end)?;
        let is_debug = module[at] == CUSTOM && {
            let (length, name) = number(section, 0)?;
            let name = section.get(name..name.checked_add(length)?)?;
            name.starts_with(b".debug")
        };
        if !is_debug {
            kept.extend_from_slice(&module[at..end]);
        }
        at = end;
    }
    Some(kept)
}

/// A number of the binary format (unsigned LEB128, at most 32 bits), and the offset of its end.
fn number(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_module_that_reaches_other_clusters_without_their_world_is_told_which_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let core = folder.path().join("core.wasm");
        let module: &[u8] = b"\0asm\x01\0\0\0\
            \x01\x05\x01\x60\x01\x7f\0\
            \x02\x28\x01\x1cwindlass:runtime/fleet@0.1.0\x07unknown\0\0";
        std::fs::write(&core, module).unwrap();
        let error = componentize(folder.path(), &core, World::default()).await;
        let said = error.unwrap_err().to_string();
        assert!(said.contains("world = \"fleet-reconcile\""), "{said}");
    }

    #[tokio::test]
    async fn a_module_without_the_exports_of_its_world_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let core = folder.path().join("core.wasm");
        std::fs::write(&core, b"\0asm\x01\0\0\0").unwrap();
        let error = componentize(folder.path(), &core, World::default()).await;
        let said = error.unwrap_err().to_string();
        assert!(
            said.contains("windlass:runtime/reconciler@0.1.0") && said.contains("world reconcile"),
            "{said}"
        );
        let why = "failed to find export of interface `windlass:runtime/mapper@0.1.0`".to_owned();
        assert!(explained(why).contains("registers a mapper"));
    }

    #[test]
    fn debug_information_is_left_out_and_names_stay() {
        let section = |name: &str, size: usize| {
            let mut body = vec![u8::try_from(name.len()).unwrap()];
            body.extend_from_slice(name.as_bytes());
            body.resize(body.len() + size, 7);
            // A length in two bytes, as of larger sections.
            let length = [(body.len() & 0x7f) as u8 | 0x80, (body.len() >> 7) as u8];
            [&[0], &length[..], &body].concat()
        };
        let header = b"\0asm\x01\0\0\0".to_vec();
        let types = vec![1, 1, 0];
        let module = [
            header.clone(),
            types.clone(),
            section(".debug_info", 300),
            section("name", 200),
            section(".debug_line", 1),
        ];
        let kept = without_debug_information(&module.concat()).unwrap();
        assert_eq!(kept, [header, types, section("name", 200)].concat());
        let module = module.concat();
        assert_eq!(without_debug_information(&module[..module.len() - 1]), None);
        assert_eq!(without_debug_information(b"\0as"), None);
    }
}
