//! What goes down: the copy's fields, made from the consumer's object. Entry points: [`wanted`] and [`is_within`].

use crate::config::{Mutation, Published};
use crate::digest::digest;
use crate::template::{Facts, HASH, Values, text_of};
use crate::trouble::Trouble;
use serde_json::{Value, json};
use windlass_sdk::prelude::*;

/// The fields of the copy, with the labels and annotations that go down. Without its kind, name and marks.
pub(crate) fn wanted(
    published: &Published,
    source: &Object,
    facts: &Facts,
) -> Result<Value, Trouble> {
    let down = &published.down;
    let mut copy = json!({});
    if down.fields.is_empty() {
        for (name, value) in source.0.as_object().into_iter().flatten() {
            if !["apiVersion", "kind", "metadata", "status"].contains(&&**name) {
                copy[name.as_str()] = value.clone();
            }
        }
    }
    for path in &down.fields {
        if let Some(value) = path.find(&source.0).first() {
            path.set(&mut copy, value);
        }
    }
    for (part, keys) in [("labels", &down.labels), ("annotations", &down.annotations)] {
        let there = source.0["metadata"][part].as_object();
        for (key, value) in there.into_iter().flatten() {
            if keys.iter().any(|wanted| fits(wanted, key)) {
                copy["metadata"][part][key.as_str()] = value.clone();
            }
        }
    }
    let changed = mutate(&down.mutations, &mut copy, &source.0, facts);
    changed.map_err(|path| {
        let message = format!("{path} has no value, which the service needs: set it");
        Trouble::consumer("SpecInvalid", message)
    })?;
    without_nulls(&mut copy);
    Ok(copy)
}

/// Whether a key is meant; one that ends in `*` is the beginning of keys.
fn fits(wanted: &str, key: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => key.starts_with(start),
        None => wanted == key,
    }
}

/// Carries mutations out on `object`; templates read fields of `source`.
///
/// # Errors
/// The path of a field that a template needs and that is not there. The other mutations are carried out all the same.
pub(crate) fn mutate(
    mutations: &[Mutation],
    object: &mut Value,
    source: &Value,
    facts: &Facts,
) -> Result<(), String> {
    let hash = digest([&*facts.cluster, &facts.namespace, &facts.name], HASH);
    let mut missing = None;
    for mutation in mutations {
        let Some(template) = &mutation.template else {
            match &mutation.set {
                Some(value) => mutation.path.set(object, value),
                None => mutation.path.remove(object),
            }
            continue;
        };
        let mut fill = |value: &str| {
            let values = Values {
                facts,
                object: source,
                value,
                hash: &hash,
            };
            let filled = template.fill(&values, &mut str::to_owned);
            filled
                .map_err(|path| missing.get_or_insert(path).clone())
                .ok()
        };
        if template.uses(crate::template::Variable::Value) {
            mutation.path.change(object, &mut |there| {
                if let Some(filled) = text_of(there).and_then(|text| fill(&text)) {
                    *there = json!(filled);
                }
            });
        } else if let Some(filled) = fill("") {
            mutation.path.set(object, &json!(filled));
        }
    }
    missing.map_or(Ok(()), Err)
}

/// A field that is null is absent.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Whether all of `wanted` is there. The service's own side may add fields, such as defaults.
pub(crate) fn is_within(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Object(wanted), Value::Object(there)) => wanted.iter().all(|(name, wanted)| {
            let there = there.get(name);
            there.is_some_and(|there| is_within(wanted, there))
        }),
        (Value::Array(wanted), Value::Array(there)) => {
            let mut pairs = wanted.iter().zip(there);
            wanted.len() == there.len() && pairs.all(|(wanted, there)| is_within(wanted, there))
        }
        (wanted, there) => wanted == there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::published;

    fn facts() -> Facts {
        Facts {
            cluster: "1x2y3z".into(),
            namespace: "default".into(),
            name: "bin".into(),
            ..Facts::default()
        }
    }

    fn down(down: Value) -> Result<Value, Trouble> {
        let source = Object(json!({
            "apiVersion": "example.com/v1", "kind": "HttpBin",
            "metadata": {"name": "bin", "labels": {"team/a": "1", "team/b": "2", "mine": "3"}, "annotations": {"note": "x"}},
            "spec": {"region": "eu", "port": 80, "empty": null, "debug": true}, "data": {"a": "b"}, "status": {"url": "x"},
        }));
        wanted(&published(json!({"down": down})), &source, &facts())
    }

    #[test]
    fn everything_but_metadata_and_status_goes_down() {
        let copy = down(json!({})).unwrap();
        assert_eq!(
            copy,
            json!({"spec": {"region": "eu", "port": 80, "debug": true}, "data": {"a": "b"}})
        );
    }

    #[test]
    fn fields_labels_and_annotations_are_chosen() {
        let chosen = json!({"fields": ["spec.region", "spec.absent"], "labels": ["team/*"], "annotations": ["note"]});
        assert_eq!(
            down(chosen).unwrap(),
            json!({"metadata": {"labels": {"team/a": "1", "team/b": "2"}, "annotations": {"note": "x"}}, "spec": {"region": "eu"}})
        );
    }

    #[test]
    fn mutations_set_delete_and_fill_in() {
        let mutations = json!({"fields": ["spec.region", "spec.debug"], "mutations": [
            {"path": "spec.replicas", "set": 2}, {"path": "spec.debug", "delete": true},
            {"path": "spec.host", "template": "{name}.{.spec.region}.example.com"},
            {"path": "spec.region", "template": "{value}-1"}, {"path": "spec.absent", "template": "{value}!"},
            {"path": "metadata.labels.by", "set": "sync"}]});
        assert_eq!(
            down(mutations).unwrap(),
            json!({"metadata": {"labels": {"by": "sync"}}, "spec": {"replicas": 2, "host": "bin.eu.example.com", "region": "eu-1"}})
        );
        let missing = json!({"mutations": [{"path": "spec.host", "template": "{.spec.zone}"}]});
        let condition = down(missing).unwrap_err().condition().unwrap();
        assert!(condition.message.starts_with("spec.zone has no value"));
    }

    #[test]
    fn what_the_service_adds_is_no_difference() {
        let wanted = json!({"spec": {"a": 1, "list": [{"x": 1}]}});
        let more = json!({"spec": {"a": 1, "b": 2, "list": [{"x": 1, "y": 2}]}});
        assert!(is_within(&wanted, &more) && !is_within(&more, &wanted));
        assert!(!is_within(&wanted, &json!({"spec": {"a": 1, "list": []}})));
    }
}
