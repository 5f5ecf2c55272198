//! The interface `http`: servers that are no API servers. Every guest may import it; the grant decides what it reaches.

use crate::contract::handle::Refused;
use crate::contract::windlass::runtime::http as wit;
use crate::door::HttpFate;
use crate::instance::call::Call;
use crate::tenant::outside::End;
use std::time::Duration;
use windlass_fleet::ApiCode;
use windlass_fleet::api::ApiError;
use windlass_fleet::outbound::{HttpRequest, HttpResponse};

/// The cost of a header besides its bytes: two pointers and two lengths that guests keep for it.
const HEADER: usize = 16;

const LESS: &str = "ask for less at once, or raise limits.responseBytes";

impl wit::Host for Call {
    async fn send(&mut self, request: wit::Request) -> Result<wit::Response, Refused> {
        self.spend(1)?;
        let context = self.reconciling()?.clone();
        let request = asked(request)?;
        let budget = self.answer_budget();
        let client = context.http(&self.guest.http());
        let client = client.with_policy(self.guest.clone());
        let client = client.charged_to(budget.clone());
        let answered = match self.passage() {
            Some(passage) => client.check(&request).map(|()| passage.outside(&request)),
            None => Ok(HttpFate::Sent),
        };
        let answered = match answered {
            Ok(HttpFate::Sent) => client.send(request).await,
            Ok(HttpFate::Ended(answer)) => answer,
            Err(refused) => Err(refused),
        };
        self.guest.history.outside.count(End::of(&answered));
        if let Err(error) = &answered
            && error.code == ApiCode::Denied
        {
            self.guest.history.denials.add(&error.message);
        }
        let response = answered?;
        budget.take(size(&response), LESS)?;
        Ok(wit::Response {
            status: response.status,
            headers: response.headers,
            body: response.body.to_vec(),
        })
    }
}

fn asked(request: wit::Request) -> Result<HttpRequest, ApiError> {
    if let Some((key, _)) = request.options.first() {
        let message = format!("the option {key:?} is of a later host: leave it out");
        return Err(ApiError::host(ApiCode::Invalid, message));
    }
    let timeout = request.timeout_ms.map(u64::from);
    Ok(HttpRequest {
        method: request.method,
        url: request.url,
        headers: request.headers,
        body: request.body.into(),
        timeout: timeout.map(Duration::from_millis),
    })
}

fn size(response: &HttpResponse) -> usize {
    let header = |(name, value): &(String, String)| name.len() + value.len() + HEADER;
    let headers: usize = response.headers.iter().map(header).sum();
    headers + response.body.len()
}
