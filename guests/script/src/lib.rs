//! A little language of calls for test guests: one guest then exercises every function of the client. Entry point: [`run`].
//!
//! The config is `{"steps": [step, …]}`; the answer is a list with an entry for each. A step:
//!
//! ```json
//! {"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "a"], "options": {"mode": "live"},
//!  "object": {}, "patch": ["merge", {}], "save": "x", "from": "x", "merge": {}, "show": ["/data/color"]}
//! ```
//!
//! `do` is a function of the contract's `cluster`, or `now`. `save` keeps the object that came back under a name; `from` takes it
//! as the object to send, with `merge` merged into it. `show` says which parts of objects the answer holds; default: the name.

mod options;
mod show;

pub use show::{error, reply};

use serde_json::{Value, json};
use show::Shown;
use std::collections::BTreeMap;
use windlass_sdk::raw::{Answer, Cluster};
use windlass_sdk::{Error, GroupVersionKind, ObjectKey, Operation, Result, config, now};

/// Runs the config's steps in a cluster and answers what came of each, as JSON.
///
/// # Errors
/// When a step makes no sense; a call that fails is an answer.
pub fn run(cluster: &Cluster) -> Result<String> {
    let config: Value = config()?;
    let mut saved = BTreeMap::new();
    let steps = config["steps"].as_array().into_iter().flatten();
    let answers: Vec<Value> = steps
        .map(|step| Step { step, cluster }.run(&mut saved))
        .collect::<Result<_>>()?;
    Ok(Value::Array(answers).to_string())
}

/// Objects kept by `save`.
type Saved = BTreeMap<String, Value>;

struct Step<'a> {
    step: &'a Value,
    cluster: &'a Cluster,
}

impl Step<'_> {
    fn run(&self, saved: &mut Saved) -> Result<Value> {
        let function = self.step["do"].as_str().unwrap_or_default();
        let shown = Shown::of(self.step);
        match function {
            "name" => Ok(json!(self.cluster.name())),
            "now" => Ok(json!(now())),
            "record-event" => {
                self.cluster
                    .record_event(&options::event(self.step, self.kind()?, self.key()?));
                Ok(json!("recorded"))
            }
            "batch" => {
                let steps = self.step["steps"].as_array().into_iter().flatten();
                let operations: Vec<Operation> = steps
                    .map(|step| Step { step, ..*self }.operation(saved))
                    .collect::<Result<_>>()?;
                Ok(self
                    .cluster
                    .batch(&operations)
                    .into_iter()
                    .map(|answer| shown.reply(answer))
                    .collect())
            }
            "delete-collection" => {
                let outcome = self.cluster.delete_collection(
                    &self.kind()?,
                    &options::selection(self.step),
                    &options::delete(self.step),
                );
                Ok(shown.nothing(outcome))
            }
            _ => self.call(function, saved, &shown),
        }
    }

    /// The functions whose answer is an object, a page or nothing.
    fn call(&self, function: &str, saved: &mut Saved, shown: &Shown) -> Result<Value> {
        let (cluster, step, kind) = (self.cluster, self.step, self.kind()?);
        let object: Answer<Option<String>> = match function {
            "get" => cluster.get(&kind, &self.key()?, &options::get(step)),
            "create" => cluster
                .create(&kind, &self.object(saved)?, &options::write(step))
                .map(Some),
            "update" => cluster
                .update(&kind, &self.object(saved)?, &options::write(step))
                .map(Some),
            "apply" => cluster
                .apply(&kind, &self.object(saved)?, &options::apply(step))
                .map(Some),
            "patch" => {
                let (patch_type, patch) = options::patch(step)?;
                cluster
                    .patch(
                        &kind,
                        &self.key()?,
                        patch_type,
                        &patch,
                        &options::write(step),
                    )
                    .map(Some)
            }
            "list" => return self.list(&kind, shown),
            "delete" => {
                return Ok(shown.nothing(cluster.delete(
                    &kind,
                    &self.key()?,
                    &options::delete(step),
                )));
            }
            other => return Err(Error::terminal(format!("no function {other:?}"))),
        };
        if let (Ok(Some(text)), Some(name)) = (&object, step["save"].as_str()) {
            saved.insert(name.to_owned(), serde_json::from_str(text)?);
        }
        Ok(shown.object(object))
    }

    /// Every page, until one fails.
    fn list(&self, kind: &GroupVersionKind, shown: &Shown) -> Result<Value> {
        let (mut options, mut pages) = (options::list(self.step), Vec::new());
        loop {
            match self.cluster.list(kind, &options) {
                Ok(page) => {
                    pages.push(shown.items(&page));
                    options.continue_token = page.continue_token;
                    if options.continue_token.is_none() {
                        return Ok(Value::Array(pages));
                    }
                }
                Err(failed) => return Ok(error(&failed)),
            }
        }
    }

    fn operation(&self, saved: &Saved) -> Result<Operation> {
        let (step, kind) = (self.step, self.kind()?);
        Ok(match step["do"].as_str().unwrap_or_default() {
            "get" => Operation::Get((kind, self.key()?, options::get(step))),
            "create" => Operation::Create((kind, self.object(saved)?, options::write(step))),
            "update" => Operation::Update((kind, self.object(saved)?, options::write(step))),
            "apply" => Operation::Apply((kind, self.object(saved)?, options::apply(step))),
            "patch" => {
                let (patch_type, patch) = options::patch(step)?;
                Operation::Patch((kind, self.key()?, patch_type, patch, options::write(step)))
            }
            "delete" => Operation::Delete((kind, self.key()?, options::delete(step))),
            "list" => Operation::List((kind, options::list(step))),
            other => return Err(Error::terminal(format!("no operation {other:?}"))),
        })
    }

    fn kind(&self) -> Result<GroupVersionKind> {
        let part = |at: usize| self.step["kind"][at].as_str();
        let kind = part(0)
            .zip(part(1))
            .map(|(api_version, kind)| GroupVersionKind::new(api_version, kind));
        kind.ok_or_else(|| Error::terminal(format!("no kind in {}", self.step)))
    }

    fn key(&self) -> Result<ObjectKey> {
        let part = |at: usize| self.step["key"][at].as_str();
        match (part(0), part(1)) {
            (Some(namespace), Some(name)) => Ok(ObjectKey::namespaced(namespace, name)),
            (Some(name), None) => Ok(ObjectKey::cluster_scoped(name)),
            _ => Err(Error::terminal(format!("no key in {}", self.step))),
        }
    }

    fn object(&self, saved: &Saved) -> Result<String> {
        let mut object = match self.step["from"].as_str() {
            Some(name) => saved
                .get(name)
                .cloned()
                .ok_or_else(|| Error::terminal(format!("nothing saved as {name:?}")))?,
            None => self.step["object"].clone(),
        };
        merge(&mut object, &self.step["merge"]);
        Ok(match object {
            Value::String(text) => text, // for what is not an object at all
            object => object.to_string(),
        })
    }
}

/// As a merge patch, but null changes nothing.
fn merge(target: &mut Value, changes: &Value) {
    match changes {
        Value::Null => {}
        Value::Object(fields) => fields
            .iter()
            .for_each(|(field, change)| merge(&mut target[field], change)),
        other => *target = other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer[0], json!("a"));
        assert_eq!(answer[1], json!(["blue"]));
        assert_eq!(answer[2]["code"], "conflict");
        assert_eq!(answer[3][0], json!("a"));
        assert_eq!(answer[3][1]["code"], "not-found");
        assert_eq!(answer[4], json!([["a"]]));
    }
}
