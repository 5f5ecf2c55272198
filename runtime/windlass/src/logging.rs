//! Log lines: text on a terminal, JSON otherwise, or as asked for; always on standard error. Entry point: [`start`].

mod json;
mod text;

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

/// The environment variable of the filter; `--log` overrides it.
pub(crate) const VARIABLE: &str = "WINDLASS_LOG";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs: a JSON object a line.
    Json,
}

/// Starts the log with a filter, in a format. Lines of guests have the target `guest`.
///
/// # Errors
/// When the filter cannot be read.
pub(crate) fn start(text: &str, format: Option<LogFormat>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(text).map_err(|error| {
        anyhow::anyhow!(
            "the log filter {text:?} cannot be read: {error}; write for example info,guest=debug"
        )
    })?;
    let registry = registry().with(filter);
    let is_terminal = std::io::stderr().is_terminal();
    let is_text = format.map_or(is_terminal, |format| format == LogFormat::Text);
    if is_text {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colours = is_terminal && wanted;
        registry
            .with(
                fmt::layer()
                    .with_ansi(colours)
                    .fmt_fields(text::Quoted)
                    .with_writer(std::io::stderr),
            )
            .init();
    } else {
        let lines = fmt::layer()
            .event_format(json::Flat)
            .with_writer(std::io::stderr);
        registry.with(json::Keep).with(lines).init();
    }
    Ok(())
}
