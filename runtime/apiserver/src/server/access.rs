//! Which requests are accepted, by bearer token or client certificate. Entry point: [`Access`].

use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::RwLock;

/// All callers may do everything, or only callers with one of some tokens or a client certificate of the server's authority.
#[derive(Debug, Default)]
pub(super) struct Access(RwLock<Option<Vec<String>>>);

impl Access {
    pub(super) fn set(&self, tokens: Option<Vec<String>>) {
        *self.0.write() = tokens;
    }

    /// A token that is accepted, where one is needed.
    pub(super) fn any_token(&self) -> Option<String> {
        self.0.read().as_ref()?.first().cloned()
    }

    pub(super) fn admits(&self, headers: &HeaderMap, has_certificate: bool) -> bool {
        let accepted = self.0.read();
        let Some(tokens) = &*accepted else {
            return true;
        };
        let shown = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        has_certificate || shown.is_some_and(|shown| tokens.iter().any(|token| token == shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tokens_everybody_is_admitted_and_with_them_who_shows_one() {
        let access = Access::default();
        let mut headers = HeaderMap::new();
        assert!(access.admits(&headers, false));
        access.set(Some(vec!["sesame".into()]));
        assert!(!access.admits(&headers, false));
        assert!(access.admits(&headers, true));
        headers.insert(AUTHORIZATION, "Bearer sesame".parse().unwrap());
        assert!(access.admits(&headers, false));
        access.set(Some(Vec::new()));
        assert!(!access.admits(&headers, false));
    }
}
