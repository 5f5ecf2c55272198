//! What tasks come to, as the program's lines have it. Entry points: [`description`], [`action`], [`requests`].

use crate::types::{Action, Description, Enqueue, Failure, Index, Request, Watch};
use crate::wire::{case, key, kind};
use serde_json::{Value, json};

pub(super) fn description(description: &Description) -> Value {
    json!({
        "title": description.title, "primary": description.primary.as_ref().map(kind),
        "watches": description.watches.iter().map(watch).collect::<Vec<_>>(),
        "indexes": description.indexes.iter().map(index).collect::<Vec<_>>(),
        "options": description.options,
    })
}

fn watch(watch: &Watch) -> Value {
    let enqueue = match &watch.enqueue {
        Enqueue::ByIndex(name) => json!({ "ByIndex": name }),
        other => case(other),
    };
    json!({
        "kind": kind(&watch.kind), "enqueue": enqueue, "clusters": case(&watch.clusters),
        "label_selector": watch.label_selector, "field_selector": watch.field_selector,
        "changes": watch.changes.iter().map(case).collect::<Vec<_>>(),
        "metadata_only": watch.metadata_only, "options": watch.options,
    })
}

fn index(index: &Index) -> Value {
    json!({
        "kind": kind(&index.kind), "name": index.name, "path": index.path,
        "namespace_path": index.namespace_path, "options": index.options,
    })
}

/// The result of a reconcile.
pub(super) fn action(result: crate::Result<Action>) -> super::Outcome {
    match result {
        Ok(Action::Done) => Ok("Done".into()),
        Ok(Action::RequeueAfterMs(delay)) => Ok(json!({ "RequeueAfterMs": delay })),
        Err(error) => Err(match error.into() {
            Failure::Retry(why) => json!({ "Retry": why }),
            Failure::Terminal(why) => json!({ "Terminal": why }),
        }),
    }
}

/// The result of a mapping.
pub(super) fn requests(requests: &[Request]) -> Value {
    let request = |one: &Request| json!({"cluster": one.cluster, "key": key(&one.key)});
    requests.iter().map(request).collect()
}
