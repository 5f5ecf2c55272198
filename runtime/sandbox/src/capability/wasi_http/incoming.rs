//! Answers: the resources `future-incoming-response`, `incoming-response`, `incoming-body` and `future-trailers`. Entry points: their
//! generated traits.

use crate::contract::wasi_http::handle::{
    Fields, FutureIncomingResponse, FutureTrailers, IncomingBody, IncomingResponse,
};
use crate::contract::wasi_http::wasi::http::types::{
    ErrorCode, HostFutureIncomingResponse, HostFutureTrailers, HostIncomingBody,
    HostIncomingResponse,
};
use crate::instance::call::Call;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{DynInputStream, DynPollable, subscribe};

/// What a future has: nothing yet, or its value once, or that the guest has it.
type Given<T> = wasmtime::Result<Option<Result<Result<T, ErrorCode>, ()>>>;

impl HostFutureIncomingResponse for Call {
    fn subscribe(
        &mut self,
        future: Resource<FutureIncomingResponse>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(&mut self.table, future)
    }

    fn get(
        &mut self,
        future: Resource<FutureIncomingResponse>,
    ) -> Given<Resource<IncomingResponse>> {
        let own = self.table.get_mut(&future)?;
        if own.is_given {
            return Ok(Some(Err(())));
        }
        let Some(answer) = own.exchange.lock().take_answer() else {
            return Ok(None);
        };
        own.is_given = true;
        Ok(Some(Ok(match answer {
            Ok(answer) => Ok(self.table.push(IncomingResponse::from(answer))?),
            Err(code) => Err(code),
        })))
    }

    fn drop(&mut self, future: Resource<FutureIncomingResponse>) -> wasmtime::Result<()> {
        let future = self.table.delete(future)?;
        future.exchange.lock().forget();
        Ok(())
    }
}

impl HostIncomingResponse for Call {
    fn status(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<u16> {
        Ok(self.table.get(&response)?.status)
    }

    fn headers(
        &mut self,
        response: Resource<IncomingResponse>,
    ) -> wasmtime::Result<Resource<Fields>> {
        let headers = Fields::fixed(&self.table.get(&response)?.headers);
        Ok(self.table.push(headers)?)
    }

    fn consume(
        &mut self,
        response: Resource<IncomingResponse>,
    ) -> wasmtime::Result<Result<Resource<IncomingBody>, ()>> {
        match self.table.get_mut(&response)?.body.take() {
            Some(body) => Ok(Ok(self.table.push(body)?)),
            None => Ok(Err(())),
        }
    }

    fn drop(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<()> {
        self.table.delete(response)?;
        Ok(())
    }
}

impl HostIncomingBody for Call {
    fn stream(
        &mut self,
        body: Resource<IncomingBody>,
    ) -> wasmtime::Result<Result<Resource<DynInputStream>, ()>> {
        let Some(bytes) = self.table.get_mut(&body)?.bytes.take() else {
            return Ok(Err(()));
        };
        let stream: DynInputStream = Box::new(MemoryInputPipe::new(bytes));
        Ok(Ok(self.table.push_child(stream, &body)?))
    }

    fn finish(
        &mut self,
        body: Resource<IncomingBody>,
    ) -> wasmtime::Result<Resource<FutureTrailers>> {
        self.table.delete(body)?;
        Ok(self.table.push(FutureTrailers::default())?)
    }

    fn drop(&mut self, body: Resource<IncomingBody>) -> wasmtime::Result<()> {
        self.table.delete(body)?;
        Ok(())
    }
}

impl HostFutureTrailers for Call {
    fn subscribe(
        &mut self,
        future: Resource<FutureTrailers>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(&mut self.table, future)
    }

    fn get(&mut self, future: Resource<FutureTrailers>) -> Given<Option<Resource<Fields>>> {
        let own = self.table.get_mut(&future)?;
        if std::mem::replace(&mut own.is_given, true) {
            return Ok(Some(Err(())));
        }
        Ok(Some(Ok(Ok(None))))
    }

    fn drop(&mut self, future: Resource<FutureTrailers>) -> wasmtime::Result<()> {
        self.table.delete(future)?;
        Ok(())
    }
}
