//! Faults at the calls of a case. Entry point: [`Fault`].
//!
//! A call is named by what it asks for and not by when it is made, so that a fault strikes the same call in every run: the requests of
//! several clusters have no order.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A fault, which strikes once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub fault: Effect,
    /// The cluster that is called; `local` is the local one.
    #[serde(rename = "in")]
    pub cluster: String,
    /// The call, as `create v1/ConfigMap default/a`; or `event v1/ConfigMap default/a` for a merge. A name that the server makes ends with `*`.
    pub at: String,
    /// The reconciler that calls; empty: any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reconciler: String,
    /// The request that it reconciles, as `default/a`, with its cluster before it if that is another one: `eu: default/a`. Empty: any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Which one of such calls, from 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub number: u32,
    /// What somebody changes or deletes, as `v1/ConfigMap default/a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// How many changes of the cluster the caches of the restarted process do not know at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// The only cache that begins in the past, as `configmaps` or `websites.example.dev`; none: all of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The run is killed before the call.
    KillBefore,
    /// The run is killed after the effect of the call, before its reply.
    KillAfter,
    /// The call answers a conflict, and does nothing.
    Conflict,
    /// The call answers a timeout, and does nothing.
    Timeout,
    /// The call answers a timeout, and its effect has happened.
    TimeoutDone,
    /// The call answers error 500, and does nothing.
    Error,
    /// Somebody changes an object before the call.
    Change,
    /// Somebody deletes an object before the call.
    Delete,
    /// The process is restarted before the call, with caches that begin in the past.
    Restart,
    /// The process is restarted after the effect of the call, with caches that begin in the past.
    RestartAfter,
    /// An event comes late, and is not seen if its object has changed once more by then.
    Merge,
}

/// A call, as faults name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallName {
    /// The cluster that is called.
    pub cluster: String,
    /// The reconciler that calls.
    pub reconciler: String,
    /// The request that it reconciles.
    pub request: String,
    /// What is asked for.
    pub at: String,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

impl Fault {
    /// A fault at one of the calls of a name.
    #[must_use]
    pub fn at(effect: Effect, call: &CallName, number: u32) -> Self {
        Self {
            fault: effect,
            cluster: call.cluster.clone(),
            at: call.at.clone(),
            reconciler: call.reconciler.clone(),
            request: call.request.clone(),
            number,
            object: None,
            behind: None,
            resource: None,
        }
    }

    /// Whether it is at calls of this name.
    #[must_use]
    pub fn is_at(&self, call: &CallName) -> bool {
        let any_or = |wanted: &str, there: &str| wanted.is_empty() || wanted == there;
        self.cluster == call.cluster
            && self.at == call.at
            && any_or(&self.reconciler, &call.reconciler)
            && any_or(&self.request, &call.request)
    }

    /// Whether it is a change of the world: another end may be right after it.
    #[must_use]
    pub fn is_of_somebody(&self) -> bool {
        matches!(self.fault, Effect::Change | Effect::Delete)
    }
}

/// In words, as `life: killed before the second create v1/ConfigMap default/a in eu`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object.as_deref().unwrap_or("the object");
        match self.fault {
            Effect::KillBefore => write!(f, "the run is killed before")?,
            Effect::KillAfter => write!(f, "the run is killed after the effect of")?,
            Effect::Conflict => write!(f, "a conflict answers")?,
            Effect::Timeout => write!(f, "a timeout, with nothing done, answers")?,
            Effect::TimeoutDone => write!(f, "a timeout, with all done, answers")?,
            Effect::Error => write!(f, "error 500 answers")?,
            Effect::Change => write!(f, "somebody changes {object} before")?,
            Effect::Delete => write!(f, "somebody deletes {object} before")?,
            Effect::Restart => write!(f, "the process restarts before")?,
            Effect::RestartAfter => write!(f, "the process restarts after the effect of")?,
            Effect::Merge => write!(f, "two events are seen as one:")?,
        }
        write!(f, " {}", self.at)?;
        if self.number > 1 {
            write!(f, " (number {})", self.number)?;
        }
        write!(f, " in {}", self.cluster)?;
        if let Some(behind) = self.behind {
            let what = self.resource.as_deref().unwrap_or("all caches");
            write!(f, ", with {what} as of {behind} changes ago")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_at_the_calls_that_it_names() {
        let call = CallName {
            cluster: "eu".into(),
            reconciler: "hello".into(),
            request: "default/a".into(),
            at: "create v1/ConfigMap default/a".into(),
        };
        let fault = Fault::at(Effect::KillAfter, &call, 2);
        assert!(fault.is_at(&call));
        let text = serde_json::to_string(&fault).unwrap();
        assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
        let any = r#"{"fault": "restart", "in": "eu", "at": "create v1/ConfigMap default/a"}"#;
        let any: Fault = serde_json::from_str(any).unwrap();
        assert!(any.is_at(&call) && any.number == 1);
        let elsewhere = CallName {
            cluster: "us".into(),
            ..call
        };
        assert!(!any.is_at(&elsewhere));
    }
}
