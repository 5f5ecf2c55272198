//! What the generator makes of `wit/`. Entry points: the modules `windlass::runtime` (imports) and
//! `exports::windlass::runtime`.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "mapped-fleet-reconcile",
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
    with: { "windlass:runtime/client.cluster": crate::handle::ClusterHandle },
    trappable_error_type: { "windlass:runtime/types.api-error" => crate::handle::Refused },
    require_store_data_send: true,
});
