//! The bindings that are generated from `wit/`. Entry points: the modules `windlass::runtime` (imports) and
//! `exports::windlass::runtime`. The host's side of a guest's handles: [`handle`]. Those of the standard's HTTP: [`wasi_http`].
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

pub(crate) mod handle;
pub(crate) mod wasi_http;

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "http-mapped-fleet-reconcile",
    imports: {
        "windlass:runtime/log": trappable,
        "windlass:runtime/config": trappable,
        "windlass:runtime/clock": trappable,
        "windlass:runtime/client.[method]cluster.name": trappable,
        "windlass:runtime/client.[method]cluster.record-event": trappable,
        "windlass:runtime/fleet.open": trappable,
        default: async | trappable,
    },
    exports: { default: async },
    with: { "windlass:runtime/client.cluster": crate::contract::handle::ClusterHandle },
    trappable_error_type: { "windlass:runtime/types.api-error" => crate::contract::handle::Refused },
    require_store_data_send: true,
    additional_derives: [serde::Deserialize, serde::Serialize],
});
