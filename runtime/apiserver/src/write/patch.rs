//! PATCH: [`State::patch`], server-side apply included.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{FieldValidation, Outcome, WriteOptions, admit, check_identity, strip_managed_fields};
use crate::apply::fits::misfits;
use crate::apply::typed::check_duplicates;
use crate::apply::{Force, Managers, Writer, last_applied};
use crate::builtin;
use crate::convert;
use crate::part::Part;
use crate::patch::Patch;
use crate::resource::{Resource, group_version};
use crate::state::State;
use crate::status::{ApiError, FieldError, Subject};
use crate::store::{Object, key};

impl State {
    /// Patches an object or its status; an apply of an absent object creates it.
    ///
    /// # Errors
    /// What kube-apiserver answers: a patch that does not fit, stale, in conflict, invalid, absent.
    pub(crate) fn patch(
        &mut self,
        resource: &Arc<Resource>,
        (namespace, name): (&str, &str),
        part: Part,
        (kind, patch): (Patch, &Value),
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let live = self
            .store
            .get(&resource.collection(), &key(namespace, name))
            .cloned();
        if kind == Patch::Apply {
            return self.apply(
                resource,
                (namespace, name),
                part,
                live,
                patch.clone(),
                options,
            );
        }
        let Some(live) = live else {
            return Err(ApiError::not_found(resource.subject(), name));
        };
        let old = convert::from_storage(&live, resource);
        let mut new = kind.run(&old, patch, resource.schema())?;
        check_identity(resource, namespace, &mut new)?;
        if new["metadata"]["name"] != *live.head.name {
            return Err(misnamed(&new, name));
        }
        let warnings = admit(resource, &mut new, options).map_err(|error| {
            let patched = kind.run(&old, patch, resource.schema());
            refused_patch(error, resource, &patched.unwrap_or_default())
        })?;
        self.replace(resource, part, &live, new, None, options, warnings)
    }

    fn apply(
        &mut self,
        resource: &Arc<Resource>,
        (namespace, name): (&str, &str),
        part: Part,
        live: Option<Arc<Object>>,
        mut config: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let text = |path: &str| {
            config
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let shown = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
        let written = config.clone();
        check_config(resource, &config)?;
        check_fields(resource, &shown, &config)?;
        check_identity(resource, namespace, &mut config)?;
        let own = config["metadata"]["name"].as_str().unwrap_or_default();
        if !own.is_empty() && own != name {
            return Err(misnamed(&config, name));
        }
        let warnings: Vec<String> = options
            .twice
            .iter()
            .map(|field| format!("duplicate field {field:?}"))
            .collect();
        let reset = part.others(resource);
        let time = self.now();
        let writer = Writer {
            manager: &options.manager,
            api_version: &resource.api_version(),
            subresource: part.name(),
            now: &time,
            reset: &reset,
        };
        let Some(live) = live else {
            if part != Part::Main {
                return Err(ApiError::not_found(resource.subject(), name));
            }
            let mut managers = Managers::default();
            let applied = managers.apply(
                &json!({}),
                &config,
                resource.schema(),
                &writer,
                Force::Everything,
            )?;
            let mut object = applied.object.unwrap_or(config);
            admit(resource, &mut object, &quiet(options))
                .map_err(|error| refused_apply(error, resource, &shown))?;
            object["metadata"]["name"] = name.into();
            return self.insert(resource, namespace, object, managers, options, warnings);
        };
        let old = convert::from_storage(&live, resource);
        let mut managers = Managers::read(&old);
        let mut base = old.clone();
        strip_managed_fields(&mut base);
        let kubectl = options.manager == last_applied::KUBECTL;
        let allowed = last_applied::owned(&base, resource.schema()).filter(|_| kubectl);
        let force = match (options.force, &allowed) {
            (true, _) => Force::Everything,
            (false, Some(allowed)) => Force::Among(allowed),
            (false, None) => Force::Nothing,
        };
        let applied = managers.apply(&base, &config, resource.schema(), &writer, force)?;
        let mut new = applied.object.unwrap_or(base);
        admit(resource, &mut new, &quiet(options))
            .map_err(|error| refused_apply(error, resource, &shown))?;
        if kubectl {
            last_applied::refresh(&mut new, &written);
        }
        self.replace(
            resource,
            part,
            &live,
            new,
            Some(managers),
            options,
            warnings,
        )
    }
}

/// The server made the merged object, so no warning about it goes to the client.
fn quiet(options: &WriteOptions) -> WriteOptions {
    WriteOptions {
        validation: FieldValidation::Ignore,
        twice: Vec::new(),
        ..options.clone()
    }
}

/// What makes a patched object undecodable is a fault of the patch; of a custom kind that is only a field that it may not have.
fn refused_patch(error: ApiError, resource: &Resource, patched: &Value) -> ApiError {
    let lead = format!("cannot be handled as a {}: ", resource.kind);
    match error.message.split_once(&lead) {
        Some((_, why)) if !resource.custom || why.starts_with("strict decoding error: ") => {
            let error = FieldError::invalid("patch", &Value::from(patched.to_string()), why);
            ApiError::invalid(
                Subject {
                    group: "",
                    plural: "",
                    kind: "",
                },
                "",
                &[error],
            )
        }
        _ => error,
    }
}

/// What makes an applied object undecodable is reported as a failure of the server's own.
fn refused_apply(error: ApiError, resource: &Resource, shown: &str) -> ApiError {
    let lead = format!("cannot be handled as a {}: ", resource.kind);
    match error.message.split_once(&lead) {
        Some((_, why)) if !resource.custom => {
            let group = if resource.group.is_empty() { "/" } else { "" };
            let kind = format!("{group}{}, Kind={}", resource.api_version(), resource.kind);
            let decoding = if why.starts_with("illegal base64") {
                "error decoding from json: "
            } else {
                ""
            };
            let text = format!(
                "failed to convert new object ({shown}; {kind}) to proper version: unable to convert unstructured object to {kind}: {decoding}{why}"
            );
            ApiError::new(500, "", text)
        }
        _ => error,
    }
}

fn misnamed(object: &Value, name: &str) -> ApiError {
    let own = object["metadata"]["name"].as_str().unwrap_or_default();
    ApiError::bad_request(format!(
        "the name of the object ({own}) does not match the name on the URL ({name})"
    ))
}

/// A configuration is an object of the kind that it is applied to, and leaves the managed fields to the server.
fn check_config(resource: &Resource, config: &Value) -> Result<(), ApiError> {
    let found = match config {
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Null | Value::Object(_) => None,
    };
    if let Some(found) = found {
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let kind = config["kind"].as_str().unwrap_or_default();
    if api_version != resource.api_version() || kind != resource.kind {
        let (group, version) = group_version(api_version);
        return Err(ApiError::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|list| !list.is_null())
    {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Fields of a configuration must be declared and of the declared type; lists must have no item twice. The server reports a
/// configuration that does not fit as a failure of its own.
fn check_fields(resource: &Resource, shown: &str, config: &Value) -> Result<(), ApiError> {
    let schema = resource.schema();
    let refuse = |why: String| {
        let gvk = format!(
            "{}/{}, Kind={}",
            resource.group, resource.version, resource.kind
        );
        let text = format!("failed to create typed patch object ({shown}; {gvk}): {why}");
        ApiError::new(500, "", text)
    };
    check_duplicates(config, schema, "").map_err(refuse)?;
    let metadata = builtin::definition(builtin::OBJECT_META)
        .filter(|_| resource.custom)
        .map(|id| builtin::builtin().schemas.at(id));
    let misfits = misfits(config, schema, metadata);
    match misfits.as_slice() {
        [] => Ok(()),
        [line] => Err(refuse(line.clone())),
        _ => Err(refuse(format!("errors:\n  {}", misfits.join("\n  ")))),
    }
}
