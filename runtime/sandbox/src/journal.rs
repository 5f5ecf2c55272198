//! The log lines of a guest's calls, within limits: from the interface `log`, standard output and standard error. Entry point:
//! [`Journal`].

mod fields;
mod rate;
mod stdio;

pub use fields::LogFields;
pub(crate) use rate::LogRate;
pub(crate) use stdio::Stdio;

use crate::clean::clean;
use crate::contract::windlass::runtime::log::Level;
use crate::tape::Tape;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Longest message, in bytes.
const MESSAGE: usize = 4096;
/// The cost of a line besides its text, so that empty lines are not free.
const LINE: usize = 32;

/// The log of one call, within its budget and within the rate of all calls of its guest. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    state: Arc<Mutex<State>>,
    rate: Option<Arc<LogRate>>,
    /// Gets the lines too, or alone.
    tape: Option<Arc<Tape>>,
}

#[derive(Debug)]
struct State {
    /// Bytes that are left.
    left: usize,
    /// Lines that were over the budget.
    dropped: u64,
    /// Lines that were over the rate.
    over_rate: u64,
    /// The last line of level error: the reason, if the guest traps.
    last_error: Option<String>,
}

/// The end of a call's log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogSummary {
    /// The last line of level error.
    pub(crate) last_error: Option<String>,
    /// Whether some were over the call's budget.
    pub(crate) over_budget: bool,
    /// Whether some were over the guest's rate.
    pub(crate) over_rate: bool,
}

impl State {
    fn new(budget: usize) -> Self {
        Self {
            left: budget,
            dropped: 0,
            over_rate: 0,
            last_error: None,
        }
    }
}

impl Journal {
    pub(crate) fn new(budget: usize, rate: Option<Arc<LogRate>>) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(budget))),
            rate,
            tape: None,
        }
    }

    /// The same log, of a call with a tape.
    pub(crate) fn with_tape(self, tape: Option<Arc<Tape>>) -> Self {
        Self { tape, ..self }
    }

    /// Another call begins, with a budget of its own.
    pub(crate) fn begin(&self, budget: usize) {
        *self.state.lock() = State::new(budget);
    }

    /// Writes a line to the host's log. The span around the call names the guest.
    pub(crate) fn write(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let mut state = self.state.lock();
        if state.left < LINE {
            // The budget is used up. Dropping a line must cost little.
            state.dropped += 1;
            return;
        }
        let message = clean(message, MESSAGE);
        let fields = LogFields::of(fields);
        let cost = message.len() + fields.cost() + LINE;
        if state.left < cost {
            state.left = 0;
            state.dropped += 1;
            return;
        }
        state.left -= cost;
        if level == Level::Error {
            state.last_error = Some(if fields.is_empty() {
                message.clone()
            } else {
                format!("{message} {fields}")
            });
        }
        let allowed = |rate: &Arc<LogRate>| rate.allows(cost, Instant::now());
        if !self.rate.as_ref().is_none_or(allowed) {
            state.over_rate += 1;
            return;
        }
        drop(state);
        let noted = |tape: &Arc<Tape>| tape.log(level, &message, fields.pairs());
        if self.tape.as_ref().is_none_or(noted) {
            emit(level, &message, &fields);
        }
    }

    /// Ends the call. Logs how many lines were dropped.
    pub(crate) fn finish(&self) -> LogSummary {
        let mut state = self.state.lock();
        if state.dropped > 0 {
            tracing::warn!(target: "guest", lines = state.dropped, "the rest of this call's log was dropped: it is over limits.logBytes");
        }
        let lines = self.rate.as_ref().filter(|_| state.over_rate > 0);
        if let Some(lines) = lines.and_then(|rate| rate.dropped_to_report(Instant::now())) {
            tracing::warn!(target: "guest", lines, "lines of the log were dropped: they are over limits.logBytesPerSecond");
        }
        let summary = LogSummary {
            last_error: state.last_error.take(),
            over_budget: state.dropped > 0,
            over_rate: state.over_rate > 0,
        };
        (state.dropped, state.over_rate) = (0, 0);
        summary
    }

    #[cfg(test)]
    pub(crate) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }
}

fn emit(level: Level, message: &str, of: &LogFields) {
    let fields = of as &(dyn std::error::Error + 'static);
    match (level, of.is_empty()) {
        (Level::Debug, true) => tracing::debug!(target: "guest", "{message}"),
        (Level::Debug, false) => tracing::debug!(target: "guest", fields, "{message}"),
        (Level::Info, true) => tracing::info!(target: "guest", "{message}"),
        (Level::Info, false) => tracing::info!(target: "guest", fields, "{message}"),
        (Level::Warn, true) => tracing::warn!(target: "guest", "{message}"),
        (Level::Warn, false) => tracing::warn!(target: "guest", fields, "{message}"),
        (Level::Error, true) => tracing::error!(target: "guest", "{message}"),
        (Level::Error, false) => tracing::error!(target: "guest", fields, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_over_the_budget_are_dropped_and_counted() {
        let journal = Journal::new(100, None);
        journal.write(Level::Error, "first", &[]);
        journal.write(Level::Info, &"x".repeat(100), &[]);
        journal.write(Level::Info, "after the end nothing is written", &[]);
        assert_eq!(journal.dropped(), 2);
        let summary = journal.finish();
        assert_eq!(summary.last_error.as_deref(), Some("first"));
        assert!(summary.over_budget && !summary.over_rate);
        assert_eq!(journal.finish(), LogSummary::default());
        journal.begin(100);
        journal.write(Level::Error, "the next call has its own", &[]);
        assert!(!journal.finish().over_budget);
    }

    #[test]
    fn a_line_over_the_rate_is_dropped_and_still_explains_a_trap() {
        let limit = windlass_fleet::cluster::RateLimit {
            per_second: 1.0,
            burst: 1,
        };
        let rate = Arc::new(LogRate::new(limit, Instant::now()));
        let journal = Journal::new(1000, Some(rate));
        journal.write(Level::Error, "why it trapped", &[]);
        let summary = journal.finish();
        assert_eq!(summary.last_error.as_deref(), Some("why it trapped"));
        assert!(summary.over_rate && !summary.over_budget);
    }
}
