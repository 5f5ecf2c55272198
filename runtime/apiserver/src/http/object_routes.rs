//! Requests about resources, by verb.

use std::sync::Arc;

use serde_json::{Value, json};

use super::accept::{View, view};
use super::{Answer, Routed, actions, json, query, read, scale, table, warn, watch};
use crate::body;
use crate::call::Verb;
use crate::kcp::window::Window;
use crate::kinds;
use crate::part::Part;
use crate::patch::Patch;
use crate::resource::Resource;
use crate::state::State;
use crate::status::ApiError;
use crate::write::delete::{DeleteOptions, Deleted};
use crate::write::{Outcome, WriteOptions};

/// Answers a request about a resource.
pub(crate) fn serve(request: &Routed) -> Result<Answer, ApiError> {
    let call = &request.call;
    let found = request.registry(|registry| {
        let found = registry.find(&call.group, &call.version, &call.resource);
        found.cloned()
    });
    let Some(resource) = found else {
        return match request.window {
            Some(_) => Ok(super::page_not_found()),
            None => Err(ApiError::no_such_resource()),
        };
    };
    if !call.namespace.is_empty() && !resource.namespaced {
        return Err(ApiError::no_such_resource());
    }
    if resource.namespaced && call.namespace.is_empty() && !call.name.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let sub = call.subresource.as_str();
    if sub == "scale" && resource.scale.is_some() && request.window.is_none() {
        return scale::serve(request, &resource);
    }
    let Some(part) = Part::of_subresource(sub, &resource) else {
        return match resource.subresource(sub) {
            Some(action) if request.window.is_none() => actions::serve(request, &resource, action),
            _ if resource.custom => Err(ApiError::not_found(resource.subject(), &call.name)),
            _ => Err(ApiError::no_such_resource()),
        };
    };
    check_visible(request, &resource)?;
    match call.verb {
        Verb::Watch if resource.allows("watch") => watch::serve(request, &resource),
        Verb::List if resource.allows("list") => read::list(request, &resource),
        Verb::Get if resource.allows("get") => read::get(request, &resource),
        Verb::Create if call.name.is_empty() => create(request, &resource),
        Verb::Update if !call.name.is_empty() && resource.allows("update") => {
            update(request, &resource, part)
        }
        Verb::Patch if !call.name.is_empty() && resource.allows("patch") => {
            patch(request, &resource, part)
        }
        Verb::Delete if part == Part::Main && resource.allows("delete") => {
            delete(request, &resource)
        }
        Verb::DeleteCollection if resource.allows("deletecollection") => {
            delete_collection(request, &resource)
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// An object that is there and may not be seen is as absent.
fn check_visible(request: &Routed, resource: &Resource) -> Result<(), ApiError> {
    let call = &request.call;
    let Some(window) = request.window.as_ref().filter(|_| !call.name.is_empty()) else {
        return Ok(());
    };
    let Some((key, value)) = window.label(resource) else {
        return Ok(());
    };
    let hidden = request.cluster.with(|state| {
        let found = state.object(resource, &call.namespace, &call.name);
        found.is_ok_and(|object| {
            object.label(key) != Some(value) || window.deleting_only() && !object.head.deleting
        })
    });
    if hidden {
        return Err(ApiError::not_found(resource.subject(), &call.name));
    }
    Ok(())
}

fn create(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let mut options = query::write_options(&request.call, "CreateOptions", false)?;
    let (mut object, twice) = body::parse(&request.body, &request.media_type)?;
    options.twice = twice;
    if let Some(window) = request
        .window
        .as_ref()
        .filter(|_| object["metadata"].is_object())
    {
        window.complete(&request.call, &mut object);
    }
    if resource.namespaced && request.call.namespace.is_empty() && resource.allows("get") {
        return Err(ApiError::method_not_allowed());
    }
    if let Some(kcp) = &request.kcp {
        kcp.check_create(request.cluster.name(), resource, &object)?;
    }
    if let Some(answer) = kinds::review(resource, &object) {
        return Ok(json(201, &answer));
    }
    let outcome = request
        .cluster
        .with(|state| state.create(resource, &request.call.namespace, object, &options))?;
    shown(request, resource, outcome)
}

fn update(request: &Routed, resource: &Arc<Resource>, part: Part) -> Result<Answer, ApiError> {
    let mut options = query::write_options(&request.call, "UpdateOptions", false)?;
    let (object, twice) = body::parse(&request.body, &request.media_type)?;
    options.twice = twice;
    let at = (request.call.namespace.as_str(), request.call.name.as_str());
    let outcome = written(request, resource, |state, dry_run| {
        let options = WriteOptions {
            dry_run: options.dry_run || dry_run,
            ..options.clone()
        };
        state.update(resource, at, part, object.clone(), &options)
    })?;
    shown(request, resource, outcome)
}

fn patch(request: &Routed, resource: &Arc<Resource>, part: Part) -> Result<Answer, ApiError> {
    let kind = Patch::of(&request.media_type, resource.custom)?;
    let mut options = query::write_options(&request.call, "PatchOptions", kind == Patch::Apply)?;
    let (patch, twice) = body::parse(&request.body, &request.media_type)?;
    if kind != Patch::Json {
        options.twice = twice;
    }
    let at = (request.call.namespace.as_str(), request.call.name.as_str());
    let by_update = kind == Patch::Apply
        && request
            .window
            .as_ref()
            .is_some_and(Window::applies_by_update);
    let outcome = written(request, resource, |state, dry_run| {
        let options = WriteOptions {
            dry_run: options.dry_run || dry_run,
            ..options.clone()
        };
        if by_update {
            apply_by_update(state, resource, (at, part), &patch, &options)
        } else {
            state.patch(resource, at, part, (kind, &patch), &options)
        }
    })?;
    shown(request, resource, outcome)
}

/// Writes, once it is known that what it comes to may be written through the window. `write` is told whether to do without a trace.
fn written(
    request: &Routed,
    resource: &Resource,
    mut write: impl FnMut(&mut State, bool) -> Result<Outcome, ApiError>,
) -> Result<Outcome, ApiError> {
    let call = &request.call;
    request.cluster.with(|state| {
        if let Some(window) = request
            .window
            .as_ref()
            .filter(|window| window.is_of_actor())
            && let Ok(before) = state.object(resource, &call.namespace, &call.name)
        {
            let before = before.value();
            window.check_own_work(&before, &write(state, true)?.object)?;
        }
        write(state, false)
    })
}

/// An apply as virtual workspaces of exports do it: what it comes to is noted as an update, so that fields which are left out later
/// stay, and a manager conflicts with itself.
fn apply_by_update(
    state: &mut State,
    resource: &Arc<Resource>,
    (at, part): ((&str, &str), Part),
    patch: &Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let dry = WriteOptions {
        dry_run: true,
        ..options.clone()
    };
    let wanted = state.patch(resource, at, part, (Patch::Apply, patch), &dry)?;
    let written = if wanted.created {
        state.create(resource, at.0, wanted.object, options)?
    } else {
        state.update(resource, at, part, wanted.object, options)?
    };
    Ok(Outcome {
        warnings: wanted.warnings,
        ..written
    })
}

/// A written object in the form that was asked for.
pub(super) fn shown(
    request: &Routed,
    resource: &Resource,
    outcome: Outcome,
) -> Result<Answer, ApiError> {
    let code = if outcome.created { 201 } else { 200 };
    let mut answer = in_view(request, resource, code, outcome.object)?;
    warn(&mut answer, &outcome.warnings);
    Ok(answer)
}

pub(super) fn in_view(
    request: &Routed,
    resource: &Resource,
    code: u16,
    object: Value,
) -> Result<Answer, ApiError> {
    Ok(match view(&request.accept)? {
        View::Object => json(code, &object),
        View::Metadata => json(code, &read::metadata_only(&object)),
        View::Table => json(
            code,
            &table::of_objects(
                resource,
                std::slice::from_ref(&object),
                &object["metadata"],
                table::include(&request.call)?,
            ),
        ),
    })
}

fn delete_options(request: &Routed) -> Result<DeleteOptions, ApiError> {
    let call = &request.call;
    let mut body = if request.body.is_empty() {
        json!({})
    } else {
        body::parse(&request.body, &request.media_type)?.0
    };
    if let Some(seconds) = call
        .parameter("gracePeriodSeconds")
        .and_then(|text| text.parse::<i64>().ok())
    {
        body["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = call.parameter("propagationPolicy") {
        body["propagationPolicy"] = policy.into();
    }
    if call.parameter("orphanDependents").is_some() {
        body["orphanDependents"] = call.flag("orphanDependents").into();
    }
    if let Some(dry_run) = call.parameter("dryRun").filter(|value| !value.is_empty()) {
        body["dryRun"] = json!([dry_run]);
    }
    DeleteOptions::read(&body)
}

fn delete(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let options = delete_options(request)?;
    let call = &request.call;
    let deleted = request
        .cluster
        .with(|state| state.delete(resource, &call.namespace, &call.name, &options))?;
    if deleted.gone && !answers_with_object(resource) {
        return Ok(json(200, &success(resource, &deleted)));
    }
    in_view(request, resource, 200, deleted.object)
}

/// Built-in kinds whose deletion is answered with the object itself.
fn answers_with_object(resource: &Resource) -> bool {
    const KINDS: [&str; 6] = [
        "pods",
        "serviceaccounts",
        "persistentvolumeclaims",
        "persistentvolumes",
        "services",
        "resourcequotas",
    ];
    (resource.group.is_empty()
        && (KINDS.contains(&resource.plural.as_str()) || resource.plural == "podtemplates"))
        || resource.is("storage.k8s.io", "storageclasses")
}

fn success(resource: &Resource, deleted: &Deleted) -> Value {
    let mut details = json!({"name": deleted.object["metadata"]["name"], "kind": resource.plural, "uid": deleted.object["metadata"]["uid"]});
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_str().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn delete_collection(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let options = delete_options(request)?;
    let selection = query::selection(request, resource)?;
    let doomed = request.cluster.with(|state| {
        let prefix = request.prefix();
        let chosen: Vec<_> = state
            .store
            .range(&resource.collection(), &prefix)
            .filter(|object| read::selected(object, resource, &selection))
            .cloned()
            .collect();
        for object in &chosen {
            let one = DeleteOptions {
                uid: Some(object.head.uid.to_string()),
                ..options.clone()
            };
            state.delete(resource, &object.head.namespace, &object.head.name, &one)?;
        }
        Ok::<_, ApiError>(chosen)
    })?;
    let mut metadata = json!({ "resourceVersion": request.cluster.version().to_string() });
    if resource.custom {
        metadata["continue"] = "".into();
    }
    let body = read::write_list(resource, &doomed, &metadata);
    Ok(super::raw(200, "application/json", body))
}
