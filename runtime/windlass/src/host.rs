//! What a running program is asked through: the manager, its metrics, what became of documents. Entry point: [`Host`].

use crate::board::Board;
use crate::load::{Configuration, Merged};
use crate::tally::Tally;
use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use windlass_fleet::manager::ManagerHandle;

/// The running program as the admin endpoints see it.
pub(crate) struct Host {
    /// The manager.
    pub(crate) manager: ManagerHandle,
    /// What became of each reconciler.
    pub(crate) board: Arc<Board>,
    /// The documents in effect.
    pub(crate) configuration: ArcSwap<Configuration>,
    /// What is wrong with documents as they are now.
    pub(crate) problems: ArcSwap<Vec<String>>,
    registry: Registry,
}

impl Host {
    /// Puts the parts together.
    pub(crate) fn new(
        manager: ManagerHandle,
        board: Arc<Board>,
        merged: Merged,
        registry: Registry,
    ) -> Arc<Self> {
        let Merged {
            configuration,
            problems,
        } = merged;
        let problems = problems.iter().map(ToString::to_string).collect();
        let (configuration, problems) = (
            ArcSwap::from_pointee(configuration),
            ArcSwap::from_pointee(problems),
        );
        Arc::new(Self {
            manager,
            board,
            configuration,
            problems,
            registry,
        })
    }

    /// Everything that is not as the documents ask.
    pub(crate) fn all_problems(&self) -> Vec<String> {
        let reconcilers = self
            .board
            .entries()
            .into_values()
            .filter_map(|entry| entry.problem);
        self.problems
            .load()
            .iter()
            .cloned()
            .chain(reconcilers)
            .collect()
    }

    /// The metrics as OpenMetrics text.
    ///
    /// # Errors
    /// When a metric cannot be printed.
    pub(crate) fn metrics(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// What was done so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally::of(&self.metrics().unwrap_or_default())
    }
}
