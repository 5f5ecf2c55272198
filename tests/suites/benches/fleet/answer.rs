//! A reconciler that answers every update with a write to its object, and notes when. Entry point: [`Answering::reconciler`].

use super::simulated::now;
use super::subject::{Sent, read};
use crate::latency::Latency;
use crate::rig;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::api::{PatchType, WriteOptions};
use windlass_fleet::{Action, Context, Failure, Reconciler};

/// Times from when an update was due.
pub(crate) struct Answering {
    /// Clusters whose updates are answered, and not timed.
    untimed: BTreeSet<String>,
    /// To the start of the reconcile that saw it.
    pub(crate) started: Latency,
    /// To the end of the write that answered it.
    pub(crate) written: Latency,
}

impl Answering {
    pub(crate) fn new() -> Arc<Self> {
        Self::except(BTreeSet::new())
    }

    /// As [`Self::new`], without the times of some clusters.
    pub(crate) fn except(untimed: BTreeSet<String>) -> Arc<Self> {
        Arc::new(Self {
            untimed,
            started: Latency::default(),
            written: Latency::default(),
        })
    }

    pub(crate) fn clear(&self) {
        self.started.clear();
        self.written.clear();
    }

    /// The write comes back as an event; the run that follows finds its answer there.
    pub(crate) fn reconciler(self: &Arc<Self>) -> Arc<dyn Reconciler> {
        let this = self.clone();
        Arc::new(move |context: Context| {
            let this = this.clone();
            async move { this.answer(context).await }
        })
    }

    async fn answer(&self, context: Context) -> Result<Action, Failure> {
        let began = now();
        let (client, Some(object)) = read(&context).await? else {
            return Ok(Action::Done);
        };
        let seen = Sent::of(&object)?;
        if seen.at() == 0 || seen.is_answered() {
            return Ok(Action::Done);
        }
        let patch = format!(
            r#"{{"metadata":{{"annotations":{{"seen":"{}"}}}}}}"#,
            seen.at()
        );
        client
            .patch(
                &rig::config_map(),
                &context.request.key,
                PatchType::Merge,
                patch.into(),
                &WriteOptions::default(),
            )
            .await?;
        if self.untimed.contains(context.request.cluster.as_str()) {
            return Ok(Action::Done);
        }
        self.started.record(since(seen.at(), began));
        self.written.record(since(seen.at(), now()));
        Ok(Action::Done)
    }
}

fn since(due: u64, at: u64) -> Duration {
    Duration::from_nanos(at.saturating_sub(due))
}
