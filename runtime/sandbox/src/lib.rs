//! Windlass sandbox: runs guests, which are untrusted WebAssembly components, as reconcilers. Start at [`Sandbox`] and [`Guest`].
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc};
//! # use windlass_fleet::{ControllerName, Grant, TenantName};
//! # use windlass_sandbox::{Guest, GuestOptions, Isolation, Limits, Options, Sandbox, Tenant, TenantLimits};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::new(Options::default())?;
//! let revision = sandbox.load(Path::new("hello.wasm")).await?;
//! let options = GuestOptions {
//!     tenant: Tenant::new(TenantName::new("team-a")?, &TenantLimits::default()),
//!     name: ControllerName::new("hello")?,
//!     grant: Arc::new(Grant::none()),
//!     http: Arc::default(),
//!     config: "{}".to_owned(),
//!     limits: Limits::default(),
//!     isolation: Isolation::Fresh,
//!     record: None,
//!     secrets: Vec::new(),
//! };
//! let guest = Guest::new(&sandbox, options, revision).await?;
//! let parts = guest.controller_parts(); // the watches of its controller; the guest itself is the reconciler
//! # let _ = parts;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//! * Every call runs in an instance of its own, unless the operator allows reuse ([`Isolation`]). It has limits on memory, time, tables,
//!   handles, calls, bytes in and out, and log. A call that hits one affects no other call. See [`Limits`].
//! * Tenants share the processors by weight. See [`TenantLimits`].
//! * A guest reaches a cluster only through the fleet's client, which checks the grant on every call. It has no files, no
//!   environment, no sockets.
//! * A guest that computes yields every millisecond.
//! * A component is compiled in a process of its own, within limits ([`Compiler`]), and the result is kept ([`CacheOptions`]).
//! * A revision serves only after it was compiled, linked, described and checked against the grant.

mod clean;
mod contract;
mod wasmtime_errors;
mod guest_clock;
mod door;
mod options;
mod admission;
mod cache;
mod description;
mod journal;
mod tenant;
mod scheduler;
mod instance;
mod capability;
mod engine;
mod component;
mod native;
pub mod recording;
mod tape;
mod guest;
mod replay;
mod inspection;

pub use cache::CacheError;
pub use component::compiler::compile;
pub use component::revision::{LoadError, Revision, Source};
pub use component::section::{SectionError, with_config_schema};
pub use description::kinds::CustomResource;
pub use description::{DescriptionError, MissingRule};
pub use door::{Asked, Door, Doorkeeper, Ending, Fate, HostCall, HttpFate};
pub use engine::{Sandbox, SandboxError};
pub use guest::code::snapshot::SnapshotError;
pub use guest::{
    ControllerParts, Guest, GuestOptions, GuestStatus, Prepared, Rights, native_reconciler,
};
pub use guest_clock::GuestClock;
pub use inspection::Inspection;
pub use journal::LogFields;
pub use native::{NativeError, NativeGuest, NativeGuests, Next, Run, Runs};
pub use options::{
    CacheOptions, Compiler, CompilerProcess, Isolation, Limits, Options, Rate, Reuse, TenantLimits,
};
pub use replay::{ReplayError, Replayed};
pub use tape::{By, Divergence};
pub use tenant::Tenant;
pub use tenant::recordings::{KeptRecording, RecordOptions, Why};
pub use tenant::usage::limits;
