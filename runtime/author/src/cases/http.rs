//! What servers that are no API servers answer in a test. Entry point: [`HttpAnswers::take`].

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use windlass_files::{Problem, split};
use windlass_fleet::name::NamePattern;

/// The file in the folder of a case that has its answers.
const FILE: &str = "http.yaml";

/// The answer to requests of a method and a URL.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpAnswer {
    /// Default: GET.
    #[serde(default = "get")]
    method: String,
    /// With its query; `*` matches any characters.
    url: String,
    /// How often it is given. Default: always.
    #[serde(default)]
    times: Option<u32>,
    /// Default: 200.
    #[serde(default = "ok")]
    pub status: u16,
    /// Names and values.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    /// The body as JSON, with its type.
    #[serde(default)]
    json: Option<Json>,
}

fn get() -> String {
    "GET".to_owned()
}

fn ok() -> u16 {
    200
}

impl HttpAnswer {
    /// The answers in the folder of a case; none without the file.
    ///
    /// # Errors
    /// With file and line, when the file cannot be read.
    pub(super) fn of_folder(folder: &Path) -> Result<Vec<Self>> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(Vec::new());
        }
        let name: Arc<str> = path.to_string_lossy().into();
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{name} cannot be read"))?;
        let parts = split(&text);
        let [part] = &parts[..] else {
            bail!("{name}: write one document, a list of answers");
        };
        let node = part
            .parse(&name)
            .map_err(|problem| anyhow::anyhow!("{problem}"))?;
        node.decode().map_err(|error| {
            let at = error.at.unwrap_or(node.at);
            anyhow::anyhow!("{}", Problem::at(&name, at, error.message("the answers")))
        })
    }

    /// The body, and its type if that is known.
    #[must_use]
    pub fn body(&self) -> (String, Option<&'static str>) {
        match (&self.body, &self.json) {
            (None, Some(json)) => (json.to_string(), Some("application/json")),
            (body, _) => (body.clone().unwrap_or_default(), None),
        }
    }
}

/// The answers that a test has left.
#[derive(Debug, Default)]
pub struct HttpAnswers(Mutex<Vec<HttpAnswer>>);

impl HttpAnswers {
    /// All of a test.
    #[must_use]
    pub fn new(answers: Vec<HttpAnswer>) -> Self {
        Self(Mutex::new(answers))
    }

    /// The first answer to a request that is left.
    pub fn take(&self, method: &str, url: &str) -> Option<HttpAnswer> {
        let mut answers = self.0.lock();
        let found = answers.iter_mut().find(|answer| {
            answer.method == method
                && answer.times != Some(0)
                && NamePattern::new(&answer.url).matches(url)
        })?;
        if let Some(times) = &mut found.times {
            *times -= 1;
        }
        Some(found.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_given_in_their_order_and_as_often_as_they_say() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(HttpAnswer::of_folder(folder.path()).unwrap(), []);
        let text = "- {url: 'https://a/x*', times: 1, status: 503}\n- {url: 'https://a/x?b=1', json: {id: 1}}\n";
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let answers = HttpAnswers::new(HttpAnswer::of_folder(folder.path()).unwrap());
        assert_eq!(answers.take("POST", "https://a/x"), None);
        assert_eq!(answers.take("GET", "https://a/x?b=1").unwrap().status, 503);
        let second = answers.take("GET", "https://a/x?b=1").unwrap();
        assert_eq!(
            second.body(),
            (r#"{"id":1}"#.to_owned(), Some("application/json"))
        );
        assert_eq!(answers.take("GET", "https://a/x"), None);
        std::fs::write(
            folder.path().join(FILE),
            "- {url: 'https://a', sttaus: 1}\n",
        )
        .unwrap();
        let said = HttpAnswer::of_folder(folder.path())
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("http.yaml:1") && said.contains("sttaus"),
            "{said}"
        );
    }
}
