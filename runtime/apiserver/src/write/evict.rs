//! Evictions: [`State::evict`] deletes a pod if its disruption budget lets it.
//!
//! What a budget allows stands in its status, which a controller writes. No controller runs here: until a test plays it, a budget
//! allows nothing, as on a server without kube-controller-manager.

use std::sync::Arc;

use serde_json::{Value, json};

use super::WriteOptions;
use super::bind::{put_condition, set_condition};
use super::delete::{DeleteOptions, check_preconditions};
use crate::convert;
use crate::part::Part;
use crate::resource::Resource;
use crate::schema::decode;
use crate::selector::Labels;
use crate::stamp::now;
use crate::state::State;
use crate::status::{ApiError, Subject};
use crate::store::Object;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const SEVERAL: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
/// Seconds after which a client may ask again while a budget is new.
const AGAIN: u32 = 10;
/// Evictions that the controller of budgets has not seen yet.
const MAX_DISRUPTED: usize = 2000;

impl State {
    /// Evicts a pod.
    ///
    /// # Errors
    /// 400 for an eviction of another name, 404, 409 for a precondition that does not hold, 429 if the budget does not allow it, 500 for a
    /// pod with several budgets.
    pub(crate) fn evict(
        &mut self,
        pods: &Arc<Resource>,
        at: (&str, &str),
        eviction: &Value,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        let (namespace, name) = at;
        if eviction["metadata"]["name"] != name {
            let text = "name in URL does not match name in Eviction object";
            return Err(ApiError::bad_request(text));
        }
        let mut options = DeleteOptions::read(&eviction["deleteOptions"])?;
        options.dry_run |= dry_run;
        let live = Arc::clone(self.object(pods, namespace, name)?);
        let pod = live.value();
        if needs_no_budget(&pod) {
            return self.disrupt(pods, &live, options);
        }
        match self.budgets(&live).as_slice() {
            [] => {}
            [budget] if goes_free(&pod, &budget.value()) => {}
            [budget] => self.spend(budget, name, options.dry_run)?,
            _ => return Err(ApiError::new(500, "", SEVERAL)),
        }
        self.disrupt(pods, &live, options)
    }

    /// The budgets that select a pod.
    fn budgets(&self, pod: &Object) -> Vec<Arc<Object>> {
        let Some(resource) = self.resource("policy", "v1", "poddisruptionbudgets") else {
            return Vec::new();
        };
        let selects = |budget: &&Arc<Object>| {
            let selector = &budget.value()["spec"]["selector"];
            selector.is_object() && Labels::of_object(selector).matches(|key| pod.label(key))
        };
        self.store
            .range(&resource.collection(), &format!("{}/", pod.head.namespace))
            .filter(selects)
            .cloned()
            .collect()
    }

    /// Takes one disruption from a budget.
    fn spend(&mut self, live: &Arc<Object>, pod: &str, dry_run: bool) -> Result<(), ApiError> {
        let Some(resource) = self.resource("policy", "v1", "poddisruptionbudgets") else {
            return Ok(());
        };
        let mut budget = convert::from_storage(live, &resource);
        let left = allowed(&budget, &live.head.name)? - 1;
        let status = &mut budget["status"];
        status["disruptionsAllowed"] = left.into();
        if left == 0 {
            exhaust(status);
        }
        if dry_run {
            return Ok(());
        }
        status["disruptedPods"][pod] = now().into();
        let options = WriteOptions {
            manager: "kube-apiserver".into(),
            ..WriteOptions::default()
        };
        self.replace(
            &resource,
            Part::Status,
            live,
            budget,
            None,
            &options,
            Vec::new(),
        )
        .map(drop)
    }

    /// Says in the pod's status why it goes, and deletes it.
    fn disrupt(
        &mut self,
        pods: &Arc<Resource>,
        live: &Arc<Object>,
        mut options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut pod = live.value();
        let old = pod.clone();
        if !options.dry_run {
            check_preconditions(pods, live, &options)?;
            let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting"});
            set_condition(&mut pod["status"], condition);
            if pod != old {
                decode::settle(&mut pod, pods.schema());
                let stored = self.commit(&pods.collection(), pod);
                let version = stored.head.version.to_string();
                options.version = options.version.map(|_| version);
            }
        }
        let (namespace, name) = (&live.head.namespace, &live.head.name);
        self.delete(pods, namespace, name, &options).map(drop)
    }
}

/// A pod that has ended, has not begun or is being deleted serves nobody.
fn needs_no_budget(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_some()
        || matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed" | "Pending")
        )
}

/// Whether a budget lets a pod go that is not ready, without counting it.
fn goes_free(pod: &Value, budget: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == "Ready" && one["status"] == "True");
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let (current, desired) = (count("currentHealthy"), count("desiredHealthy"));
    !ready
        && (budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
            || current >= desired && desired > 0)
}

/// How many disruptions a budget allows, at least one.
fn allowed(budget: &Value, name: &str) -> Result<i64, ApiError> {
    let subject = Subject {
        group: "policy",
        plural: "poddisruptionbudget",
        kind: "PodDisruptionBudget",
    };
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    let generation = budget["metadata"]["generation"].as_i64();
    if count("observedGeneration") < generation.unwrap_or_default() {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(&cause, Some(AGAIN)));
    }
    let disrupted = status["disruptedPods"].as_object();
    match count("disruptionsAllowed") {
        ..0 => {
            let why = "pdb disruptions allowed is negative";
            Err(ApiError::forbidden(subject, name, why))
        }
        _ if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) => {
            let why =
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
            Err(ApiError::forbidden(subject, name, why))
        }
        0 => Err(refused(&why_none(status, name), None)),
        left => Ok(left),
    }
}

/// Why a budget allows no disruption.
fn why_none(status: &Value, name: &str) -> String {
    let count = |field: &str| status[field].as_i64().unwrap_or_default();
    let conditions = status["conditions"].as_array();
    let condition = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "DisruptionAllowed");
    let told = condition
        .filter(|one| one["status"] == "False")
        .map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            (text("reason"), text("message"))
        })
        .filter(|(_, message)| !message.is_empty());
    let (current, desired) = (count("currentHealthy"), count("desiredHealthy"));
    match told {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if current <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        ),
        Some((reason, message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn refused(cause: &str, again: Option<u32>) -> ApiError {
    let mut error = ApiError::new(429, "TooManyRequests", REFUSED);
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    if let Some(seconds) = again {
        details["retryAfterSeconds"] = seconds.into();
    }
    error.details = Some(details);
    error.retry_after = again;
    error
}

/// Says in a budget's status that it allows no more.
fn exhaust(status: &mut Value) {
    let generation = status["observedGeneration"].clone();
    let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": generation});
    put_condition(status, condition);
}
