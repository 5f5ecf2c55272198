//! Updates: [`State::update`] for PUT, and the common end of every change of an existing object.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Outcome, WriteOptions, admit, check_identity, strip_managed_fields};
use crate::apply::{Managers, Writer};
use crate::convert;
use crate::kinds;
use crate::metadata;
use crate::part::{Part, keeps_metadata};
use crate::resource::Resource;
use crate::schema::decode;
use crate::state::State;
use crate::status::{ApiError, FieldError, Subject};
use crate::store::{Object, key};

impl State {
    /// Replaces an object or its status.
    ///
    /// # Errors
    /// What kube-apiserver answers: wrong identity, stale version, invalid, absent.
    pub(crate) fn update(
        &mut self,
        resource: &Arc<Resource>,
        (namespace, name): (&str, &str),
        part: Part,
        mut body: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        check_identity(resource, namespace, &mut body)?;
        match body["metadata"]["name"].as_str().unwrap_or_default() {
            "" => {
                return Err(ApiError::bad_request(
                    "the name of the object () does not match the name on the URL (".to_owned()
                        + name
                        + ")",
                ));
            }
            own if own != name => {
                return Err(ApiError::bad_request(format!(
                    "the name of the object ({own}) does not match the name on the URL ({name})"
                )));
            }
            _ => {}
        }
        let warnings = admit(resource, &mut body, options)?;
        let Some(live) = self
            .store
            .get(&resource.collection(), &key(namespace, name))
            .cloned()
        else {
            return self.create_by_put(resource, namespace, body, options);
        };
        check_uid(resource, &live, &body)?;
        let version_given = body["metadata"]["resourceVersion"]
            .as_str()
            .is_some_and(|version| !version.is_empty() && version != "0");
        if !version_given && !resource.unconditional_update() {
            let error = FieldError::invalid(
                "metadata.resourceVersion",
                &Value::from(0),
                "must be specified for an update",
            );
            return Err(unconditional(resource, name, &[error]));
        }
        self.replace(resource, part, &live, body, None, options, warnings)
    }

    fn create_by_put(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let versioned = body["metadata"]["resourceVersion"]
            .as_str()
            .is_some_and(|version| !version.is_empty() && version != "0");
        if !resource.create_on_update() || versioned {
            return Err(ApiError::not_found(resource.subject(), &name));
        }
        self.create(resource, namespace, body, options)
    }

    /// The common end of updates, patches and applies: `new` is admitted and takes the place of `live`.
    /// `managers` is given where an apply has already accounted for its fields.
    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where everything about a change meets"
    )]
    pub(crate) fn replace(
        &mut self,
        resource: &Arc<Resource>,
        part: Part,
        live: &Arc<Object>,
        mut new: Value,
        managers: Option<Managers>,
        options: &WriteOptions,
        warnings: Vec<String>,
    ) -> Result<Outcome, ApiError> {
        let old = convert::from_storage(live, resource);
        let name = &*live.head.name;
        check_version(resource, live, &new)?;
        check_immutable(resource, &old, &new)?;
        isolate(resource, part, &old, &mut new);
        if let (Some(before), Some(after)) =
            (old["metadata"].as_object(), new["metadata"].as_object_mut())
        {
            metadata::keep(before, after);
            after.insert("resourceVersion".into(), before["resourceVersion"].clone());
        }
        let managers = managers.unwrap_or_else(|| {
            let reset = part.others(resource);
            // A write of a scale has no time in managedFields.
            let time = if part == Part::Scale {
                String::new()
            } else {
                self.now()
            };
            let writer = Writer {
                manager: &options.manager,
                api_version: &resource.api_version(),
                subresource: part.name(),
                now: &time,
                reset: &reset,
            };
            // A client that sends one empty entry wants nothing of what was tracked.
            let tracked = if new.pointer("/metadata/managedFields").is_some() {
                &new
            } else {
                &old
            };
            let mut managers = Managers::read(tracked);
            let (mut before, mut after) = (old.clone(), new.clone());
            strip_managed_fields(&mut before);
            strip_managed_fields(&mut after);
            // An object without managedFields stays so until the first apply.
            if !managers.is_empty() {
                managers.update(&before, &after, resource.schema(), &writer);
            }
            managers
        });
        managers.write(&mut new);
        self.prepare_update(resource, part, &old, &mut new);
        if resource.generations()
            && part != Part::Status
            && changed_beside_metadata(resource, &old, &new)
        {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
            new["metadata"]["generation"] = generation.into();
        }
        let errors = kinds::validate(resource, &new, Some((&old, part)));
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource.subject(), name, &errors));
        }
        if part == Part::Main {
            self.admit_update(resource, &new, &old)?;
        }
        self.finish(resource, live, &old, new, options, warnings)
    }

    /// Writes what changed; an object whose last finalizer went is removed instead.
    fn finish(
        &mut self,
        resource: &Arc<Resource>,
        live: &Arc<Object>,
        old: &Value,
        new: Value,
        options: &WriteOptions,
        warnings: Vec<String>,
    ) -> Result<Outcome, ApiError> {
        if same_but_for_times(old, &new) {
            return Ok(Outcome {
                object: old.clone(),
                created: false,
                warnings,
            });
        }
        if options.dry_run {
            return Ok(Outcome {
                object: new,
                created: false,
                warnings,
            });
        }
        let mut new = new;
        if !resource.custom {
            decode::settle(&mut new, resource.schema());
        }
        let id = resource.collection();
        let storage = convert::to_storage(new, resource);
        let doomed = storage["metadata"].get("deletionTimestamp").is_some()
            && storage["metadata"]["deletionGracePeriodSeconds"]
                .as_i64()
                .unwrap_or_default()
                == 0
            && !kinds::has_finalizers(resource, &storage);
        if doomed {
            let key = key(&live.head.namespace, &live.head.name);
            // Watchers are shown the state before this write: it was never stored.
            self.discard(&id, &key);
            return Ok(Outcome {
                object: convert::value_from_storage(storage, resource),
                created: false,
                warnings,
            });
        }
        let stored = self.commit(&id, storage);
        Ok(Outcome {
            object: convert::from_storage(&stored, resource),
            created: false,
            warnings,
        })
    }
}

/// A PUT for another object of the same name fails in storage.
fn check_uid(resource: &Resource, live: &Object, new: &Value) -> Result<(), ApiError> {
    let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
    if uid.is_empty() || uid == &*live.head.uid {
        return Ok(());
    }
    Err(precondition_failed(
        resource,
        live,
        "UID",
        (uid, &live.head.uid),
    ))
}

/// How storage says that an object is not the one that was meant.
pub(super) fn precondition_failed(
    resource: &Resource,
    live: &Object,
    field: &str,
    (wanted, found): (&str, &str),
) -> ApiError {
    let name = &*live.head.name;
    let group = if resource.custom {
        format!("{}/", resource.group)
    } else {
        String::new()
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}",
        resource.plural,
        key(&live.head.namespace, name),
    );
    ApiError::conflict(resource.subject(), name, &why)
}

/// A patch cannot change the identity of an object, and only the server sets its deletion timestamp.
fn check_immutable(resource: &Resource, old: &Value, new: &Value) -> Result<(), ApiError> {
    let (before, after) = (&old["metadata"], &new["metadata"]);
    let changed = |field: &&str| {
        after
            .get(*field)
            .is_some_and(|value| !value.is_null() && *value != before[*field])
    };
    let error = |field: &str| {
        FieldError::invalid(
            format!("metadata.{field}"),
            &after[field],
            "field is immutable",
        )
    };
    // Two validations check each of them.
    let errors: Vec<FieldError> = ["uid", "deletionTimestamp"]
        .iter()
        .filter(|field| changed(field))
        .flat_map(|field| [error(field), error(field)])
        .collect();
    let name = before["name"].as_str().unwrap_or_default();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(resource.subject(), name, &errors))
    }
}

/// An error of the generic registry, which knows the resource's plural only.
fn unconditional(resource: &Resource, name: &str, errors: &[FieldError]) -> ApiError {
    let subject = Subject {
        kind: &resource.plural,
        ..resource.subject()
    };
    ApiError::invalid(subject, name, errors)
}

/// The version that a client based its write on, where it says so.
fn check_version(resource: &Resource, live: &Object, new: &Value) -> Result<(), ApiError> {
    let name = &*live.head.name;
    let version = new["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    if version.is_empty() || version == "0" {
        return Ok(());
    }
    match version.parse::<u64>() {
        Ok(version) if version == live.head.version => Ok(()),
        Ok(_) => Err(ApiError::stale(resource.subject(), name)),
        Err(_) => {
            let error = FieldError::invalid(
                "metadata.resourceVersion",
                &Value::from(version),
                "must be an unsigned integer",
            );
            Err(ApiError::invalid(resource.subject(), name, &[error]))
        }
    }
}

/// A write of one part leaves the others as they are.
fn isolate(resource: &Resource, part: Part, old: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object_mut()) else {
        return;
    };
    match part {
        Part::Main | Part::Scale if resource.status => restore(before, after, "status"),
        Part::Main | Part::Scale => {}
        Part::Finalize => {
            for field in ["metadata", "status"] {
                restore(before, after, field);
            }
        }
        Part::EphemeralContainers => {
            restore_all_but(before, after, ("spec", "ephemeralContainers"));
            restore_metadata(before, after);
        }
        Part::Approval => restore_all_but(before, after, ("status", "conditions")),
        Part::Status => {
            let others: Vec<String> = before
                .keys()
                .chain(after.keys())
                .filter(|field| !matches!(field.as_str(), "status" | "metadata"))
                .cloned()
                .collect();
            others
                .iter()
                .for_each(|field| restore(before, after, field));
            if keeps_metadata(resource) {
                restore_metadata(before, after);
            }
        }
    }
}

/// Puts the spec and the status back, but for one field in one of them.
fn restore_all_but(
    before: &Map<String, Value>,
    after: &mut Map<String, Value>,
    (part, field): (&str, &str),
) {
    let written = after
        .get_mut(part)
        .and_then(|part| part.as_object_mut()?.remove(field));
    for part in ["spec", "status"] {
        restore(before, after, part);
    }
    let Some(part) = after.get_mut(part).and_then(Value::as_object_mut) else {
        return;
    };
    part.remove(field);
    part.extend(written.map(|written| (field.to_owned(), written)));
}

/// Puts the metadata back, but for the managers of fields.
fn restore_metadata(before: &Map<String, Value>, after: &mut Map<String, Value>) {
    let managed = after
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"))
        .cloned();
    restore(before, after, "metadata");
    if let (Some(managed), Some(metadata)) = (managed, after.get_mut("metadata")) {
        metadata["managedFields"] = managed;
    }
}

fn restore(before: &Map<String, Value>, after: &mut Map<String, Value>, field: &str) {
    match before.get(field) {
        Some(value) => after.insert(field.to_owned(), value.clone()),
        None => after.remove(field),
    };
}

fn changed_beside_metadata(resource: &Resource, old: &Value, new: &Value) -> bool {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let server_part = |field: &str| field == "status" && resource.status;
    let counts =
        |field: &str| !(matches!(field, "metadata" | "apiVersion" | "kind") || server_part(field));
    before
        .keys()
        .chain(after.keys())
        .any(|field| counts(field) && before.get(field) != after.get(field))
}

/// A write that would change nothing but the times in `managedFields` is none.
fn same_but_for_times(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let timeless = |value: &Value| {
        let mut value = value.clone();
        if let Some(entries) = value
            .pointer_mut("/metadata/managedFields")
            .and_then(Value::as_array_mut)
        {
            entries
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|entry| drop(entry.remove("time")));
        }
        value
    };
    timeless(old) == timeless(new)
}
