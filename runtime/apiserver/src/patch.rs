//! The three patches that are not apply: [`Patch`], JSON patch, merge patch and strategic merge patch.

use serde_json::Value;

use crate::schema::Schema;
use crate::status::ApiError;

mod strategic;

/// A patch by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patch {
    Json,
    Merge,
    Strategic,
    Apply,
}

const ACCEPTED_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Patch {
    /// Reads a media type; kinds made by CRDs know no strategic patch.
    ///
    /// # Errors
    /// 415 naming what is accepted.
    pub(crate) fn of(media_type: &str, custom: bool) -> Result<Self, ApiError> {
        match media_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Self::Apply),
            _ if custom => Err(ApiError::unsupported_media(format!(
                "the body of the request was in an unknown format - accepted media types include: {ACCEPTED_CUSTOM}"
            ))),
            _ => {
                let mut error = ApiError::unsupported_media("415: Unsupported Media Type");
                error.details = Some(serde_json::json!({}));
                Err(error)
            }
        }
    }

    /// Patches a document.
    ///
    /// # Errors
    /// What the server answers to a patch that cannot be read or does not fit.
    pub(crate) fn run(
        self,
        live: &Value,
        patch: &Value,
        schema: Schema<'_>,
    ) -> Result<Value, ApiError> {
        match self {
            Self::Json => json(live, patch),
            Self::Merge => {
                let mut patched = live.clone();
                json_patch::merge(&mut patched, patch);
                Ok(patched)
            }
            Self::Strategic => strategic::patch(live, patch, schema).map_err(ApiError::bad_request),
            Self::Apply => Err(ApiError::internal("an apply is not a patch of a document")),
        }
    }
}

fn json(live: &Value, patch: &Value) -> Result<Value, ApiError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    let mut patched = live.clone();
    if json_patch::patch(&mut patched, &operations).is_err() {
        let mut error = ApiError::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        error.details = Some(serde_json::json!({}));
        return Err(error);
    }
    Ok(patched)
}
