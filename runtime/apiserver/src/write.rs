//! Writes: [`WriteOptions`] in, [`Outcome`] out. Create stands here; update, patch, delete, and what pods and service accounts have
//! beside, in the modules below.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::apply::{Managers, Writer};
use crate::builtin;
use crate::convert;
use crate::crd;
use crate::kinds;
use crate::metadata;
use crate::part::Part;
use crate::resource::Resource;
use crate::schema::{decode, defaults};
use crate::state::State;
use crate::status::{ApiError, Subject};
use crate::store::key;

mod bind;
pub(crate) mod delete;
mod evict;
pub(crate) mod patch;
mod token;
pub(crate) mod update;

/// What to do about fields that are unknown or given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

/// What a request says about a write beside the object.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
    /// Server-side apply takes fields from other managers.
    pub(crate) force: bool,
    /// Fields that the body gave twice.
    pub(crate) twice: Vec<String>,
}

/// What a write led to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// In the version of the request.
    pub(crate) object: Value,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

impl State {
    /// Creates an object.
    ///
    /// # Errors
    /// What kube-apiserver answers: wrong kind or namespace, invalid, no such namespace, already there.
    pub(crate) fn create(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        mut body: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        check_identity(resource, namespace, &mut body)?;
        let warnings = admit(resource, &mut body, options)?;
        let time = self.now();
        let reset = Part::Main.others(resource);
        let writer = Writer {
            manager: &options.manager,
            api_version: &resource.api_version(),
            subresource: Part::Main.name(),
            now: &time,
            reset: &reset,
        };
        strip_managed_fields(&mut body);
        let mut managers = Managers::default();
        managers.update(&empty_object(resource), &body, resource.schema(), &writer);
        self.insert(resource, namespace, body, managers, options, warnings)
    }

    /// The common end of creates by POST, by apply and by PUT.
    fn insert(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        mut body: Value,
        managers: Managers,
        options: &WriteOptions,
        warnings: Vec<String>,
    ) -> Result<Outcome, ApiError> {
        self.namespace_takes_objects(resource, namespace, &body)?;
        metadata::begin(resource, namespace, &mut body, self.now());
        if resource.status && !kinds::keeps_status_on_create(resource) {
            drop_status(&mut body);
        }
        self.prepare_create(resource, &mut body);
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let errors = kinds::validate(resource, &body, None);
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource.subject(), &name, &errors));
        }
        crd::names_free(&self.registry, resource, &body)?;
        let id = resource.collection();
        if self.store.get(&id, &key(namespace, &name)).is_some() {
            return Err(ApiError::already_exists(resource.subject(), &name));
        }
        managers.write(&mut body);
        if !resource.custom {
            decode::settle(&mut body, resource.schema());
        }
        if options.dry_run {
            return Ok(Outcome {
                object: body,
                created: true,
                warnings,
            });
        }
        let stored = self.commit(&id, convert::to_storage(body, resource));
        Ok(Outcome {
            object: convert::from_storage(&stored, resource),
            created: true,
            warnings,
        })
    }

    fn namespace_takes_objects(
        &self,
        resource: &Resource,
        namespace: &str,
        body: &Value,
    ) -> Result<(), ApiError> {
        if !resource.namespaced {
            return Ok(());
        }
        let subject = Subject {
            group: "",
            plural: "namespaces",
            kind: "Namespace",
        };
        let Some(found) = self.namespace(namespace) else {
            return Err(ApiError::not_found(subject, namespace));
        };
        if !found.head.deleting {
            return Ok(());
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = ApiError::forbidden(resource.subject(), name, &why);
        if let Some(details) = &mut error.details {
            details["causes"] = json!([{"reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]);
        }
        Err(error)
    }
}

/// The object before a create, from which field ownership is computed.
pub(crate) fn empty_object(resource: &Resource) -> Value {
    if resource.custom {
        json!({})
    } else {
        kinds::zero(resource)
    }
}

fn drop_status(body: &mut Value) {
    if let Some(object) = body.as_object_mut() {
        object.remove("status");
    }
}

pub(crate) fn strip_managed_fields(body: &mut Value) {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Group, version, kind and namespace of a body agree with the path it was sent to; the namespace is filled in.
pub(crate) fn check_identity(
    resource: &Resource,
    namespace: &str,
    body: &mut Value,
) -> Result<(), ApiError> {
    let wanted = resource.api_version();
    let (version, kind) = (
        body["apiVersion"].as_str().unwrap_or_default(),
        body["kind"].as_str().unwrap_or_default(),
    );
    if !body.is_object() {
        return Err(ApiError::bad_request(
            "couldn't get version/kind; json parse error: the body is not an object",
        ));
    }
    if resource.custom && (version.is_empty() || kind.is_empty()) {
        let missing = if kind.is_empty() {
            "Kind"
        } else {
            "apiVersion"
        };
        return Err(ApiError::bad_request(format!(
            "Object '{missing}' is missing in '{body}'"
        )));
    }
    if !version.is_empty() && version != wanted {
        let text = format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        );
        return Err(ApiError::bad_request(text));
    }
    if !kind.is_empty() && kind != resource.kind {
        let text = format!(
            "{} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version {wanted:?}",
            kind, resource.kind
        );
        return Err(ApiError::bad_request(text));
    }
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    let own = body["metadata"]["namespace"].as_str().unwrap_or_default();
    if resource.namespaced && !own.is_empty() && own != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !resource.namespaced {
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
    } else if !namespace.is_empty() {
        body["metadata"]["namespace"] = namespace.into();
    }
    body["apiVersion"] = wanted.into();
    body["kind"] = resource.kind.as_str().into();
    Ok(())
}

/// Decoding: unknown fields out, types checked, defaults in. Returns the warnings.
pub(crate) fn admit(
    resource: &Resource,
    body: &mut Value,
    options: &WriteOptions,
) -> Result<Vec<String>, ApiError> {
    let undecodable = |why: String| {
        ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            resource.kind, resource.version, resource.kind
        ))
    };
    let mut unknown = if resource.custom {
        let mut unknown = decode::custom(body, resource.schema());
        if let Some(id) = builtin::definition(builtin::OBJECT_META) {
            let schema = builtin::builtin().schemas.at(id);
            let found = decode::builtin(&mut body["metadata"], schema).map_err(undecodable)?;
            unknown.extend(found.into_iter().map(|field| format!("metadata.{field}")));
        }
        unknown
    } else {
        decode::builtin(body, resource.schema()).map_err(undecodable)?
    };
    unknown.sort();
    let findings: Vec<String> = options
        .twice
        .iter()
        .map(|field| format!("duplicate field {field:?}"))
        .chain(
            unknown
                .iter()
                .map(|field| format!("unknown field {field:?}")),
        )
        .collect();
    if options.validation == FieldValidation::Strict && !findings.is_empty() {
        return Err(undecodable(format!(
            "strict decoding error: {}",
            findings.join(", ")
        )));
    }
    defaults::apply(body, resource.schema());
    kinds::default(resource, body);
    Ok(if options.validation == FieldValidation::Warn {
        findings
    } else {
        Vec::new()
    })
}
