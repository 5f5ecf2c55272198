//! Bounds of the engine, of a guest and of a tenant, with defaults that are safe for a guest nobody knows. Entry points:
//! [`Options`] and [`Limits`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use windlass_fleet::cluster::RateLimit;

const MIB: usize = 1 << 20;

/// Bounds of the engine: what all guests of a [`crate::Sandbox`] share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Calls that can run at once, describing and mapping included. Address space for them is reserved at the start, up to
    /// 8 GiB each; where the machine gives less, fewer. A call beyond waits. Default: 768, two thirds of which are what a manager
    /// runs at once by default, calls that wait for API servers included.
    pub instances: u32,
    /// Hard ceiling of one memory of a guest, in bytes, above every [`Limits::memory`]. Default: 256 MiB.
    pub max_memory: usize,
    /// Largest component that is loaded, in bytes. Default: 64 MiB.
    pub max_component: usize,
    /// Longest `describe()`, in time that it runs; on a machine that is busy with other things it may take longer by the clock.
    /// Default: 50 ms.
    pub describe_timeout: Duration,
    /// Calls that compute at once. Default: one for each processor of the machine but one, which is left to watches, transport, leases
    /// and probes; at least one.
    pub processors: Option<usize>,
    /// Where components are compiled. Default: in this process.
    pub compiler: Compiler,
    /// Where what was compiled is kept. Default: nowhere.
    pub cache: Option<CacheOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instances: 768,
            max_memory: 256 * MIB,
            max_component: 64 * MIB,
            describe_timeout: Duration::from_millis(50),
            processors: None,
            compiler: Compiler::InProcess,
            cache: None,
        }
    }
}

/// Where components are compiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Compiler {
    /// In this process, with no limit on memory and time: for tests, and for who compiles only what is his own. Default.
    #[default]
    InProcess,
    /// In a process for each.
    Process(CompilerProcess),
}

/// How a compiler is started, and what it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerProcess {
    /// A program that calls [`crate::compile`] with its last two arguments.
    pub program: PathBuf,
    /// Arguments before these two, which are the bytes of [`Self::memory`] and the whole seconds of [`Self::time`].
    pub arguments: Vec<OsString>,
    /// Address space that it may have, in bytes. Default: 2 GiB.
    pub memory: u64,
    /// Time that it may compute, rounded up to whole seconds; by the clock, four times as long. Default: 60 s.
    pub time: Duration,
    /// Machine code that it may answer, in bytes. Default: 512 MiB.
    pub code: usize,
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
            code: 512 << 20,
        }
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.time.as_secs() + u64::from(self.time.subsec_nanos() > 0)
    }
}

/// Where compiled components are kept, and how many bytes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// Made if it is not there, readable by this user alone.
    pub folder: PathBuf,
    /// Those not used for longest leave first. Default: 1 GiB.
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

/// Bounds of one call of a guest. What hits one is that call alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of an instance, all of its memories together, in bytes. Default: 64 MiB.
    pub memory: usize,
    /// Longest call, from its start to its result, waiting included. Default: 10 s.
    pub timeout: Duration,
    /// Table elements of an instance, all of its tables together. Default: 60 000, enough for every language's runtime.
    pub table_elements: usize,
    /// Handles that a guest holds at once. Default: 256.
    pub handles: usize,
    /// Bytes that a guest hands to the host in one call of it, which nobody can interrupt. Default: 2 MiB: servers store no object above
    /// 1.5 MiB by default.
    pub host_call_bytes: usize,
    /// Largest object that a guest is given, in bytes. Default: 4 MiB.
    pub object_bytes: usize,
    /// Bytes of objects that a guest is given by one list or one batch, or of what it is told of clusters by one list. Default: 16 MiB.
    pub response_bytes: usize,
    /// Operations in a batch. Default: 1000.
    pub batch_operations: usize,
    /// Objects in a page of a list; a guest that asks for more is given this many. Default: 5000.
    pub list_items: u32,
    /// Calls of cluster functions in one call of the guest, each operation of a batch counted. Default: 10 000.
    pub host_calls: u32,
    /// Calls to API servers that begin per second, of all calls of the guest together. What a cache answers is none. Default:
    /// no limit.
    pub requests_per_second: Option<Rate>,
    /// Bytes of log lines, standard output and standard error included. Default: 64 KiB.
    pub log_bytes: usize,
    /// Bytes of log lines per second, of all calls of the guest together. Default: 256 KiB.
    pub log_bytes_per_second: Option<Rate>,
}

/// So much per second; after a pause, as much at once.
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
    /// A new instance for every call. Nothing of a guest outlives a call. Default.
    #[default]
    Fresh,
    /// An instance serves several calls of `reconcile`, one after the other: what the guest keeps in its memory is there in the
    /// next call, whatever request and cluster that is of. Never across guests, tenants, grants, revisions or configurations, and
    /// never after a call that trapped, timed out or was cancelled.
    Reuse(Reuse),
}

/// Bounds of what an instance may serve. Whichever is reached first ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// Calls. Default: 100.
    pub calls: u32,
    /// Time since it was made. Default: 1 min.
    pub age: Duration,
    /// Linear memory that it has after a call, in bytes. Default: 32 MiB.
    pub memory: usize,
    /// Instances that wait for a call at once. They count in the tenant's memory, and are given up when that is short. Default: 4.
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

/// Bounds that all guests of a tenant share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantLimits {
    /// Linear memory of all live instances together, in bytes. Default: 512 MiB.
    pub memory: usize,
    /// Its share of the processors beside other tenants. Default: 1.
    pub weight: u32,
    /// Thousandths of a processor that its guests may use together, even while others use nothing. Default: no limit.
    pub cpu_millis: Option<u32>,
    /// Calls to API servers under way at once, of all of its guests. Default: 256.
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
