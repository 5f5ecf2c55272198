//! Checks the limits of the process, and runs fewer reconciles while memory is nearly used up. Entry point: [`follow`].

use crate::app::App;
use crate::status::pressure::Pressure;
use crate::status::process::{Share, Usage};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How often the limits are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Checks the limits every second, forever.
pub(super) async fn follow(app: Arc<App>) {
    loop {
        let before = **app.pressure.load();
        // Reading may block while memory is short.
        let usage = tokio::task::spawn_blocking(Usage::read).await;
        let share = |used: usize, limit: usize| Share {
            used: used as u64,
            limit: limit as u64,
        };
        let sockets = app.manager.sockets();
        let usage = Usage {
            sockets: sockets.map(|now| share(now.used, now.limit)),
            watches: sockets.map(|now| share(now.watches, now.watch_limit)),
            ..usage.unwrap_or(before.usage)
        };
        let now = before.after(usage);
        app.pressure.store(Arc::new(now));
        if now.memory != before.memory {
            app.apply_concurrency(&app.configuration.load().manager_spec());
        }
        log_change(&before, &now);
        sleep(INTERVAL).await;
    }
}

fn log_change(before: &Pressure, now: &Pressure) {
    let descriptors = (before.descriptors, now.descriptors);
    let memory = (before.memory, now.memory);
    for (limit, change, detail) in [
        ("descriptors", descriptors, now.describe_descriptors()),
        ("memory", memory, now.describe_memory()),
    ] {
        match change {
            (false, true) => tracing::warn!(limit, detail, "a limit is nearly used up"),
            (true, false) => tracing::info!(limit, detail, "the limit has room again"),
            _ => {}
        }
    }
}
