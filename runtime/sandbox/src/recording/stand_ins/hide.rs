//! Hides the values of Secrets wherever a recording shows them. Entry point: [`Hide`].
//!
//! In JSON only texts are looked at, once they are decoded: so no way to write a text hides a value from this. A name of a field is changed if
//! it is long and all of it is a value, and no number is.

use super::SHORTEST;
use crate::recording::{Answer, ApiError, Asked, Event, HttpBody, Key, Operation, Step, Text};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::collections::BTreeMap;

/// What ends a text that was cut.
const CUT: char = '…';

/// A name of a field that is a value of this length is no name.
const NO_NAME: usize = 20;

/// How deep JSON inside of texts of JSON is looked at.
const DEEP: usize = 3;

/// Longest text that is ever cut.
const LONGEST: usize = 4096;

pub(super) struct Hide {
    find: AhoCorasick,
    /// Sorted.
    values: Vec<String>,
    stand_ins: Vec<String>,
}

impl Hide {
    /// `None`: nothing is to be hidden, or more than a machine can look for at once.
    pub(super) fn new(forms: BTreeMap<String, String>) -> Option<Self> {
        let (values, stand_ins): (Vec<String>, Vec<String>) = forms.into_iter().unzip();
        let find = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // A table of all states would take some hundred times the values.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&values);
        Some(Self {
            find: find.ok()?,
            values,
            stand_ins,
        })
    }

    /// The text without the values. `None`: it has none.
    fn hidden(&self, text: &str) -> Option<String> {
        let (mut hidden, mut changed) = (String::new(), false);
        for segment in text.split_inclusive(CUT) {
            let (body, is_cut) = match segment.strip_suffix(CUT) {
                Some(body) => (body, true),
                None => (segment, false),
            };
            let mut at = 0;
            for found in self.find.find_iter(body) {
                hidden.push_str(&body[at..found.start()]);
                hidden.push_str(&self.stand_ins[found.pattern().as_usize()]);
                (at, changed) = (found.end(), true);
            }
            let rest = &body[at..];
            let begun = is_cut.then(|| self.beginning(rest)).flatten();
            let (kept, begun) = begun.unwrap_or((rest, ""));
            changed |= !begun.is_empty();
            hidden.push_str(kept);
            hidden.push_str(begun);
            if is_cut {
                hidden.push(CUT);
            }
        }
        changed.then_some(hidden)
    }

    /// A text that was cut within a value: what is before the value, and what stands for the part of it that is left.
    fn beginning<'a>(&'a self, cut: &'a str) -> Option<(&'a str, &'a str)> {
        let first = cut.floor_char_boundary(cut.len().saturating_sub(LONGEST));
        let starts = cut.char_indices().map(|(at, _)| at);
        let last = cut.len().checked_sub(SHORTEST)?;
        for start in starts.filter(|start| (first..=last).contains(start)) {
            let (kept, left) = cut.split_at(start);
            let next = self.values.partition_point(|value| value.as_str() < left);
            if self.values.get(next)?.starts_with(left) {
                let stand_in = &self.stand_ins[next];
                let end = stand_in.floor_char_boundary(left.len());
                return Some((kept, &stand_in[..end]));
            }
        }
        None
    }

    /// What stands for a text that is a value as a whole.
    fn whole(&self, text: &str) -> Option<String> {
        let at = self
            .values
            .binary_search_by(|value| value.as_str().cmp(text));
        at.ok().map(|at| self.stand_ins[at].clone())
    }

    pub(super) fn string(&self, text: &mut String) {
        if let Some(hidden) = self.hidden(text) {
            *text = hidden;
        }
    }

    pub(super) fn text(&self, text: &mut Text) {
        if let Some(hidden) = self.json(&text.0, DEEP) {
            text.0 = hidden;
        }
    }

    /// JSON, or any text, without the values. `None`: it has none.
    fn json(&self, text: &str, deep: usize) -> Option<String> {
        if deep == 0 || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            return self.hidden(text);
        }
        let (mut hidden, mut at) = (String::new(), 0);
        for token in Tokens::of(text) {
            let written = &text[token.clone()];
            let is_name = text[token.end..].trim_start().starts_with(':');
            let other = match serde_json::from_str::<String>(written) {
                // Half a character, which no text can hold.
                Err(_) => self.hidden(written),
                Ok(value) => {
                    let stays = is_name && value.len() < NO_NAME;
                    let other = self.whole(&value).filter(|_| !stays).or_else(|| {
                        if is_name {
                            None
                        } else if value.starts_with(['{', '[']) {
                            self.json(&value, deep - 1)
                        } else {
                            self.hidden(&value)
                        }
                    });
                    other.map(|other| serde_json::Value::String(other).to_string())
                }
            };
            if let Some(other) = other {
                hidden.push_str(&text[at..token.start]);
                hidden.push_str(&other);
                at = token.end;
            }
        }
        if at == 0 {
            return None;
        }
        hidden.push_str(&text[at..]);
        Some(hidden)
    }

    fn maybe(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.string(text);
        }
    }

    fn key(&self, key: &mut Key) {
        self.maybe(&mut key.namespace);
        self.string(&mut key.name);
    }

    pub(super) fn step(&self, step: &mut Step) {
        match step {
            Step::Call { asked, answer } => {
                self.asked(asked);
                self.answer(answer);
            }
            Step::Log {
                message, fields, ..
            } => {
                self.string(message);
                for (name, value) in fields {
                    self.string(name);
                    self.string(value);
                }
            }
        }
    }

    fn asked(&self, asked: &mut Asked) {
        match asked {
            Asked::Do { operation, .. } => self.operation(operation),
            Asked::DeleteCollection { selection, .. } => {
                self.maybe(&mut selection.namespace);
                self.maybe(&mut selection.label_selector);
                self.maybe(&mut selection.field_selector);
            }
            Asked::RecordEvent { event, .. } => {
                let Event {
                    key,
                    reason,
                    action,
                    note,
                    ..
                } = event;
                self.key(key);
                [reason, action, note]
                    .into_iter()
                    .for_each(|text| self.string(text));
            }
            Asked::Batch { operations, .. } => {
                for operation in operations {
                    self.operation(operation);
                }
            }
            Asked::FleetBatch { operations } => {
                for (cluster, operation) in operations {
                    self.string(cluster);
                    self.operation(operation);
                }
            }
            Asked::Clusters { label_selector } => self.maybe(label_selector),
            Asked::Open { cluster } => self.string(cluster),
            Asked::Http(request) => {
                self.string(&mut request.url);
                self.headers(&mut request.headers);
                self.body(&mut request.body);
            }
        }
    }

    fn headers(&self, headers: &mut [(String, String)]) {
        headers.iter_mut().for_each(|(_, value)| self.string(value));
    }

    fn body(&self, body: &mut HttpBody) {
        match body {
            HttpBody::Text(text) | HttpBody::Base64(text) => self.string(text),
        }
    }

    fn operation(&self, operation: &mut Operation) {
        match operation {
            Operation::Get { key, options, .. } => {
                self.key(key);
                self.maybe(&mut options.subresource);
            }
            Operation::Delete { key, .. } => self.key(key),
            Operation::List { options, .. } => {
                self.maybe(&mut options.namespace);
                self.maybe(&mut options.label_selector);
                self.maybe(&mut options.field_selector);
                if let Some((_, value)) = &mut options.index {
                    self.string(value);
                }
            }
            Operation::Create { object, .. }
            | Operation::Update { object, .. }
            | Operation::Apply { object, .. } => self.text(object),
            Operation::Patch { key, patch, .. } => {
                self.key(key);
                self.text(patch);
            }
        }
    }

    fn answer(&self, answer: &mut Answer) {
        match answer {
            Answer::Object(object) => self.text(object),
            Answer::Page { items, .. } => items.iter_mut().for_each(|item| self.text(item)),
            Answer::Clusters(clusters) => {
                for cluster in clusters {
                    let pairs = cluster.labels.iter_mut().chain(&mut cluster.properties);
                    pairs.for_each(|(_, value)| self.string(value));
                }
            }
            Answer::Batch(answers) => answers.iter_mut().for_each(|answer| self.answer(answer)),
            Answer::Http { headers, body, .. } => {
                self.headers(headers);
                self.body(body);
            }
            Answer::Error(error) => self.error(error),
            Answer::Nothing | Answer::Unanswered => {}
        }
    }

    fn error(&self, error: &mut ApiError) {
        self.string(&mut error.reason);
        self.string(&mut error.message);
        if let Some(details) = &mut error.details {
            self.text(details);
        }
    }
}

/// Where the strings of valid JSON stand, with their quotation marks.
struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
        }
    }
}

impl Iterator for Tokens<'_> {
    type Item = std::ops::Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.bytes.get(self.at..)?;
        let start = self.at + left.iter().position(|byte| *byte == b'"')?;
        let mut end = start + 1;
        loop {
            match self.bytes.get(end)? {
                b'"' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        self.at = end + 1;
        Some(start..self.at)
    }
}
