//! What stands in a recording in place of the values of Secrets. Entry point: [`put_into`].
//!
//! A stand-in has the length of its value. Letters stand for letters, digits for digits, and everything else stays, so that a replay
//! goes the same way through a guest that splits or decodes the value. The same value has the same stand-in for a tenant until the process
//! ends, and nobody can compute it from the outside.
//!
//! * [`places`]: all values of a Secret that the run read or wrote are replaced, however short: in `data`, `stringData`, patches, the
//!   annotation in which kubectl keeps what it applied, and tokens of service accounts. So are texts of the configuration that came from a
//!   Secret. What cannot be read as an object or a patch of a Secret is replaced as a whole.
//! * [`hide`]: such a value of at least [`SHORTEST`] bytes, and the [parts](values) that a guest is likely to take out of it, are replaced
//!   wherever else the run shows them, encoded as base64 or not.
//! * Random numbers are replaced if the run wrote a value that it had not read: it may have been made of them.

mod hide;
mod noise;
mod places;
mod values;

use super::{Answer, Asked, Draws, Kind, Operation, Outcome, Recording, Request, Step, Text};
use hide::Hide;
use places::{of_object, of_patch};
use std::collections::BTreeSet;
use values::Values;

/// A shorter value is replaced in Secrets alone: elsewhere it could be any word.
const SHORTEST: usize = 6;

/// A recording holds more values than can be looked for.
#[derive(Debug, thiserror::Error)]
#[error("the run holds too many values of Secrets")]
pub(crate) struct TooManyValues;

/// Puts stand-ins into a recording. `known`: texts of its configuration that are secret too.
///
/// # Errors
/// [`TooManyValues`]: it must not be kept.
pub(crate) fn put_into(recording: &mut Recording, known: &[String]) -> Result<(), TooManyValues> {
    let (mut values, mut made) = (Values::of(&recording.tenant), false);
    values.hide(&mut recording.config, |config| {
        let is_known = |text: &str| known.iter().any(|secret| secret == text);
        places::texts(config, is_known).or_else(|| known.is_empty().then(Vec::new))
    });
    for step in &mut recording.steps {
        let Step::Call { asked, answer } = step else {
            continue;
        };
        in_headers(asked, answer, &mut values);
        for (operation, answer) in pairs(asked, answer) {
            let before = values.len();
            in_write(operation, &mut values);
            made |= values.len() > before;
            if let Some(answer) = answer {
                in_answer(kind(operation), answer, &mut values);
            }
        }
    }
    recording.stand_ins = values.len();
    if values.are_too_many() {
        return Err(TooManyValues);
    }
    if values.len() == 0 {
        return Ok(());
    }
    if made {
        other_numbers(&mut recording.draws, &values);
    }
    let mut forms = values.forms;
    let names = names(recording);
    let Request {
        cluster,
        namespace,
        name,
    } = &recording.request;
    let shown = [Some(cluster), namespace.as_ref(), Some(name)];
    forms.retain(|form, _| {
        let mut shown = shown.into_iter().flatten();
        !names.contains(form) && !shown.any(|name| name.contains(form.as_str()))
    });
    let hide = Hide::new(forms).ok_or(TooManyValues)?;
    hide.text(&mut recording.config);
    recording.steps.iter_mut().for_each(|step| hide.step(step));
    if let Outcome::Failed { message, .. } = &mut recording.outcome {
        hide.string(message);
    }
    Ok(())
}

/// A call in which the secrets that it writes are all the same: a replay compares calls without them.
pub(crate) fn without_secrets(mut asked: Asked) -> Asked {
    let blank = |text: &mut Text, places: fn(&str) -> Option<Vec<places::Place>>| {
        let Some(places) = places(&text.0) else {
            // Nobody can say what of it is secret.
            text.0.clear();
            return;
        };
        let ranges = places.into_iter().map(|place| place.range);
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in ranges {
            text.0.replace_range(range, "\"(a value of a Secret)\"");
        }
    };
    if let Asked::Http(request) = &mut asked {
        let secret = request
            .headers
            .iter_mut()
            .filter(|(name, _)| is_credential(name));
        secret.for_each(|(_, value)| value.clear());
    }
    for (operation, _) in pairs(&mut asked, &mut Answer::Nothing) {
        if !is_secret(kind(operation)) {
            continue;
        }
        match operation {
            Operation::Create { object, .. }
            | Operation::Update { object, .. }
            | Operation::Apply { object, .. } => blank(object, of_object),
            Operation::Patch { patch, .. } => blank(patch, of_patch),
            Operation::Get { .. } | Operation::List { .. } | Operation::Delete { .. } => {}
        }
    }
    asked
}

/// Whether a header of a request or a response is there to prove who somebody is.
fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "api-key",
        "apikey",
        "signature",
    ];
    words.iter().any(|word| name.contains(word))
}

/// Hides the credentials that a guest sends to servers that are no API servers, and those that it gets.
fn in_headers(asked: &mut Asked, answer: &mut Answer, values: &mut Values) {
    let mut hide = |headers: &mut Vec<(String, String)>| {
        for (_, value) in headers.iter_mut().filter(|(name, _)| is_credential(name)) {
            *value = values.stand_in(value);
        }
    };
    if let Asked::Http(request) = asked {
        hide(&mut request.headers);
    }
    if let Answer::Http { headers, .. } = answer {
        hide(headers);
    }
}

/// The operations of a call with their answers, as far as it has some.
fn pairs<'a>(
    asked: &'a mut Asked,
    answer: &'a mut Answer,
) -> Vec<(&'a mut Operation, Option<&'a mut Answer>)> {
    let operations: Vec<&mut Operation> = match asked {
        Asked::Do { operation, .. } => return vec![(operation, Some(answer))],
        Asked::Batch { operations, .. } => operations.iter_mut().collect(),
        Asked::FleetBatch { operations } => operations.iter_mut().map(|(_, one)| one).collect(),
        _ => return Vec::new(),
    };
    let answers: Vec<&mut Answer> = match answer {
        Answer::Batch(answers) => answers.iter_mut().collect(),
        // A batch that the run did not survive.
        _ => Vec::new(),
    };
    let mut answers = answers.into_iter();
    let pairs = operations.into_iter();
    pairs.map(|operation| (operation, answers.next())).collect()
}

fn kind(operation: &Operation) -> &Kind {
    match operation {
        Operation::Get { kind, .. }
        | Operation::List { kind, .. }
        | Operation::Create { kind, .. }
        | Operation::Update { kind, .. }
        | Operation::Patch { kind, .. }
        | Operation::Apply { kind, .. }
        | Operation::Delete { kind, .. } => kind,
    }
}

/// Hides what is secret in an object or a patch that the guest writes.
fn in_write(operation: &mut Operation, values: &mut Values) {
    if !is_secret(kind(operation)) {
        return;
    }
    match operation {
        Operation::Create { object, .. }
        | Operation::Update { object, .. }
        | Operation::Apply { object, .. } => values.hide(object, of_object),
        Operation::Patch { patch, .. } => values.hide(patch, of_patch),
        Operation::Get { .. } | Operation::List { .. } | Operation::Delete { .. } => {}
    }
}

/// Hides what is secret in what the guest gets.
fn in_answer(kind: &Kind, answer: &mut Answer, values: &mut Values) {
    if !is_secret(kind) {
        return;
    }
    match answer {
        Answer::Object(object) => values.hide(object, of_object),
        Answer::Page { items, .. } => items
            .iter_mut()
            .for_each(|item| values.hide(item, of_object)),
        _ => {}
    }
}

/// Whether objects of a kind hold secrets: Secrets, and tokens of service accounts, which are made by `create` of a subresource of these.
fn is_secret(kind: &Kind) -> bool {
    let kind = (kind.group.as_str(), kind.kind.as_str());
    matches!(
        kind,
        ("", "Secret" | "ServiceAccount")
            | ("authentication.k8s.io", "TokenRequest" | "TokenReview")
    )
}

/// Other random numbers, as many.
fn other_numbers(draws: &mut Draws, values: &Values) {
    let other = values.other_bytes(draws.random.as_bytes());
    let digit = |byte: u8| char::from_digit(u32::from(byte % 16), 16).unwrap_or('0');
    draws.random = other.into_iter().map(digit).collect();
}

/// Names that everybody sees anyway are no secrets, even where a Secret holds them too: of clusters and of namespaces.
fn names(recording: &Recording) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (asked, answer) in recording.calls() {
        let operations: Vec<&Operation> = match asked {
            Asked::Do { operation, cluster } => {
                names.insert(cluster.clone());
                vec![operation]
            }
            Asked::Batch { operations, .. } => operations.iter().collect(),
            Asked::FleetBatch { operations } => {
                names.extend(operations.iter().map(|(cluster, _)| cluster.clone()));
                operations.iter().map(|(_, one)| one).collect()
            }
            Asked::Open { cluster } => {
                names.insert(cluster.clone());
                Vec::new()
            }
            Asked::DeleteCollection { selection, .. } => {
                names.extend(selection.namespace.clone());
                Vec::new()
            }
            Asked::RecordEvent { event, .. } => {
                names.extend(event.key.namespace.clone());
                Vec::new()
            }
            Asked::Clusters { .. } | Asked::Http(_) => Vec::new(),
        };
        for operation in operations {
            names.extend(match operation {
                Operation::Get { key, .. }
                | Operation::Patch { key, .. }
                | Operation::Delete { key, .. } => key.namespace.clone(),
                Operation::List { options, .. } => options.namespace.clone(),
                Operation::Create { .. } | Operation::Update { .. } | Operation::Apply { .. } => {
                    None
                }
            });
        }
        if let Answer::Clusters(clusters) = answer {
            names.extend(clusters.iter().map(|cluster| cluster.name.clone()));
        }
    }
    names
}

#[cfg(test)]
pub(crate) mod tests;
