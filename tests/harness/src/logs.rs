//! `tracing` output in tests. Entry point: [`init`].

use tracing_subscriber::EnvFilter;

/// Sends `tracing` events to the test's captured output, so that they are shown when the test fails.
///
/// Calls after the first do nothing. The variable `WINDLASS_LOG` (default `info,windlass=debug`) filters as `RUST_LOG` does elsewhere.
pub fn init() {
    let filter = EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| {
        EnvFilter::new("info,windlass=debug,windlass_fleet=debug,windlass_sandbox=debug,windlass_registry=debug")
    });
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_test_writer();
    // Another test of this process may have set the same subscriber already.
    drop(subscriber.try_init());
}
