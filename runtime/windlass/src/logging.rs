//! Log lines: text on a terminal, JSON otherwise, always on standard error. Entry point: [`start`].

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The environment variable that `--log` goes before.
pub(crate) const VARIABLE: &str = "WINDLASS_LOG";

/// Begins to write log lines that pass `filter`. What guests log has the target `guest`.
///
/// # Errors
/// When the filter cannot be read.
pub(crate) fn start(filter: Option<&str>) -> anyhow::Result<()> {
    let text = filter.unwrap_or("info");
    let filter = EnvFilter::try_new(text).map_err(|error| {
        anyhow::anyhow!(
            "the log filter {text:?} cannot be read: {error}; write for example info,guest=debug"
        )
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder
            .with_ansi(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
            .init();
    } else {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(true)
            .init();
    }
    Ok(())
}
