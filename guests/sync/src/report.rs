//! Tells the consumer: the status, and a condition or an Event. Entry point: [`report`].

use crate::status::{change, projected, with_condition};
use crate::trouble::{Condition, Trouble};
use crate::work::Work;
use serde_json::Value;
use windlass_sdk::now;
use windlass_sdk::prelude::*;

/// Writes the status of the consumer's object where it says something else. Without a copy, only the condition is written.
///
/// # Errors
/// If the status cannot be written, and there is one.
pub(crate) fn report(
    work: &Work<'_>,
    source: &Object,
    copy: Option<&Object>,
    trouble: Option<&Trouble>,
) -> Result<()> {
    let before = &source.0["status"];
    let mut after = match copy {
        Some(copy) => {
            let mut next = serde_json::json!({
                "status": projected(work.published, source, copy, &work.facts),
            });
            crate::related::rewrite(work, crate::config::Side::Service, &mut next);
            next["status"].take()
        }
        None => before.clone(),
    };
    let kind = &*work.published.up.condition;
    let condition = trouble.map_or_else(|| Some(Condition::synced()), Trouble::condition);
    let mut is_said = false;
    if let Some(condition) = condition.as_ref().filter(|_| !kind.is_empty()) {
        after = with_condition(after, source, kind, condition, &now());
        is_said = has(before, kind, condition);
    }
    if let Some(patch) = change(before, &after) {
        let of_kind = work.workspace.of(work.published.source_kind());
        match of_kind.patch_status(&work.origin.key, &patch) {
            Ok(stored) => {
                let stored = &stored.0["status"];
                is_said = condition.as_ref().is_some_and(|one| has(stored, kind, one));
            }
            // The kind has no status, or none that holds this.
            Err(error) if matches!(error.code, ApiCode::NotFound | ApiCode::Invalid) => {
                is_said = false;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (Some(_), Some(condition), false) = (trouble, condition, is_said) {
        work.workspace
            .warn(source, condition.reason, condition.message);
    }
    Ok(())
}

/// Whether a status has this condition.
fn has(status: &Value, kind: &str, condition: &Condition) -> bool {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        one["type"] == kind
            && one["status"] == condition.status
            && one["reason"] == condition.reason
            && one["message"] == *condition.message
    })
}
