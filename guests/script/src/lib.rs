//! A little language of calls for test guests: one guest then exercises every function of the client. Entry point: [`run`].
//!
//! The config is `{"steps": [step, …]}`; the answer is a list with an entry for each. A step:
//!
//! ```json
//! {"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "a"], "options": {"mode": "live"},
//!  "object": {}, "patch": ["merge", {}], "save": "x", "from": "x", "merge": {}, "show": ["/data/color"]}
//! ```
//!
//! `do` is a function of the contract's `cluster`, or `now`. `save` keeps the returned object under a name; `from` sends a kept
//! object, with `merge` merged into it. `show` lists the parts of objects in the answer; default: the name.

mod options;
mod show;

pub use show::{error, fields, replies, text};

use serde_json::Value;
use show::Shown;
use windlass_sdk::raw::{Answer, Cluster};
use windlass_sdk::{
    Error, GroupVersionKind, ListOptions, Object, ObjectKey, Operation, Result, config, now,
};

/// Runs the config's steps in a cluster and returns the result of each.
///
/// # Errors
/// If a step is invalid; a failed call is a result.
pub fn run(cluster: &Cluster) -> Result<Value> {
    let mut config: Value = config()?;
    let (mut saved, mut answers) = (Saved::new(), Vec::new());
    for step in steps(&mut config) {
        answers.push(Step { step, cluster }.run(&mut saved)?);
    }
    Ok(Value::Array(answers))
}

/// The elements of a list; none for other values.
#[must_use]
pub fn items(list: &Value) -> &[Value] {
    match list {
        Value::Array(items) => items,
        _ => &[],
    }
}

fn steps(within: &mut Value) -> &mut [Value] {
    match within.get_mut("steps") {
        Some(Value::Array(steps)) => steps,
        _ => &mut [],
    }
}

/// Objects kept by `save`: name and text.
type Saved = Vec<(String, String)>;

struct Step<'a> {
    /// Fields that were used are removed.
    step: &'a mut Value,
    cluster: &'a Cluster,
}

impl Step<'_> {
    fn run(&mut self, saved: &mut Saved) -> Result<Value> {
        let shown = Shown::of(self.step);
        match self.step["do"].as_str().unwrap_or_default() {
            "name" => Ok(Value::String(self.cluster.name())),
            "now" => Ok(Value::String(now())),
            "record-event" => {
                self.cluster
                    .record_event(&options::event(self.step, self.kind()?, self.key()?));
                Ok("recorded".into())
            }
            "batch" => {
                let mut operations = Vec::new();
                let cluster = self.cluster;
                for step in steps(self.step) {
                    operations.push(Step { step, cluster }.operation(saved)?);
                }
                Ok(shown.replies(self.cluster.batch(&operations)))
            }
            "delete-collection" => {
                let outcome = self.cluster.delete_collection(
                    &self.kind()?,
                    &options::selection(self.step),
                    &options::delete(self.step),
                );
                Ok(shown.nothing(outcome))
            }
            _ => self.call(saved, &shown),
        }
    }

    /// The functions that are operations, each by its own name.
    fn call(&mut self, saved: &mut Saved, shown: &Shown) -> Result<Value> {
        let cluster = self.cluster;
        let object: Answer<Option<String>> = match self.operation(saved)? {
            Operation::Get((kind, key, options)) => cluster.get(&kind, &key, &options),
            Operation::Create((kind, object, options)) => {
                cluster.create(&kind, &object, &options).map(Some)
            }
            Operation::Update((kind, object, options)) => {
                cluster.update(&kind, &object, &options).map(Some)
            }
            Operation::Apply((kind, object, options)) => {
                cluster.apply(&kind, &object, &options).map(Some)
            }
            Operation::Patch((kind, key, patch_type, patch, options)) => cluster
                .patch(&kind, &key, patch_type, &patch, &options)
                .map(Some),
            Operation::List((kind, options)) => return Ok(self.list(&kind, options, shown)),
            Operation::Delete((kind, key, options)) => {
                return Ok(shown.nothing(cluster.delete(&kind, &key, &options)));
            }
        };
        if let (Ok(Some(text)), Some(name)) = (&object, self.step["save"].as_str()) {
            saved.push((name.to_owned(), text.clone()));
        }
        Ok(shown.object(object))
    }

    /// Every page, until one fails.
    fn list(&self, kind: &GroupVersionKind, mut options: ListOptions, shown: &Shown) -> Value {
        let mut pages = Vec::new();
        loop {
            match self.cluster.list(kind, &options) {
                Ok(page) => {
                    pages.push(shown.items(&page));
                    options.continue_token = page.continue_token;
                    if options.continue_token.is_none() {
                        return Value::Array(pages);
                    }
                }
                Err(failed) => return error(&failed),
            }
        }
    }

    fn operation(&mut self, saved: &Saved) -> Result<Operation> {
        let kind = self.kind()?;
        let sent = self.object(saved)?;
        let step = &*self.step;
        Ok(match step["do"].as_str().unwrap_or_default() {
            "get" => Operation::Get((kind, self.key()?, options::get(step))),
            "create" => Operation::Create((kind, sent, options::write(step))),
            "update" => Operation::Update((kind, sent, options::write(step))),
            "apply" => Operation::Apply((kind, sent, options::apply(step))),
            "patch" => {
                let (patch_type, patch) = options::patch(step)?;
                Operation::Patch((kind, self.key()?, patch_type, patch, options::write(step)))
            }
            "delete" => Operation::Delete((kind, self.key()?, options::delete(step))),
            "list" => Operation::List((kind, options::list(step))),
            _ => return Err(Error::terminal("a step without a function")),
        })
    }

    fn kind(&self) -> Result<GroupVersionKind> {
        let part = |at: usize| self.step["kind"][at].as_str();
        let kind = part(0)
            .zip(part(1))
            .map(|(api_version, kind)| GroupVersionKind::new(api_version, kind));
        kind.ok_or_else(|| Error::terminal("a step without a kind"))
    }

    fn key(&self) -> Result<ObjectKey> {
        let part = |at: usize| self.step["key"][at].as_str();
        match (part(0), part(1)) {
            (Some(namespace), Some(name)) => Ok(ObjectKey::namespaced(namespace, name)),
            (Some(name), None) => Ok(ObjectKey::cluster_scoped(name)),
            _ => Err(Error::terminal("a step without a key")),
        }
    }

    /// The object to send.
    fn object(&mut self, saved: &Saved) -> Result<String> {
        let mut object = take(self.step, "object");
        if let Some(name) = self.step["from"].as_str() {
            let kept = saved.iter().rev().find(|(kept, _)| kept == name);
            let (_, text) = kept.ok_or_else(|| Error::terminal("nothing saved by that name"))?;
            object = text.parse::<Object>()?.0;
        }
        merge(&mut object, take(self.step, "merge"));
        Ok(match object {
            Value::String(text) => text, // for a test with text that is no object
            object => text(&object),
        })
    }
}

/// Removes and returns a field's value; null if there is none.
fn take(object: &mut Value, field: &str) -> Value {
    object.get_mut(field).map(Value::take).unwrap_or_default()
}

/// As a merge patch, but null changes nothing.
fn merge(target: &mut Value, changes: Value) {
    match changes {
        Value::Null => {}
        Value::Object(changes) => {
            if !target.is_object() {
                *target = fields(&mut []);
            }
            for (field, change) in changes {
                match target.get_mut(&field) {
                    Some(present) => merge(present, change),
                    None => put(target, field, change),
                }
            }
        }
        other => *target = other,
    }
}

fn put(target: &mut Value, field: String, value: Value) {
    if let Value::Object(fields) = target {
        fields.insert(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_sdk::testing::TestFleet;

    #[test]
    fn steps_run_in_order_and_objects_can_be_kept() {
        let map = |color: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}, "data": {"color": color}});
        let kind = json!(["v1", "ConfigMap"]);
        let fleet = TestFleet::new().config(&json!({"steps": [
            {"do": "create", "kind": kind, "object": map("red"), "save": "a"},
            {"do": "update", "kind": kind, "from": "a", "merge": {"data": {"color": "blue"}}, "show": ["/data/color"]},
            {"do": "update", "kind": kind, "from": "a", "merge": {"data": {"color": "green"}}},
            {"do": "batch", "steps": [{"do": "get", "kind": kind, "key": ["default", "a"]}, {"do": "delete", "kind": kind, "key": ["default", "b"]}]},
            {"do": "list", "kind": kind},
        ]}));
        let alpha = fleet.cluster("alpha");
        let answer = fleet.enter(|| run(alpha.client().raw())).unwrap();
        assert_eq!(answer[0], json!("a"));
        assert_eq!(answer[1], json!(["blue"]));
        assert_eq!(answer[2]["code"], "conflict");
        assert_eq!(answer[3][0], json!("a"));
        assert_eq!(answer[3][1]["code"], "not-found");
        assert_eq!(answer[4], json!([["a"]]));
    }
}
