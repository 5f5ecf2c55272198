//! The scale subresource: [`serve`] shows replicas as an `autoscaling/v1` Scale and writes them back.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Routed, json as answer, query};
use crate::body;
use crate::call::Verb;
use crate::convert;
use crate::part::Part;
use crate::patch::Patch;
use crate::resource::{Resource, Scale};
use crate::schema::Schema;
use crate::status::ApiError;

pub(super) fn serve(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let call = &request.call;
    let Some(places) = &resource.scale else {
        return Err(ApiError::no_such_resource());
    };
    let live = request
        .cluster
        .with(|state| state.object(resource, &call.namespace, &call.name).cloned())?;
    let object = convert::from_storage(&live, resource);
    let current = scale_of(&object, places);
    let wanted = match call.verb {
        Verb::Get => return Ok(answer(200, &current)),
        Verb::Update => body::parse(&request.body, &request.media_type)?.0,
        Verb::Patch => {
            let kind = Patch::of(&request.media_type, false)?;
            let patch = body::parse(&request.body, &request.media_type)?.0;
            if kind == Patch::Apply {
                Patch::Merge.run(&current, &patch, Schema::any())?
            } else {
                kind.run(&current, &patch, Schema::any())?
            }
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let error = crate::status::FieldError::invalid(
            "spec.replicas",
            &replicas.into(),
            "must be greater than or equal to 0",
        );
        let subject = crate::status::Subject {
            group: "autoscaling",
            plural: "scales",
            kind: "Scale",
        };
        return Err(ApiError::invalid(subject, &call.name, &[error]));
    }
    let mut changed = object;
    set(&mut changed, &places.spec_replicas, replicas.into());
    if let Some(version) = wanted["metadata"]["resourceVersion"].as_str() {
        changed["metadata"]["resourceVersion"] = version.into();
    }
    let options = query::write_options(call, "UpdateOptions", false)?;
    let at = (call.namespace.as_str(), call.name.as_str());
    let outcome = request
        .cluster
        .with(|state| state.update(resource, at, Part::Scale, changed, &options))?;
    Ok(answer(200, &scale_of(&outcome.object, places)))
}

fn scale_of(object: &Value, places: &Scale) -> Value {
    let metadata = &object["metadata"];
    let mut shown = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = metadata.get(field) {
            shown[field] = value.clone();
        }
    }
    let number = |path: &[String]| at(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut spec = json!({});
    if number(&places.spec_replicas) != 0 {
        spec["replicas"] = number(&places.spec_replicas).into();
    }
    let mut status = json!({ "replicas": number(&places.status_replicas) });
    let selector = places
        .selector
        .as_ref()
        .and_then(|path| at(object, path))
        .map(selector_text)
        .filter(|text| !text.is_empty());
    if let Some(selector) = selector {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status})
}

fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        other => {
            let labels = other.get("matchLabels").unwrap_or(other).as_object();
            let pairs: Vec<String> = labels
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
                .collect();
            pairs.join(",")
        }
    }
}

fn at<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, step| value.get(step))
}

fn set(object: &mut Value, path: &[String], to: Value) {
    let Some((last, way)) = path.split_last() else {
        return;
    };
    let mut place = object;
    for step in way {
        if !place[step.as_str()].is_object() {
            place[step.as_str()] = json!({});
        }
        place = &mut place[step.as_str()];
    }
    place[last.as_str()] = to;
}
