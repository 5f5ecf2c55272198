//! Brings the dependents of a living object to their desired state. Entry point: [`Dependents::keep`].

use super::super::applied::Desired;
use super::super::calls::Calls;
use super::super::finalizers::ensure_finalizer;
use super::super::forced_apply;
use super::failures::{Failures, plain, summary};
use super::order::{is_defined, is_ground, remove};
use super::{Dependents, OWNER, Report, identity, invalid};
use crate::api::{ApiCode, ApiError, Operation, Reply, WriteOptions};
use crate::object::Object;
use crate::outcome::{Action, Failure};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashSet;

/// HTTP's status for an object that the server does not take as it is.
const UNPROCESSABLE: u16 = 422;

impl Dependents<'_> {
    pub(super) async fn keep(
        &self,
        calls: &impl Calls,
        primary: &Object,
        desired: Vec<Object>,
        now: Timestamp,
    ) -> Result<Action, Failure> {
        let wanted = desired.into_iter().map(|each| self.prepared(primary, each));
        let wanted = wanted.collect::<Result<Vec<Desired>, ApiError>>()?;
        refuse_twice(&wanted)?;
        if let Some(finalizer) = &self.finalizer {
            ensure_finalizer(calls, primary.clone(), finalizer).await?;
        }
        let mut pass = Pass {
            calls,
            parts: self,
            present: self.of_owner(calls, primary).await?,
            wanted: &wanted,
            waiting: Vec::new(),
            failures: Failures::default(),
        };
        pass.apply_all().await?;
        pass.delete_others().await;
        pass.end(&Report::new(primary, now)).await
    }

    /// A desired object as it is applied: with its owner, or the label alone where it cannot have one.
    fn prepared(&self, primary: &Object, mut object: Object) -> Result<Desired, ApiError> {
        if !self.kinds.contains(&object.gvk()) {
            let name = object.named();
            return Err(invalid(format!(
                "{name}: its kind is not among those of the dependents"
            )));
        }
        let Some(uid) = primary.text_at("/metadata/uid") else {
            let name = primary.named();
            return Err(invalid(format!(
                "{name} has no uid: take an owner that was read from a cluster"
            )));
        };
        if !object.0["metadata"].is_object() {
            let name = object.named();
            return Err(invalid(format!("{name}: its metadata is no object")));
        }
        let labels = &mut object.0["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[OWNER] = uid.into();
        let namespace = primary.key().namespace;
        if namespace.is_none() || namespace == object.key().namespace {
            object.set_controller(primary)?;
        } else if self.finalizer.is_none() {
            let (name, owner) = (object.named(), primary.named());
            return Err(invalid(format!(
                "{name} cannot be owned by {owner}: give the dependents a finalizer"
            )));
        }
        Ok(Desired::new(object))
    }
}

/// One pass over the dependents of a living object. A failure of one keeps none of the others.
struct Pass<'a, 'p, C> {
    calls: &'a C,
    parts: &'a Dependents<'p>,
    wanted: &'a [Desired],
    /// What exists. There are few: a list is smaller than a map.
    present: Vec<Object>,
    /// What is not there yet, each with the reason.
    waiting: Vec<String>,
    failures: Failures,
}

/// A desired object, and as what it is applied.
type Change<'a> = (&'a Desired, Object);

impl<'a, C: Calls> Pass<'a, '_, C> {
    /// Applies what differs: first what others need to exist. What a server keeps in another form is applied once more, with a note of it.
    async fn apply_all(&mut self) -> Result<(), ApiError> {
        let mut applied = Vec::new();
        for first in [true, false] {
            let wanted = self.wanted.iter();
            let now: Vec<&Desired> = wanted.filter(|it| is_ground(&it.object) == first).collect();
            let changes = now.into_iter().filter_map(|it| self.change(it)).collect();
            applied.extend(self.apply(changes).await?);
        }
        let note = |desired: &'a Desired| {
            let stored = self.find(&desired.object)?;
            (!desired.held_by(stored)).then(|| (desired, desired.noted(stored)))
        };
        let notes = applied.into_iter().filter_map(note).collect();
        self.apply(notes).await?;
        Ok(())
    }

    /// What to apply; `None` if there is nothing to do, or not yet.
    fn change(&mut self, desired: &'a Desired) -> Option<Change<'a>> {
        let Some(present) = self.find(&desired.object) else {
            return Some((desired, desired.next(None)));
        };
        if desired.held_by(present) {
            return None;
        }
        if present.is_deleting() && self.may_recreate(&desired.object) {
            self.waiting.push(recreated(&desired.object));
            return None;
        }
        Some((desired, desired.next(Some(present))))
    }

    /// Applies these, and returns those that are stored.
    async fn apply(&mut self, changes: Vec<Change<'a>>) -> Result<Vec<&'a Desired>, ApiError> {
        let operations = changes.iter().map(|(_, object)| forced_apply(object));
        let replies = self.batch(operations.collect()).await;
        let (mut applied, mut refused) = (Vec::new(), Vec::new());
        for ((desired, object), reply) in changes.into_iter().zip(replies) {
            match reply {
                Ok(Reply::Object(json)) => {
                    self.put(Object::parse(&json)?);
                    applied.push(desired);
                }
                Ok(_) => {}
                Err(error) if self.is_refused(&error, desired) => refused.push((object, error)),
                Err(error) => self.not_applied(&object, error),
            }
        }
        self.recreate(refused).await;
        Ok(applied)
    }

    async fn batch(&self, operations: Vec<Operation>) -> Vec<Result<Reply, ApiError>> {
        if operations.is_empty() {
            return Vec::new();
        }
        self.calls.batch(operations).await
    }

    fn not_applied(&mut self, object: &Object, error: ApiError) {
        match self.waits_for(object, &error) {
            Some(why) => self.waiting.push(format!("{}: {why}", object.named())),
            None => self.failures.add(&object.named(), error),
        }
    }

    /// What an object waits for that could not be applied; `None` if that is a failure.
    fn waits_for(&self, object: &Object, error: &ApiError) -> Option<String> {
        let details = error.details.as_deref().unwrap_or_default();
        let details: Value = serde_json::from_str(details).unwrap_or_default();
        let namespace = object.key().namespace.unwrap_or_default();
        if error.code == ApiCode::NotFound && details["kind"] == "namespaces" {
            return Some(format!("its namespace {namespace} does not exist"));
        }
        let mut causes = details["causes"].as_array().into_iter().flatten();
        if causes.any(|cause| cause["reason"] == "NamespaceTerminating") {
            return Some(format!("its namespace {namespace} is being deleted"));
        }
        is_defined(error, &object.gvk(), self.wanted)
            .then(|| "its kind is not served yet".to_owned())
    }

    /// Whether an object is to be deleted and created again. One that was made of the same fields is not: it would be made in the same way again,
    /// and refused again.
    fn is_refused(&self, error: &ApiError, desired: &Desired) -> bool {
        let is_other = |present: &Object| !desired.was_applied_to(present);
        error.http_status == UNPROCESSABLE
            && self.may_recreate(&desired.object)
            && self.find(&desired.object).is_some_and(is_other)
    }

    fn may_recreate(&self, object: &Object) -> bool {
        self.parts.recreate.contains(&object.gvk())
    }

    /// Deletes these objects, so that they are created again when they are gone. The server is asked before whether it would create them: an object
    /// that is wrong altogether is not lost. One that is refused for what the object has itself, such as a port, tells nothing: the change is the
    /// failure then.
    async fn recreate(&mut self, refused: Vec<(Object, ApiError)>) {
        let creation = |(object, _): &(Object, ApiError)| {
            let dry = WriteOptions {
                dry_run: true,
                ..WriteOptions::default()
            };
            Operation::Create(object.gvk(), object.json(), dry)
        };
        let asked = self.batch(refused.iter().map(creation).collect()).await;
        let mut doomed = Vec::new();
        for ((object, change), reply) in refused.into_iter().zip(asked) {
            match reply {
                Err(error) if error.code != ApiCode::AlreadyExists => {
                    let is_other = error.http_status != UNPROCESSABLE;
                    let error = if is_other { error } else { change };
                    self.failures.add(&object.named(), error);
                }
                _ => doomed.extend(self.find(&object).cloned()),
            }
        }
        for (object, result) in remove(self.calls, &doomed).await {
            match result {
                Err(error) if error.code != ApiCode::Conflict => self.not_deleted(object, error),
                _ => self.waiting.push(recreated(object)),
            }
        }
    }

    /// Deletes what is no longer desired.
    async fn delete_others(&mut self) {
        let is_wanted = |object: &Object| {
            let id = identity(object);
            self.wanted.iter().any(|it| identity(&it.object) == id)
        };
        let others = self.present.iter().filter(|object| !is_wanted(object));
        let others: Vec<Object> = others.cloned().collect();
        for (object, result) in remove(self.calls, &others).await {
            if let Err(error) = result {
                self.not_deleted(object, error);
            }
        }
    }

    fn not_deleted(&mut self, object: &Object, error: ApiError) {
        let what = format!("{} cannot be deleted", object.named());
        self.failures.add(&what, error);
    }

    /// Writes the conditions. All failures are one error.
    async fn end(mut self, report: &Report<'_>) -> Result<Action, Failure> {
        if let Some(mut error) = std::mem::take(&mut self.failures).into_error() {
            let written = report.write(self.calls, "ApplyFailed", &error.message, &Value::Null);
            if let Err(unwritten) = written.await {
                let why = plain(&unwritten);
                error.message += &format!("; and the status cannot be written: {why}");
            }
            return Err(error.into());
        }
        for desired in self.wanted {
            let stored = self.find(&desired.object);
            if let Some(why) = stored.and_then(|stored| (self.parts.ready)(stored)) {
                let named = desired.object.named();
                self.waiting.push(format!("{named}: {why}"));
            }
        }
        let status = &self.parts.status;
        if self.waiting.is_empty() {
            let message = "all dependents are ready";
            report.write(self.calls, "Ready", message, status).await?;
            return Ok(Action::Done);
        }
        let message = format!("waits for {}", summary(&self.waiting));
        report
            .write(self.calls, "NotReady", &message, status)
            .await?;
        Ok(Action::RequeueAfter(self.parts.recheck))
    }

    fn find(&self, object: &Object) -> Option<&Object> {
        let id = identity(object);
        self.present.iter().find(|each| identity(each) == id)
    }

    fn put(&mut self, stored: Object) {
        let id = identity(&stored);
        self.present.retain(|each| identity(each) != id);
        self.present.push(stored);
    }
}

/// The error for two desired objects of one kind and key.
fn refuse_twice(wanted: &[Desired]) -> Result<(), ApiError> {
    let mut identities = HashSet::new();
    for desired in wanted {
        if !identities.insert(identity(&desired.object)) {
            let name = desired.object.named();
            return Err(invalid(format!("{name}: it is desired twice")));
        }
    }
    Ok(())
}

/// The text about an object that is deleted to be created again.
fn recreated(object: &Object) -> String {
    format!("{}: it is deleted, and then created again", object.named())
}
