//! When somebody outside works on a workspace: [`Stage`], before it is ready and before it goes.

use super::export::hash;
use super::seen::Label;

/// Before a workspace is ready, or before it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Initializing,
    Terminating,
}

impl Stage {
    /// The list in the status of a LogicalCluster that names who is not done yet.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Initializing => "initializers",
            Self::Terminating => "terminators",
        }
    }

    /// What somebody is called who works on workspaces then.
    pub(crate) fn actor(self) -> &'static str {
        match self {
            Self::Initializing => "initializer",
            Self::Terminating => "terminator",
        }
    }

    /// The label of LogicalClusters that one of them has still to work on.
    pub(crate) fn label(self, name: &str) -> Label {
        let hash = hash(name);
        let key = format!("{}.internal.kcp.io/{hash}", self.actor());
        (key.into(), hash.into())
    }
}
