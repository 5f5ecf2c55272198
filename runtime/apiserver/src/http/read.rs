//! GET of one object and of many: [`get`] and [`list`].

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::accept::{View, view};
use super::continuation::Token;
use super::query::{self, Freshness, Selection};
use super::{Answer, Routed, json, object_routes, raw, table};
use crate::convert;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Compacted, Object, Page, key};

pub(crate) fn get(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let call = &request.call;
    let as_of = request.as_of(&resource.collection());
    let object = request.cluster.with(|state| {
        let key = key(&call.namespace, &call.name);
        let then = state.store.at(&resource.collection(), &key, as_of);
        then.cloned()
            .ok_or_else(|| ApiError::not_found(resource.subject(), &call.name))
    })?;
    if let Freshness::NotOlderThan(version) = query::freshness(call)? {
        check_reached(request, version)?;
    }
    if view(&request.accept)? == View::Object && resource.stored() {
        return Ok(raw(200, "application/json", object.bytes().clone()));
    }
    object_routes::in_view(
        request,
        resource,
        200,
        convert::from_storage(&object, resource),
    )
}

/// A version that this cluster has not reached is an error; there is no replica to wait for.
fn check_reached(request: &Routed, version: u64) -> Result<(), ApiError> {
    let current = request.cluster.version().min(request.as_of);
    if version > current {
        Err(ApiError::too_large_version(version, current))
    } else {
        Ok(())
    }
}

pub(crate) fn list(request: &Routed, resource: &Arc<Resource>) -> Result<Answer, ApiError> {
    let call = &request.call;
    let form = view(&request.accept)?;
    let selection = query::selection(request, resource)?;
    let page = page(request, resource, &selection)?;
    let mut metadata = json!({ "resourceVersion": page.version.to_string() });
    if let Some((start, left)) = &page.rest {
        metadata["continue"] = Token {
            version: Some(page.version),
            start: start.to_string(),
        }
        .encode()
        .into();
        if selection.labels.is_empty() && selection.fields.is_empty() {
            metadata["remainingItemCount"] = json!(left);
        }
    }
    if resource.custom && page.rest.is_none() && form == View::Object {
        metadata["continue"] = "".into();
    }
    Ok(match form {
        View::Object => raw(
            200,
            "application/json",
            write_list(resource, &page.objects, &metadata),
        ),
        View::Metadata => {
            let items: Vec<Value> = page
                .objects
                .iter()
                .map(|object| metadata_only(&convert::from_storage(object, resource)))
                .collect();
            json(
                200,
                &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}),
            )
        }
        View::Table => {
            let objects: Vec<Value> = page
                .objects
                .iter()
                .map(|object| convert::from_storage(object, resource))
                .collect();
            json(
                200,
                &table::of_objects(resource, &objects, &metadata, table::include(call)?),
            )
        }
    })
}

fn page(
    request: &Routed,
    resource: &Arc<Resource>,
    selection: &Selection,
) -> Result<Page, ApiError> {
    let call = &request.call;
    let token = call
        .parameter("continue")
        .filter(|token| !token.is_empty())
        .map(|token| Token::decode(&token))
        .transpose()?;
    query::refuse_streaming(call)?;
    let freshness = query::freshness(call)?;
    if token.is_some() && !matches!(freshness, Freshness::Latest | Freshness::Any) {
        return Err(ApiError::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    if let Freshness::NotOlderThan(version) | Freshness::Exactly(version) = freshness {
        check_reached(request, version)?;
    }
    let at = match (&token, freshness) {
        (Some(token), _) => token.version,
        (None, Freshness::Exactly(version)) => Some(version),
        _ => None,
    };
    let as_of = request.as_of(&resource.collection());
    let at = at
        .or(Some(as_of))
        .filter(|at| *at < request.cluster.version());
    // A list of whatever is at hand comes from a cache, which does not page.
    let limit = call
        .parameter("limit")
        .and_then(|limit| limit.parse::<usize>().ok())
        .filter(|limit| *limit > 0 && freshness != Freshness::Any);
    let prefix = request.prefix();
    let from = token.as_ref().map(|token| token.start.as_str());
    let page = request.cluster.with(|state| {
        let id = resource.collection();
        let keep = |key: &str, object: &Object| {
            selected(object, resource, selection)
                && (!request.only_living || state.store.get(&id, key).is_some())
        };
        state.store.page(
            &resource.collection(),
            &prefix,
            from,
            at,
            limit.unwrap_or(usize::MAX),
            keep,
        )
    });
    page.map_err(|Compacted { .. }| match token {
        Some(token) => {
            let mut error = ApiError::expired(EXPIRED_TOKEN);
            error.continue_token = Some(
                Token {
                    version: None,
                    ..token
                }
                .encode(),
            );
            error
        }
        None => ApiError::expired("The resourceVersion for the provided list is too old."),
    })
}

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Whether an object is one of those that were asked for.
pub(crate) fn selected(object: &Object, resource: &Resource, selection: &Selection) -> bool {
    (object.head.deleting || !selection.deleting) && matches(object, resource, selection)
}

/// Whether the selectors let an object through.
pub(crate) fn matches(object: &Object, resource: &Resource, selection: &Selection) -> bool {
    let Selection { labels, fields, .. } = selection;
    if !labels.matches(|key| object.label(key))
        || !fields.matches_identity(&object.head.namespace, &object.head.name)
    {
        return false;
    }
    fields.only_identity() || fields.matches(&convert::from_storage(object, resource))
}

/// The text of a list; items of built-in kinds have no kind and apiVersion.
pub(crate) fn write_list(resource: &Resource, objects: &[Arc<Object>], metadata: &Value) -> Bytes {
    let mut out = BytesMut::with_capacity(
        128 + objects
            .iter()
            .map(|object| object.bytes().len())
            .sum::<usize>(),
    );
    let head = format!(
        "{{\"kind\":{:?},\"apiVersion\":{:?},\"metadata\":{metadata},\"items\":[",
        resource.list_kind,
        resource.api_version()
    );
    out.put_slice(head.as_bytes());
    for (at, object) in objects.iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        if resource.stored() {
            object.write_item(&mut out, resource.custom);
        } else {
            let converted =
                Object::new(convert::from_storage(object, resource), object.head.version);
            converted.write_item(&mut out, resource.custom);
        }
    }
    out.put_slice(b"]}");
    out.freeze()
}

/// An object reduced to its metadata.
pub(crate) fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
