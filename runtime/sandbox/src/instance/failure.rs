//! Why a call did not come back, in words for whoever wrote the guest. Entry point: [`explain`].

use crate::clean::clean;
use crate::contract::handle::StaleHandle;
use crate::instance::call::Call;
use crate::instance::memory::Size;
use crate::tenant::usage::Limit;
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

/// What the epoch callback ends a guest with when its time is up.
#[derive(Debug, thiserror::Error)]
#[error("out of time")]
pub(crate) struct OutOfTime;

/// The failure that a call ended with.
pub(crate) fn explain(error: &wasmtime::Error, call: &Call, last_words: Option<&str>) -> Failure {
    let place = Place::of(error);
    if error.is::<OutOfTime>() {
        return timed_out(call, &place);
    }
    if let Some(stale) = error.downcast_ref::<StaleHandle>() {
        return trapped("handle", format!("{stale}{place}"));
    }
    if let Some(table) = error.downcast_ref::<ResourceTableError>() {
        if matches!(table, ResourceTableError::Full) {
            call.guest.hit(Limit::Handles);
        }
        return trapped(
            "handle",
            format!(
                "a handle is of no use: {}{place}",
                describe_table(table, call)
            ),
        );
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return no_room();
    }
    if let Some(refusal) = call.meter.refusal() {
        return trapped(
            "memory",
            format!(
                "the guest hit {}; it ended with {}{place}",
                refusal.describe(),
                cause(error)
            ),
        );
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => trapped(
            "stack",
            format!("the guest's calls are nested too deeply{place}"),
        ),
        Some(_) => trapped(
            "trap",
            format!(
                "the guest trapped: {}{place}{}",
                cause(error),
                Said(last_words)
            ),
        ),
        None if cause(error).contains("handle limit exceeded") => {
            let held = describe_table(&ResourceTableError::Full, call);
            trapped("handle", format!("a handle is of no use: {held}{place}"))
        }
        None if cause(error).contains("fuel") => {
            let limit = Size(call.guest.limits.host_call_bytes);
            trapped(
                "host-call",
                format!("the guest handed the host more than {limit} in one call{place}"),
            )
        }
        None => trapped(
            "trap",
            format!("the guest trapped: {}{place}", cause(error)),
        ),
    }
}

/// The failure of a call that was waiting for the host when its time was up.
pub(crate) fn timed_out_waiting(call_timeout: Duration) -> Failure {
    let message = format!(
        "no result within {call_timeout:?}; it was waiting for the host, which is a call to a cluster or sleep: do less per run, or raise limits.timeout"
    );
    Failure::retry(message).reason("timeout")
}

/// The failure of a call that could have gone on when its time was up, and waited for others that computed.
pub(crate) fn timed_out_in_line(call_timeout: Duration) -> Failure {
    let message = format!(
        "no result within {call_timeout:?}; it was waiting for its tenant's share of the processors: do less per run, or raise the tenant's weight or limits.cpu"
    );
    Failure::retry(message).reason("timeout")
}

/// The failure of a call for which there was no instance.
pub(crate) fn no_room() -> Failure {
    let message = "there was no room for another instance: the host runs as many guests as it has reserved room for";
    Failure::retry(message)
        .blame(Blame::Host)
        .reason("capacity")
}

/// The failure of a call for whose instance its tenant had no memory.
pub(crate) fn no_memory() -> Failure {
    let message = "the call could not begin: instances of other calls have the memory that its tenant's guests share: raise the tenant's limits.memory, or run fewer at once";
    Failure::retry(message).reason("memory")
}

fn timed_out(call: &Call, place: &Place) -> Failure {
    let timeout = call.guest.limits.timeout;
    let message = format!(
        "no result within {timeout:?}: do less per run, or raise limits.timeout; it was busy{place}"
    );
    Failure::retry(message).reason("timeout")
}

fn trapped(reason: &'static str, message: String) -> Failure {
    Failure::retry(message).reason(reason)
}

fn describe_table(error: &ResourceTableError, call: &Call) -> String {
    match error {
        ResourceTableError::Full => format!(
            "the guest holds {} already, which is the limit: drop what is no longer used",
            call.guest.limits.handles
        ),
        other => other.to_string(),
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

/// Where in the guest it happened: ` in a < b < c`, or nothing.
struct Place(Vec<String>);

impl Place {
    fn of(error: &wasmtime::Error) -> Self {
        let frames = error
            .downcast_ref::<WasmBacktrace>()
            .map(WasmBacktrace::frames)
            .unwrap_or_default();
        let names = frames
            .iter()
            .filter_map(|frame| frame.func_name())
            .map(readable);
        // What a panic does on its way out says nothing about its place.
        let telling = names.skip_while(|name| is_panic_machinery(name));
        Self(telling.take(FRAMES).collect())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ", in {}", self.0.join(" < "))
    }
}

struct Said<'a>(Option<&'a str>);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(words) => write!(f, "; it last said: {words}"),
            None => Ok(()),
        }
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
    fn the_way_out_of_a_panic_is_not_its_place() {
        assert!(is_panic_machinery(
            "std::panicking::begin_panic_handler::{{closure}}"
        ));
        assert!(is_panic_machinery("core::panicking::panic_fmt"));
        assert!(!is_panic_machinery("test_panic::boom"));
    }
}
