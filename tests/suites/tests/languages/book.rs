//! What happens, in its order: requests at the servers and lines of the log. Entry points: [`Book`] and [`listen`].

use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use tracing_subscriber::EnvFilter;

/// The namespace that stands for what a mapper does, which is in none.
pub(crate) const MAPPED: &str = "mapped";

/// What happened in a run of a subject, by namespace, which is by case.
#[derive(Default)]
pub(crate) struct Book {
    entries: Mutex<BTreeMap<String, Vec<Entry>>>,
    /// Why its mapper failed.
    failures: Mutex<Vec<String>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// At a server.
    Request(String),
    /// In the log.
    Line(String),
}

impl Book {
    pub(crate) fn add(&self, namespace: &str, entry: Entry) {
        let mut entries = self.entries.lock();
        entries.entry(namespace.to_owned()).or_default().push(entry);
    }

    /// A line of the log, as the host writes it.
    pub(crate) fn line(&self, namespace: &str, level: &str, message: &str, fields: &str) {
        let space = if fields.is_empty() { "" } else { " " };
        self.add(
            namespace,
            Entry::Line(format!("{level} {message}{space}{fields}")),
        );
    }

    pub(crate) fn of(&self, namespace: &str) -> Vec<Entry> {
        let entries = self.entries.lock();
        entries.get(namespace).cloned().unwrap_or_default()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }
}

/// The books of subjects that run, by tenant.
static BOOKS: Mutex<BTreeMap<String, Weak<Book>>> = Mutex::new(BTreeMap::new());

/// Has what the process logs for a tenant written into a book.
pub(crate) fn listen(tenant: &str, book: &Arc<Book>) {
    BOOKS.lock().insert(tenant.to_owned(), Arc::downgrade(book));
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_env_filter(EnvFilter::new("info,guest=debug"))
        .with_writer(|| Listener)
        .finish();
    // Another subject of this process may have been first: its subscriber is this one.
    drop(tracing_subscriber::util::SubscriberInitExt::try_init(
        subscriber,
    ));
}

/// Is given a line for each event.
struct Listener;

impl io::Write for Listener {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Ok(event) = serde_json::from_slice::<Value>(bytes) {
            hear(&event);
        }
        print!("{}", String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hear(event: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (span, fields) = (&event["span"], &event["fields"]);
    let book = BOOKS
        .lock()
        .get(&text(&span["tenant"]))
        .and_then(Weak::upgrade);
    let Some(book) = book else {
        return;
    };
    let message = text(&fields["message"]);
    if event["target"] == "guest" {
        let namespace = span["namespace"].as_str().unwrap_or(MAPPED);
        let level = text(&event["level"]);
        book.line(namespace, &level, &message, &text(&fields["fields"]));
    } else if message == "mapper failed" {
        book.failures.lock().push(text(&fields["reason"]));
    }
}
