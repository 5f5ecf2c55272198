//! Requests about resources, by verb.

use std::sync::Arc;

use serde_json::{Value, json};

use super::accept::{View, view};
use super::{Answer, Routed, json, query, read, scale, table, warn, watch};
use crate::body;
use crate::call::Verb;
use crate::kinds;
use crate::part::Part;
use crate::patch::Patch;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::write::Outcome;
use crate::write::delete::{DeleteOptions, Deleted};

/// Answers a request about a resource.
pub(crate) fn serve(request: &Routed) -> Result<Answer, ApiError> {
    let call = &request.call;
    let resource = request
        .registry(|registry| {
            registry
                .find(&call.group, &call.version, &call.resource)
                .cloned()
        })
        .ok_or_else(ApiError::no_such_resource)?;
    if !call.namespace.is_empty() && !resource.namespaced {
        return Err(ApiError::no_such_resource());
    }
    if resource.namespaced && call.namespace.is_empty() && !call.name.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let part = match call.subresource.as_str() {
        "" => Part::Main,
        "status" if resource.status => Part::Status,
        "finalize" if resource.is("", "namespaces") => Part::Finalize,
        "scale" if resource.scale.is_some() && request.window.is_none() => {
            return scale::serve(request, &resource);
        }
        _ => return Err(ApiError::no_such_resource()),
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
    let Some((key, value)) = request
        .label(resource)
        .filter(|_| !request.call.name.is_empty())
    else {
        return Ok(());
    };
    let call = &request.call;
    let hidden = request.cluster.with(|state| {
        let found = state.object(resource, &call.namespace, &call.name);
        found.is_ok_and(|object| object.label(key) != Some(value))
    });
    if hidden {
        return Err(ApiError::not_found(resource.subject(), &call.name));
    }
    Ok(())
}

fn create(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let mut options = query::write_options(&request.call, "CreateOptions", false)?;
    let (object, twice) = body::parse(&request.body, &request.media_type)?;
    options.twice = twice;
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
    let outcome = request
        .cluster
        .with(|state| state.update(resource, at, part, object, &options))?;
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
    let outcome = request
        .cluster
        .with(|state| state.patch(resource, at, part, (kind, &patch), &options))?;
    shown(request, resource, outcome)
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
