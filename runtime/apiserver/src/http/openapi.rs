//! `/openapi/v2` and `/openapi/v3`: [`serve`].

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, Routed, json, raw};
use crate::status::ApiError;

mod document;

/// A `openapi.v2.Document` with `swagger: "2.0"` and an `info` of title and version, as protocol buffers write it.
const V2_PROTOBUF: &[u8] = b"\x0a\x032.0\x12\x13\x0a\x0aKubernetes\x12\x051.36.";

pub(super) fn serve(request: &Routed, rest: &[&str]) -> Result<Answer, ApiError> {
    match rest {
        ["v2"]
            if request.accept.contains("protobuf")
                && !request.accept.contains("application/json") =>
        {
            Ok(raw(
                200,
                "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                Bytes::from_static(V2_PROTOBUF),
            ))
        }
        ["v2"] => Ok(json(
            200,
            &json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": {}, "definitions": {}}),
        )),
        ["v3"] => Ok(json(200, &index(request))),
        ["v3", "api", version] => document(request, "", version),
        ["v3", "apis", group, version] => document(request, group, version),
        _ => Err(ApiError::no_such_resource()),
    }
}

/// Every group and version with the address of its document; the hash changes when the document does.
fn index(request: &Routed) -> Value {
    request.cluster.with(|state| {
        let registry = &state.registry;
        let mut paths = Map::new();
        for group in std::iter::once("").chain(registry.groups()) {
            for version in registry.versions(group) {
                let path = if group.is_empty() {
                    format!("api/{version}")
                } else {
                    format!("apis/{group}/{version}")
                };
                let hash: String =
                    Sha256::digest(document::of(registry, group, version).to_string())
                        .iter()
                        .map(|byte| format!("{byte:02X}"))
                        .collect();
                paths.insert(
                    path.clone(),
                    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
                );
            }
        }
        json!({ "paths": paths })
    })
}

fn document(request: &Routed, group: &str, version: &str) -> Result<Answer, ApiError> {
    let document = request.cluster.with(|state| {
        let known = state.registry.versions(group).contains(&version);
        known.then(|| document::of(&state.registry, group, version))
    });
    document
        .map(|document| json(200, &document))
        .ok_or_else(ApiError::no_such_resource)
}
