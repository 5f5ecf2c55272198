//! A case played against one server: [`play`] returns its transcript.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use windlass_harness::eventually::{Seen, eventually};

use super::client::{Answer, Target};
use super::normal::Normal;
use super::script::{Case, Compared, Condition, Request, Step};

/// A namespace controller takes its time.
const DEADLINE: Duration = Duration::from_secs(60);

/// Plays `case` in a namespace of its own and returns what was asked and answered, line by line, without what differs from run to run.
pub(crate) async fn play(target: &Target, case: &Case) -> Result<Vec<String>> {
    let namespace = namespace(&case.name);
    let make = Request {
        body: format!("{{\"metadata\":{{\"name\":{namespace:?}}}}}"),
        ..request("POST", "/api/v1/namespaces")
    };
    let made = target.ask(&make).await?;
    if made.code != 201 {
        bail!("the namespace {namespace} could not be made: {}", made.body);
    }
    let mut variables = BTreeMap::from([("ns".to_owned(), namespace.clone())]);
    let mut normal = Normal::new(&namespace);
    let mut lines = Vec::new();
    let mut last = String::new();
    for step in &case.steps {
        match step {
            Step::Keep { variable, pointer } => {
                let answer: Value = serde_json::from_str(&last)?;
                let value = answer.pointer(pointer).and_then(Value::as_str);
                let Some(value) = value else {
                    bail!("the answer has no text at {pointer}: {last}")
                };
                variables.insert(variable.clone(), value.to_owned());
            }
            Step::Until { holds, request } => {
                last = until(target, holds, &filled(request, &variables)).await?;
                lines.push(format!(
                    "{} {} came to {holds:?}",
                    request.method, request.path
                ));
            }
            Step::Ask { request, compared } => {
                let answer = target.ask(&filled(request, &variables)).await?;
                lines.push(format!(
                    "{} {} -> {} {} {}",
                    request.method,
                    request.path,
                    answer.code,
                    answer.media_type,
                    normal.text(&answer.warnings.join("; "))
                ));
                if *compared != Compared::Code {
                    lines.extend(normal.lines(&answer.body, *compared == Compared::Everything));
                }
                last = answer.body;
            }
        }
    }
    Ok(lines)
}

fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        ..Request::default()
    }
}

fn namespace(name: &str) -> String {
    let letters: String = name
        .to_lowercase()
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    letters
        .chars()
        .take(40)
        .collect::<String>()
        .trim_matches('-')
        .to_owned()
}

/// A request with its variables filled in; longer names first, so that none is taken for the start of another.
fn filled(request: &Request, variables: &BTreeMap<String, String>) -> Request {
    let mut names: Vec<&String> = variables.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let fill = |text: &str| {
        names.iter().fold(text.to_owned(), |text, name| {
            text.replace(&format!("${name}"), &variables[*name])
        })
    };
    Request {
        path: fill(&request.path),
        body: fill(&request.body),
        ..request.clone()
    }
}

async fn until(target: &Target, holds: &Condition, request: &Request) -> Result<String> {
    let what = format!("{} {} came to {holds:?}", request.method, request.path);
    let look = || async {
        let answer = target.ask(request).await?;
        Ok(Seen::of((answer.code, answer.body.clone()), |_| {
            met(holds, &answer)
        }))
    };
    Ok(eventually(DEADLINE, &what, look).await?.1)
}

fn met(condition: &Condition, answer: &Answer) -> bool {
    match condition {
        Condition::Code(code) => answer.code == *code,
        Condition::Contains(word) => answer.body.contains(word.as_str()),
        Condition::Equals { pointer, value } => {
            let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            body.pointer(pointer).and_then(Value::as_str) == Some(value)
        }
    }
}
