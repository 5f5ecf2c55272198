//! The `Accept` header: [`View`], the form in which an answer is wanted.

use crate::status::ApiError;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    /// `PartialObjectMetadata` and its list.
    Metadata,
    Table,
}

const ACCEPTED: &str = "application/json";

/// The first form of the header that this server makes.
///
/// # Errors
/// 406 where it makes none of them.
pub(crate) fn view(accept: &str) -> Result<View, ApiError> {
    if accept.trim().is_empty() {
        return Ok(View::Object);
    }
    accept
        .split(',')
        .find_map(one)
        .ok_or_else(|| ApiError::not_acceptable(ACCEPTED))
}

fn one(range: &str) -> Option<View> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, "application/json" | "*/*" | "application/*") {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let find = |key: &str| {
        parameters
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| *value)
    };
    let meta_v1 = find("g") == Some("meta.k8s.io") && find("v") == Some("v1");
    match find("as") {
        None => Some(View::Object),
        Some("Table") if meta_v1 => Some(View::Table),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta_v1 => {
            Some(View::Metadata)
        }
        Some(_) => None,
    }
}

/// Whether aggregated discovery is asked for, and in which version.
pub(crate) fn aggregated(accept: &str) -> Option<&'static str> {
    accept.split(',').find_map(|range| {
        let wanted =
            range.contains("as=APIGroupDiscoveryList") && range.contains("g=apidiscovery.k8s.io");
        match (wanted, range.contains("v=v2beta1")) {
            (true, true) => Some("v2beta1"),
            (true, false) => Some("v2"),
            (false, _) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_form_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(view(kubectl), Ok(View::Table));
        assert_eq!(
            view("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Ok(View::Metadata)
        );
        assert_eq!(
            view("application/vnd.kubernetes.protobuf, application/json"),
            Ok(View::Object)
        );
        assert_eq!(view(""), Ok(View::Object));
        assert!(view("application/vnd.kubernetes.protobuf").is_err());
    }
}
