//! `wasi:http/outgoing-handler`, for components that bring a client of HTTP along. Entry point: [`link`].
//!
//! A request goes the way of the interface `http` ([`Host::send`]), with its rules, limits, recordings and all else. The guest waits in the
//! call that completes the request: `handle`, or `finish` of the body. When that returns, the answer is there.
//!
//! * `fields`, `outgoing`, `incoming`: the handles. What servers have is in `of_servers`: guests have none of it.
//! * `error`: from the errors of the contract to those of the standard, which mostly have no text. That is in the guest's log.

mod error;
mod fields;
mod incoming;
mod of_servers;
mod outgoing;

use crate::capability::taped::Taped;
use crate::contract::wasi_http::exchange::{Answer, SharedExchange};
use crate::contract::wasi_http::handle::{
    BodyTooLarge, FutureIncomingResponse, OutgoingRequest, RequestOptions,
};
use crate::contract::wasi_http::wasi::http::types::{ErrorCode, IoError};
use crate::contract::wasi_http::wasi::http::{outgoing_handler, types};
use crate::contract::windlass::runtime::http::{self, Host};
use crate::contract::windlass::runtime::types::Host as _;
use crate::instance::answers::AnswerBudget;
use crate::instance::call::Call;
use std::sync::Arc;
use wasmtime::component::{HasSelf, Linker, Resource};
use windlass_fleet::cluster::AnswerAccount;

/// Adds the interfaces to a linker. They find out themselves whether the call has a tape.
pub(crate) fn link(linker: &mut Linker<Call>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, HasSelf<Call>>(linker, |call| call)?;
    outgoing_handler::add_to_linker::<_, HasSelf<Call>>(linker, |call| call)
}

impl Call {
    /// What a guest leaves with its host is charged to this.
    fn account(&self) -> Arc<dyn AnswerAccount> {
        AnswerBudget::new(&self.guest)
    }

    /// Sends a request, and keeps the answer for the guest.
    async fn exchange(
        &mut self,
        exchange: &SharedExchange,
        request: http::Request,
    ) -> wasmtime::Result<()> {
        let answered = match self.tape() {
            Some(_) => Taped(self).send(request).await,
            None => self.send(request).await,
        };
        let answer = match answered {
            Ok(response) => {
                let account = self.held_answer();
                Ok(Answer::new(response, account))
            }
            Err(refused) => {
                let error = self.convert_api_error(refused)?;
                Err(self.told(error))
            }
        };
        exchange.lock().answer(answer);
        Ok(())
    }
}

impl outgoing_handler::Host for Call {
    async fn handle(
        &mut self,
        request: Resource<OutgoingRequest>,
        options: Option<Resource<RequestOptions>>,
    ) -> wasmtime::Result<Result<Resource<FutureIncomingResponse>, ErrorCode>> {
        let request = self.table.delete(request)?;
        let options = match options {
            Some(options) => self.table.delete(options)?,
            None => RequestOptions::default(),
        };
        let exchange = request.exchange.clone();
        let asked = match outgoing::asked(request, &options) {
            Ok(asked) => asked,
            Err(code) => return Ok(Err(code)),
        };
        let future = self.table.push(FutureIncomingResponse {
            exchange: exchange.clone(),
            is_given: false,
        })?;
        let ready = exchange.lock().hand_over(asked);
        if let Some(request) = ready {
            self.exchange(&exchange, request).await?;
        }
        Ok(Ok(future))
    }
}

impl types::Host for Call {
    fn http_error_code(&mut self, error: Resource<IoError>) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        Ok(error.downcast_ref().map(BodyTooLarge::code))
    }
}
