//! The resources of servers: components import them along, and have no handle of any. Entry points: their generated traits.

use crate::contract::wasi_http::handle::{Fields, IncomingBody, OfServers, OutgoingBody};
use crate::contract::wasi_http::wasi::http::types::{
    ErrorCode, HostIncomingRequest, HostOutgoingResponse, HostResponseOutparam, Method, Scheme,
};
use crate::instance::call::Call;
use wasmtime::component::Resource;

type Handle = Resource<OfServers>;

/// A guest makes an answer of its own.
#[derive(Debug, thiserror::Error)]
#[error("guests serve no HTTP requests: an outgoing-response has no use")]
struct NoServer;

impl HostIncomingRequest for Call {
    fn method(&mut self, handle: Handle) -> wasmtime::Result<Method> {
        match *self.table.get(&handle)? {}
    }

    fn path_with_query(&mut self, handle: Handle) -> wasmtime::Result<Option<String>> {
        match *self.table.get(&handle)? {}
    }

    fn scheme(&mut self, handle: Handle) -> wasmtime::Result<Option<Scheme>> {
        match *self.table.get(&handle)? {}
    }

    fn authority(&mut self, handle: Handle) -> wasmtime::Result<Option<String>> {
        match *self.table.get(&handle)? {}
    }

    fn headers(&mut self, handle: Handle) -> wasmtime::Result<Resource<Fields>> {
        match *self.table.get(&handle)? {}
    }

    fn consume(&mut self, handle: Handle) -> wasmtime::Result<Result<Resource<IncomingBody>, ()>> {
        match *self.table.get(&handle)? {}
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        match self.table.delete(handle)? {}
    }
}

impl HostResponseOutparam for Call {
    fn set(&mut self, handle: Handle, _: Result<Handle, ErrorCode>) -> wasmtime::Result<()> {
        match self.table.delete(handle)? {}
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        match self.table.delete(handle)? {}
    }
}

impl HostOutgoingResponse for Call {
    fn new(&mut self, _: Resource<Fields>) -> wasmtime::Result<Handle> {
        Err(NoServer.into())
    }

    fn status_code(&mut self, handle: Handle) -> wasmtime::Result<u16> {
        match *self.table.get(&handle)? {}
    }

    fn set_status_code(&mut self, handle: Handle, _: u16) -> wasmtime::Result<Result<(), ()>> {
        match *self.table.get(&handle)? {}
    }

    fn headers(&mut self, handle: Handle) -> wasmtime::Result<Resource<Fields>> {
        match *self.table.get(&handle)? {}
    }

    fn body(&mut self, handle: Handle) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        match *self.table.get(&handle)? {}
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        match self.table.delete(handle)? {}
    }
}
