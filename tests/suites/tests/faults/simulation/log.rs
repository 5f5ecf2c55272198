//! The log of a simulated run, and its digest. Entry point: [`Log::install`].

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Every event of the process, with its simulated time.
#[derive(Clone)]
pub(super) struct Log(Arc<Mutex<Lines>>);

struct Lines {
    digest: Sha256,
    file: Option<BufWriter<File>>,
}

impl Log {
    /// Takes all events of this process from now on. `file`: where they are written too.
    pub(super) fn install(file: Option<&Path>) -> Result<Self> {
        let file = file.map(File::create).transpose();
        let file = file.context("create the file of the log")?;
        let log = Self(Arc::new(Mutex::new(Lines {
            digest: Sha256::new(),
            file: file.map(BufWriter::new),
        })));
        tracing_subscriber::registry()
            .with(ToLog(log.clone()))
            .try_init()?;
        Ok(log)
    }

    /// The digest of all lines so far.
    pub(super) fn digest(&self) -> String {
        let mut lines = self.0.lock();
        if let Some(file) = &mut lines.file {
            // A file that is short differs from the other one.
            let _ = file.flush();
        }
        let digest = lines.digest.clone().finalize();
        digest.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    fn line(&self, line: &str) {
        let mut lines = self.0.lock();
        lines.digest.update(line.as_bytes());
        if let Some(file) = &mut lines.file {
            let _ = file.write_all(line.as_bytes());
        }
    }
}

struct ToLog(Log);

impl<S: Subscriber> Layer<S> for ToLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() > Level::DEBUG {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let (level, target) = (metadata.level(), metadata.target());
        let at = windlass_seeded::elapsed();
        self.0.line(&format!("{at:?} {level} {target}{}\n", text.0));
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, " {field}={value:?}");
    }
}
