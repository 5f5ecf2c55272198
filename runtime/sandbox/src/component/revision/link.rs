//! Checks that bytes are a component, and that a component is a guest. Entry points: the `check_…` functions, in the order of a load.

use super::LoadError;
use crate::clean::clean;
use crate::component::compiler::chain;
use crate::contract::exports::windlass::runtime::{mapper, reconciler};
use crate::engine::Sandbox;
use crate::wasmtime_errors;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// The interfaces of the contract that a guest may import.
const IMPORTS: [&str; 7] = ["types", "client", "fleet", "http", "config", "clock", "log"];
/// The parts of WASI 0.2 that guests are given.
const WASI: [&str; 6] = ["io", "cli", "clocks", "random", "filesystem", "sockets"];
/// The interfaces of `wasi:http` that guests are given: they call servers, and are none.
const WASI_HTTP: [&str; 2] = ["types", "outgoing-handler"];
/// The version of the contract that is served: its minor version, as patch versions only add functions.
const SERVED: &str = "0.1.";

/// Longest message of the compiler that is shown, in bytes: it may quote the component.
const PROBLEM: usize = 500;

/// First bytes of every WebAssembly binary.
const MAGIC: &[u8] = b"\0asm";
/// The bytes after it, in a component and in a core module.
const COMPONENT: [u8; 4] = [0x0d, 0x00, 0x01, 0x00];
const MODULE: [u8; 4] = [0x01, 0x00, 0x00, 0x00];

/// Checks the first bytes, which distinguish the most frequent mistakes.
pub(super) fn check_envelope(name: &str, bytes: &[u8]) -> Result<(), LoadError> {
    let name = || name.to_owned();
    if !bytes.starts_with(MAGIC) {
        let beginning = !bytes.is_empty() && MAGIC.starts_with(bytes);
        return Err(if beginning {
            LoadError::Truncated { name: name() }
        } else {
            LoadError::NotWasm { name: name() }
        });
    }
    match bytes.get(4..8) {
        None => Err(LoadError::Truncated { name: name() }),
        Some(version) if version == COMPONENT => Ok(()),
        Some(version) if version == MODULE => Err(LoadError::CoreModule { name: name() }),
        Some(version) => Err(LoadError::Invalid {
            name: name(),
            problem: format!("its binary version is {version:02x?}, which is unknown"),
        }),
    }
}

/// The error for a message of the compiler.
pub(super) fn not_compiled(name: &str, chain: &str) -> LoadError {
    if wasmtime_errors::is_cut_off(chain) {
        return LoadError::Truncated {
            name: name.to_owned(),
        };
    }
    LoadError::Invalid {
        name: name.to_owned(),
        problem: clean(chain, PROBLEM),
    }
}

/// The error for compiled code that the engine refuses. A component with more initial memory or tables than any instance may have is
/// compiled, and refused here.
pub(super) fn not_loaded(name: &str, error: &wasmtime::Error) -> LoadError {
    let problem = clean(&format!("{error:#}"), PROBLEM);
    if wasmtime_errors::is_too_large(&problem) {
        let name = name.to_owned();
        return LoadError::TooMuch { name, problem };
    }
    LoadError::Host {
        problem: format!("the compiler's answer is of no use: {problem}"),
    }
}

/// Names of imports and exports, sorted.
pub(super) fn names(engine: &Engine, component: &Component) -> (Vec<String>, Vec<String>) {
    let ty = component.component_type();
    let mut imports: Vec<String> = ty
        .imports(engine)
        .map(|(name, _)| name.to_owned())
        .collect();
    let mut exports: Vec<String> = ty
        .exports(engine)
        .map(|(name, _)| name.to_owned())
        .collect();
    imports.sort();
    exports.sort();
    (imports, exports)
}

/// Checks the names alone, for a clear message about the most frequent mistakes.
pub(super) fn check_names(
    name: &str,
    imports: &[String],
    exports: &[String],
) -> Result<(), LoadError> {
    let name = || name.to_owned();
    let of_other_version = |names: &[String]| -> Vec<String> {
        names
            .iter()
            .filter(|name| ours(name).is_some_and(|(_, version)| !version.starts_with(SERVED)))
            .cloned()
            .collect()
    };
    let interfaces: Vec<String> = of_other_version(imports)
        .into_iter()
        .chain(of_other_version(exports))
        .collect();
    if !interfaces.is_empty() {
        return Err(LoadError::OtherVersion {
            name: name(),
            interfaces,
        });
    }
    if !exports
        .iter()
        .any(|export| is_interface(export, "reconciler"))
    {
        return Err(LoadError::NotAGuest {
            name: name(),
            exports: exports.to_vec(),
        });
    }
    let unknown: Vec<String> = imports
        .iter()
        .filter(|import| !is_given(import))
        .cloned()
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(LoadError::UnknownImports {
            name: name(),
            imports: unknown,
        })
    }
}

/// Links a component with every capability, and checks the types of its exports.
pub(super) fn check_types(
    name: &str,
    sandbox: &Sandbox,
    component: &Component,
) -> Result<(), LoadError> {
    let mismatch = |error: wasmtime::Error| {
        let problem = chain(&error);
        match wasmtime_errors::missing_function(&problem) {
            Some((interface, function)) if ours(interface).is_some() => LoadError::Newer {
                name: name.to_owned(),
                problem: format!("`{function}` of {interface}"),
            },
            _ => LoadError::Mismatch {
                name: name.to_owned(),
                problem: clean(&problem, PROBLEM),
            },
        }
    };
    let pre = sandbox
        .linker(true)
        .instantiate_pre(component)
        .map_err(mismatch)?;
    reconciler::GuestIndices::new(&pre).map_err(mismatch)?;
    let exports_mapper = component
        .component_type()
        .exports(sandbox.engine())
        .any(|(name, _)| is_interface(name, "mapper"));
    if exports_mapper {
        mapper::GuestIndices::new(&pre).map_err(mismatch)?;
    }
    Ok(())
}

/// The functions of the resource `cluster` that it imports, without the resource's name.
pub(super) fn cluster_functions(engine: &Engine, component: &Component) -> Vec<String> {
    let ty = component.component_type();
    let client = ty
        .imports(engine)
        .find(|(name, _)| is_interface(name, "client"));
    let Some(ComponentItem::ComponentInstance(instance)) = client.map(|(_, import)| import.ty)
    else {
        return Vec::new();
    };
    let methods = instance
        .exports(engine)
        .filter_map(|(name, _)| name.strip_prefix("[method]cluster.").map(str::to_owned));
    methods.collect()
}

/// Whether a name names this interface of the contract, in a version that is served.
pub(super) fn is_interface(name: &str, interface: &str) -> bool {
    ours(name).is_some_and(|(found, version)| found == interface && version.starts_with(SERVED))
}

/// Interface and version of a name in the contract's package.
fn ours(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("windlass:runtime/")?.split_once('@')
}

fn is_given(import: &str) -> bool {
    if IMPORTS
        .iter()
        .any(|interface| is_interface(import, interface))
    {
        return true;
    }
    let Some((package, rest)) = import
        .strip_prefix("wasi:")
        .and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    rest.split_once('@').is_some_and(|(interface, version)| {
        let is_http = package == "http" && WASI_HTTP.contains(&interface);
        version.starts_with("0.2.") && (is_http || WASI.contains(&package))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn said(imports: &[&str], exports: &[&str]) -> String {
        check_names("guest.wasm", &names_of(imports), &names_of(exports))
            .unwrap_err()
            .to_string()
    }

    const RECONCILER: &str = "windlass:runtime/reconciler@0.1.0";

    #[test]
    fn the_first_bytes_distinguish_the_most_frequent_mistakes() {
        let said = |bytes: &[u8]| check_envelope("guest.wasm", bytes).unwrap_err().to_string();
        assert!(said(b"").contains("not WebAssembly"));
        assert!(said(b"#!/bin/sh\n").contains("not WebAssembly"));
        assert!(said(b"\0as").contains("ends in the middle"));
        assert!(said(b"\0asm\x01\0\0\0").contains("is a core WebAssembly module"));
        assert!(said(b"\0asm\x09\0\0\0").contains("unknown"));
        assert!(check_envelope("guest.wasm", b"\0asm\x0d\0\x01\0").is_ok());
    }

    #[test]
    fn a_guest_exports_a_reconciler_of_this_version() {
        assert!(said(&[], &["wasi:cli/run@0.2.6"]).contains("it exports wasi:cli/run@0.2.6"));
        assert!(said(&[], &[]).contains("it exports nothing"));
        let newer = said(
            &["windlass:runtime/client@0.2.0"],
            &["windlass:runtime/reconciler@0.2.0"],
        );
        assert!(newer.contains("another version of the contract (windlass:runtime/client@0.2.0, windlass:runtime/reconciler@0.2.0)"), "{newer}");
    }

    #[test]
    fn unknown_imports_are_named() {
        let given = [
            "windlass:runtime/client@0.1.0",
            "windlass:runtime/log@0.1.3",
            "wasi:cli/stdout@0.2.6",
            "wasi:io/streams@0.2.0",
            "wasi:http/types@0.2.0",
            "wasi:http/outgoing-handler@0.2.13",
        ];
        assert!(
            check_names(
                "guest.wasm",
                &names_of(&given),
                &names_of(&[RECONCILER, "init"])
            )
            .is_ok()
        );
        let said = said(
            &[
                "wasi:http/incoming-handler@0.2.6",
                "wasi:http/outgoing-handler@0.3.0",
                "wasi:cli/stdout@0.3.0",
                "acme:db/sql",
            ],
            &[RECONCILER],
        );
        assert!(said.contains("imports wasi:http/incoming-handler@0.2.6, wasi:http/outgoing-handler@0.3.0, wasi:cli/stdout@0.3.0, acme:db/sql, which guests are not given"), "{said}");
    }
}
