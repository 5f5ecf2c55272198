//! Failures in the words of the API: [`ApiError`], which becomes a `Status` object on the wire.

use serde_json::{Value, json};

/// A failed call, as kube-apiserver would answer it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason (`NotFound`, `Conflict`, …); empty where the server gives none.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// `details` of the Status object: name, group, kind, causes.
    pub details: Option<Value>,
    /// Seconds for a `Retry-After` header.
    pub retry_after: Option<u32>,
    /// Where an expired list may go on, inconsistently.
    pub continue_token: Option<String>,
}

/// What an error is about: the resource as `plural.group` prints it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
}

impl Subject<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    fn details(&self, name: &str, kind: &str) -> serde_json::Map<String, Value> {
        let mut details = serde_json::Map::new();
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !self.group.is_empty() {
            details.insert("group".into(), self.group.into());
        }
        if !kind.is_empty() {
            details.insert("kind".into(), kind.into());
        }
        details
    }
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            continue_token: None,
        }
    }

    fn with_details(mut self, details: serde_json::Map<String, Value>) -> Self {
        self.details = Some(Value::Object(details));
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    pub(crate) fn not_found(subject: Subject<'_>, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} {name:?} not found", subject.qualified()),
        )
        .with_details(subject.details(name, subject.plural))
    }

    pub(crate) fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", subject.qualified()),
        )
        .with_details(subject.details(name, subject.plural))
    }

    pub(crate) fn conflict(subject: Subject<'_>, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {} {name:?}: {why}",
                subject.qualified()
            ),
        )
        .with_details(subject.details(name, subject.plural))
    }

    /// The write was based on an older version than the stored one.
    pub(crate) fn stale(subject: Subject<'_>, name: &str) -> Self {
        Self::conflict(
            subject,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn forbidden(subject: Subject<'_>, name: &str, why: &str) -> Self {
        Self::new(
            403,
            "Forbidden",
            format!("{} {name:?} is forbidden: {why}", subject.qualified()),
        )
        .with_details(subject.details(name, subject.plural))
    }

    pub(crate) fn invalid(subject: Subject<'_>, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = errors.iter().map(FieldError::text).collect();
        texts.dedup();
        let joined = if texts.len() == 1 {
            texts.concat()
        } else {
            format!("[{}]", texts.join(", "))
        };
        let mut details = subject.details(name, subject.kind);
        details.insert(
            "causes".into(),
            errors.iter().map(FieldError::cause).collect(),
        );
        let shown = if subject.group.is_empty() {
            subject.kind.to_owned()
        } else {
            format!("{}.{}", subject.kind, subject.group)
        };
        Self::new(
            422,
            "Invalid",
            format!("{shown} {name:?} is invalid: {joined}"),
        )
        .with_details(details)
    }

    pub(crate) fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut error = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        error.details = Some(json!({}));
        error
    }

    /// A path below a known group and version that names no resource.
    pub(crate) fn no_such_resource() -> Self {
        let mut error = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        error.details = Some(json!({}));
        error
    }

    /// History that has been dropped.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A version that this server has not reached yet.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let mut error = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        error.retry_after = Some(1);
        error
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message});
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status["code"] = self.code.into();
        status
    }
}

/// One finding of validation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldError {
    reason: &'static str,
    field: String,
    message: String,
}

impl FieldError {
    fn new(reason: &'static str, field: impl Into<String>, message: String) -> Self {
        Self {
            reason,
            field: field.into(),
            message,
        }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {detail}", shown(value)),
        )
    }

    /// `type_name` is what was found where another type is wanted.
    pub(crate) fn wrong_type(field: impl Into<String>, found: &str, detail: &str) -> Self {
        Self::new(
            "FieldValueTypeInvalid",
            field,
            format!("Invalid value: {found:?}: {detail}"),
        )
    }

    pub(crate) fn not_supported(
        field: impl Into<String>,
        value: &Value,
        supported: &[String],
    ) -> Self {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        Self::new(
            "FieldValueNotSupported",
            field,
            format!(
                "Unsupported value: {}: supported values: {}",
                shown(value),
                list.join(", ")
            ),
        )
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    pub(crate) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            "FieldValueNotFound",
            field,
            format!("Not found: {}", shown(value)),
        )
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        Self::new(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {limit} bytes"),
        )
    }

    pub(crate) fn too_many(field: impl Into<String>, found: usize, limit: u64) -> Self {
        Self::new(
            "FieldValueTooMany",
            field,
            format!("Too many: {found}: must have at most {limit} items"),
        )
    }

    /// A rule of a CRD that does not hold; `value` is shown if it is neither a map nor a list.
    pub(crate) fn of_rule(
        reason: &str,
        field: impl Into<String>,
        value: Option<&Value>,
        message: &str,
    ) -> Self {
        match (reason, value) {
            ("FieldValueForbidden", _) => Self::forbidden(field, message),
            ("FieldValueRequired", _) => Self::required(field, message),
            ("FieldValueDuplicate", Some(value)) => Self::duplicate(field, value),
            ("FieldValueDuplicate", None) => {
                Self::new("FieldValueDuplicate", field, "Duplicate value".to_owned())
            }
            (_, Some(value)) => Self::invalid(field, value, message),
            (_, None) => Self::new(
                "FieldValueInvalid",
                field,
                format!("Invalid value: {message}"),
            ),
        }
    }

    /// Whether the rules of a CRD are not looked at because of this.
    pub(crate) fn blocks_rules(&self) -> bool {
        const BLOCKING: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        BLOCKING.contains(&self.reason)
    }

    pub(crate) fn text(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    fn cause(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
