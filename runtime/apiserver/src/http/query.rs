//! Query parameters of reads and writes, checked as the server checks them.

use serde_json::Value;

use super::Routed;
use crate::call::Call;
use crate::kcp::window::Window;
use crate::resource::Resource;
use crate::selector::{Fields, Labels};
use crate::status::{ApiError, FieldError, Subject};
use crate::write::{FieldValidation, WriteOptions};

/// Which objects a read is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) labels: Labels,
    pub(crate) fields: Fields,
    /// Only objects that are being deleted.
    pub(crate) deleting: bool,
}

/// How `resourceVersion` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The newest state.
    Latest,
    /// Whatever is at hand.
    Any,
    NotOlderThan(u64),
    Exactly(u64),
}

/// # Errors
/// 400 for a selector that cannot be read or a field that the resource cannot be selected by.
pub(crate) fn selection(request: &Routed, resource: &Resource) -> Result<Selection, ApiError> {
    let call = &request.call;
    let bad = |why: String| ApiError::bad_request(format!("unable to parse selector: {why}"));
    let mut labels = Labels::parse(&call.parameter("labelSelector").unwrap_or_default())
        .map_err(ApiError::bad_request)?;
    if let Some((key, value)) = request.label(resource) {
        labels.also(key, value);
    }
    let fields =
        Fields::parse(&call.parameter("fieldSelector").unwrap_or_default()).map_err(bad)?;
    if let Some(field) = fields.unknown(|field| selectable(resource, field)) {
        return Err(ApiError::bad_request(unsupported(resource, field)));
    }
    let deleting = request.window.as_ref().is_some_and(Window::deleting_only);
    Ok(Selection {
        labels,
        fields,
        deleting,
    })
}

fn unsupported(resource: &Resource, field: &str) -> String {
    let known = matches!(
        resource.plural.as_str(),
        "pods" | "events" | "nodes" | "namespaces" | "secrets"
    );
    if known && !resource.custom {
        format!("field label not supported: {field}")
    } else {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }
}

fn selectable(resource: &Resource, field: &str) -> bool {
    if field == "metadata.name"
        || (field == "metadata.namespace" && (resource.namespaced || !resource.custom))
    {
        return true;
    }
    let known: &[&str] = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "reason",
            "reportingController",
            "type",
        ],
        _ => &[],
    };
    known.contains(&field)
}

pub(crate) fn unreadable_version(version: &str) -> String {
    format!(
        "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
    )
}

/// # Errors
/// 422 for a version without meaning or a match without a version.
pub(crate) fn freshness(call: &Call) -> Result<Freshness, ApiError> {
    let version = call.parameter("resourceVersion").unwrap_or_default();
    let rule = call.parameter("resourceVersionMatch").unwrap_or_default();
    let invalid = |errors: &[FieldError]| {
        ApiError::invalid(
            Subject {
                group: "meta.k8s.io",
                plural: "",
                kind: "ListOptions",
            },
            "",
            errors,
        )
    };
    if version.is_empty() {
        return if rule.is_empty() {
            Ok(Freshness::Latest)
        } else {
            Err(invalid(&[FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )]))
        };
    }
    let number: u64 = version.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: {}",
            unreadable_version(&version)
        ))
    })?;
    match (rule.as_str(), number) {
        ("Exact", 0) => Err(invalid(&[FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        )])),
        ("Exact", exact) => Ok(Freshness::Exactly(exact)),
        (_, 0) => Ok(Freshness::Any),
        ("NotOlderThan" | "", at_least) => {
            // A page of a list with a version and no match is a page of that very version.
            let paged =
                rule.is_empty() && call.parameter("limit").is_some_and(|limit| limit != "0");
            Ok(if paged {
                Freshness::Exactly(at_least)
            } else {
                Freshness::NotOlderThan(at_least)
            })
        }
        _ => {
            let supported = ["Exact", "NotOlderThan", ""].map(str::to_owned);
            Err(invalid(&[FieldError::not_supported(
                "resourceVersionMatch",
                &Value::from(rule),
                &supported,
            )]))
        }
    }
}

/// Only a watch can be asked for what there is.
///
/// # Errors
/// 422 for a list with `sendInitialEvents`.
pub(crate) fn refuse_streaming(call: &Call) -> Result<(), ApiError> {
    if call.parameter("sendInitialEvents").is_none() {
        return Ok(());
    }
    let subject = Subject {
        group: "meta.k8s.io",
        plural: "",
        kind: "ListOptions",
    };
    let refused = FieldError::forbidden(
        "sendInitialEvents",
        "sendInitialEvents is forbidden for list",
    );
    Err(ApiError::invalid(subject, "", &[refused]))
}

/// # Errors
/// 422 for a value that does not exist, a manager that is too long, or an apply without one.
pub(crate) fn write_options(
    call: &Call,
    kind: &'static str,
    apply: bool,
) -> Result<WriteOptions, ApiError> {
    let mut errors = Vec::new();
    let dry_run = match call.parameter("dryRun").as_deref() {
        None | Some("") => false,
        Some("All") => true,
        Some(other) => {
            errors.push(FieldError::not_supported(
                "dryRun",
                &serde_json::json!([other]),
                &["All".to_owned()],
            ));
            false
        }
    };
    let validation = match call.parameter("fieldValidation").as_deref() {
        None | Some("" | "Warn") => FieldValidation::Warn,
        Some("Strict") => FieldValidation::Strict,
        Some("Ignore") => FieldValidation::Ignore,
        Some(other) => {
            let supported = ["", "Ignore", "Strict", "Warn"].map(str::to_owned);
            errors.push(FieldError::not_supported(
                "fieldValidation",
                &Value::from(other),
                &supported,
            ));
            FieldValidation::Warn
        }
    };
    let given = call.parameter("fieldManager").unwrap_or_default();
    if given.len() > 128 {
        errors.push(FieldError::too_long("fieldManager", 128));
    }
    if apply && given.is_empty() {
        errors.push(FieldError::required(
            "fieldManager",
            "is required for apply patch",
        ));
    }
    let force = call.flag("force");
    if !apply && call.parameter("force").is_some() && kind == "PatchOptions" {
        errors.push(FieldError::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid(
            Subject {
                group: "meta.k8s.io",
                plural: "",
                kind,
            },
            "",
            &errors,
        ));
    }
    let agent = call.user_agent.split('/').next().unwrap_or_default();
    let manager = if given.is_empty() {
        agent.chars().take(128).collect()
    } else {
        given
    };
    Ok(WriteOptions {
        dry_run,
        manager,
        validation,
        force,
        twice: Vec::new(),
    })
}
