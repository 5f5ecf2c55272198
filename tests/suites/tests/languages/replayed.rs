//! Every run of a language's component, played again from its recording. Entry point: [`exactly`].

use crate::components::sandbox;
use crate::subject::CREDENTIAL;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::time::Duration;
use windlass_harness::eventually::{DEADLINE, Seen, eventually};
use windlass_sandbox::recording::{Recording, Step};
use windlass_sandbox::{By, Guest, RecordOptions};

/// Every run is recorded.
pub(crate) fn everything() -> RecordOptions {
    RecordOptions {
        failures: 1000,
        sample: 1000,
        every: Duration::ZERO,
        bytes: 16 << 20,
    }
}

/// That every case in these namespaces was recorded, and that each of its runs does the same when it is played.
pub(crate) async fn exactly(guest: &Guest, namespaces: &[&str]) -> Result<()> {
    // They are written in the background.
    eventually(DEADLINE, "every case is recorded", || async {
        let kept = guest.recordings();
        let is_kept = |name: &str| {
            let mut kept = kept.iter();
            kept.any(|it| it.request.key.namespace.as_deref() == Some(name))
        };
        let missing: Vec<_> = namespaces.iter().filter(|name| !is_kept(name)).collect();
        Ok(Seen::of(missing, Vec::is_empty))
    })
    .await?;
    let (mut found, revision) = (BTreeSet::new(), guest.revision());
    for kept in guest.recordings() {
        let file = kept.file.map_err(anyhow::Error::msg)?;
        let is_told = String::from_utf8_lossy(&file).contains(CREDENTIAL);
        ensure!(!is_told, "{} was given a credential", kept.request);
        let recording = Recording::parse(&file)?;
        let replayed = sandbox().replay(&revision, &recording, By::Order);
        let replayed = replayed.await.context(kept.request.to_string())?;
        let logged = recording.steps.iter();
        let logged = logged.filter(|step| matches!(step, Step::Log { .. }));
        if let Some(divergence) = replayed.divergence {
            found.insert(format!("{}: {divergence:?}", kept.request));
        } else if !logged.eq(&replayed.lines) {
            found.insert(format!("{}: logs {:?}", kept.request, replayed.lines));
        }
    }
    ensure!(
        found.is_empty(),
        "runs that differ from their recordings: {found:#?}"
    );
    Ok(())
}
