//! Brings the dependents of a living object to their desired state. Entry point: [`Dependents::keep`].

use super::super::calls::Calls;
use super::super::finalizers::ensure_finalizer;
use super::super::fingerprint::stamped;
use super::super::{covers, forced_apply};
use super::{Dependents, Identity, OWNER, Report, identity, invalid, remove, summary};
use crate::api::{ApiError, Reply};
use crate::object::Object;
use crate::outcome::{Action, Failure};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

type Present = BTreeMap<Identity, Object>;

impl Dependents<'_> {
    pub(super) async fn keep(
        &self,
        calls: &impl Calls,
        primary: &Object,
        desired: Vec<Object>,
        now: Timestamp,
    ) -> Result<Action, Failure> {
        let wanted = desired.into_iter().map(|each| self.prepared(primary, each));
        let wanted = wanted.collect::<Result<Vec<Object>, ApiError>>()?;
        if let Some(finalizer) = &self.finalizer {
            ensure_finalizer(calls, primary.clone(), finalizer).await?;
        }
        let found = self.of_owner(calls, primary).await?;
        let mut present: Present = found.into_iter().map(|it| (identity(&it), it)).collect();
        let report = Report::new(primary, now);
        apply(calls, &report, &wanted, &mut present).await?;

        let mut gone = present.clone();
        for object in &wanted {
            gone.remove(&identity(object));
        }
        remove(calls, &gone.into_values().collect::<Vec<_>>()).await?;

        let waiting = self.waiting(&wanted, &present);
        if waiting.is_empty() {
            let message = "all dependents are ready";
            report.write(calls, "Ready", message, &self.status).await?;
            return Ok(Action::Done);
        }
        let message = format!("waits for {}", summary(&waiting));
        report
            .write(calls, "NotReady", &message, &self.status)
            .await?;
        Ok(Action::RequeueAfter(self.recheck))
    }

    /// The objects that are not ready, each with the reason.
    fn waiting(&self, wanted: &[Object], present: &Present) -> Vec<String> {
        let not_ready = |object: &Object| {
            let stored = present.get(&identity(object))?;
            let why = (self.ready)(stored)?;
            Some(format!("{}: {why}", object.named()))
        };
        wanted.iter().filter_map(not_ready).collect()
    }

    /// A desired object as it is applied: with its owner, or the label alone where it cannot have one.
    fn prepared(&self, primary: &Object, mut object: Object) -> Result<Object, ApiError> {
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
        Ok(stamped(object))
    }
}

/// Applies what differs, and puts what the server keeps into `present`.
async fn apply(
    calls: &impl Calls,
    report: &Report<'_>,
    wanted: &[Object],
    present: &mut Present,
) -> Result<(), ApiError> {
    let differs = |object: &&Object| {
        let stored = present.get(&identity(object));
        stored.is_none_or(|stored| !covers(&stored.0, &object.0))
    };
    let missing: Vec<&Object> = wanted.iter().filter(differs).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let applies = missing.iter().map(|object| forced_apply(object)).collect();
    let replies = calls.batch(applies).await;
    for (object, reply) in missing.into_iter().zip(replies) {
        let stored = match reply {
            Ok(Reply::Object(json)) => Object::parse(&json)?,
            Ok(Reply::Nothing | Reply::Page(_)) => object.clone(),
            Err(error) => {
                let message = format!("{}: {error}", object.named());
                report
                    .write(calls, "ApplyFailed", &message, &Value::Null)
                    .await?;
                return Err(error);
            }
        };
        present.insert(identity(object), stored);
    }
    Ok(())
}
