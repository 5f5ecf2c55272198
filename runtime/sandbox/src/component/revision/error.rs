//! Errors of loading a guest. Entry point: [`LoadError`].

use crate::component::section::SectionError;
use crate::description::DescriptionError;
use crate::instance::memory::Size;
use windlass_fleet::file::FileError;

/// Why a component cannot be a guest.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{name} cannot be read")]
    Read {
        /// The component.
        name: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// It is over the limit.
    #[error("{name} has {}: at most {} are loaded", Size(usize::try_from(*size).unwrap_or(usize::MAX)), Size(*most))]
    TooLarge {
        /// The component.
        name: String,
        /// Its size, in bytes.
        size: u64,
        /// The limit, in bytes.
        most: usize,
    },
    /// It is not WebAssembly.
    #[error("{name} is not WebAssembly: give a component, as `windlass build` makes it")]
    NotWasm {
        /// The component.
        name: String,
    },
    /// It is a core module.
    #[error(
        "{name} is a core WebAssembly module, not a component: build it with `windlass build`, or link it with wasm-component-ld"
    )]
    CoreModule {
        /// The component.
        name: String,
    },
    /// It ends in the middle.
    #[error(
        "{name} ends in the middle: it was cut off, or is still being written; copy or build it again"
    )]
    Truncated {
        /// The component.
        name: String,
    },
    /// It is broken, or uses features that guests may not use.
    #[error("{name} is not a component that this host can compile: {problem}")]
    Invalid {
        /// The component.
        name: String,
        /// The compiler's message.
        problem: String,
    },
    /// Compiling it exceeds a limit, or crashes the compiler.
    #[error(
        "{name} cannot be compiled: {problem}; a guest is compiled within limits, so make it smaller, or build it without what makes its functions huge"
    )]
    NotCompiled {
        /// The component.
        name: String,
        /// The limit, or how the compiler ended.
        problem: String,
    },
    /// Its initial memory or tables exceed the engine's limits.
    #[error(
        "{name} asks for more than any guest is given: {problem}; build it with smaller tables and memories, and fewer of them"
    )]
    TooMuch {
        /// The component.
        name: String,
        /// What it asks for, and the limit.
        problem: String,
    },
    /// It exports no reconciler.
    #[error(
        "{name} is not a guest: it does not export windlass:runtime/reconciler@0.1.0 (it exports {}); build it against a world of wit/worlds.wit; in Rust, windlass_sdk::guest! exports the type that it is given",
        list(exports)
    )]
    NotAGuest {
        /// The component.
        name: String,
        /// What it exports instead.
        exports: Vec<String>,
    },
    /// It was built against another version of the contract.
    #[error(
        "{name} was built against another version of the contract ({}): this host serves windlass:runtime@0.1.0; use a host of that version, or build it against this one",
        list(interfaces)
    )]
    OtherVersion {
        /// The component.
        name: String,
        /// Interfaces of that version that it uses.
        interfaces: Vec<String>,
    },
    /// It calls functions of a later version of the contract.
    #[error(
        "{name} calls functions that this host does not have yet ({problem}): this host serves windlass:runtime@0.1.0; use a host of that version, or build the guest against this host's wit/"
    )]
    Newer {
        /// The component.
        name: String,
        /// Which function is missing, and of which interface.
        problem: String,
    },
    /// It imports something that no guest is given.
    #[error(
        "{name} imports {}, which guests are not given: they have windlass:runtime and WASI 0.2 (io, cli, clocks, random, filesystem, sockets, http's types and outgoing-handler); remove what needs it",
        list(imports)
    )]
    UnknownImports {
        /// The component.
        name: String,
        /// What it imports.
        imports: Vec<String>,
    },
    /// An interface has a right name and wrong types.
    #[error(
        "{name} does not fit windlass:runtime@0.1.0 as this host has it: {problem}; build it against this host's wit/"
    )]
    Mismatch {
        /// The component.
        name: String,
        /// What does not fit.
        problem: String,
    },
    /// It calls other clusters, and no rule opens one.
    #[error(
        "the guest calls other clusters (it imports windlass:runtime/fleet), but no rule opens any: add `clusters: {{names: [\"*\"]}}` or `clusters: {{local: true}}` to a rule"
    )]
    FleetNotGranted,
    /// It is a process.
    #[error("the guest runs as a process of its own: it has no component to inspect")]
    NoComponent,
    /// `describe()` trapped, took too long or hit a limit.
    #[error("the guest's describe() failed: {problem}")]
    DescribeFailed {
        /// What happened.
        problem: String,
    },
    /// `describe()` returned an error.
    #[error("the guest refuses to start: {problem}")]
    Refused {
        /// The guest's message.
        problem: String,
    },
    /// Its description is invalid.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The configuration is not JSON.
    #[error("the guest's config is not JSON: {problem}")]
    Config {
        /// What is wrong.
        problem: String,
    },
    /// The schema of its config cannot be read.
    #[error("{name} carries a schema of its config that cannot be used: {problem}; build it again")]
    ConfigSchema {
        /// The component.
        name: String,
        /// What is wrong with the schema.
        problem: SectionError,
    },
    /// The host failed.
    #[error("the host failed while loading: {problem}")]
    Host {
        /// What happened.
        problem: String,
    },
}

impl LoadError {
    /// Whether the fault lies with the host, so that the same component may load later.
    #[must_use]
    pub fn is_of_the_host(&self) -> bool {
        matches!(self, Self::Host { .. })
    }
}

/// Names for a sentence, at most eight of them.
fn list(names: &[String]) -> String {
    const MOST: usize = 8;
    match names {
        [] => "nothing".to_owned(),
        names if names.len() <= MOST => names.join(", "),
        names => format!(
            "{} and {} more",
            names[..MOST].join(", "),
            names.len() - MOST
        ),
    }
}
