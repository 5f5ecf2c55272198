//! Adds rules to a file of documents, and leaves the rest of it as it is. Entry point: [`with_rules`].

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

/// Whether the new text has the rules before those of the old one, and is the same otherwise.
fn is_as_meant(old: &str, new: &str, reconciler: &str, rules: &[Rule]) -> bool {
    let (Some(mut old), Some(new)) = (values(old), values(new)) else {
        return false;
    };
    let of_name =
        |one: &&mut Json| one["kind"] == "Reconciler" && one["metadata"]["name"] == reconciler;
    if let Some(document) = old.iter_mut().find(of_name) {
        let before = document["spec"]["rules"].as_array().cloned();
        let added = rules.iter().map(|rule| json!(rule));
        document["spec"]["rules"] = added.chain(before.unwrap_or_default()).collect();
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

fn inserted(text: &str, reconciler: &str, rules: &[Rule]) -> Result<String> {
    let file: Arc<str> = "".into();
    let documents = split(text);
    let mut nodes = documents.iter().filter_map(|part| part.parse(&file).ok());
    let is_it = |node: &Node| {
        let text = |node: Option<&Node>| node.and_then(Node::as_text).map(str::to_owned);
        text(node.get("kind")).as_deref() == Some("Reconciler")
            && text(node.get("metadata").and_then(|node| node.get("name"))).as_deref()
                == Some(reconciler)
    };
    let Some(spec) = nodes.find(is_it).and_then(|node| node.get("spec").cloned()) else {
        bail!("there is no Reconciler {reconciler} with a spec");
    };
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
