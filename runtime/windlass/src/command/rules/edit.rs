//! Adds rules to a file of documents or removes some, and leaves the rest of it as it is. Entry points: [`with_rules`] and [`without_rules`].

use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use windlass_files::{Node, Position, Step, Value, split};
use windlass_fleet::Rule;

/// The text with further rules in a Reconciler's `spec.rules`, before those that are there.
///
/// # Errors
/// When the document is not there, or is written in a way that this does not change.
pub(super) fn with_rules(text: &str, reconciler: &str, rules: &[Rule]) -> Result<String> {
    let new = inserted(text, reconciler, rules)?;
    if is_as_meant(text, &new, reconciler, rules) {
        return Ok(new);
    }
    bail!(
        "the rules of Reconciler {reconciler} are written in a way that this does not change: add these yourself:{}",
        items(rules)
    )
}

/// The text without some of a Reconciler's `spec.rules`, which are named by their places.
///
/// # Errors
/// When the document is not there, or is written in a way that this does not change.
pub(super) fn without_rules(text: &str, reconciler: &str, places: &[usize]) -> Result<String> {
    let kept = |before: Vec<Json>| -> Vec<Json> {
        let numbered = before.into_iter().enumerate();
        let kept = numbered.filter(|(at, _)| !places.contains(at));
        kept.map(|(_, rule)| rule).collect()
    };
    let new = removed(text, reconciler, places)?;
    match new.filter(|new| is_changed(text, new, reconciler, kept)) {
        Some(new) => Ok(new),
        None => bail!(
            "the rules of Reconciler {reconciler} are written in a way that this does not change: write a line for each, or remove them yourself"
        ),
    }
}

/// Whether the new text has the rules before those of the old one, and is the same otherwise.
fn is_as_meant(old: &str, new: &str, reconciler: &str, rules: &[Rule]) -> bool {
    let added = |before: Vec<Json>| {
        let added = rules.iter().map(|rule| json!(rule));
        added.chain(before).collect()
    };
    is_changed(old, new, reconciler, added)
}

/// Whether the rules are changed in this way, and everything else is the same.
fn is_changed(
    old: &str,
    new: &str,
    reconciler: &str,
    change: impl FnOnce(Vec<Json>) -> Vec<Json>,
) -> bool {
    let (Some(mut old), Some(new)) = (values(old), values(new)) else {
        return false;
    };
    let of_name =
        |one: &&mut Json| one["kind"] == "Reconciler" && one["metadata"]["name"] == reconciler;
    if let Some(document) = old.iter_mut().find(of_name) {
        let before = document["spec"]["rules"].as_array().cloned();
        document["spec"]["rules"] = change(before.unwrap_or_default()).into();
    }
    old == new
}

/// The documents as values; none if one is no YAML.
fn values(text: &str) -> Option<Vec<Json>> {
    let file: Arc<str> = "".into();
    let documents = split(text);
    let values = documents
        .iter()
        .map(|part| part.parse(&file).ok()?.decode().ok());
    values.collect()
}

fn refused(what: &str, reconciler: &str, rules: &[Rule]) -> anyhow::Error {
    anyhow::anyhow!(
        "{what} of Reconciler {reconciler} is written in brackets: write spec.rules with a line for each rule, or add these yourself:{}",
        items(rules)
    )
}

/// Rules for an error.
fn items(rules: &[Rule]) -> String {
    rules.iter().map(|rule| format!("\n    - {rule}")).collect()
}

/// The `spec` of a Reconciler.
fn spec_of(text: &str, reconciler: &str) -> Result<Node> {
    let file: Arc<str> = "".into();
    let documents = split(text);
    let mut nodes = documents.iter().filter_map(|part| part.parse(&file).ok());
    let is_it = |node: &Node| {
        let text = |node: Option<&Node>| node.and_then(Node::as_text).map(str::to_owned);
        text(node.get("kind")).as_deref() == Some("Reconciler")
            && text(node.get("metadata").and_then(|node| node.get("name"))).as_deref()
                == Some(reconciler)
    };
    match nodes.find(is_it).and_then(|node| node.get("spec").cloned()) {
        Some(spec) => Ok(spec),
        None => bail!("there is no Reconciler {reconciler} with a spec"),
    }
}

/// The text without the items; none if they have no lines of their own.
fn removed(text: &str, reconciler: &str, places: &[usize]) -> Result<Option<String>> {
    let spec = spec_of(text, reconciler)?;
    let Some(Node {
        value: Value::List(items),
        ..
    }) = spec.get("rules")
    else {
        return Ok(None);
    };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let margin = |line: &str| line.len() - line.trim_start().len();
    // From the last to the first, so that lines before it stay where they are.
    for (at, item) in items.iter().enumerate().rev() {
        if !places.contains(&at) {
            continue;
        }
        let first = item.at.line as usize - 1;
        let Some(line) = lines
            .get(first)
            .filter(|line| line.trim_start().starts_with('-'))
        else {
            return Ok(None);
        };
        let dash = margin(line);
        let is_below = |line: &String| line.trim().is_empty() || margin(line) > dash;
        let below = lines[first + 1..].iter().take_while(|line| is_below(line));
        let mut end = first + 1 + below.count();
        // Empty lines, and comments on what follows, stay.
        let is_text =
            |line: &String| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        while end > first + 1 && !is_text(&lines[end - 1]) {
            end -= 1;
        }
        lines.drain(first..end);
    }
    if places.len() == items.len() {
        let key = spec.position_at(&[] as &[Step], Some("rules"));
        let line = &mut lines[key.line as usize - 1];
        *line = line.replacen("rules:", "rules: []", 1);
    }
    Ok(Some(lines.concat()))
}

fn inserted(text: &str, reconciler: &str, rules: &[Rule]) -> Result<String> {
    let spec = spec_of(text, reconciler)?;
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push('\n');
    }
    let indent = |lines: &[String], at: Position| {
        let line = lines.get(at.line as usize - 1).map_or("", String::as_str);
        line[..line.len() - line.trim_start().len()].to_owned()
    };
    let is_block = |lines: &[String], at: Position, begins: &str| {
        let line = lines.get(at.line as usize - 1).map_or("", String::as_str);
        line.trim_start().starts_with(begins)
    };
    // The line before which they go, and what stands before each.
    let (at, new) = match spec.get("rules") {
        Some(Node {
            at,
            value: Value::List(items),
        }) if !items.is_empty() => {
            if !is_block(&lines, *at, "-") {
                return Err(refused("spec.rules", reconciler, rules));
            }
            (at.line as usize - 1, items_of(rules, &indent(&lines, *at)))
        }
        Some(node) => {
            let key = spec.position_at(&[] as &[Step], Some("rules"));
            if !matches!(&node.value, Value::List(_)) || !is_block(&lines, key, "rules:") {
                return Err(refused("spec", reconciler, rules));
            }
            let line = key.line as usize - 1;
            let margin = indent(&lines, key);
            lines[line] = lines[line].replacen(" []", "", 1);
            (line + 1, items_of(rules, &format!("{margin}  ")))
        }
        None => {
            let first = match &spec.value {
                Value::Map(entries) => entries.first().map(|(key, _)| (key.at, key.text.clone())),
                _ => None,
            };
            let Some((key, _)) = first.filter(|(at, name)| is_block(&lines, *at, name)) else {
                return Err(refused("spec", reconciler, rules));
            };
            let margin = indent(&lines, key);
            let rules = items_of(rules, &format!("{margin}  "));
            (key.line as usize - 1, format!("{margin}rules:\n{rules}"))
        }
    };
    lines.insert(at.min(lines.len()), new);
    Ok(lines.concat())
}

fn items_of(rules: &[Rule], margin: &str) -> String {
    let items = rules.iter().map(|rule| format!("{margin}- {rule}\n"));
    items.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: Provider\nmetadata: {name: a}\n---\nkind: Reconciler # here\nmetadata: {name: a}\nspec:\n";

    fn with(spec: &str) -> Result<String> {
        let rules = ["one", "two"].map(|resource| Rule {
            resources: vec![resource.into()],
            ..Rule::default()
        });
        let new = with_rules(&format!("{HEAD}{spec}"), "a", &rules)?;
        let new = new.strip_prefix(HEAD).unwrap_or(&new);
        let [one, two] = rules.map(|rule| rule.to_string());
        Ok(new.replace(&one, "{one: 1}").replace(&two, "{two: 2}"))
    }

    #[test]
    fn rules_are_added_and_nothing_else_changes() -> Result<()> {
        let there = "  guest: {path: .}\n  rules:\n  # the first\n  - apiGroups: [x]\n    verbs: [get]\n  tenant: b\n";
        let new = there.replace("  - apiGroups", "  - {one: 1}\n  - {two: 2}\n  - apiGroups");
        assert_eq!(with(there)?, new);
        for rest in ["", " # none yet"] {
            let old = format!("  guest: {{path: .}}\n  rules: []{rest}\n  tenant: b\n");
            let new = old.replace("rules: []", "rules:");
            let new = new.replace("  tenant", "    - {one: 1}\n    - {two: 2}\n  tenant");
            assert_eq!(with(&old)?, new);
        }
        let last = with("  guest: {path: .}\n  rules: []")?;
        assert_eq!(
            last,
            "  guest: {path: .}\n  rules:\n    - {one: 1}\n    - {two: 2}\n"
        );
        let new = "  rules:\n    - {one: 1}\n    - {two: 2}\n  guest: {path: .}\n";
        assert_eq!(with("  guest: {path: .}\n")?, new);
        Ok(())
    }

    fn without(spec: &str, places: &[usize]) -> Result<String> {
        let new = without_rules(&format!("{HEAD}{spec}"), "a", places)?;
        Ok(new.strip_prefix(HEAD).unwrap_or(&new).to_owned())
    }

    #[test]
    fn rules_are_removed_and_nothing_else_changes() -> Result<()> {
        let there = "  rules:\n    # reads\n    - {one: 1}\n    - two: 2\n      more: # below\n        - x\n\n    # the last\n    - {three: 3} # here\n  tenant: b\n";
        let first = there.replace("    - {one: 1}\n", "");
        assert_eq!(without(there, &[0])?, first);
        let second = there.replace("    - two: 2\n      more: # below\n        - x\n", "");
        assert_eq!(without(there, &[1])?, second);
        let all = "  rules: []\n    # reads\n\n    # the last\n  tenant: b\n";
        assert_eq!(without(there, &[0, 1, 2])?, all);
        assert_eq!(with(all)?.matches("{two: 2}").count(), 1);
        let refused = without("  rules: [{one: 1}, {two: 2}]\n", &[0]).unwrap_err();
        assert!(
            refused.to_string().contains("remove them yourself"),
            "{refused}"
        );
        Ok(())
    }

    #[test]
    fn what_is_in_brackets_is_left_to_its_author() {
        for spec in [
            "  rules: [{apiGroups: [x]}]\n",
            "  rules:\n    []\n",
            "  {guest: {path: .}}\n",
            "  {\n  guest: {path: .}\n  }\n",
        ] {
            let error = with(spec).unwrap_err().to_string();
            assert!(
                error.contains("of Reconciler a") && error.contains("resources: [two]"),
                "{error}"
            );
        }
        let error = with_rules(HEAD, "other", &[]).unwrap_err().to_string();
        assert_eq!(error, "there is no Reconciler other with a spec");
    }
}
