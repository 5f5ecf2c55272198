//! Plays a recording with a component, without any cluster. Entry point: [`Sandbox::replay`].

use crate::component::revision::{LoadError, Revision};
use crate::engine::Sandbox;
use crate::guest::code::Code;
use crate::options::{Limits, TenantLimits};
use crate::recording::{Outcome, Recording, Step};
use crate::tape::{By, Divergence, Tape};
use crate::tenant::Tenant;
use crate::tenant::context::{GuestContext, History};
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::name::NameError;
use windlass_fleet::{ClusterName, ControllerName, Grant, TenantName};

/// How a recording played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// How the run ended. Without meaning after a divergence.
    pub outcome: Outcome,
    /// Where it left the recording first. `None`: it did the same.
    pub divergence: Option<Divergence>,
    /// Its log.
    pub lines: Vec<Step>,
}

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The component does not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Somebody has edited the file.
    #[error("the recording names what cannot be a name: record the run again")]
    Name(#[from] NameError),
}

/// A played run waits for nobody, so that it needs no more time than this where the recorded one had less.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Sandbox {
    /// Runs a component once, with all of its inputs from a recording.
    ///
    /// # Errors
    /// [`ReplayError`] when it cannot begin.
    ///
    /// # Cancellation
    /// Ends the guest.
    pub async fn replay(
        &self,
        revision: &Revision,
        recording: &Recording,
        by: By,
    ) -> Result<Replayed, ReplayError> {
        let code = Arc::new(Code::bind(self, revision, true)?);
        let cluster = ClusterName::new(&recording.request.cluster)?;
        let tape = Tape::playing(recording, by);
        let guest = guest(recording)?;
        let outcome = code.play(guest, recording, cluster, tape.clone()).await;
        let played = tape.played();
        let ended = if played.is_cut {
            recording.outcome.clone()
        } else {
            Outcome::of(&outcome)
        };
        let divergence = played.divergence.or_else(|| {
            let recorded = recording.outcome.clone();
            let differs = !recorded.is_like(&ended);
            differs.then(|| Divergence::Outcome {
                recorded,
                ended: ended.clone(),
            })
        });
        Ok(Replayed {
            outcome: ended,
            divergence,
            lines: played.lines,
        })
    }
}

/// A run that ended for lack of time gets as much again. Every other gets enough.
fn timeout(recording: &Recording) -> Duration {
    let recorded = Duration::from_millis(recording.limits.timeout_ms);
    match &recording.outcome {
        Outcome::Failed { reason, .. } if reason == "timeout" => recorded,
        _ => recorded.max(TIMEOUT),
    }
}

/// The guest of a recording, with rights for nothing.
fn guest(recording: &Recording) -> Result<Arc<GuestContext>, NameError> {
    let recorded = recording.limits;
    let limits = Limits {
        memory: recorded.memory,
        timeout: timeout(recording),
        table_elements: recorded.table_elements,
        handles: recorded.handles,
        host_call_bytes: recorded.host_call_bytes,
        log_bytes_per_second: None,
        ..Limits::default()
    };
    let tenant = TenantLimits {
        memory: usize::MAX,
        ..TenantLimits::default()
    };
    Ok(GuestContext::new(
        Tenant::new(TenantName::new(&recording.tenant)?, &tenant),
        ControllerName::new(&recording.reconciler)?,
        Arc::new(Grant::none()),
        recording.config.as_str().into(),
        limits,
        History::default(),
    ))
}
