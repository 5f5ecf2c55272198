//! A log line as one flat JSON object: the fields of the line and of the spans around it. Entry point:
//! [`Flat`].
//!
//! Each run has a span, and hardly a run has a line: what a span costs counts, and not what a line costs.

use serde_json::{Map, Value as Json};
use std::error::Error;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use windlass_sandbox::LogFields;

/// Writes lines. A field of an inner span overrides the same field of an outer one, and the line's own fields override both.
#[derive(Debug, Default)]
pub(super) struct Flat;

/// Stores the fields of spans for [`Flat`].
#[derive(Debug, Default)]
pub(super) struct Keep;

/// Writes no fields of spans: [`Keep`] has them.
#[derive(Debug, Default)]
pub(super) struct Unwritten;

impl<'writer> FormatFields<'writer> for Unwritten {
    fn format_fields<R: RecordFields>(&self, _: Writer<'writer>, _: R) -> fmt::Result {
        Ok(())
    }
}

/// Fields of a span, each with the value that was recorded last.
struct Kept(Vec<(&'static str, Json)>);

impl Kept {
    fn put(&mut self, name: &'static str, value: Json) {
        match self.0.iter_mut().find(|(kept, _)| *kept == name) {
            Some((_, kept)) => *kept = value,
            None => self.0.push((name, value)),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keep {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut kept = Kept(Vec::with_capacity(attributes.fields().len()));
        attributes.record(&mut Fields(|name, value| kept.put(name, value)));
        span.extensions_mut().insert(kept);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(kept) = span.extensions_mut().get_mut::<Kept>() {
            values.record(&mut Fields(|name, value| kept.put(name, value)));
        }
    }
}

impl<S, N> FormatEvent<S, N> for Flat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), time.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(Kept(kept)) = span.extensions().get::<Kept>() {
                let kept = kept.iter();
                line.extend(kept.map(|(name, value)| ((*name).to_owned(), value.clone())));
            }
        }
        event.record(&mut Fields(|name: &'static str, value| {
            line.insert(name.to_owned(), value);
        }));
        writeln!(writer, "{}", Json::Object(without_detour(line)))
    }
}

/// Lines of libraries that use the crate `log` have their origin in extra fields.
fn without_detour(mut line: Map<String, Json>) -> Map<String, Json> {
    if let Some(target) = line.remove("log.target") {
        line.insert("target".to_owned(), target);
        line.retain(|name, _| !name.starts_with("log."));
    }
    line
}

/// Passes fields on, as JSON.
struct Fields<F>(F);

impl<F: FnMut(&'static str, Json)> Visit for Fields<F> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        (self.0)(field.name(), format!("{value:?}").into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let value = match value.downcast_ref::<LogFields>() {
            Some(fields) => fields
                .pairs()
                .map(|(name, value)| (name.to_owned(), Json::from(value)))
                .collect(),
            None => Json::String(value.to_string()),
        };
        (self.0)(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        (self.0)(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        (self.0)(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        (self.0)(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        (self.0)(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        (self.0)(field.name(), value.into());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io::Write;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    pub(in crate::logging) struct Lines(pub(in crate::logging) Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_tells_whom_it_is_about_at_its_top_level() {
        let lines = Lines::default();
        let writer = lines.clone();
        let format = tracing_subscriber::fmt::layer()
            .event_format(Flat)
            .with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(Keep).with(format);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!(
                "reconcile",
                name = "a",
                cluster = "alpha",
                result = tracing::field::Empty
            );
            span.record("result", "success");
            span.in_scope(|| tracing::info!(count = 3, "re\"conciled"));
        });
        let line: Json = serde_json::from_slice(&lines.0.lock()).unwrap();
        assert_eq!(line["message"], "re\"conciled");
        assert_eq!(
            (
                &line["name"],
                &line["cluster"],
                &line["result"],
                &line["count"]
            ),
            (&"a".into(), &"alpha".into(), &"success".into(), &3.into())
        );
        assert_eq!(line["level"], "INFO");
    }
}
