//! Subresources that are created and not kept: the binding and the eviction of a pod, the token of a service account. Entry point: [`serve`].

use std::sync::Arc;

use serde_json::{Value, json};

use super::accept::view;
use super::{Answer, Routed, json as answer, query, warn};
use crate::body;
use crate::call::Verb;
use crate::resource::{Resource, Subresource};
use crate::status::ApiError;
use crate::write::{admit, check_identity};

pub(super) fn serve(
    request: &Routed,
    resource: &Arc<Resource>,
    action: &Subresource,
) -> Result<Answer, ApiError> {
    let call = &request.call;
    if call.verb != Verb::Create {
        return Err(ApiError::method_not_allowed());
    }
    view(&request.accept)?;
    let mut options = query::write_options(call, "CreateOptions", false)?;
    let (mut body, twice) = body::parse(&request.body, &request.media_type)?;
    options.twice = twice;
    check_identity(&action.kind, &call.namespace, &mut body)?;
    let warnings = admit(&action.kind, &mut body, &options)?;
    let at = (call.namespace.as_str(), call.name.as_str());
    let made = request.cluster.with(|state| match action.name.as_str() {
        "binding" => state
            .bind(resource, at, &body, options.dry_run)
            .map(|()| success()),
        "eviction" => state
            .evict(resource, at, &body, options.dry_run)
            .map(|()| success()),
        _ => state.issue_token((resource, &action.kind), at, body, &options),
    })?;
    let mut answer = answer(201, &made);
    warn(&mut answer, &warnings);
    Ok(answer)
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}
