//! The tape of one run: it records what the guest gets from its host, or plays it back. Entry point: [`Tape`].
//!
//! [`draws`] are clocks and random numbers; the host functions of a call that has a tape are in `capability/taped`.
//!
//! A guest has no other inputs. So the same component, played from a recording, does the same.

pub(crate) mod draws;

use crate::contract::windlass::runtime::log::Level;
use crate::recording::contract::Answered;
use crate::recording::stand_ins::without_secrets;
use crate::recording::{Answer, Asked, Draws, Operation, Outcome, Recording, Step};
use draws::Drawn;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::{fmt, io};

/// What a step takes besides its texts, in bytes.
const STEP: usize = 256;

/// Records or plays one run.
#[derive(Debug)]
pub(crate) struct Tape(Mutex<State>);

#[derive(Debug)]
enum State {
    Recording(Box<Recorder>),
    Playing(Box<Player>),
}

/// Memory that nobody else needs.
pub(crate) trait SpareMemory: fmt::Debug + Send + Sync {
    /// Charges bytes. `false`: others need them.
    fn charge(&self, bytes: usize) -> bool;
    /// Gives bytes back.
    fn release(&self, bytes: usize);
}

/// What has been recorded so far. Its memory is charged to the tenant.
#[derive(Debug)]
pub(crate) struct Recorder {
    memory: Arc<dyn SpareMemory>,
    /// Most bytes.
    most: usize,
    /// Bytes so far, which are charged.
    bytes: usize,
    /// Why nothing more is recorded.
    full: Option<Full>,
    /// Whether the run has an instance.
    begun: bool,
    steps: Vec<Step>,
    drawn: Drawn,
}

/// Why a recording has ended before its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// It would be larger than allowed.
    TooLarge,
    /// The tenant has no memory for it.
    NoMemory,
    /// Values of Secrets are more of it than can be replaced.
    TooManyValues,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the run is larger than record.bytes: raise that",
            Self::NoMemory => "the tenant has no memory left: raise its limits.memory",
            Self::TooManyValues => {
                "the run holds more values of Secrets than can be replaced: let the guest read fewer"
            }
        })
    }
}

/// How the calls of a guest find their answers in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The calls must be the same, in the same order. Default.
    #[default]
    Order,
    /// A call gets the answer of the first call that is equal to it and has not been played. A read that is repeated gets the last answer
    /// again. Calls that only read may be left out.
    Content,
}

/// The first difference between a run and the recording that it was played from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Divergence {
    /// The guest called something else.
    Call {
        /// The number of the call, from 1.
        number: usize,
        /// What the recording has there. `None`: nothing more, or by content nothing equal.
        recorded: Option<Box<Asked>>,
        /// The guest's call.
        called: Box<Asked>,
    },
    /// The guest ended before this call.
    Missing {
        /// The number of the call, from 1.
        number: usize,
        /// What the recording has there.
        recorded: Box<Asked>,
    },
    /// The answer in the file is one to another call: somebody has edited it.
    Answer {
        /// The number of the call, from 1.
        number: usize,
        /// The call.
        called: Box<Asked>,
    },
    /// The run ended otherwise.
    Outcome {
        /// How the recorded run ended.
        recorded: Outcome,
        /// How this one ended.
        ended: Outcome,
    },
}

/// A recording that is played.
#[derive(Debug)]
pub(crate) struct Player {
    by: By,
    calls: Vec<Recorded>,
    /// Calls that the guest has made.
    made: usize,
    divergence: Option<Divergence>,
    /// Whether the run waits where the recorded one ended.
    is_cut: bool,
    drawn: Drawn,
    lines: Vec<Step>,
}

#[derive(Debug)]
struct Recorded {
    /// Without the secrets that it writes, as all calls that are compared.
    asked: Box<Asked>,
    /// The same, for comparing.
    content: Value,
    answer: Answer,
    done: bool,
}

/// The end of a played run.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// Where it left the recording.
    pub(crate) divergence: Option<Divergence>,
    /// Whether it waited where the recorded run ended.
    pub(crate) is_cut: bool,
    /// Its log.
    pub(crate) lines: Vec<Step>,
}

/// The run has left the recording. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("the run has left its recording")]
pub(crate) struct Left;

/// A guest that logs for ever must not fill the memory: the lines of a played run are bounded as its log is, this is for their number.
const LINES: usize = 10_000;

impl Tape {
    /// Records a run in at most so many bytes.
    pub(crate) fn recording(memory: Arc<dyn SpareMemory>, most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Recording(Box::new(Recorder {
            memory,
            most,
            bytes: 0,
            full: None,
            begun: false,
            steps: Vec::new(),
            drawn: Drawn::default(),
        })))))
    }

    /// Plays a recording.
    pub(crate) fn playing(recording: &Recording, by: By) -> Arc<Self> {
        let calls = recording.calls().map(|(asked, answer)| {
            let asked = without_secrets(asked.clone());
            Recorded {
                content: content(&asked),
                asked: Box::new(asked),
                answer: answer.clone(),
                done: false,
            }
        });
        Arc::new(Self(Mutex::new(State::Playing(Box::new(Player {
            by,
            calls: calls.collect(),
            made: 0,
            divergence: None,
            is_cut: false,
            drawn: Drawn::of(recording),
            lines: Vec::new(),
        })))))
    }

    /// The answer to a call, if a recording is played. `None`: the host answers.
    pub(crate) fn play<T: Answered>(&self, asked: &Asked) -> Option<Result<T, Left>> {
        match &mut *self.0.lock() {
            State::Recording(_) => None,
            State::Playing(player) => Some(player.answer(asked)),
        }
    }

    /// Records a call that the host is about to answer. Returns its step.
    pub(crate) fn ask(&self, asked: Asked) -> usize {
        let bytes = size(&asked);
        let State::Recording(recorder) = &mut *self.0.lock() else {
            return 0;
        };
        let step = recorder.steps.len();
        if recorder.takes(bytes + STEP) {
            recorder.steps.push(Step::Call {
                asked: Box::new(asked),
                answer: Answer::Unanswered,
            });
        }
        step
    }

    /// Records the answer to the call of a step.
    pub(crate) fn note(&self, step: usize, given: &impl Answered) {
        let State::Recording(recorder) = &mut *self.0.lock() else {
            return;
        };
        if recorder.takes(given.bytes())
            && let Some(Step::Call { answer, .. }) = recorder.steps.get_mut(step)
        {
            *answer = given.recorded();
        }
    }

    /// Its run begins.
    pub(crate) fn begin(&self) {
        if let State::Recording(recorder) = &mut *self.0.lock() {
            recorder.begun = true;
        }
    }

    /// Notes a line of the log. Returns whether the host shall log it.
    pub(crate) fn log<'a>(
        &self,
        level: Level,
        message: &str,
        fields: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let fields: Vec<_> = fields.map(pair).collect();
        let line = Step::Log {
            level: word(level).to_owned(),
            message: message.to_owned(),
            fields,
        };
        match &mut *self.0.lock() {
            State::Recording(recorder) => {
                if recorder.takes(size(&line)) {
                    recorder.steps.push(line);
                }
                true
            }
            State::Playing(player) => {
                if player.lines.len() < LINES {
                    player.lines.push(line);
                }
                false
            }
        }
    }

    /// Whether the run that it records has begun.
    pub(crate) fn has_begun(&self) -> bool {
        match &*self.0.lock() {
            State::Recording(recorder) => recorder.begun,
            State::Playing(_) => true,
        }
    }

    /// Takes what was recorded, which is charged until [`Self::end`]. An error: it is not whole.
    pub(crate) fn recorded(&self) -> Result<(Vec<Step>, Draws), Full> {
        let State::Recording(recorder) = &mut *self.0.lock() else {
            return Ok(Default::default());
        };
        if let Some(full) = recorder.full {
            return Err(full);
        }
        let steps = std::mem::take(&mut recorder.steps);
        Ok((steps, recorder.drawn.take()))
    }

    /// Ends the charge for what was recorded.
    pub(crate) fn end(&self) {
        if let State::Recording(recorder) = &mut *self.0.lock() {
            recorder.forget();
        }
    }

    /// Most bytes of the recording.
    pub(crate) fn most(&self) -> usize {
        match &*self.0.lock() {
            State::Recording(recorder) => recorder.most,
            State::Playing(_) => usize::MAX,
        }
    }

    /// The end of a played run.
    pub(crate) fn played(&self) -> Played {
        let State::Playing(player) = &mut *self.0.lock() else {
            return Played::default();
        };
        Played {
            divergence: player.divergence.take().or_else(|| player.missing()),
            is_cut: player.is_cut,
            lines: std::mem::take(&mut player.lines),
        }
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}

impl Recorder {
    /// Whether there is room for further bytes. Once there is none, all is dropped: half a recording cannot be played.
    fn takes(&mut self, bytes: usize) -> bool {
        if self.full.is_some() {
            return false;
        }
        self.full = if self.bytes + bytes > self.most {
            Some(Full::TooLarge)
        } else if !self.memory.charge(bytes) {
            Some(Full::NoMemory)
        } else {
            self.bytes += bytes;
            return true;
        };
        self.forget();
        false
    }

    fn forget(&mut self) {
        self.steps = Vec::new();
        self.drawn = Drawn::default();
        self.memory.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

impl Player {
    fn answer<T: Answered>(&mut self, asked: &Asked) -> Result<T, Left> {
        self.made += 1;
        if self.divergence.is_some() || self.is_cut {
            return Err(Left);
        }
        let asked = &without_secrets(asked.clone());
        let Some(at) = self.find(asked) else {
            let next = self.calls.iter().find(|call| !call.done);
            let next = next.filter(|_| self.by == By::Order);
            self.divergence = Some(Divergence::Call {
                number: self.made,
                recorded: next.map(|call| call.asked.clone()),
                called: Box::new(asked.clone()),
            });
            return Err(Left);
        };
        let call = &mut self.calls[at];
        call.done = true;
        if call.answer == Answer::Unanswered {
            self.is_cut = true;
            return Err(Left);
        }
        T::replayed(call.answer.clone()).ok_or_else(|| {
            self.divergence = Some(Divergence::Answer {
                number: self.made,
                called: Box::new(asked.clone()),
            });
            Left
        })
    }

    /// The recorded call that answers a call.
    fn find(&self, asked: &Asked) -> Option<usize> {
        let content = content(asked);
        let same = |call: &Recorded| call.content == content;
        match self.by {
            By::Order => {
                let next = self.calls.iter().position(|call| !call.done)?;
                same(&self.calls[next]).then_some(next)
            }
            By::Content => {
                let fresh = |call: &Recorded| !call.done && same(call);
                let fresh = self.calls.iter().position(fresh);
                let again = || {
                    let last = self.calls.iter().rposition(same);
                    last.filter(|_| asked.only_reads())
                };
                fresh.or_else(again)
            }
        }
    }

    /// The first recorded call that the guest should have made.
    fn missing(&self) -> Option<Divergence> {
        let counts = |call: &Recorded| self.by == By::Order || !call.asked.only_reads();
        let at = self
            .calls
            .iter()
            .position(|call| !call.done && counts(call))?;
        Some(Divergence::Missing {
            number: at + 1,
            recorded: self.calls[at].asked.clone(),
        })
    }
}

/// A call as it is compared: whatever the order of fields in its objects.
fn content(asked: &Asked) -> Value {
    serde_json::to_value(asked).unwrap_or_default()
}

/// Bytes of what is written.
fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What fails to be JSON takes no room in a file.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

impl Asked {
    /// Whether it changes nothing.
    fn only_reads(&self) -> bool {
        match self {
            Self::Do { operation, .. } => operation.only_reads(),
            Self::Batch { operations, .. } => operations.iter().all(Operation::only_reads),
            Self::FleetBatch { operations } => operations.iter().all(|(_, one)| one.only_reads()),
            Self::Clusters { .. } | Self::Open { .. } => true,
            Self::Http(request) => matches!(request.method.as_str(), "GET" | "HEAD"),
            Self::DeleteCollection { .. } | Self::RecordEvent { .. } => false,
        }
    }
}

impl Operation {
    fn only_reads(&self) -> bool {
        matches!(self, Self::Get { .. } | Self::List { .. })
    }
}

#[cfg(test)]
mod tests;
