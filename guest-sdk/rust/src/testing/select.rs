//! Selectors and indexes over objects in memory. Entry points: [`label_selector`] and [`field_selector`], which refuse
//! a wrong one.

use super::store::invalid;
use crate::error::ApiError;
use serde_json::Value;
use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// Tells whether a value meets a requirement.
type Test<T> = Box<dyn Fn(&T) -> bool>;

/// Tells whether labels match a selector in the syntax of kubectl's `-l`: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`.
pub(super) fn label_selector(selector: Option<&str>) -> Result<Test<Labels>, ApiError> {
    all(selector, label_requirement)
}

/// Tells whether an object matches a selector on `metadata.name` and `metadata.namespace`.
pub(super) fn field_selector(selector: Option<&str>) -> Result<Test<Value>, ApiError> {
    all(selector, field_requirement)
}

fn all<T: 'static>(
    selector: Option<&str>,
    parse: fn(&str) -> Result<Test<T>, ApiError>,
) -> Result<Test<T>, ApiError> {
    let tests: Vec<Test<T>> = split(selector.unwrap_or_default())
        .into_iter()
        .map(parse)
        .collect::<Result<_, _>>()?;
    Ok(Box::new(move |value| tests.iter().all(|test| test(value))))
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

/// Splits a comparison at its operator. Returns the value and whether it is to be equal.
fn comparison(requirement: &str) -> Option<(&str, &str, bool)> {
    let at = requirement.find(['=', '!'])?;
    let (key, rest) = requirement.split_at(at);
    let (value, equal) = match rest.strip_prefix("!=") {
        Some(value) => (value, false),
        None => (
            rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?,
            true,
        ),
    };
    Some((key.trim(), value.trim(), equal))
}

/// Splits `a in (b,c)`. Returns the values and whether the label is to be one of them.
fn membership(requirement: &str) -> Option<(&str, Vec<&str>, bool)> {
    let (head, set) = requirement.strip_suffix(')')?.split_once('(')?;
    let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
    let within = match operator {
        "in" => true,
        "notin" => false,
        _ => return None,
    };
    Some((key.trim(), set.split(',').map(str::trim).collect(), within))
}

/// Whether a text can be a value of a label selector. It may be empty.
fn is_value(text: &str) -> bool {
    text.chars()
        .all(|each| each.is_ascii_alphanumeric() || "./_-".contains(each))
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && is_value(text)
}

fn label_requirement(requirement: &str) -> Result<Test<Labels>, ApiError> {
    if let Some((key, wanted, equal)) = comparison(requirement)
        && is_key(key)
        && is_value(wanted)
    {
        let (key, wanted) = (key.to_owned(), wanted.to_owned());
        return Ok(Box::new(move |labels| {
            (labels.get(&key) == Some(&wanted)) == equal
        }));
    }
    if let Some((key, set, within)) = membership(requirement)
        && is_key(key)
        && set.iter().all(|value| is_value(value))
    {
        let key = key.to_owned();
        let set: Vec<String> = set.into_iter().map(str::to_owned).collect();
        return Ok(Box::new(move |labels| {
            labels.get(&key).is_some_and(|found| set.contains(found)) == within
        }));
    }
    let (key, wanted) = match requirement.strip_prefix('!') {
        Some(key) => (key.trim().to_owned(), false),
        None => (requirement.to_owned(), true),
    };
    if !is_key(&key) {
        return Err(invalid(format!("{requirement:?} is not a label selector")));
    }
    Ok(Box::new(move |labels| labels.contains_key(&key) == wanted))
}

fn field_requirement(requirement: &str) -> Result<Test<Value>, ApiError> {
    let compared = comparison(requirement).filter(|(_, value, _)| !value.contains('='));
    let Some((path, wanted, equal)) = compared else {
        return Err(invalid(format!("{requirement:?} is not a field selector")));
    };
    let field = match path {
        "metadata.name" => "name",
        "metadata.namespace" => "namespace",
        other => {
            return Err(invalid(format!(
                "a test cluster does not select by the field {other:?}"
            )));
        }
    };
    let wanted = wanted.to_owned();
    Ok(Box::new(move |object| {
        (object["metadata"][field] == wanted) == equal
    }))
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
        let hit = |selector: &str| label_selector(Some(selector)).unwrap()(&labels);
        assert!(
            hit("")
                && hit("app")
                && hit("app=web,tier==front")
                && hit("app in (api, web)")
                && hit("!gone,app!=api")
        );
        assert!(!hit("app=api") && !hit("gone") && !hit("app notin (web)") && !hit("!app"));
        assert!(label_selector(Some("app like (web)")).is_err());
    }
}
