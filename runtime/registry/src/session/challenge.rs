//! How a registry asks for a login. Entry point: [`Challenge::read`].

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// What a registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// The login itself.
    Basic,
    /// A token, from the URL `realm`.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    /// The challenge of an answer; of several, the one for a token.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let read = values.filter_map(|value| Self::parse(value.to_str().ok()?));
        read.max_by_key(|challenge| matches!(challenge, Self::Bearer { .. }))
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        for (name, value) in parameters(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
        }
        let realm = realm?;
        Some(Self::Bearer { realm, service })
    }
}

/// The pairs of `name="value"`, or `name=value`, between commas. Ends at what is neither.
fn parameters(mut rest: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    while let Some((name, behind)) = rest.split_once('=') {
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => match unquoted(quoted) {
                Some(read) => read,
                None => break,
            },
            None => {
                let end = behind.find(',').unwrap_or(behind.len());
                (behind[..end].trim().to_owned(), &behind[end..])
            }
        };
        found.push((name.trim_matches([' ', ',']), value));
        rest = behind;
    }
    found
}

/// The text up to the closing quote, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

/// The URL from which a token comes.
pub(super) fn token_url(realm: &str, service: Option<&str>, scope: &str) -> String {
    let divider = if realm.contains('?') { '&' } else { '?' };
    format!("{realm}{divider}{}", query(service, scope))
}

/// The form that exchanges an identity token for a token (OAuth 2, of distribution's token servers).
pub(super) fn token_form(service: Option<&str>, scope: &str, identity_token: &str) -> String {
    let (query, token) = (query(service, scope), encode(identity_token));
    format!("grant_type=refresh_token&client_id=windlass&{query}&refresh_token={token}")
}

fn query(service: Option<&str>, scope: &str) -> String {
    let service = service.map_or_else(String::new, |name| format!("service={}&", encode(name)));
    format!("{service}scope={}", encode(scope))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(values: &[&'static str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(value));
        }
        Challenge::read(&headers)
    }

    #[test]
    fn a_challenge_for_a_token_wins_over_one_for_a_login() {
        let bearer = r#"Bearer realm="https://auth.example.com/token",service="a \"b\"",scope="repository:a,b:pull""#;
        let expected = Some(Challenge::Bearer {
            realm: "https://auth.example.com/token".to_owned(),
            service: Some("a \"b\"".to_owned()),
        });
        assert_eq!(read(&[bearer]), expected);
        assert_eq!(read(&[bearer, "Basic realm=\"x\""]), expected);
        assert_eq!(read(&["Basic realm=\"x\""]), Some(Challenge::Basic));
        let bare = Challenge::Bearer {
            realm: "/token".to_owned(),
            service: None,
        };
        assert_eq!(read(&["bearer realm=/token, x=y"]), Some(bare));
        for odd in ["", "Negotiate", "Bearer", "Bearer realm=\"open"] {
            assert_eq!(read(&[odd]), None, "{odd}");
        }
    }

    #[test]
    fn a_token_is_asked_for_by_service_and_scope() {
        let url = token_url("https://a/t", Some("r:1"), "repository:a/b:pull");
        assert_eq!(
            url,
            "https://a/t?service=r%3A1&scope=repository%3Aa%2Fb%3Apull"
        );
        assert_eq!(token_url("/t?x=y", None, "s"), "/t?x=y&scope=s");
    }
}
