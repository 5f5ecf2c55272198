//! `metadata.managedFields`: [`Managers`], and what a write does to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::field_set::FieldSet;
use super::typed::{compare, fields_of, merge, remove};
use crate::schema::Schema;
use crate::status::ApiError;

/// A field manager and its operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) subresource: &'a str,
    /// RFC 3339, whole seconds; empty where no time is noted.
    pub(crate) now: &'a str,
    /// Fields that this endpoint does not write, as FieldsV1.
    pub(crate) reset: &'a FieldSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Apply,
    Update,
}

/// The manager of an entry. The version of an apply does not matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    manager: String,
    operation: Operation,
    update_version: String,
    subresource: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    api_version: String,
    time: Option<String>,
    set: FieldSet,
}

/// The owners of an object's fields. Holds no entry without fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Managers(BTreeMap<Owner, Entry>);

/// What an apply may take from other managers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Force<'a> {
    Nothing,
    Everything,
    /// All that it takes, if that is among these fields.
    Among(&'a FieldSet),
}

impl Force<'_> {
    /// The conflicts that remain.
    fn refused(self, conflicts: Vec<(Owner, FieldSet)>) -> Vec<(Owner, FieldSet)> {
        match self {
            Self::Nothing => conflicts,
            Self::Everything => Vec::new(),
            Self::Among(allowed) => {
                let left = conflicts
                    .into_iter()
                    .map(|(owner, set)| (owner, set.difference(allowed)));
                left.filter(|(_, set)| !set.is_empty()).collect()
            }
        }
    }
}

/// An applied configuration.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The merged object; `None` where nothing but ownership changes.
    pub(crate) object: Option<Value>,
}

/// Entries of updaters beyond this many are merged into one.
const MAX_UPDATERS: usize = 10;

impl Managers {
    /// Reads `metadata.managedFields`.
    pub(crate) fn read(object: &Value) -> Self {
        let entries = object
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let entry = |entry: &Value| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let operation = if entry["operation"] == "Apply" {
                Operation::Apply
            } else {
                Operation::Update
            };
            let update_version = if operation == Operation::Update {
                text("apiVersion")
            } else {
                String::new()
            };
            let owner = Owner {
                manager: text("manager"),
                operation,
                update_version,
                subresource: text("subresource"),
            };
            let set = FieldSet::from_json(&entry["fieldsV1"]);
            (
                owner,
                Entry {
                    api_version: text("apiVersion"),
                    time: entry["time"].as_str().map(str::to_owned),
                    set,
                },
            )
        };
        Self(
            entries
                .map(entry)
                .filter(|(_, entry)| !entry.set.is_empty())
                .collect(),
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes `metadata.managedFields`, or removes it if no manager owns a field.
    pub(crate) fn write(&self, object: &mut Value) {
        let mut entries: Vec<(&Owner, &Entry)> = self.0.iter().collect();
        entries.sort_by_key(|(owner, entry)| {
            (
                owner.operation,
                entry.time.clone(),
                owner.manager.clone(),
                entry.api_version.clone(),
                owner.subresource.clone(),
            )
        });
        let list: Vec<Value> = entries
            .into_iter()
            .map(|(owner, entry)| entry_json(owner, entry))
            .collect();
        let Some(metadata) = object["metadata"].as_object_mut() else {
            return;
        };
        if list.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".into(), list.into());
        }
    }

    /// Accounts for a write that was not an apply: `old` became `new`.
    pub(crate) fn update(
        &mut self,
        old: &Value,
        new: &Value,
        schema: Schema<'_>,
        writer: &Writer<'_>,
    ) {
        let changes = compare(old, new, schema);
        let taken = changes.modified.union(&changes.added).without(writer.reset);
        let removed = changes.removed.without(writer.reset);
        for entry in self.0.values_mut() {
            entry.set = entry.set.difference(&taken).difference(&removed);
        }
        let taken = taken.difference(&bookkeeping());
        if !taken.is_empty() {
            let owner = writer.owner(Operation::Update);
            let entry = self.0.entry(owner).or_insert_with(|| Entry::new(writer));
            entry.set = entry.set.union(&taken);
            entry.time = (!writer.now.is_empty()).then(|| writer.now.to_owned());
        }
        self.tidy();
    }

    /// Applies `config` over `live`; `live` is `{}`-like for an object that is to be created.
    ///
    /// # Errors
    /// A conflict, with a cause per field that another manager owns and this configuration would change, unless `force`.
    pub(crate) fn apply(
        &mut self,
        live: &Value,
        config: &Value,
        schema: Schema<'_>,
        writer: &Writer<'_>,
        force: Force<'_>,
    ) -> Result<Applied, ApiError> {
        let owner = writer.owner(Operation::Apply);
        self.adopt_unowned(live, schema, writer);
        let set = fields_of(config, schema)
            .difference(&bookkeeping())
            .without(writer.reset);
        let last = self
            .0
            .get(&owner)
            .map(|entry| entry.set.clone())
            .unwrap_or_default();
        let mut merged = merge(live, config, schema);
        if !last.is_empty() {
            merged = self.prune(&merged, schema, &owner, &set, &last);
        }
        let changes = compare(live, &merged, schema);
        let taken = changes.modified.union(&changes.added);
        let others = || self.0.iter().filter(|(other, _)| **other != owner);
        let conflicts: Vec<(Owner, FieldSet)> = others()
            .map(|(other, entry)| (other.clone(), entry.set.intersection(&taken)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        let conflicts = force.refused(conflicts);
        if !conflicts.is_empty() {
            return Err(conflict(&conflicts));
        }
        for (other, entry) in &mut self.0 {
            if *other != owner {
                entry.set = entry.set.difference(&taken).difference(&changes.removed);
            }
        }
        let same = *live == merged;
        let time = if same {
            self.0.get(&owner).and_then(|entry| entry.time.clone())
        } else {
            Some(writer.now.to_owned())
        };
        self.0.insert(
            owner,
            Entry {
                api_version: writer.api_version.to_owned(),
                time,
                set,
            },
        );
        self.tidy();
        Ok(Applied {
            object: (!same).then_some(merged),
        })
    }

    /// What was there before anybody was tracked belongs to a manager of its own.
    fn adopt_unowned(&mut self, live: &Value, schema: Schema<'_>, writer: &Writer<'_>) {
        if !self.0.is_empty() || live.pointer("/metadata/uid").is_none() {
            return;
        }
        let set = fields_of(live, schema).difference(&bookkeeping());
        let adopter = Writer {
            manager: "before-first-apply",
            subresource: "",
            ..*writer
        };
        let entry = Entry {
            set,
            time: Some(writer.now.to_owned()),
            ..Entry::new(&adopter)
        };
        self.0.insert(adopter.owner(Operation::Update), entry);
    }

    /// Removes the fields that this manager applied last time, does not apply now, and no other manager owns.
    fn prune(
        &self,
        merged: &Value,
        schema: Schema<'_>,
        owner: &Owner,
        set: &FieldSet,
        last: &FieldSet,
    ) -> Value {
        let mut owned = set.clone();
        for (_, entry) in self.0.iter().filter(|(other, _)| *other != owner) {
            owned = owned.union(&entry.set);
        }
        let pruned = remove(merged, &last.with_declared(schema), schema);
        let merged_set = fields_of(merged, schema);
        let lost = |from: &Value| {
            merged_set
                .with_declared(schema)
                .difference(&fields_of(from, schema).with_declared(schema))
        };
        // What another manager owns is put back …
        let pruned = remove(
            merged,
            &lost(&pruned).difference(&owned.with_declared(schema)),
            schema,
        );
        // … and so is what this manager never had.
        let gone = merged_set
            .difference(&fields_of(&pruned, schema))
            .intersection(last);
        remove(merged, &gone, schema)
    }

    fn tidy(&mut self) {
        self.0.retain(|_, entry| !entry.set.is_empty());
        let mut updaters: Vec<(Option<String>, Owner)> = self
            .0
            .iter()
            .filter(|(owner, _)| owner.operation == Operation::Update)
            .map(|(owner, entry)| (entry.time.clone(), owner.clone()))
            .collect();
        if updaters.len() <= MAX_UPDATERS {
            return;
        }
        updaters.sort();
        let surplus = updaters.len() - MAX_UPDATERS + 1;
        for (_, owner) in updaters.into_iter().take(surplus) {
            let Some(entry) = self.0.remove(&owner) else {
                continue;
            };
            let ancient = Owner {
                manager: "ancient-changes".into(),
                subresource: String::new(),
                ..owner
            };
            match self.0.get_mut(&ancient) {
                Some(merged) => {
                    merged.set = merged.set.union(&entry.set);
                    merged.time = merged.time.take().max(entry.time);
                }
                None => drop(self.0.insert(ancient, entry)),
            }
        }
    }
}

impl Entry {
    fn new(writer: &Writer<'_>) -> Self {
        Self {
            api_version: writer.api_version.to_owned(),
            time: None,
            set: FieldSet::default(),
        }
    }
}

impl Writer<'_> {
    fn owner(&self, operation: Operation) -> Owner {
        let update_version = if operation == Operation::Update {
            self.api_version.to_owned()
        } else {
            String::new()
        };
        Owner {
            manager: self.manager.to_owned(),
            operation,
            update_version,
            subresource: self.subresource.to_owned(),
        }
    }
}

/// Fields without an owner: the server sets them.
fn bookkeeping() -> FieldSet {
    FieldSet::from_json(&json!({
        "f:apiVersion": {}, "f:kind": {},
        "f:metadata": {".": {}, "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {}, "f:uid": {},
            "f:clusterName": {}, "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {}},
    }))
}

fn entry_json(owner: &Owner, entry: &Entry) -> Value {
    let operation = if owner.operation == Operation::Apply {
        "Apply"
    } else {
        "Update"
    };
    let mut json =
        json!({"manager": owner.manager, "operation": operation, "apiVersion": entry.api_version});
    if let Some(time) = &entry.time {
        json["time"] = time.as_str().into();
    }
    json["fieldsType"] = "FieldsV1".into();
    json["fieldsV1"] = entry.set.to_json();
    if !owner.subresource.is_empty() {
        json["subresource"] = owner.subresource.as_str().into();
    }
    json
}

fn conflict(conflicts: &[(Owner, FieldSet)]) -> ApiError {
    let all: Vec<(String, String)> = conflicts
        .iter()
        .flat_map(|(owner, set)| set.paths().into_iter().map(|path| (shown(owner), path)))
        .collect();
    let message = if let [(owner, path)] = all.as_slice() {
        format!("Apply failed with 1 conflict: conflict with {owner}: {path}")
    } else {
        let block = |(owner, set): &(Owner, FieldSet)| {
            let paths: Vec<String> = set
                .paths()
                .into_iter()
                .map(|path| format!("- {path}"))
                .collect();
            format!("conflicts with {}:\n{}", shown(owner), paths.join("\n"))
        };
        let blocks: Vec<String> = conflicts.iter().map(block).collect();
        format!(
            "Apply failed with {} conflicts: {}",
            all.len(),
            blocks.join("\n")
        )
    };
    let causes: Vec<Value> = all
        .into_iter()
        .map(|(owner, path)| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {owner}"), "field": path}))
        .collect();
    let mut error = ApiError::new(409, "Conflict", message);
    error.details = Some(json!({"causes": causes}));
    error
}

fn shown(owner: &Owner) -> String {
    let mut text = format!("{:?}", owner.manager);
    if !owner.subresource.is_empty() {
        text += &format!(" with subresource {:?}", owner.subresource);
    }
    if owner.operation == Operation::Update {
        text += &format!(" using {}", owner.update_version);
    }
    text
}

#[cfg(test)]
mod tests;
