//! What a replay says. Entry points: [`summary`] and [`divergence`].

use crate::output::count;
use serde_json::{Value as Json, json};
use windlass_author::cases::{mismatches, shown};
use windlass_sandbox::Divergence;
use windlass_sandbox::recording::{Asked, Operation, Recording, Request, Step, Text};

/// What a recording is of, in a line.
pub(super) fn summary(recording: &Recording) -> String {
    let Request {
        cluster,
        namespace,
        name,
    } = &recording.request;
    let object = match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    let cluster = match cluster.as_str() {
        "" => "the local cluster",
        name => name,
    };
    let calls = count(recording.calls().count() as u64, "call");
    format!("{} of {object} in {cluster}: {calls}", recording.reconciler)
}

/// The first difference, in lines.
pub(super) fn divergence(found: &Divergence, recording: &Recording) -> String {
    let all = recording.calls().count();
    match found {
        Divergence::Call {
            number,
            recorded,
            called,
        } => {
            let place = format!("at call {number} of {all}");
            let Some(recorded) = recorded else {
                return if *number > all {
                    format!("after the last call\n  recorded  the end\n  called    {called}")
                } else {
                    format!("{place}\n  recorded  no such call\n  called    {called}")
                };
            };
            let mut text = format!("{place}\n  recorded  {recorded}\n  called    {called}");
            for line in between(recorded, called) {
                text.push_str("\n  ");
                text.push_str(&line);
            }
            text
        }
        Divergence::Missing { number, recorded } => {
            format!("at call {number} of {all}\n  recorded  {recorded}\n  called    nothing more")
        }
        Divergence::Answer { number, called } => format!(
            "at call {number} of {all}\n  called    {called}\n  the recorded answer is one to another call: somebody has edited the file"
        ),
        Divergence::Outcome { recorded, ended } => {
            format!("at the end\n  recorded  {recorded}\n  ended     {ended}")
        }
    }
}

/// The same for programs.
pub(super) fn as_json(found: &Divergence) -> Json {
    match found {
        Divergence::Call {
            number,
            recorded,
            called,
        } => json!({"call": number, "recorded": recorded, "called": called}),
        Divergence::Missing { number, recorded } => {
            json!({"call": number, "recorded": recorded, "called": null})
        }
        Divergence::Answer { number, called } => {
            json!({"call": number, "called": called, "problem": "the recorded answer is one to another call"})
        }
        Divergence::Outcome { recorded, ended } => json!({"recorded": recorded, "ended": ended}),
    }
}

/// Most fields that are shown.
const SHOWN: usize = 10;

/// A line for each field that differs: what was recorded, and what came.
fn differences(recorded: &Json, called: &Json) -> Vec<String> {
    let all = mismatches(recorded, called);
    let lines = all.iter().take(SHOWN);
    let lines =
        lines.map(|(path, one, other)| format!("{path}: {} → {}", shown(one), shown(other)));
    let more = all.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("and {more} more"));
    lines.chain(more).collect()
}

/// Where two calls of the same name differ: in their objects, or else in their arguments.
fn between(recorded: &Asked, called: &Asked) -> Vec<String> {
    if let (Some(one), Some(other)) = (body(recorded), body(called))
        && recorded.to_string() == called.to_string()
    {
        let parsed = |text: &Text| serde_json::from_str::<Json>(text.as_str()).ok();
        if let (Some(one), Some(other)) = (parsed(one), parsed(other))
            && one != other
        {
            return differences(&one, &other);
        }
    }
    let parsed = |asked: &Asked| serde_json::to_value(asked).unwrap_or_default();
    if recorded.to_string() == called.to_string() {
        return differences(&parsed(recorded), &parsed(called));
    }
    Vec::new()
}

fn body(asked: &Asked) -> Option<&Text> {
    let Asked::Do { operation, .. } = asked else {
        return None;
    };
    match operation {
        Operation::Create { object, .. }
        | Operation::Update { object, .. }
        | Operation::Apply { object, .. } => Some(object),
        Operation::Patch { patch, .. } => Some(patch),
        Operation::Get { .. } | Operation::List { .. } | Operation::Delete { .. } => None,
    }
}

/// A line of the guest's log. `None`: it is another step.
pub(super) fn log_line(step: &Step) -> Option<String> {
    let Step::Log {
        level,
        message,
        fields,
    } = step
    else {
        return None;
    };
    let fields = fields
        .iter()
        .map(|(name, value)| format!(" {name}={value}"));
    Some(format!("{level} {message}{}", fields.collect::<String>()))
}
