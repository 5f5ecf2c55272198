//! Why a call did not come back, in words for the guest's author. Entry points: [`CallError`] and [`explain`].

use crate::clean::clean;
use crate::contract::handle::StaleHandle;
use crate::instance::call::Call;
use crate::instance::memory::Size;
use crate::tenant::usage::Limit;
use crate::wasmtime_errors;
use std::fmt;
use std::time::Duration;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use windlass_fleet::Failure;
use windlass_fleet::outcome::Blame;

/// Frames shown; the innermost come first.
const FRAMES: usize = 8;
/// Longest function name shown, in bytes.
const NAME: usize = 100;
/// Longest cause shown, in bytes.
const CAUSE: usize = 300;

/// The epoch callback ends a guest with this when its time is up.
#[derive(Debug, thiserror::Error)]
#[error("out of time")]
pub(crate) struct OutOfTime;

/// Why a call could not begin, or did not come back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Its time was up while it computed.
    #[error(
        "no result within {timeout:?}: do less per run, or raise limits.timeout; it was busy{stack}"
    )]
    TimeoutBusy { timeout: Duration, stack: Stack },
    /// Its time was up while it waited for the host.
    #[error(
        "no result within {0:?}; it was waiting for the host, which is a call to a cluster or sleep: do less per run, or raise limits.timeout"
    )]
    TimeoutWaiting(Duration),
    /// Its time was up while it was ready to run, and other calls computed.
    #[error(
        "no result within {0:?}; it was waiting for its tenant's share of the processors: do less per run, or raise the tenant's weight or limits.cpu"
    )]
    TimeoutReady(Duration),
    /// There was no slot for its instance.
    #[error(
        "there was no room for another instance: the host runs as many guests as it has reserved room for"
    )]
    NoSlot,
    /// Its tenant had no memory for its instance.
    #[error(
        "the call could not begin: instances of other calls have the memory that its tenant's guests share: raise the tenant's limits.memory, or run fewer at once"
    )]
    NoMemory,
    /// It used a handle after the call that the handle was given for.
    #[error("{stale}{stack}")]
    StaleHandle { stale: StaleHandle, stack: Stack },
    /// It used a bad handle.
    #[error("a handle is of no use: {problem}{stack}")]
    Handle { problem: String, stack: Stack },
    /// It asked for one handle too many.
    #[error(
        "a handle is of no use: the guest holds {most} already, which is the limit: drop what is no longer used{stack}"
    )]
    TooManyHandles { most: usize, stack: Stack },
    /// It was refused memory or table elements, and ended then.
    #[error("the guest hit {limit}; it ended with {cause}{stack}")]
    Memory {
        limit: String,
        cause: String,
        stack: Stack,
    },
    /// Its own calls were nested too deeply.
    #[error("the guest's calls are nested too deeply{0}")]
    StackOverflow(Stack),
    /// It handed the host too much.
    #[error("the guest handed the host more than {limit} in one call{stack}")]
    HostCallBytes { limit: Size, stack: Stack },
    /// Anything else.
    #[error("the guest trapped: {cause}{stack}{}", last_line(.last_error.as_deref()))]
    Trap {
        cause: String,
        stack: Stack,
        last_error: Option<String>,
    },
}

impl CallError {
    /// The word in failures and metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::TimeoutBusy { .. } | Self::TimeoutWaiting(_) | Self::TimeoutReady(_) => "timeout",
            Self::NoSlot => "capacity",
            Self::NoMemory | Self::Memory { .. } => "memory",
            Self::StaleHandle { .. } | Self::Handle { .. } | Self::TooManyHandles { .. } => {
                "handle"
            }
            Self::StackOverflow(_) => "stack",
            Self::HostCallBytes { .. } => "host-call",
            Self::Trap { .. } => "trap",
        }
    }

    /// The limit that the call hit. Memory and tables are counted where they are refused.
    pub(crate) fn limit(&self) -> Option<Limit> {
        match self {
            Self::TimeoutBusy { .. } | Self::TimeoutWaiting(_) | Self::TimeoutReady(_) => {
                Some(Limit::Timeout)
            }
            Self::TooManyHandles { .. } => Some(Limit::Handles),
            Self::StackOverflow(_) => Some(Limit::Stack),
            Self::HostCallBytes { .. } => Some(Limit::HostCallBytes),
            _ => None,
        }
    }
}

impl CallError {
    /// The failure of the reconcile whose call it was.
    pub(crate) fn into_failure(self) -> Failure {
        let failure = Failure::retry(self.to_string()).reason(self.reason());
        match self {
            Self::NoSlot => failure.blame(Blame::Host),
            _ => failure,
        }
    }
}

/// The error that a call ended with. `last_error`: the last line of level error that the guest logged.
pub(crate) fn explain(
    error: &wasmtime::Error,
    call: &Call,
    last_error: Option<String>,
) -> CallError {
    let stack = Stack::of(error);
    if error.is::<OutOfTime>() {
        let timeout = call.guest.limits.timeout;
        return CallError::TimeoutBusy { timeout, stack };
    }
    if let Some(stale) = error.downcast_ref::<StaleHandle>() {
        let stale = stale.clone();
        return CallError::StaleHandle { stale, stack };
    }
    let most = call.guest.limits.handles;
    match error.downcast_ref::<ResourceTableError>() {
        Some(ResourceTableError::Full) => return CallError::TooManyHandles { most, stack },
        Some(other) => {
            let problem = other.to_string();
            return CallError::Handle { problem, stack };
        }
        None => {}
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return CallError::NoSlot;
    }
    let cause = cause(error);
    if let Some(refusal) = call.meter.refusal() {
        let limit = refusal.describe();
        return CallError::Memory {
            limit,
            cause,
            stack,
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => CallError::StackOverflow(stack),
        Some(_) => CallError::Trap {
            cause,
            stack,
            last_error,
        },
        None if wasmtime_errors::is_out_of_handles(&cause) => {
            CallError::TooManyHandles { most, stack }
        }
        None if wasmtime_errors::is_host_call_too_large(&cause) => {
            let limit = Size(call.guest.limits.host_call_bytes);
            CallError::HostCallBytes { limit, stack }
        }
        None => CallError::Trap {
            cause,
            stack,
            last_error: None,
        },
    }
}

/// The innermost cause, without the words that every trap shares.
fn cause(error: &wasmtime::Error) -> String {
    let text = match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => error.root_cause().to_string(),
    };
    let first = text.lines().next().unwrap_or_default();
    clean(first.trim_start_matches("wasm trap: "), CAUSE)
}

fn last_line(last_error: Option<&str>) -> String {
    last_error.map_or_else(String::new, |line| format!("; it last said: {line}"))
}

/// The guest's functions on the stack, the innermost first: `, in a < b < c`, or nothing.
#[derive(Debug)]
pub(crate) struct Stack(Vec<String>);

impl Stack {
    fn of(error: &wasmtime::Error) -> Self {
        let frames = error
            .downcast_ref::<WasmBacktrace>()
            .map(WasmBacktrace::frames)
            .unwrap_or_default();
        let names = frames
            .iter()
            .filter_map(|frame| frame.func_name())
            .map(readable);
        // The functions of a panic itself say nothing about its cause.
        let telling = names.skip_while(|name| is_panic_machinery(name));
        Self(telling.take(FRAMES).collect())
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ", in {}", self.0.join(" < "))
    }
}

/// A function's name as its author wrote it.
fn readable(symbol: &str) -> String {
    clean(&format!("{:#}", rustc_demangle::demangle(symbol)), NAME)
}

fn is_panic_machinery(name: &str) -> bool {
    const MACHINERY: [&str; 9] = [
        "std::panicking",
        "core::panicking",
        "std::sys::backtrace",
        "std::process::abort",
        "abort",
        "panic_abort",
        "__rust",
        "rust_",
        "std::alloc",
    ];
    MACHINERY
        .iter()
        .any(|part| name.trim_start_matches('<').starts_with(part))
        || name.contains("__rust_start_panic")
        || name.contains("__rustc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_their_author_wrote_them() {
        assert_eq!(
            readable("_ZN10test_panic4boom17h0123456789abcdefE"),
            "test_panic::boom"
        );
        assert_eq!(
            readable("windlass:runtime/reconciler@0.1.0#reconcile"),
            "windlass:runtime/reconciler@0.1.0#reconcile"
        );
        assert_eq!(readable(&"x".repeat(200)).chars().count(), NAME + 1);
        assert_eq!(readable("a\u{1b}[2J\nb\u{202e}"), "a\\u{1b}[2J b\\u{202e}");
    }

    #[test]
    fn the_way_out_of_a_panic_is_left_out() {
        assert!(is_panic_machinery(
            "std::panicking::begin_panic_handler::{{closure}}"
        ));
        assert!(is_panic_machinery("core::panicking::panic_fmt"));
        assert!(!is_panic_machinery("test_panic::boom"));
    }
}
