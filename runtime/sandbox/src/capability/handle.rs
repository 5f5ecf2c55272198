//! What stands behind a guest's `cluster` handle. Entry point: [`ClusterHandle`].

use crate::bindings::windlass::runtime::types;
use crate::call::Call;
use wasmtime::component::Resource;
use windlass_fleet::api::ApiError;
use windlass_fleet::{ApiCode, Client, ClusterName};

/// A cluster that a guest holds.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ClusterHandle(State);

enum State {
    Live {
        client: Client,
        reach: Reach,
    },
    /// The call that it was given for has ended.
    Revoked(ClusterName),
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

    pub(crate) fn revoke(&mut self) {
        if let State::Live { client, .. } = &self.0 {
            self.0 = State::Revoked(client.cluster_name().clone());
        }
    }
}

/// Why a host function does not answer with a value: an error that the guest sees, or a trap.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A value of the contract.
    Api(ApiError),
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
#[derive(Debug, thiserror::Error)]
#[error("the handle of cluster {:?} was used after the call that it was given for: a guest must not keep one", .0.as_str())]
pub(crate) struct StaleHandle(ClusterName);

impl Call {
    /// The client behind a handle; traps if it is revoked or none of ours.
    pub(crate) fn live(
        &self,
        handle: &Resource<ClusterHandle>,
    ) -> wasmtime::Result<(&Client, Reach)> {
        match &self.table.get(handle)?.0 {
            State::Live { client, reach } => Ok((client, *reach)),
            State::Revoked(name) => Err(StaleHandle(name.clone()).into()),
        }
    }

    /// As [`Self::live`], for calls that a mapper may not make.
    pub(crate) fn unrestricted(&self, handle: &Resource<ClusterHandle>) -> Result<Client, Refused> {
        match self.live(handle)? {
            (client, Reach::Everything) => Ok(client.clone()),
            (_, Reach::CachedReads) => Err(only_cached_reads().into()),
        }
    }
}

pub(crate) fn only_cached_reads() -> ApiError {
    ApiError::host(
        ApiCode::Denied,
        "a mapper has cached reads only: enqueue a request and do the rest in reconcile",
    )
}

impl types::Host for Call {
    fn convert_api_error(&mut self, refused: Refused) -> wasmtime::Result<types::ApiError> {
        match refused {
            Refused::Api(error) => Ok(error.into()),
            Refused::Trap(error) => Err(error),
        }
    }
}
