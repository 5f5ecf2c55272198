//! Log lines: text on a terminal, JSON otherwise, or as asked for; always on standard error. And traces, to a collector. Entry point: [`start`].

mod json;
mod text;
mod traces;

pub(crate) use traces::Traces;

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

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

/// Starts the log with a filter, in a format, and traces if there are any. Lines of guests have the target `guest`.
///
/// # Errors
/// When the filter cannot be read.
pub(crate) fn start(
    text: &str,
    format: Option<LogFormat>,
    traces: Option<&Traces>,
) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(text).map_err(|error| {
        anyhow::anyhow!(
            "the log filter {text:?} cannot be read: {error}; write for example info,guest=debug"
        )
    })?;
    let is_terminal = std::io::stderr().is_terminal();
    let is_text = format.map_or(is_terminal, |format| format == LogFormat::Text);
    let lines = if is_text {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        fmt::layer()
            .with_ansi(is_terminal && wanted)
            .fmt_fields(text::Quoted)
            .with_writer(std::io::stderr)
            .boxed()
    } else {
        let lines = fmt::layer()
            .event_format(json::Flat)
            .fmt_fields(json::Unwritten)
            .with_writer(std::io::stderr);
        json::Keep.and_then(lines).boxed()
    };
    registry()
        .with(lines.with_filter(filter))
        .with(traces.map(Traces::layer))
        .init();
    Ok(())
}
