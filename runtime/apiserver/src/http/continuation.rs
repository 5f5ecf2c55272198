//! Continue tokens of paged lists: [`Token`].

use serde_json::{Value, json};

use crate::status::ApiError;

/// Where the next page begins, and in which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// Absent where the next page is of whatever version is current.
    pub(crate) version: Option<u64>,
    pub(crate) start: String,
}

impl Token {
    pub(crate) fn encode(&self) -> String {
        let text =
            json!({"v": "meta.k8s.io/v1", "rv": self.version, "start": self.start}).to_string();
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// # Errors
    /// 400 for a token that this server did not make.
    pub(crate) fn decode(text: &str) -> Result<Self, ApiError> {
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect();
        let value: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let read = |value: Value| {
            Some(Self {
                version: value["rv"].as_u64(),
                start: value["start"].as_str()?.to_owned(),
            })
        };
        value.and_then(read).ok_or_else(|| {
            ApiError::bad_request("continue key is not valid: it was not made by this server")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_a_round_trip_and_garbage_is_refused() {
        let token = Token {
            version: Some(7),
            start: "a/b".into(),
        };
        assert_eq!(Token::decode(&token.encode()), Ok(token));
        assert!(Token::decode("zz").is_err() && Token::decode("é1").is_err());
    }
}
