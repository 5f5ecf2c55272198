//! A Reconciler of the cluster: whose it is, its guest and its config. Entry point: [`Accepted::reconciler`].

use super::{Accepted, Object, Objects, Refused, ValueSource, Values};
use crate::config::kinds::{ConfigSource, ReconcilerSpec, http_rules};
use crate::config::load::{Configuration, Document, Spec, read_object};
use serde_json::{Map, Value as Json};
use std::path::PathBuf;
use std::sync::Arc;
use windlass_files::{Node, Part, split};

impl Accepted {
    /// Adds a Reconciler to a configuration, or its last good version, if it has a tenant. Returns its tenant, and why it is not in effect as
    /// it is.
    pub(super) fn reconciler(
        &mut self,
        object: &Object,
        objects: &Objects,
        configuration: &mut Configuration,
    ) -> (Option<String>, Option<Refused>) {
        let complete = complete(object, objects, configuration);
        let refused = match complete {
            Ok(document) => {
                self.accept(object, document);
                None
            }
            Err(refused) => Some(refused),
        };
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let Some(tenant) = self.claims.holder(namespace).map(str::to_owned) else {
            return (None, Some(no_tenant(namespace)));
        };
        if let Some(good) = self.good.get(&object.identity()) {
            let mut document = good.document.clone();
            document.record = Some(object.record.clone());
            document.pauses = object.pauses.clone();
            if let Spec::Reconciler(spec) = &mut document.spec {
                spec.tenant = Some(tenant.clone());
            }
            configuration.insert(document);
        }
        (Some(tenant), refused)
    }
}

fn no_tenant(namespace: &str) -> Refused {
    let message = format!(
        "no Tenant claims the namespace {namespace}: ask the platform's team to add it to spec.namespaces of a Tenant"
    );
    Refused::new("NoTenant", message)
}

/// The document of an object, with the path of its guest, the namespace of its pull secret, and with its whole config.
fn complete(
    object: &Object,
    objects: &Objects,
    configuration: &Configuration,
) -> Result<Document, Refused> {
    let read = read_object(&object.identity(), object.spec.as_ref());
    let mut document = read.map_err(|problem| Refused::new("Invalid", problem.message))?;
    if let Spec::Reconciler(spec) = &mut document.spec {
        if spec.guest.name.is_some() {
            spec.guest.path = Some(guest(spec, configuration)?);
        }
        if let Some(secret) = &mut spec.guest.pull_secret {
            secret.namespace = object.namespace.clone();
        }
        let sources = std::mem::take(&mut spec.config_from);
        if !sources.is_empty() {
            let config = spec.config.take();
            let (config, secrets) = config_of(config, &sources, object, objects)?;
            (spec.config, spec.secrets) = (Some(config), secrets);
            (document.has_secrets, document.config) = (true, None);
        }
        document.has_secrets |= complete_headers(spec, object, objects)?;
    }
    Ok(document)
}

/// Gives the headers that a Secret has the value for their values, which recordings must not show. Whether there are any.
fn complete_headers(
    spec: &mut ReconcilerSpec,
    object: &Object,
    objects: &Objects,
) -> Result<bool, Refused> {
    let before = spec.secrets.len();
    for rule in spec.http.iter_mut() {
        for header in rule.headers.iter_mut() {
            let (Some(secret), Some(key)) = (header.secret.take(), header.key.take()) else {
                continue;
            };
            let from = object.source("Secret", &secret);
            let from = from.ok_or_else(|| Refused::new("Invalid", "it has no namespace"))?;
            let text = text(&key, &from, "http", objects)?;
            let value = text.trim_end_matches(['\r', '\n']);
            spec.secrets.push(value.to_owned());
            header.value = Some(format!(
                "{}{value}",
                header.prefix.take().unwrap_or_default()
            ));
        }
    }
    http_rules(&spec.http).map_err(|error| {
        let message = format!("spec.http cannot be used: {}: {error}", error.field);
        Refused::new("Invalid", message)
    })?;
    Ok(spec.secrets.len() > before)
}

/// The path of a guest of the platform.
fn guest(spec: &ReconcilerSpec, configuration: &Configuration) -> Result<PathBuf, Refused> {
    let name = spec.guest.name.as_deref().unwrap_or_default();
    let installed = configuration.manager().and_then(|(manager, spec)| {
        let guest = spec.guests.get(name)?;
        Some(manager.resolve(&guest.path))
    });
    installed.ok_or_else(|| {
        let message = format!(
            "the platform has no guest {name:?}: name one of spec.guests in the Manager's file"
        );
        Refused::new("UnknownGuest", message)
    })
}

/// A config with the values of its sources, the last one last; and the texts among them that are of Secrets.
fn config_of(
    config: Option<Json>,
    sources: &[ConfigSource],
    object: &Object,
    objects: &Objects,
) -> Result<(Json, Vec<String>), Refused> {
    let mut config = config.unwrap_or_else(|| Json::Object(Map::new()));
    let mut secrets = Vec::new();
    for (source, from) in sources.iter().zip(object.sources()) {
        let value = value(source, &from, objects)?;
        if source.secret.is_some() {
            texts(&value, &mut secrets);
        }
        merge(&mut config, value);
    }
    Ok((config, secrets))
}

/// The texts in a value.
fn texts(value: &Json, into: &mut Vec<String>) {
    match value {
        Json::String(text) => into.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Json::Object(fields) => fields.values().for_each(|value| texts(value, into)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// A value, which is a mapping. Its text is in no message.
fn value(source: &ConfigSource, from: &ValueSource, objects: &Objects) -> Result<Json, Refused> {
    let key = &source.key;
    mapping(text(key, from, "configFrom", objects)?).ok_or_else(|| {
        let (kind, name) = (from.kind, &from.name);
        let message = format!(
            "the value of {key:?} of {kind} {name} of configFrom is no mapping in YAML or JSON: correct it"
        );
        Refused::new("ConfigUnavailable", message)
    })
}

/// The text of a key. `field`: of the spec, which names it.
fn text<'a>(
    key: &str,
    from: &ValueSource,
    field: &str,
    objects: &'a Objects,
) -> Result<&'a str, Refused> {
    let subject = format!("{} {} of {field}", from.kind, from.name);
    let refused = |message: String| Refused::new("ConfigUnavailable", message);
    let values = match objects.values.get(from) {
        Some(Values::Present(values)) => values,
        Some(Values::Absent) => {
            return Err(refused(format!("{subject} is not there: create it")));
        }
        Some(Values::Unreadable(reason)) => {
            return Err(refused(format!("{subject} cannot be read: {reason}")));
        }
        Some(Values::Unknown) | None => {
            let message = format!("{subject} has not been read yet");
            return Err(Refused {
                is_unknown: true,
                ..refused(message)
            });
        }
    };
    let text = values.get(key).map(String::as_str);
    text.ok_or_else(|| {
        refused(format!(
            "{subject} has no key {key:?}: add it, or name another key"
        ))
    })
}

fn mapping(text: &str) -> Option<Json> {
    let file = Arc::from("");
    let parts = split(text);
    let [part] = &parts[..] else {
        return None;
    };
    let part: &Part<'_> = part;
    let node: Node = part.parse(&file).ok()?;
    let value: Json = node.decode().ok()?;
    value.is_object().then_some(value)
}

/// Merges a value into another one: mappings by field, everything else is replaced.
fn merge(into: &mut Json, value: Json) {
    match (into, value) {
        (Json::Object(fields), Json::Object(more)) => {
            for (key, value) in more {
                merge(fields.entry(key).or_insert(Json::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}
