//! JSON Schemas that guests ship for their `config`. Entry points: [`Schema::parse`] and [`problems`].
//!
//! A guest's schema is a stranger's text, and is checked in this process. So it is a subset of JSON Schema without anything that takes
//! unbounded time or memory: a schema has a largest size, one check takes a limited number of steps, and patterns are matched in
//! linear time. A keyword that is not known is refused, so that no rule is ignored in silence.

mod check;
mod keyword;

pub(crate) use check::Violation;

use crate::config::kinds::Origin;
use crate::config::load::Document;
use regex::{Regex, RegexBuilder};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_files::{Node, Position, Problem, Step};

/// Problems of one config that are reported.
const MOST_PROBLEMS: usize = 10;
/// Characters of a pattern.
const MOST_PATTERN: usize = 1000;
/// Patterns of a schema.
const MOST_PATTERNS: usize = 100;
/// Bytes of a compiled pattern.
const MOST_COMPILED: usize = 256 << 10;
/// How deep schemas lie in each other, and how deep a config is compared with one.
const MOST_DEPTH: usize = 64;

/// A schema that can be used.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Json,
    /// Its patterns, compiled.
    patterns: BTreeMap<String, Regex>,
}

/// Why a text is no schema that can be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaError {
    /// It is not JSON.
    #[error("it is not JSON: {0}")]
    Syntax(String),
    /// A part of it is not understood.
    #[error("{at}: {problem}")]
    Part {
        /// The part, as a JSON pointer after `#`.
        at: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
}

impl Schema {
    /// Reads a schema and checks that all of it is understood.
    ///
    /// # Errors
    /// [`SchemaError`] for the first part that is not.
    pub(crate) fn parse(text: &str) -> Result<Self, SchemaError> {
        let root: Json =
            serde_json::from_str(text).map_err(|error| SchemaError::Syntax(error.to_string()))?;
        let mut patterns = BTreeMap::new();
        keyword::check(&root, &root, "#", &mut patterns, MOST_DEPTH)?;
        Ok(Self { root, patterns })
    }
}

/// Compiles a pattern, within bounds.
fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.chars().count() > MOST_PATTERN {
        return Err(format!("is longer than {MOST_PATTERN} characters"));
    }
    let built = RegexBuilder::new(pattern)
        .size_limit(MOST_COMPILED)
        .dfa_size_limit(MOST_COMPILED)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too large when compiled".to_owned(),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    })
}

/// The part of a schema that a local reference (`#/$defs/x`) names.
fn resolve<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    root.pointer(reference.strip_prefix('#')?)
}

/// What messages about a config may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// Its values and their lines in a file.
    Line,
    /// Its values, which stand in no file.
    Value,
    /// Only the paths of its values.
    Path,
}

/// A `config` and where it stands, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The file, as the user wrote its path.
    pub(crate) file: Arc<str>,
    /// The config as it stands in the file; none if it is left out.
    pub(crate) config: Option<Arc<Node>>,
    /// The document, which has this position.
    pub(crate) document: Position,
    /// The path of the config in it; empty: the text is the config.
    pub(crate) path: &'static str,
    /// What messages may show of it.
    pub(crate) shows: Shows,
    /// Whose it is: `Reconciler hello`.
    pub(crate) whose: String,
}

impl Place {
    /// The config of a Reconciler's document.
    pub(crate) fn of(document: &Document) -> Self {
        Self {
            file: document.file.clone(),
            config: document.config.clone(),
            document: document.position,
            path: "spec.config",
            shows: match (document.origin, document.has_secrets) {
                (_, true) => Shows::Path,
                (Origin::Cluster, _) => Shows::Value,
                (Origin::File, _) => Shows::Line,
            },
            whose: document.identity.to_string(),
        }
    }

    fn problem(&self, violation: &Violation) -> Problem {
        let at = match &self.config {
            Some(node) => node.position_at(&violation.path, violation.at_key.as_deref()),
            None => self.document,
        };
        let mut path = self.path.to_owned();
        for step in &violation.path {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        let of = if path.is_empty() {
            self.whose.clone()
        } else {
            format!("{path} of {}", self.whose)
        };
        match self.shows {
            Shows::Line => Problem::at(&self.file, at, violation.message(&of)),
            Shows::Value => Problem::of_file(&self.file, violation.message(&of)),
            Shows::Path => {
                let message = "it is not as expected; values of configFrom are not shown";
                Problem::of_file(&self.file, format!("{of}: {message}"))
            }
        }
    }
}

/// What is wrong with a config by the schema of its guest: nothing, or at most ten problems, each with its file, line and field.
pub(crate) fn problems(schema: &str, config: &Json, place: &Place) -> Vec<Problem> {
    let schema = match Schema::parse(schema) {
        Ok(schema) => schema,
        Err(error) => {
            let message = format!(
                "the guest's schema of its config cannot be used: {error}; correct config.schema.json and build the guest again"
            );
            return vec![Problem::at(&place.file, place.document, message)];
        }
    };
    let violations = schema.check(config);
    let shown = violations.iter().take(MOST_PROBLEMS);
    let mut problems: Vec<Problem> = shown.map(|violation| place.problem(violation)).collect();
    let more = violations.len().saturating_sub(MOST_PROBLEMS);
    if more > 0
        && let Some(last) = problems.last_mut()
    {
        last.message.push_str(&format!(" (and {more} more)"));
    }
    problems
}

#[cfg(test)]
mod tests;
