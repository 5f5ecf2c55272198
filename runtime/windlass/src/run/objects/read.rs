//! Reads objects of the local cluster. Entry points: [`objects`] and [`values`].

use super::owners::{Heartbeats, Owner};
use crate::config::kinds::Kind;
use crate::config::kinds::status::ReconcilerStatus;
use crate::config::objects::{Object, Objects, ValueSource, Values};
use crate::config::pauses::Pauses;
use crate::config::record::{ObjectRecord, Record};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_fleet::hub::{Hub, HubObject, HubWatch, WatchSelection};
use windlass_fleet::{GroupVersionKind, ObjectKey};

/// The fields of an object of our kinds.
#[derive(Deserialize)]
struct Fields {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Json>,
    #[serde(default)]
    status: Option<Json>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    generation: i64,
    creation_timestamp: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// The status of a Reconciler.
#[derive(Deserialize)]
struct Status {
    tenant: Option<String>,
}

/// The status that some process has written.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    status: Option<ReconcilerStatus>,
}

/// The data of a Secret or a ConfigMap.
#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// The objects of the kinds that are of a class, with the namespaces, and the heartbeats in their statuses.
pub(super) fn objects(
    kinds: &BTreeMap<Kind, HubWatch>,
    namespaces: &HubWatch,
    class: &str,
) -> (Objects, Heartbeats) {
    let mut objects = Vec::new();
    let mut heartbeats = Heartbeats::new();
    for (kind, watch) in kinds {
        let all = watch.objects().into_iter();
        let read = all.filter_map(|object| read(*kind, &object));
        for (object, owner, heartbeat) in read.filter(|(object, ..)| class_of(object) == class) {
            heartbeats.insert(object.uid.clone(), (owner, heartbeat));
            objects.push(object);
        }
    }
    let namespaces = namespaces.objects();
    let namespaces = namespaces
        .iter()
        .map(|namespace| (namespace.key().name.to_string(), namespace.labels()));
    let objects = Objects {
        objects,
        namespaces: namespaces.collect(),
        values: BTreeMap::new(),
    };
    (objects, heartbeats)
}

fn class_of(object: &Object) -> &str {
    let class = object.spec.as_ref().and_then(|spec| spec["class"].as_str());
    class.unwrap_or_default()
}

/// An object, its owner, and the last heartbeat of that one.
fn read(kind: Kind, object: &HubObject) -> Option<(Object, Option<Owner>, String)> {
    // The server has checked its shape.
    let fields: Fields = object.parse().ok()?;
    let key = object.key();
    // A status of another shape is replaced.
    let status = fields.status.unwrap_or_default();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    let (owner, heartbeat) = (Owner::read(&text("owner")), text("lastHeartbeatTime"));
    let status = Some(status).filter(|_| kind == Kind::Reconciler);
    let status = status.as_ref();
    let record = status.and_then(|status| Record::deserialize(status).ok());
    let record = record.unwrap_or_default();
    let status = status.and_then(|status| Status::deserialize(status).ok());
    let uid = object.uid();
    let annotations = fields.metadata.annotations.unwrap_or_default();
    let annotation = |name: &str| {
        annotations
            .get(name)
            .map(|text| Cow::Borrowed(text.as_str()))
    };
    let object = Object {
        kind,
        namespace: key.namespace.map(|namespace| namespace.to_string()),
        name: key.name.to_string(),
        uid: uid.clone(),
        generation: fields.metadata.generation,
        created: fields.metadata.creation_timestamp,
        recorded_tenant: status.and_then(|status| status.tenant),
        record: Arc::new(ObjectRecord { uid, record }),
        pauses: Pauses::read(annotation),
        is_deleting: object.is_deleting(),
        spec: fields.spec,
    };
    Some((object, owner, heartbeat))
}

/// The names of the Reconcilers of which a revision serves, by the status that the process that leads has written.
pub(super) fn serving(reconcilers: &HubWatch) -> BTreeSet<String> {
    let objects = reconcilers.objects().into_iter();
    let serves = |object: &HubObject| {
        let written = object.parse::<Written>().ok();
        let status = written.and_then(|written| written.status);
        status.is_some_and(|status| !status.revision.is_empty())
    };
    let serving = objects.filter(serves);
    serving.map(|object| object.key().to_string()).collect()
}

/// Watches the one object that a Reconciler names.
pub(super) fn watch(hub: &Hub, source: &ValueSource) -> HubWatch {
    let selection = WatchSelection {
        namespaces: [source.namespace.clone()].into(),
        name: Some(source.name.clone()),
        ..WatchSelection::default()
    };
    hub.watch(GroupVersionKind::new("", "v1", source.kind), selection)
}

/// The texts of a Secret or a ConfigMap. Values of a Secret that are no text are left out.
pub(super) fn values(watch: &HubWatch, source: &ValueSource) -> Values {
    let key = ObjectKey::namespaced(&source.namespace, &source.name);
    // Before the object is read.
    let is_known = watch.knows(&key);
    let Some(object) = watch.get(&key) else {
        return match (is_known, watch.problem()) {
            (true, _) => Values::Absent,
            (false, Some(problem)) => Values::Unreadable(problem),
            (false, None) => Values::Unknown,
        };
    };
    let data: Option<Data> = object.parse().ok();
    let data = data.and_then(|data| data.data).unwrap_or_default();
    let texts = data.into_iter().filter_map(|(key, value)| {
        let value = match source.kind {
            "Secret" => String::from_utf8(STANDARD.decode(value).ok()?).ok()?,
            _ => value,
        };
        Some((key, value))
    });
    Values::Present(texts.collect())
}
