//! From a guest's handle to its client. Entry point: [`Call::live`].

use crate::contract::handle::{ClusterHandle, Reach, Refused};
use crate::contract::windlass::runtime::types;
use crate::instance::call::Call;
use wasmtime::component::Resource;
use windlass_fleet::api::ApiError;
use windlass_fleet::{ApiCode, Client};

impl Call {
    /// The client of a handle. A handle that is revoked or unknown traps.
    pub(crate) fn live(
        &self,
        handle: &Resource<ClusterHandle>,
    ) -> wasmtime::Result<(&Client, Reach)> {
        Ok(self.table.get(handle)?.client()?)
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
            Refused::Told(error) => Ok(error),
            Refused::Trap(error) => Err(error),
        }
    }
}
