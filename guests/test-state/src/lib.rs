//! Keeps state between calls, which works only in a reused instance. Entry point: [`State`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// Calls of this instance.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// The memory that requests named `grow…` keep.
static GROWN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The guest. Its result is the number of calls of its instance; requests named `trap…` trap, those named `grow…` keep 4 MiB, those
/// named `loop…` never return.
struct State;
windlass_sdk::guest!(State);

impl Reconciler for State {
    fn describe() -> Result<Description> {
        Ok(Description::new("remembers its calls")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: &Request, _: &Cluster) -> Result<Action> {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
        let name = request.key.name.as_str();
        if name.starts_with("trap") {
            trap();
        }
        if name.starts_with("grow")
            && let Ok(mut grown) = GROWN.lock()
        {
            let more = grown.len() + (4 << 20);
            grown.resize(more, 1);
        }
        while name.starts_with("loop") {
            std::hint::black_box(());
        }
        Err(Error::terminal(calls.to_string()))
    }
}

#[expect(clippy::panic, reason = "this is what the guest is for")]
fn trap() -> ! {
    panic!("as asked")
}
