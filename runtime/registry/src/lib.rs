//! Windlass registry: images of guests are looked up, verified, pulled and kept. Start at [`Registries`].
//!
//! The entry points are [`Registries::look_up`] and [`Registries::push`].
//!
//! Invariants:
//! * Nothing is asked of a registry that the tenant's policy does not name.
//! * A component is handed out only if its digest is that of its manifest, the manifest's is the one that was looked up, and one of the
//!   policy's keys, or a signer that it names, has signed that digest. So a registry, a cache or a proxy cannot put another component in its place.
//! * If the registry is silent, the image that it named last, and that was good, is used. If it answers, its answer counts.
//!
//! Cost: a HEAD for each image and interval, of a connection that is kept. Everything that is read has a limit in bytes and in time.
//!
//! This crate knows nothing of WebAssembly, so that it compiles beside wasmtime. Modules are listed from the words to the whole: a module
//! imports only modules above it.

mod digest;
mod reference;
mod credentials;
mod manifest;
mod signature;
mod policy;
mod error;
mod transport;
mod session;
mod store;
mod registries;
mod lookup;

pub use credentials::CredentialsError;
pub use digest::ImageDigest;
pub use error::RegistryError;
pub use lookup::{Lookup, Pulled, Wanted};
pub use manifest::LayoutError;
pub use policy::{GuestPolicy, ImagePattern, PolicyError};
pub use reference::{Reference, ReferenceError, SCHEME, is_host};
pub use registries::{PullSecret, Registries, RegistryOptions};
pub use signature::{
    KeyError, KeylessError, KeylessSigner, PublicKey, SignatureError, TrustedRootError,
};
