//! The host's side of a guest's `cluster` handle. Entry point: [`ClusterHandle`].

use crate::contract::windlass::runtime::types;
use windlass_fleet::api::ApiError;
use windlass_fleet::{Client, ClusterName};

/// A cluster that a guest holds.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ClusterHandle(State);

enum State {
    Live {
        client: Client,
        reach: Reach,
    },
    /// The call in which it was given has ended.
    Revoked(ClusterName),
    /// Its calls are answered from a recording.
    Played(ClusterName),
}

/// Which calls a handle allows, within the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Everything,
    /// For mappers, which run for every event.
    CachedReads,
}

impl ClusterHandle {
    pub(crate) fn new(client: Client, reach: Reach) -> Self {
        Self(State::Live { client, reach })
    }

    /// A cluster of a recording.
    pub(crate) fn played(name: ClusterName) -> Self {
        Self(State::Played(name))
    }

    /// The client. An error once the call has ended in which the handle was given.
    pub(crate) fn client(&self) -> Result<(&Client, Reach), StaleHandle> {
        match &self.0 {
            State::Live { client, reach } => Ok((client, *reach)),
            State::Revoked(name) | State::Played(name) => Err(StaleHandle(name.clone())),
        }
    }

    /// The name of the cluster. An error as that of [`Self::client`].
    pub(crate) fn name(&self) -> Result<&ClusterName, StaleHandle> {
        match &self.0 {
            State::Live { client, .. } => Ok(client.cluster_name()),
            State::Played(name) => Ok(name),
            State::Revoked(name) => Err(StaleHandle(name.clone())),
        }
    }

    /// Takes the client away.
    pub(crate) fn revoke(&mut self) {
        if let Ok(name) = self.name() {
            self.0 = State::Revoked(name.clone());
        }
    }
}

/// Why a host function returns no value: an error for the guest, or a trap.
#[derive(Debug)]
pub(crate) enum Refused {
    /// An error of the contract.
    Api(ApiError),
    /// The same, in the words of the contract.
    Told(types::ApiError),
    /// The guest broke the contract.
    Trap(wasmtime::Error),
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<wasmtime::Error> for Refused {
    fn from(error: wasmtime::Error) -> Self {
        Self::Trap(error)
    }
}

/// A handle was used after the call that it was given for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the handle of cluster {:?} was used after the call that it was given for: a guest must not keep one", .0.as_str())]
pub(crate) struct StaleHandle(ClusterName);
