//! Selectors and indexes over objects in memory. Entry points: [`labels_match`] and [`fields_match`].

use super::store::invalid;
use crate::error::ApiError;
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether labels match a selector in the syntax of kubectl's `-l`: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`.
pub(super) fn labels_match(
    selector: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Result<bool, ApiError> {
    for requirement in split(selector.unwrap_or_default()) {
        if !requirement_matches(requirement, labels)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an object matches a selector on `metadata.name` and `metadata.namespace`.
pub(super) fn fields_match(selector: Option<&str>, object: &Value) -> Result<bool, ApiError> {
    for requirement in split(selector.unwrap_or_default()) {
        let (path, wanted, equal) = match requirement.split_once("!=") {
            Some((path, value)) => (path, value, false),
            None => match requirement.split_once('=') {
                Some((path, value)) => (path, value.trim_start_matches('='), true),
                None => return Err(invalid(format!("{requirement:?} is not a field selector"))),
            },
        };
        let found = match path.trim() {
            "metadata.name" => &object["metadata"]["name"],
            "metadata.namespace" => &object["metadata"]["namespace"],
            other => {
                return Err(invalid(format!(
                    "a test cluster does not select by the field {other:?}"
                )));
            }
        };
        if (found == wanted.trim()) != equal {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Labels of an object.
pub(super) fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    labels
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Splits at the commas that are not inside parentheses.
fn split(selector: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&selector[start..]);
    parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn requirement_matches(
    requirement: &str,
    labels: &BTreeMap<String, String>,
) -> Result<bool, ApiError> {
    let value = |key: &str| labels.get(key.trim()).map(String::as_str);
    if let Some((key, wanted)) = requirement.split_once("!=") {
        return Ok(value(key) != Some(wanted.trim()));
    }
    if let Some((key, wanted)) = requirement.split_once('=') {
        return Ok(value(key) == Some(wanted.trim_start_matches('=').trim()));
    }
    if let Some((head, set)) = requirement.split_once('(') {
        let set: Vec<&str> = set
            .trim_end_matches(')')
            .split(',')
            .map(str::trim)
            .collect();
        let (key, operator) = head.trim().rsplit_once(' ').unwrap_or((head, ""));
        let found = value(key);
        return match operator {
            "in" => Ok(found.is_some_and(|found| set.contains(&found))),
            "notin" => Ok(!found.is_some_and(|found| set.contains(&found))),
            _ => Err(invalid(format!("{requirement:?} is not a label selector"))),
        };
    }
    Ok(match requirement.strip_prefix('!') {
        Some(key) => value(key).is_none(),
        None => value(requirement).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_are_kubectls() {
        let labels = BTreeMap::from([
            ("app".to_owned(), "web".to_owned()),
            ("tier".to_owned(), "front".to_owned()),
        ]);
        let hit = |selector: &str| labels_match(Some(selector), &labels).unwrap();
        assert!(
            hit("")
                && hit("app")
                && hit("app=web,tier==front")
                && hit("app in (api, web)")
                && hit("!gone,app!=api")
        );
        assert!(!hit("app=api") && !hit("gone") && !hit("app notin (web)") && !hit("!app"));
        assert!(labels_match(Some("app like (web)"), &labels).is_err());
    }
}
