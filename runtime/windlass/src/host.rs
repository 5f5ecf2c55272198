//! What a running program is asked through: the manager, its metrics, what became of documents. Entry point: [`Host`].

use crate::board::Board;
use crate::load::Configuration;
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
    registry: Registry,
}

impl Host {
    /// Puts the parts together.
    pub(crate) fn new(manager: ManagerHandle, board: Arc<Board>, configuration: Configuration, registry: Registry) -> Arc<Self> {
        Arc::new(Self { manager, board, configuration: ArcSwap::from_pointee(configuration), registry })
    }

    /// The metrics as OpenMetrics text.
    ///
    /// # Errors
    /// When a metric cannot be printed.
    pub(crate) fn metrics(&self) -> Result<String, fmt::Error> {
        self.manager.refresh_metrics();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// What was done so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally::of(&self.metrics().unwrap_or_default())
    }
}
