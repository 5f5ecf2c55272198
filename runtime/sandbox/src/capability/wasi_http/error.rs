//! From the errors of the contract to those of `wasi:http`. Entry point: [`Call::told`].

use crate::contract::wasi_http::wasi::http::types::ErrorCode;
use crate::contract::windlass::runtime::log::Level;
use crate::contract::windlass::runtime::types::{ApiCode, ApiError};
use crate::instance::call::Call;

impl Call {
    /// The code for an error. Its text, with the missing rule, is a line of the guest's log.
    pub(super) fn told(&mut self, error: ApiError) -> ErrorCode {
        let line = format!("wasi:http: {}", error.message);
        self.journal.write(Level::Warn, &line, &[]);
        code_of(error)
    }
}

fn code_of(error: ApiError) -> ErrorCode {
    match error.code {
        ApiCode::Denied => ErrorCode::HttpRequestDenied,
        ApiCode::Timeout => ErrorCode::HttpResponseTimeout,
        ApiCode::Unavailable => ErrorCode::DestinationUnavailable,
        _ => ErrorCode::InternalError(Some(error.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::api::ApiError as Fleets;

    #[test]
    fn errors_have_the_nearest_code_or_their_text() {
        use windlass_fleet::ApiCode::{Denied, Invalid, LimitExceeded, Timeout, Unavailable};
        for (code, message, said) in [
            (Denied, "no rule", "HttpRequestDenied"),
            (Timeout, "no whole answer in time", "HttpResponseTimeout"),
            (
                LimitExceeded,
                "more than 9 calls in one run",
                "more than 9 calls in one run",
            ),
            (
                Unavailable,
                "cannot reach a: refused",
                "DestinationUnavailable",
            ),
            (Invalid, "not a method", "not a method"),
        ] {
            let told = code_of(Fleets::host(code, message).into());
            assert!(format!("{told:?}").contains(said), "{told:?}");
        }
    }
}
