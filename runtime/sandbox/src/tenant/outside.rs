//! Calls of a guest to servers that are no API servers, counted by their end. Entry point: [`Outside::count`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_fleet::ApiCode;
use windlass_fleet::api::ApiError;
use windlass_fleet::outbound::HttpResponse;

/// How a call ended. The set is closed, because each is a series of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Redirect,
    ClientError,
    ServerError,
    /// No rule allows it.
    Denied,
    /// There was no answer.
    Failed,
}

impl End {
    const ALL: [Self; 6] = [
        Self::Success,
        Self::Redirect,
        Self::ClientError,
        Self::ServerError,
        Self::Denied,
        Self::Failed,
    ];

    pub(crate) fn of(answered: &Result<HttpResponse, ApiError>) -> Self {
        match answered {
            Ok(response) => match response.status {
                ..300 => Self::Success,
                300..400 => Self::Redirect,
                400..500 => Self::ClientError,
                500.. => Self::ServerError,
            },
            Err(error) if error.code == ApiCode::Denied => Self::Denied,
            Err(_) => Self::Failed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirect => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

/// Counts of one guest, over all of its revisions.
#[derive(Debug, Default)]
pub(crate) struct Outside([AtomicU64; End::ALL.len()]);

impl Outside {
    pub(crate) fn count(&self, end: End) {
        self.0[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The ends that there were, and how often.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = End::ALL.map(|end| {
            let count = self.0[end as usize].load(Ordering::Relaxed);
            (end.as_str(), count)
        });
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_their_end() {
        let outside = Outside::default();
        let answer = |status| {
            Ok(HttpResponse {
                status,
                headers: Vec::new(),
                body: Default::default(),
            })
        };
        for status in [200, 204, 302, 404, 429, 503] {
            outside.count(End::of(&answer(status)));
        }
        for code in [ApiCode::Denied, ApiCode::Timeout] {
            outside.count(End::of(&Err(ApiError::host(code, "no"))));
        }
        let counts: Vec<_> = outside.counts().into_iter().collect();
        let expected = [
            ("2xx", 2),
            ("3xx", 1),
            ("4xx", 2),
            ("5xx", 1),
            ("denied", 1),
            ("failed", 1),
        ];
        assert_eq!(counts, expected);
    }
}
