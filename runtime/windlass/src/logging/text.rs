//! The fields of a log line for people. No value can look like another field. Entry point: [`Quoted`].

use crate::output::printable;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes `name=value`, with the value in quotation marks if it would look like more than one word, and the message as it is.
///
/// Values may come from a guest or an API server. A message that looks like fields is in quotation marks too. Of an error with several
/// lines, as a traceback is, the first is the value. The others stand below the fields, set in, so that none looks like a log line.
#[derive(Debug, Default)]
pub(super) struct Quoted;

impl<'writer> FormatFields<'writer> for Quoted {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut words = Words {
            writer,
            is_first: true,
            below: String::new(),
            written: Ok(()),
        };
        fields.record(&mut words);
        words.written?;
        words.writer.write_str(&words.below)
    }
}

struct Words<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    /// Lines for the end of an event. No span has an error.
    below: String,
    written: fmt::Result,
}

impl Words<'_> {
    fn write(&mut self, name: &str, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        if name == "message" {
            return if value.contains(['=', '"']) || value.contains(char::is_control) {
                write!(self.writer, "{value:?}")
            } else {
                self.writer.write_str(value)
            };
        }
        if self.writer.has_ansi_escapes() {
            write!(self.writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?
        } else {
            write!(self.writer, "{name}=")?
        }
        let separates = |character: char| {
            character.is_whitespace() || character.is_control() || matches!(character, '=' | '"')
        };
        if value.is_empty() || value.contains(separates) {
            write!(self.writer, "{value:?}")
        } else {
            self.writer.write_str(value)
        }
    }
}

impl Visit for Words<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        // The origin of lines of libraries that use the crate `log`.
        if field.name().starts_with("log.") || self.written.is_err() {
            return;
        }
        let value = match value.split_once('\n') {
            Some((first, others)) if field.name() == "error" => {
                let others = others
                    .lines()
                    .map(|line| format!("\n    {}", printable(line)));
                self.below.extend(others);
                first
            }
            _ => value,
        };
        self.written = self.write(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::json::tests::Lines;
    use tracing_subscriber::layer::SubscriberExt;

    /// The lines that it logs.
    fn logged(log: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let format = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .without_time()
            .fmt_fields(Quoted)
            .with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(format);
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn no_value_can_look_like_another_field() {
        let lines = logged(|| {
            let span = tracing::info_span!("reconcile", tenant = "bad", key = "a b=c");
            let error = "x tenant=good";
            span.in_scope(|| {
                tracing::info!(target: "guest", error = %error, count = 3, plain = %"word", "said");
                tracing::info!(target: "guest", "{}", "said tenant=good");
                tracing::info!(target: "guest", "{}", "said \u{1b}[2J");
            });
        });
        let span = "INFO reconcile{tenant=bad key=\"a b=c\"}: guest:";
        let expected = [
            format!(" {span} said error=\"x tenant=good\" count=3 plain=word"),
            format!(" {span} \"said tenant=good\""),
            format!(" {span} \"said \\u{{1b}}[2J\""),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_of_an_error_stand_below_and_look_like_no_log_line() {
        let lines = logged(|| {
            let error = "boom\nat main.go:3\nERROR \u{1b}[2J tenant=good\n";
            tracing::info!(target: "guest", error, attempt = 3, other = "a\nb", "said");
        });
        let expected = [
            " INFO guest: said error=boom attempt=3 other=\"a\\nb\"",
            "    at main.go:3",
            "    ERROR \u{fffd}[2J tenant=good",
        ];
        assert_eq!(lines, expected);
    }
}
