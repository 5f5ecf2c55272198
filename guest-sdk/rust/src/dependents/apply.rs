//! Brings the dependents of a living object to their desired state. Entry point: [`Dependents::keep`].

use super::{Dependents, Identity, OWNER, identity, invalid, remove, report, summary};
use crate::cluster::{Cluster, covers, stamped};
use crate::error::{ApiError, Result};
use crate::resource::{Object, Resource, decode};
use crate::types::{Action, ApplyOptions, Operation, Reply};
use serde_json::{Value, json};

/// Objects by kind and key. There are few: a list is smaller than a map.
type Present = Vec<(Identity, Object)>;

impl Dependents<'_> {
    pub(super) fn keep(
        &self,
        cluster: &Cluster,
        primary: &Object,
        desired: Vec<Object>,
    ) -> Result<Action> {
        let wanted = desired
            .into_iter()
            .map(|object| self.prepared(primary, object))
            .collect::<Result<Vec<Object>, ApiError>>()?;
        if let Some(finalizer) = &self.finalizer {
            cluster.ensure_finalizer(primary, finalizer)?;
        }
        let found = self.of_owner(cluster, primary)?;
        let mut present: Present = found.into_iter().map(|it| (identity(&it), it)).collect();
        apply(cluster, primary, &wanted, &mut present)?;

        let is_wanted = |id: &Identity| wanted.iter().any(|object| identity(object) == *id);
        let gone = present.iter().filter(|(id, _)| !is_wanted(id));
        let gone: Vec<Object> = gone.map(|(_, object)| object.clone()).collect();
        remove(cluster, &gone)?;

        let mut waiting = Vec::new();
        for object in &wanted {
            if let Some(why) = find(&present, object).and_then(|stored| (self.ready)(stored)) {
                waiting.push(format!("{}: {why}", object.named()));
            }
        }
        if waiting.is_empty() {
            report(
                cluster,
                primary,
                "Ready",
                "all dependents are ready",
                &self.status,
            )?;
            return Ok(Action::Done);
        }
        let message = format!("waits for {}", summary(&waiting));
        report(cluster, primary, "NotReady", &message, &self.status)?;
        Ok(Action::requeue_after(self.recheck))
    }

    /// A desired object as it is applied: with its owner, or the label alone where it cannot have one.
    fn prepared(&self, primary: &Object, mut object: Object) -> Result<Object, ApiError> {
        if !self.kinds.contains(&object.kind()) {
            let name = object.named();
            return Err(invalid(format!(
                "{name}: its kind is not among those of the dependents"
            )));
        }
        let owner = primary.identity();
        let Some(uid) = owner.uid else {
            let name = primary.named();
            return Err(invalid(format!(
                "{name} has no uid: take an owner that was read from a cluster"
            )));
        };
        let labels = &mut object.0["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[OWNER] = uid.into();
        if owner.namespace.is_none() || owner.namespace == object.identity().namespace {
            object.set_controller(primary.controller_reference())?;
        } else if self.finalizer.is_none() {
            let (name, owner) = (object.named(), primary.named());
            return Err(invalid(format!(
                "{name} cannot be owned by {owner}: give the dependents a finalizer"
            )));
        }
        Ok(stamped(object))
    }
}

/// Applies what differs, and puts what is stored into `present`.
fn apply(
    cluster: &Cluster,
    primary: &Object,
    wanted: &[Object],
    present: &mut Present,
) -> Result<()> {
    let differs =
        |object: &&Object| find(present, object).is_none_or(|stored| !covers(&stored.0, &object.0));
    let missing: Vec<&Object> = wanted.iter().filter(differs).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let operations = missing
        .iter()
        .map(|object| Operation::apply(*object, ApplyOptions::forced()))
        .collect::<Result<Vec<_>, _>>()?;
    for (object, reply) in missing.into_iter().zip(cluster.batch(&operations)) {
        let stored = match reply {
            Ok(Reply::Object(text)) => decode(&object.kind(), &text)?,
            Ok(_) => object.clone(),
            Err(error) => {
                let message = format!("{}: {error}", object.named());
                report(cluster, primary, "ApplyFailed", &message, &Value::Null)?;
                return Err(error.into());
            }
        };
        let id = identity(object);
        present.retain(|(of, _)| *of != id);
        present.push((id, stored));
    }
    Ok(())
}

fn find<'a>(present: &'a Present, object: &Object) -> Option<&'a Object> {
    let id = identity(object);
    present.iter().find(|(of, _)| *of == id).map(|(_, it)| it)
}
