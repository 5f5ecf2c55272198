//! The memory of answers, charged from before the call is sent until the bytes are dropped. Entry points: [`Client::read`] and
//! [`Client::reserve`].

use super::Client;
use super::target::{Awaited, Target, WAIT};
use crate::api::{ApiCode, ApiError, Json};
use crate::http::status::error_for_status;
use crate::http::transport::{ADVANCE, Call, Charge, Payer, TransportError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An answer's body and its charge. `None`: it is charged elsewhere already.
pub(super) struct Charged {
    pub(super) body: Json,
    pub(super) charge: Option<Charge>,
}

impl Charged {
    /// A value made from the body, charged in its place until it is dropped.
    pub(super) fn of(self, make: impl FnOnce(Json) -> Json) -> Json {
        let made = make(self.body);
        match self.charge {
            Some(charge) => charge.of(made),
            None => made,
        }
    }

    /// As [`Self::of`], for many parts. They are charged together until the last of them is dropped.
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
    /// A live read. If there is no room for the answer, it is dropped, and the call is sent again once there is room, within the call's
    /// time. So a call that waits for room holds none.
    pub(super) async fn read(
        &self,
        target: &Target,
        path: &str,
        accept: &'static str,
    ) -> Result<Charged, ApiError> {
        self.check_live(target)?;
        let connection = &target.backend.connection;
        let limit = connection.options().call_timeout;
        let until = Instant::now() + self.patience(limit);
        let mut bytes = ADVANCE;
        loop {
            let charge = self.reserve(target, bytes, until).await?;
            let grant = self.grant();
            let call = Call::get(path.to_owned(), accept)
                .made_for(self.owner(), grant.identity())
                .in_workspace(self.part().workspace())
                .charged_to(charge);
            let _permit = self.permit(&grant).await?;
            let sent = connection.send(call, self.scope.time_left(limit));
            match self.within(Awaited::Answer, sent).await? {
                Err(TransportError::NoRoom { bytes: needed, .. }) => bytes = needed,
                answer => {
                    let answer = error_for_status(answer?)?;
                    return Ok(Charged {
                        body: answer.body,
                        charge: answer.charge,
                    });
                }
            }
        }
    }

    /// Checks that the client may call the server.
    pub(super) fn check_live(&self, target: &Target) -> Result<(), ApiError> {
        if !self.cached_only {
            return Ok(());
        }
        let kind = &target.resource.kind;
        let message = format!(
            "only a cache may answer this call, and no cache has all of {kind} here: grant list and watch on it, or do this in reconcile"
        );
        Err(ApiError::host(ApiCode::Denied, message))
    }

    /// Reserves room for an answer; waits for it at most until a time.
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
        let reserved = answers.reserve(&payer, bytes, until);
        Ok(self.within(Awaited::Room, reserved).await??)
    }

    /// How long a call of at most `limit` waits for room or for its turn. It is less than the time until the run's calls are cancelled, so
    /// that the call can report what it waited for.
    pub(super) fn patience(&self, limit: Duration) -> Duration {
        self.scope.time_left(limit.min(WAIT)) * 8 / 10
    }
}
