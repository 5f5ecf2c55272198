//! That each run draws random numbers of its own. Entry point: [`differs`].
//!
//! A build of some languages keeps the memory of their runtime, and in it the state of its generator.

use crate::cases::RANDOM;
use crate::components;
use crate::stage::play;
use crate::subject::{Component, Subject};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longest run: no other run of a subject is of this length, and so of this tenant.
const TIMEOUT: Duration = Duration::from_secs(21);

/// Runs a language's case `random` twice, each time in a fresh instance.
pub(crate) async fn differs(language: &'static str) -> Result<()> {
    let component = Component::new(language, components::load(language).await?);
    let subject = Subject::Guest(component);
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let traces = play(&subject, RANDOM, TIMEOUT).await?;
        let lines = traces.values().flatten();
        let values = lines
            .filter_map(|line| line.strip_prefix("INFO random "))
            .flat_map(|fields| fields.split(' '))
            .filter_map(|field| field.split_once('='))
            .map(|(_, value)| value.to_owned());
        drawn.extend(values);
    }
    let different: BTreeSet<_> = drawn.iter().collect();
    ensure!(
        different.len() == 4 && drawn.len() == 4,
        "two runs of {language} drew {drawn:?}"
    );
    Ok(())
}
