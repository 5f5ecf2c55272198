//! Limits of the engine, of a guest and of a tenant. The defaults are safe for untrusted guests. Entry points: [`Options`] and [`Limits`].

use crate::door::Doorkeeper;
use crate::guest_clock::GuestClock;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use windlass_fleet::cluster::RateLimit;

const MIB: usize = 1 << 20;

/// Longest time that a guest computes between two yields, unless [`Options::slice`] says otherwise.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Options of an engine, which all guests of a [`crate::Sandbox`] share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Calls that can run at once, describing and mapping included. Further calls wait. Address space for them is reserved at the start,
    /// up to 8 GiB each; if the machine has less, there are fewer. Default: 768, which is 1.5 times the reconciles that a manager runs
    /// at once by default, those that wait for API servers included.
    pub instances: u32,
    /// Hard ceiling of one memory of a guest, in bytes, above every [`Limits::memory`]. Default: 256 MiB.
    pub max_memory: usize,
    /// Largest component that is loaded, in bytes. Default: 64 MiB.
    pub max_component: usize,
    /// Most processor time of `describe()`. By the clock it may take longer, if other programs have the processors.
    /// A guest in Python takes 5 ms, and ten times that on a machine whose processors others share. Default: 500 ms.
    pub describe_timeout: Duration,
    /// Calls that compute at once. Default: one less than the machine has processors, at least one. The rest of the host, with watches,
    /// transport, leases and probes, has the other.
    pub processors: Option<usize>,
    /// How long a guest computes before it yields. Default: 1 ms. Only for benches that count instructions: a guest that yields by the clock
    /// does not execute the same ones twice. With longer slices guests delay each other, and run on after their deadlines.
    #[doc(hidden)]
    pub slice: Duration,
    /// Whether guests compute in the runtime that awaits them, without threads and slices. Only for simulations in one thread: a guest that loops
    /// stops everything. Default: `false`.
    #[doc(hidden)]
    pub in_place: bool,
    /// Where components are compiled. Default: in this process.
    pub compiler: Compiler,
    /// Where compiled components are kept. Default: nowhere.
    pub cache: Option<CacheOptions>,
    /// The clock that guests read. Default: the machine's.
    pub clock: GuestClock,
    /// Who decides how the calls of guests end. Default: nobody, each ends by itself.
    pub door: Doorkeeper,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instances: 768,
            max_memory: 256 * MIB,
            max_component: 64 * MIB,
            describe_timeout: Duration::from_millis(500),
            processors: None,
            slice: TICK,
            in_place: false,
            compiler: Compiler::InProcess,
            cache: None,
            clock: GuestClock::default(),
            door: Doorkeeper::default(),
        }
    }
}

/// Where components are compiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Compiler {
    /// In this process, without limits on memory and time: for tests, and for trusted components only. Default.
    #[default]
    InProcess,
    /// In a process for each component.
    Process(CompilerProcess),
}

/// How a compiler is started, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerProcess {
    /// A program that calls [`crate::compile`] with its last arguments.
    pub program: PathBuf,
    /// Arguments before these: [`Self::memory`] in bytes, [`Self::time`] in whole seconds, and `--often` if [`Self::builds_often`].
    pub arguments: Vec<OsString>,
    /// Most address space, in bytes. Default: 2 GiB.
    pub memory: u64,
    /// Most processor time, rounded up to whole seconds. Default: 60 s.
    pub time: Duration,
    /// Most time by the clock. Its end is the host's fault and not the component's: other programs had the processors. Default: 15 min.
    pub patience: Duration,
    /// Most machine code, in bytes. Default: 512 MiB.
    pub code: usize,
    /// For a machine on which somebody edits guests. The cache keeps the functions of the last build of each file, and only those that
    /// differ are compiled, on several processors and with the priority of this process. A guest whose code breaks the compiler could spoil
    /// its own later builds. Default: `false`.
    pub builds_often: bool,
}

impl CompilerProcess {
    /// With the default limits.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, arguments: Vec<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments,
            memory: 2 << 30,
            time: Duration::from_secs(60),
            patience: Duration::from_secs(15 * 60),
            code: 512 << 20,
            builds_often: false,
        }
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.time.as_secs() + u64::from(self.time.subsec_nanos() > 0)
    }
}

/// A folder for compiled components, and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// The folder, which may be open to others. What is compiled is in a folder inside it, of this user alone.
    pub folder: PathBuf,
    /// Most bytes. The components not used for longest are removed first. Default: 1 GiB.
    pub bytes: u64,
}

impl CacheOptions {
    /// In this folder, with the default bound.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes: 1 << 30,
        }
    }
}

/// Limits of a guest. A call that hits one affects no other call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of an instance, all of its memories together, in bytes. Default: 64 MiB.
    pub memory: usize,
    /// Longest call, from its start to its result, waiting included. Default: 10 s.
    pub timeout: Duration,
    /// Table elements of an instance, all of its tables together. Default: 60 000, enough for every language's runtime.
    pub table_elements: usize,
    /// Most handles that a guest holds at once. Default: 256.
    pub handles: usize,
    /// Most bytes that a guest hands to the host in one host call, which cannot be interrupted. Default: 2 MiB: servers store no object
    /// above 1.5 MiB by default.
    pub host_call_bytes: usize,
    /// Largest object that a guest is given, in bytes. Default: 4 MiB.
    pub object_bytes: usize,
    /// Most bytes that one host call returns: the objects of a list or a batch, or the descriptions of clusters. Default: 16 MiB.
    pub response_bytes: usize,
    /// Most operations in a batch. Default: 1000.
    pub batch_operations: usize,
    /// Most objects in a page of a list. A guest that asks for more gets this many. Default: 5000.
    pub list_items: u32,
    /// Most calls of cluster functions in one call of the guest. Each operation of a batch counts. Default: 10 000.
    pub host_calls: u32,
    /// Calls to API servers that begin per second, of all calls of the guest together. Reads from a cache do not count. Default: no limit.
    pub requests_per_second: Option<Rate>,
    /// Most bytes of log lines of one call, with standard output and standard error. Default: 64 KiB.
    pub log_bytes: usize,
    /// Bytes of log lines per second, of all calls of the guest together. Default: 256 KiB.
    pub log_bytes_per_second: Option<Rate>,
}

/// A rate. After a pause, the amount of one second may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// At least one.
    pub per_second: u32,
}

impl Rate {
    pub(crate) fn limit(self) -> RateLimit {
        RateLimit {
            per_second: f64::from(self.per_second.max(1)),
            burst: self.per_second.max(1),
        }
    }
}

impl Limits {
    /// The rate of log lines. After a pause at least the lines of one call fit.
    pub(crate) fn log_rate(&self) -> Option<RateLimit> {
        let limit = self.log_bytes_per_second?.limit();
        let call = u32::try_from(self.log_bytes).unwrap_or(u32::MAX);
        Some(RateLimit {
            burst: limit.burst.max(call),
            ..limit
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 * MIB,
            timeout: Duration::from_secs(10),
            table_elements: 60_000,
            handles: 256,
            host_call_bytes: 2 * MIB,
            object_bytes: 4 * MIB,
            response_bytes: 16 * MIB,
            batch_operations: 1000,
            list_items: 5000,
            host_calls: 10_000,
            requests_per_second: None,
            log_bytes: 64 << 10,
            log_bytes_per_second: Some(Rate {
                per_second: 256 << 10,
            }),
        }
    }
}

/// How instances are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// A new instance for every call. Nothing of a guest survives a call. Default.
    #[default]
    Fresh,
    /// An instance serves several calls of `reconcile`, one after the other. The guest's memory is there in the next call, which may be
    /// of another request and cluster. Never across guests, tenants, grants, revisions or configurations, and never after a call that
    /// trapped, timed out or was cancelled.
    Reuse(Reuse),
}

/// Limits of a reused instance. The first one that is reached ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// Most calls. Default: 100.
    pub calls: u32,
    /// Longest time since it was made. Default: 1 min.
    pub age: Duration,
    /// Most linear memory after a call, in bytes. Default: 32 MiB.
    pub memory: usize,
    /// Most idle instances. Their memory counts for the tenant; they are evicted when the tenant has too little. Default: 4.
    pub idle: u32,
}

impl Default for Reuse {
    fn default() -> Self {
        Self {
            calls: 100,
            age: Duration::from_secs(60),
            memory: 32 * MIB,
            idle: 4,
        }
    }
}

/// Limits that all guests of a tenant share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantLimits {
    /// Most linear memory of all live instances together, in bytes. Default: 512 MiB.
    pub memory: usize,
    /// Its weight when tenants compete for the processors. Default: 1.
    pub weight: u32,
    /// Most thousandths of a processor that its guests use together, even while processors are idle. Default: no limit.
    pub cpu_millis: Option<u32>,
    /// Most calls to API servers under way at once, of all of its guests. Default: 256.
    pub requests_in_flight: usize,
    /// Calls to API servers that begin per second, of all of its guests. Default: no limit.
    pub requests_per_second: Option<Rate>,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            memory: 512 * MIB,
            weight: 1,
            cpu_millis: None,
            requests_in_flight: 256,
            requests_per_second: None,
        }
    }
}
