//! The bindings that are generated from `wit/`: the imports of every world once, and the two exports. Each export has its own
//! macro, so that a guest without a mapper does not export one. Entry point: [`crate::guest`], which calls the macros.
//!
//! The only place in this crate where unsafe code is allowed: the canonical ABI is raw memory.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "wit",
    world: "fleet-reconcile",
    pub_export_macro: true,
    default_bindings_module: "windlass_sdk::bindings",
    additional_derives: [PartialEq],
    generate_unused_types: true,
});

/// The optional export `mapper`.
pub mod mapped {
    wit_bindgen::generate!({
        path: "wit",
        inline: "
            package windlass:sdk;
            world mapped { export windlass:runtime/mapper@0.1.0; }
        ",
        pub_export_macro: true,
        default_bindings_module: "windlass_sdk::bindings::mapped",
        with: {
            "windlass:runtime/types@0.1.0": super::windlass::runtime::types,
            "windlass:runtime/client@0.1.0": super::windlass::runtime::client,
        },
    });
}
