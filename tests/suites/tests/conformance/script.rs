//! The language of `cases/*.http`: [`cases`].
//!
//! ```text
//! ## What is stated
//! POST /api/v1/namespaces/$ns/configmaps     a request; `$ns` is the case's own namespace
//! Content-Type: application/json             headers (only Content-Type and Accept)
//! {"metadata":{"name":"a"}}                  the body, up to the next step
//! = first /metadata/resourceVersion          a variable from the last answer
//! ~GET /path                                 only the status code is compared
//! !GET /path                                 bookmarks that come with time are compared too
//! UNTIL 404 GET /path                        asked again until the code, `pointer=value` or a word in the answer holds
//! # a reason                                 a remark, for the reader
//! ```

use anyhow::{Result, bail, ensure};

/// One behaviour.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) enum Step {
    Ask {
        request: Request,
        compared: Compared,
    },
    Until {
        holds: Condition,
        request: Request,
    },
    Keep {
        variable: String,
        pointer: String,
    },
}

/// How much of an answer is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    Code,
    /// All but the bookmarks of a watch that come with time.
    Answer,
    Everything,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// What ends a repeated request.
#[derive(Debug)]
pub(crate) enum Condition {
    Code(u16),
    Contains(String),
    Equals { pointer: String, value: String },
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Reads the cases of one file.
pub(crate) fn cases(text: &str) -> Result<Vec<Case>> {
    let mut all: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            all.push(Case {
                name: name.trim().to_owned(),
                steps: Vec::new(),
            });
            continue;
        }
        match all.last_mut() {
            Some(case) => add(&mut case.steps, line)?,
            None => ensure!(
                line.trim().is_empty(),
                "{line:?} stands before the first `## ` line"
            ),
        }
    }
    Ok(all)
}

fn add(steps: &mut Vec<Step>, line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["=", variable, pointer] => steps.push(Step::Keep {
            variable: (*variable).to_owned(),
            pointer: (*pointer).to_owned(),
        }),
        ["UNTIL", condition, method, path] => steps.push(Step::Until {
            holds: Condition::read(condition),
            request: Request::new(method, path),
        }),
        [method, path]
            if METHODS.contains(&method.trim_start_matches(['~', '!']))
                && path.starts_with('/') =>
        {
            let compared = match method.chars().next() {
                Some('~') => Compared::Code,
                Some('!') => Compared::Everything,
                _ => Compared::Answer,
            };
            steps.push(Step::Ask {
                request: Request::new(method.trim_start_matches(['~', '!']), path),
                compared,
            });
        }
        _ if line.trim().is_empty() || line.starts_with("# ") => {}
        _ => continue_request(steps.last_mut(), line)?,
    }
    Ok(())
}

fn continue_request(step: Option<&mut Step>, line: &str) -> Result<()> {
    let Some(Step::Ask { request, .. } | Step::Until { request, .. }) = step else {
        bail!("{line:?} is neither a step nor part of a request");
    };
    match line.split_once(": ") {
        Some((name @ ("Content-Type" | "Accept"), value)) => {
            request.headers.push((name.to_owned(), value.to_owned()))
        }
        _ => {
            request.body.push_str(line);
            request.body.push('\n');
        }
    }
    Ok(())
}

impl Request {
    fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            ..Self::default()
        }
    }
}

impl Condition {
    fn read(text: &str) -> Self {
        if let Ok(code) = text.parse() {
            return Self::Code(code);
        }
        match text.split_once('=') {
            Some((pointer, value)) => Self::Equals {
                pointer: pointer.to_owned(),
                value: value.to_owned(),
            },
            None => Self::Contains(text.to_owned()),
        }
    }
}
