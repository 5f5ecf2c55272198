//! A recording: all inputs and calls of one run, with which it can be replayed. Entry point: [`Recording`].
//!
//! * `steps`: the calls with their answers, and log lines; `shown` is a line about each call.
//! * `text`: objects, verbatim.
//! * `stand_ins`: what stands in place of the values of Secrets.
//! * `contract`: from and to the types of the contract.

pub(crate) mod contract;
mod shown;
pub(crate) mod stand_ins;
mod steps;
mod text;

pub use steps::{
    Answer, ApiError, ApplyOptions, Asked, ClusterInfo, Code, DeleteOptions, Event, GetOptions,
    HttpBody, HttpRequest, Key, Kind, ListOptions, Mode, Operation, PatchType, Projection,
    Propagation, Selection, Step, WriteOptions,
};
pub use text::Text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use windlass_fleet::outcome::Disposition;
use windlass_fleet::{Action, Failure};

/// The version of the format, which is the first field of a file.
pub const FORMAT: u32 = 1;

/// The contract whose calls a recording holds.
pub const CONTRACT: &str = "windlass:runtime@0.1.0";

/// All inputs and calls of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    /// [`FORMAT`].
    pub windlass_recording: u32,
    /// [`CONTRACT`].
    pub contract: String,
    /// The run's id, as logs and traces have it.
    pub id: String,
    /// When it began: RFC 3339, UTC.
    pub time: String,
    /// The owner of the reconciler.
    pub tenant: String,
    /// The reconciler.
    pub reconciler: String,
    /// SHA-256 of the component that ran.
    pub revision: String,
    /// What was reconciled.
    pub request: Request,
    /// The reconciler's `config`.
    pub config: Text,
    /// Bounds that decide how a run can end.
    pub limits: Limits,
    /// How many values of Secrets have stand-ins.
    pub stand_ins: usize,
    /// What the guest drew from clocks and random numbers.
    pub draws: Draws,
    /// Calls and log lines, in order.
    pub steps: Vec<Step>,
    /// The end.
    pub outcome: Outcome,
    /// What `windlass test` asks of the guest. Absent: as [`Recording::must`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must: Option<Must>,
}

/// What `windlass test` asks of a guest that plays a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Must {
    /// To do the same.
    Same,
    /// To do something else, or to end otherwise: the recording shows a mistake.
    Differ,
}

/// The object that was reconciled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// `""` is the local cluster.
    pub cluster: String,
    /// Absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Bounds that decide how a run can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: usize,
    /// Milliseconds.
    pub timeout_ms: u64,
    /// Elements of tables.
    pub table_elements: usize,
    /// Handles at once.
    pub handles: usize,
    /// Bytes that a guest hands to the host in one call.
    pub host_call_bytes: usize,
}

/// What the guest drew from clocks and random numbers, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Draws {
    /// Of the contract's `clock.now`: RFC 3339.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<String>,
    /// Of WASI's wall clock: nanoseconds since 1970.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wall_clock: Vec<u64>,
    /// Of WASI's monotonic clock: nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monotonic_clock: Vec<u64>,
    /// Of WASI's random numbers, in hexadecimal digits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub random: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Outcome {
    /// Nothing more to do.
    Done,
    /// To be run again after milliseconds.
    RequeueAfterMs(u64),
    /// It failed.
    Failed {
        /// Whether it runs again only at an event.
        terminal: bool,
        /// `error`: the guest returned it. Else why the run did not come back: `trap`, `timeout`, `memory`, …
        reason: String,
        /// For people.
        message: String,
    },
}

impl Outcome {
    pub(crate) fn of(outcome: &Result<Action, Failure>) -> Self {
        match outcome {
            Ok(Action::Done) => Self::Done,
            Ok(Action::RequeueAfter(after)) => {
                Self::RequeueAfterMs(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
            }
            Err(failure) => Self::Failed {
                terminal: failure.disposition == Disposition::Terminal,
                reason: failure.reason.to_owned(),
                message: failure.message.clone(),
            },
        }
    }

    /// Whether the run failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// Whether it is the same end. A run that did not come back may say so in other words: they hold times and addresses of code.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Failed {
                    reason: this,
                    message: says,
                    terminal,
                },
                Self::Failed {
                    reason: that,
                    message,
                    terminal: other,
                },
            ) => this == that && terminal == other && (this != "error" || says == message),
            _ => self == other,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::RequeueAfterMs(ms) => {
                write!(f, "done, again after {:?}", Duration::from_millis(*ms))
            }
            Self::Failed {
                terminal, message, ..
            } => {
                let again = if *terminal { "terminal" } else { "failed" };
                write!(f, "{again}: {message}")
            }
        }
    }
}

/// Why a file is no recording that can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It is damaged, or something else.
    #[error("this is no recording, or a damaged one: record the run again")]
    Damaged(#[source] serde_json::Error),
    /// Its format is a later one.
    #[error(
        "the recording has format {0}, and this windlass reads format {FORMAT}: use the windlass that wrote it, or a later one"
    )]
    Format(u32),
    /// It is of another contract.
    #[error(
        "the recording is of contract {0:?}, and this windlass runs {CONTRACT:?}: use a windlass of that contract, or record the run again"
    )]
    Contract(String),
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// [`RecordingError`] when it is damaged, or of another format or contract.
    pub fn parse(file: &[u8]) -> Result<Self, RecordingError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            windlass_recording: u32,
            contract: String,
        }
        let head: Head = serde_json::from_slice(file).map_err(RecordingError::Damaged)?;
        if head.windlass_recording != FORMAT {
            return Err(RecordingError::Format(head.windlass_recording));
        }
        if head.contract != CONTRACT {
            return Err(RecordingError::Contract(head.contract));
        }
        serde_json::from_slice(file).map_err(RecordingError::Damaged)
    }

    /// The file: a line for each field, and for each step.
    #[must_use]
    pub fn to_file(&self) -> Vec<u8> {
        let mut lines = Lines::default();
        lines.field("windlassRecording", &self.windlass_recording);
        lines.field("contract", &self.contract);
        lines.field("id", &self.id);
        lines.field("time", &self.time);
        lines.field("tenant", &self.tenant);
        lines.field("reconciler", &self.reconciler);
        lines.field("revision", &self.revision);
        lines.field("request", &self.request);
        lines.field("config", &self.config);
        lines.field("limits", &self.limits);
        lines.field("standIns", &self.stand_ins);
        lines.field("draws", &self.draws);
        lines.list("steps", &self.steps);
        lines.field("outcome", &self.outcome);
        if let Some(must) = &self.must {
            lines.field("must", must);
        }
        lines.end()
    }

    /// What `windlass test` asks of the guest: of a run that failed, not to do that again; of one that succeeded, to do the same.
    #[must_use]
    pub fn must(&self) -> Must {
        let usual = if self.outcome.is_failure() {
            Must::Differ
        } else {
            Must::Same
        };
        self.must.unwrap_or(usual)
    }

    /// Its calls with their answers, in order.
    pub fn calls(&self) -> impl Iterator<Item = (&Asked, &Answer)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Call { asked, answer } => Some((&**asked, answer)),
            Step::Log { .. } => None,
        })
    }
}

/// A JSON object that is written line by line.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn name(&mut self, name: &str) {
        self.0
            .extend_from_slice(if self.0.is_empty() { b"{\n" } else { b",\n" });
        self.0
            .extend_from_slice(format!("  \"{name}\": ").as_bytes());
    }

    fn value(&mut self, value: &impl Serialize) {
        // Texts, numbers, lists and records: nothing in a recording fails to be JSON.
        self.0
            .extend_from_slice(&serde_json::to_vec(value).unwrap_or_default());
    }

    fn field(&mut self, name: &str, value: &impl Serialize) {
        self.name(name);
        self.value(value);
    }

    fn list(&mut self, name: &str, items: &[impl Serialize]) {
        self.name(name);
        self.0.push(b'[');
        for (index, item) in items.iter().enumerate() {
            self.0
                .extend_from_slice(if index == 0 { b"\n    " } else { b",\n    " });
            self.value(item);
        }
        self.0
            .extend_from_slice(if items.is_empty() { b"]" } else { b"\n  ]" });
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\n}\n");
        self.0
    }
}
