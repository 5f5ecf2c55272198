//! Calls whose answers are charged, from before they are sent until their bytes are dropped. Entry points: [`Client::read`] and
//! [`Client::reserve`].

use super::Client;
use super::target::{Target, WAIT};
use crate::api::{ApiCode, ApiError, Json};
use crate::http::answer::refusal;
use crate::http::transport::{ADVANCE, Call, Charge, Payer, TransportError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What an answer is charged to. None: nothing, as it was charged where it came from.
pub(super) struct Charged {
    pub(super) body: Json,
    pub(super) charge: Option<Charge>,
}

impl Charged {
    /// The body, charged for as long as it is held.
    pub(super) fn json(self) -> Json {
        self.of(|body| body)
    }

    /// What is made of the body and held in its place.
    pub(super) fn of(self, make: impl FnOnce(Json) -> Json) -> Json {
        let made = make(self.body);
        match self.charge {
            Some(charge) => charge.of(made),
            None => made,
        }
    }

    /// As [`Self::of`], of many parts. They are charged together until the last of them is dropped.
    pub(super) fn parts(charge: Option<Charge>, parts: Vec<Json>) -> Vec<Json> {
        let Some(mut charge) = charge else {
            return parts;
        };
        charge.shrink(parts.iter().map(|part| part.len()).sum());
        let charge = Arc::new(charge);
        let charged = parts.into_iter().map(|part| charge.clone().share(part));
        charged.collect()
    }
}

impl Client {
    /// A live read. An answer that finds no room on its way is dropped and asked for once more as soon as there is room for it, within
    /// the call's time: what waits for room holds none.
    pub(super) async fn read(
        &self,
        target: &Target,
        path: &str,
        accept: &'static str,
    ) -> Result<Charged, ApiError> {
        self.check_asks(target)?;
        let connection = &target.backend.connection;
        let limit = connection.options().call_timeout;
        let until = Instant::now() + self.patience(limit);
        let mut bytes = ADVANCE;
        loop {
            let charge = self.reserve(target, bytes, until).await?;
            let grant = self.grant();
            let call = Call::get(path.to_owned(), accept)
                .made_for(self.owner(), grant.identity())
                .charged_to(charge);
            let _permit = self.permit(&grant).await?;
            let sent = connection.send(call, self.scope.time_left(limit));
            match self.within(sent).await? {
                Err(TransportError::NoRoom { bytes: needed, .. }) => bytes = needed,
                answer => {
                    let answer = refusal(answer?)?;
                    return Ok(Charged {
                        body: answer.body,
                        charge: answer.charge,
                    });
                }
            }
        }
    }

    /// Checks that the client may ask the server at all.
    pub(super) fn check_asks(&self, target: &Target) -> Result<(), ApiError> {
        if !self.cached_only {
            return Ok(());
        }
        let kind = &target.resource.kind;
        let message = format!(
            "this call may only be answered by a cache, and none knows {kind} for certain here: grant list and watch on it, or do this in reconcile"
        );
        Err(ApiError::host(ApiCode::Denied, message))
    }

    /// Room for an answer, waited for no longer than until a time.
    pub(super) async fn reserve(
        &self,
        target: &Target,
        bytes: usize,
        until: Instant,
    ) -> Result<Charge, ApiError> {
        let payer = Payer {
            tenant: self.scope.caller.tenant.clone(),
            account: self.account.clone(),
        };
        let answers = target.backend.connection.answers();
        let reserved = self.within(answers.reserve(&payer, bytes, until)).await?;
        reserved.map_err(|reason| ApiError::host(ApiCode::LimitExceeded, reason))
    }

    /// How long a call of at most `limit` waits for room: some of its time is left to say that there was none.
    pub(super) fn patience(&self, limit: Duration) -> Duration {
        self.scope.time_left(limit.min(WAIT)) * 9 / 10
    }
}
