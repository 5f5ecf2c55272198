//! Bounds of the engine, of a guest and of a tenant, with defaults that are safe for a guest nobody knows. Entry points:
//! [`Options`] and [`Limits`].

use std::time::Duration;

const MIB: usize = 1 << 20;

/// Bounds of the engine: what all guests of a [`crate::Sandbox`] share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Calls that can run at once, describing and mapping included. Address space for them is reserved at the start, up to
    /// 8 GiB each; where the machine gives less, fewer. A call beyond waits. Default: 256.
    pub instances: u32,
    /// Hard ceiling of one memory of a guest, in bytes, above every [`Limits::memory`]. Default: 256 MiB.
    pub max_memory: usize,
    /// Largest component that is loaded, in bytes. Default: 64 MiB.
    pub max_component: usize,
    /// Longest `describe()`, in time that it runs; on a machine that is busy with other things it may take longer by the clock.
    /// Default: 50 ms.
    pub describe_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instances: 256,
            max_memory: 256 * MIB,
            max_component: 64 * MIB,
            describe_timeout: Duration::from_millis(50),
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
    /// Bytes that a guest hands to the host in one call of it. Default: 4 MiB.
    pub host_call_bytes: usize,
    /// Largest object that a guest is given, in bytes. Default: 4 MiB.
    pub object_bytes: usize,
    /// Bytes of objects that a guest is given by one list or one batch. Default: 16 MiB.
    pub response_bytes: usize,
    /// Operations in a batch. Default: 1000.
    pub batch_operations: usize,
    /// Bytes of log lines, standard output and standard error included. Default: 64 KiB.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 * MIB,
            timeout: Duration::from_secs(10),
            table_elements: 60_000,
            handles: 256,
            host_call_bytes: 4 * MIB,
            object_bytes: 4 * MIB,
            response_bytes: 16 * MIB,
            batch_operations: 1000,
            log_bytes: 64 << 10,
        }
    }
}

/// Bounds that all guests of a tenant share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantLimits {
    /// Linear memory of all live instances together, in bytes. Default: 512 MiB.
    pub memory: usize,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self { memory: 512 * MIB }
    }
}
