//! An OpenTelemetry collector. Entry point: [`Collector::start`].

use super::binaries::made_from;
use super::process::Process;
use super::{ATTEMPTS, port};
use crate::eventually::{Seen, eventually};
use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

const READY: Duration = Duration::from_secs(60);
/// Its output, a batch of spans a line, beside its log.
const OUTPUT: &str = "output";

/// A running collector, which takes traces and keeps their spans. It ends with this value.
#[derive(Debug)]
pub struct Collector {
    grpc: u16,
    http: u16,
    // The process is dropped before its folder.
    _process: Process,
    folder: TempDir,
}

/// A span as it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The name of the service that sent it.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Its trace, in hexadecimal digits.
    pub trace: String,
    /// Its own id, in hexadecimal digits.
    pub id: String,
    /// The id of its parent; empty: it begins a trace.
    pub parent: String,
    /// Whether its status is an error.
    pub failed: bool,
    /// Its attributes, as the collector writes them.
    attributes: Json,
}

impl Span {
    /// An attribute that is a text.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let all = self.attributes.as_array()?;
        let one = all.iter().find(|one| one["key"] == name)?;
        one["value"]["stringValue"].as_str()
    }
}

impl Collector {
    /// Starts a collector on free ports.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or it does not listen in time.
    pub async fn start() -> Result<Self> {
        let program = made_from("collector")?.join("collector");
        let folder = tempfile::Builder::new()
            .prefix("windlass-collector-")
            .tempdir()
            .context("create a folder for a collector")?;
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let (grpc, http) = (port::free()?, port::free()?);
            let endpoint = |port: u16| json!({"endpoint": format!("127.0.0.1:{port}")});
            let config = json!({
                "receivers": {"otlp": {"protocols": {"grpc": endpoint(grpc), "http": endpoint(http)}}},
                "exporters": {"print": {}},
                "service": {
                    "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["print"]}},
                    "telemetry": {"metrics": {"level": "none"}},
                },
            });
            let file = folder.path().join("config.json");
            fs::write(&file, config.to_string())?;
            let args = [format!("--config=file:{}", file.display())];
            let mut process = Process::spawn(&program, &args, &folder.path().join(OUTPUT))?;
            match is_ready(&mut process, http).await {
                Ok(()) => {
                    return Ok(Self {
                        grpc,
                        http,
                        _process: process,
                        folder,
                    });
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("the collector was never tried")?)
    }

    /// `HOST:PORT` for OTLP over gRPC.
    pub fn grpc(&self) -> String {
        format!("127.0.0.1:{}", self.grpc)
    }

    /// The URL for OTLP over HTTP, without the path.
    pub fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    /// All that it was sent, as JSON.
    pub fn text(&self) -> Result<String> {
        let file: PathBuf = self.folder.path().join(OUTPUT);
        fs::read_to_string(file).context("read what the collector printed")
    }

    /// The spans that it was sent.
    pub fn spans(&self) -> Result<Vec<Span>> {
        let text = self.text()?;
        // Other lines are its log.
        let batches = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Json>(line).ok());
        Ok(batches.flat_map(|batch| spans(&batch)).collect())
    }
}

fn spans(batch: &Json) -> Vec<Span> {
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for resource in list(&batch["resourceSpans"]) {
        let attributes = list(&resource["resource"]["attributes"]);
        let named = attributes.iter().find(|one| one["key"] == "service.name");
        let service = named.and_then(|one| one["value"]["stringValue"].as_str());
        for scope in list(&resource["scopeSpans"]) {
            for span in list(&scope["spans"]) {
                let text = |field: &str| span[field].as_str().unwrap_or_default().to_owned();
                all.push(Span {
                    service: service.unwrap_or_default().to_owned(),
                    name: text("name"),
                    trace: text("traceId"),
                    id: text("spanId"),
                    parent: text("parentSpanId"),
                    failed: span["status"]["code"] == 2,
                    attributes: span["attributes"].clone(),
                });
            }
        }
    }
    all
}

async fn is_ready(process: &mut Process, port: u16) -> Result<()> {
    let process = Mutex::new(process);
    eventually(READY, "a collector to listen", || async {
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Ok(Seen::Yes(()));
        }
        let mut process = process.lock();
        if process.ended() {
            bail!("the collector ended: {}", process.log_tail());
        }
        Ok(Seen::NotYet(process.log_tail()))
    })
    .await
}
