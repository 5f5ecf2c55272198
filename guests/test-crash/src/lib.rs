//! Controllers with a usual mistake that only a fault shows, each also without it. Entry point: [`Crash`]; `pattern` and `mistake` of the
//! config choose one.
//!
//! The kind is `Crash` of `test.windlass.dev/v1`. What a controller keeps are ConfigMaps.

use serde_json::{Value, json};
use windlass_sdk::prelude::*;
use windlass_sdk::{
    ApiCode, ApiError, DeleteOptions, GetOptions, GroupVersionKind, ListOptions, ObjectKey,
    PatchType, ReadMode, WriteOptions,
};

const FINALIZER: &str = "test.windlass.dev/crash";

/// The label of ConfigMaps that a controller keeps; its value is the name of their Crash.
const OF: &str = "test.windlass.dev/of";

/// The guest.
struct Crash;
windlass_sdk::guest!(Crash);

impl Reconciler for Crash {
    fn describe() -> Result<Description> {
        Ok(Description::new("makes a mistake under faults")
            .primary_watch(Watch::of(crash()))
            .watch(Watch::of(map()).labels(OF).enqueue(Enqueue::AnyOwner)))
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let config = config::<Value>()?;
        let run = Run {
            cluster,
            key: &request.key,
            mistake: config["mistake"] == true,
        };
        let pattern = config["pattern"].as_str().unwrap_or_default();
        let Some(object) = run.get(&crash(), &request.key)? else {
            if pattern == "list" {
                run.collect()?;
            }
            return Ok(Action::Done);
        };
        match pattern {
            "name" => run.name(&object)?,
            "finalizer" => run.finalizer(&object)?,
            "status" => run.status(object)?,
            "list" => run.list(&object)?,
            "owner" => run.owner(&object)?,
            "replace" => run.replace(&object)?,
            "pair" => run.pair(&object)?,
            other => return Err(Error::terminal(format!("no pattern {other:?}"))),
        }
        Ok(Action::Done)
    }
}

fn crash() -> GroupVersionKind {
    GroupVersionKind::new("test.windlass.dev/v1", "Crash")
}

fn map() -> GroupVersionKind {
    GroupVersionKind::new("v1", "ConfigMap")
}

/// One run.
struct Run<'a> {
    cluster: &'a Cluster,
    key: &'a ObjectKey,
    /// Whether the mistake is made.
    mistake: bool,
}

impl Run<'_> {
    /// A child for each Crash. The mistake: a generated name, noted after the child was created.
    fn name(&self, object: &Value) -> Result<()> {
        if !self.mistake {
            return self.ensure(&self.child(object, "child", &[owner(object)]));
        }
        if object["status"]["child"].is_string() {
            return Ok(());
        }
        let mut child = self.child(object, "", &[owner(object)]);
        child["metadata"]["name"] = Value::Null;
        child["metadata"]["generateName"] = json!(format!("{}-", self.key.name));
        let created = self.create(&child)?;
        self.patch_status(&json!({"child": created["metadata"]["name"]}))
    }

    /// A thing outside, which must go with its Crash. The mistake: the finalizer is removed first.
    fn finalizer(&self, object: &Value) -> Result<()> {
        let thing = self.child(object, "outside", &[]);
        let has_finalizer = !object["metadata"]["finalizers"].is_null();
        if object["metadata"]["deletionTimestamp"].is_string() {
            if !has_finalizer {
                return Ok(());
            }
            if self.mistake {
                self.patch(&json!({"metadata": {"finalizers": null}}))?;
            }
            self.delete(&thing, &DeleteOptions::default())?;
            if !self.mistake {
                self.patch(&json!({"metadata": {"finalizers": null}}))?;
            }
            return Ok(());
        }
        if !has_finalizer {
            self.patch(&json!({"metadata": {"finalizers": [FINALIZER]}}))?;
        }
        self.ensure(&thing)
    }

    /// A condition among others. The mistake: all conditions are written, without the version that they were read with.
    fn status(&self, mut object: Value) -> Result<()> {
        let ready = json!({"type": "Ready", "status": "True", "reason": "Done", "message": object["spec"]["text"],
            "lastTransitionTime": "2020-01-01T00:00:00Z"});
        if !object["status"]["conditions"].is_array() {
            object["status"] = json!({"conditions": []});
        }
        let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
            return Ok(());
        };
        if conditions.contains(&ready) {
            return Ok(());
        }
        conditions.retain(|condition| condition["type"] != "Ready");
        conditions.push(ready);
        if self.mistake {
            return self.patch_status(&object["status"]);
        }
        let options = WriteOptions {
            subresource: Some("status".to_owned()),
            ..WriteOptions::default()
        };
        let raw = self.cluster.raw();
        raw.update(&crash(), &object.to_string(), &options)?;
        Ok(())
    }

    /// A thing outside that is made once, and goes with its Crash. The mistake: a Crash that a list lacks is taken to be gone.
    fn list(&self, object: &Value) -> Result<()> {
        if object["status"]["made"] != true {
            self.ensure(&self.child(object, "outside", &[]))?;
            self.patch_status(&json!({"made": true}))?;
        }
        self.collect()
    }

    /// Deletes things whose Crash is gone.
    fn collect(&self) -> Result<()> {
        let raw = self.cluster.raw();
        let things = ListOptions {
            label_selector: Some(OF.to_owned()),
            ..ListOptions::default()
        };
        let there = raw.list(&crash(), &ListOptions::default())?.items;
        let there: Vec<Value> = there.iter().map(|text| read(text)).collect();
        for thing in raw.list(&map(), &things)?.items {
            let thing = read(&thing);
            let of = &thing["metadata"]["labels"][OF];
            let known = there.iter().any(|one| one["metadata"]["name"] == *of);
            if known || !self.mistake && self.is_there(of.as_str().unwrap_or_default())? {
                continue;
            }
            self.delete(&thing, &DeleteOptions::default())?;
        }
        Ok(())
    }

    /// A child with the text. The mistake: after a conflict it is written without its owner.
    fn owner(&self, object: &Value) -> Result<()> {
        let wanted = self.child(object, "child", &[owner(object)]);
        let Some(present) = self.get(&map(), &key_of(&wanted))? else {
            return self.ensure(&wanted);
        };
        if present["data"] == wanted["data"] {
            return Ok(());
        }
        let raw = self.cluster.raw();
        let update = |present: &Value, mut wanted: Value| {
            wanted["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
            raw.update(&map(), &wanted.to_string(), &WriteOptions::default())
        };
        match update(&present, wanted.clone()) {
            Err(error) if error.code == ApiCode::Conflict && self.mistake => {}
            written => return Ok(written.map(drop)?),
        }
        let live = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        if let Some(present) = raw.get(&map(), &key_of(&wanted), &live)? {
            let mut present = read(&present);
            let again = self.child(object, "child", &[]);
            present["metadata"]["ownerReferences"] = Value::Null;
            update(&present, again)?;
        }
        Ok(())
    }

    /// A child that is replaced when the text changes. The mistake: whatever has its name is deleted.
    fn replace(&self, object: &Value) -> Result<()> {
        let wanted = self.child(object, "child", &[owner(object)]);
        if let Some(present) = self.get(&map(), &key_of(&wanted))? {
            if present["data"]["text"] == wanted["data"]["text"] {
                return Ok(());
            }
            if !self.mistake && self.text_now()? != object["spec"]["text"] {
                return Err(Error::retry("the Crash that was read is old"));
            }
            let uid = present["metadata"]["uid"].as_str().map(str::to_owned);
            let options = DeleteOptions {
                uid: uid.filter(|_| !self.mistake),
                ..DeleteOptions::default()
            };
            self.delete(&wanted, &options)?;
        }
        self.create(&wanted)?;
        Ok(())
    }

    /// Two children with the text. The mistake: a write that fails is left to the event of the other child, so that it takes two faults.
    fn pair(&self, object: &Value) -> Result<()> {
        for suffix in ["left", "right"] {
            let written = self.ensure(&self.child(object, suffix, &[owner(object)]));
            if !self.mistake {
                written?;
            }
        }
        Ok(())
    }

    /// A ConfigMap of this Crash with its text.
    fn child(&self, object: &Value, suffix: &str, owners: &[Value]) -> Value {
        let name = format!("{}-{suffix}", self.key.name);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": self.key.namespace, "name": name, "labels": {OF: self.key.name}, "ownerReferences": owners},
            "data": {"text": object["spec"]["text"]},
        })
    }

    fn get(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Result<Option<Value>> {
        let found = self.cluster.raw().get(kind, key, &GetOptions::default())?;
        Ok(found.map(|text| read(&text)))
    }

    /// The text of the Crash, as the server has it.
    fn text_now(&self) -> Result<Value> {
        let options = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        let now = self.cluster.raw().get(&crash(), self.key, &options)?;
        Ok(now.map_or(Value::Null, |text| read(&text)["spec"]["text"].clone()))
    }

    /// Asks the server.
    fn is_there(&self, name: &str) -> Result<bool> {
        let options = GetOptions {
            mode: ReadMode::Live,
            ..GetOptions::default()
        };
        let key = self.key.sibling(name.to_owned());
        Ok(self.cluster.raw().get(&crash(), &key, &options)?.is_some())
    }

    fn create(&self, object: &Value) -> Result<Value> {
        let raw = self.cluster.raw();
        let created = raw.create(&map(), &object.to_string(), &WriteOptions::default())?;
        Ok(read(&created))
    }

    /// Creates a ConfigMap unless it is there.
    fn ensure(&self, object: &Value) -> Result<()> {
        if self.get(&map(), &key_of(object))?.is_none() {
            self.create(object)?;
        }
        Ok(())
    }

    /// Deletes a ConfigMap; one that is not there is well.
    fn delete(&self, object: &Value, options: &DeleteOptions) -> Result<()> {
        match self.cluster.raw().delete(&map(), &key_of(object), options) {
            Err(ApiError {
                code: ApiCode::NotFound,
                ..
            }) => Ok(()),
            deleted => Ok(deleted?),
        }
    }

    fn patch(&self, patch: &Value) -> Result<()> {
        self.patch_with(patch, &WriteOptions::default())
    }

    fn patch_status(&self, status: &Value) -> Result<()> {
        let options = WriteOptions {
            subresource: Some("status".to_owned()),
            ..WriteOptions::default()
        };
        self.patch_with(&json!({"status": status}), &options)
    }

    fn patch_with(&self, patch: &Value, options: &WriteOptions) -> Result<()> {
        let raw = self.cluster.raw();
        let text = patch.to_string();
        raw.patch(&crash(), self.key, PatchType::Merge, &text, options)?;
        Ok(())
    }
}

fn owner(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": "test.windlass.dev/v1", "kind": "Crash", "name": metadata["name"], "uid": metadata["uid"],
        "controller": true})
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ObjectKey {
        namespace: Some(text(&object["metadata"]["namespace"])),
        name: text(&object["metadata"]["name"]),
    }
}

/// The host's objects are JSON.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
