//! Conversions between the types of the contract and those of the fleet. Entry points: the `From` implementations, and [`text`] for
//! objects.

use crate::clean::clean_lines;
use crate::contract::windlass::runtime::{client as wit, types};
use std::time::Duration;
use windlass_fleet::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, Event, EventType, GetOptions, Json,
    ListOptions, Operation, PatchType, Projection, Propagation, ReadMode, Selection, WriteOptions,
};
use windlass_fleet::{Action, Failure, GroupVersionKind, ObjectKey, Request};

/// An object as text for the guest. An object that is not UTF-8 is an error.
pub(crate) fn text(json: &Json) -> Result<String, ApiError> {
    let text = std::str::from_utf8(json).map_err(|_| {
        ApiError::host(
            ApiCode::Other,
            "the server sent an object that is not UTF-8",
        )
    })?;
    Ok(text.to_owned())
}

impl From<types::GroupVersionKind> for GroupVersionKind {
    fn from(kind: types::GroupVersionKind) -> Self {
        Self::new(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<&GroupVersionKind> for types::GroupVersionKind {
    fn from(kind: &GroupVersionKind) -> Self {
        Self {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            kind: kind.kind.to_string(),
        }
    }
}

impl From<types::ObjectKey> for ObjectKey {
    fn from(key: types::ObjectKey) -> Self {
        Self {
            namespace: key.namespace.map(Into::into),
            name: key.name.into(),
        }
    }
}

impl From<&Request> for types::Request {
    fn from(request: &Request) -> Self {
        let namespace = request.key.namespace.as_deref().map(str::to_owned);
        let key = types::ObjectKey {
            namespace,
            name: request.key.name.to_string(),
        };
        Self {
            cluster: request.cluster.to_string(),
            key,
        }
    }
}

impl From<&crate::recording::Request> for types::Request {
    fn from(request: &crate::recording::Request) -> Self {
        let key = types::ObjectKey {
            namespace: request.namespace.clone(),
            name: request.name.clone(),
        };
        Self {
            cluster: request.cluster.clone(),
            key,
        }
    }
}

impl From<types::Action> for Action {
    fn from(action: types::Action) -> Self {
        match action {
            types::Action::Done => Self::Done,
            types::Action::RequeueAfterMs(ms) => {
                Self::RequeueAfter(Duration::from_millis(ms.into()))
            }
        }
    }
}

/// Most lines of a failure's message. The SDKs tell four causes of an exception, with eight frames each.
const FAILURE_LINES: usize = 40;

impl types::Failure {
    /// The failure of a reconcile that the guest returned.
    pub(crate) fn cleaned(self) -> Failure {
        let cleaned = |text: String| clean_lines(&text, Failure::MAX_MESSAGE, FAILURE_LINES);
        match self {
            Self::Retry(message) => Failure::retry(cleaned(message)),
            Self::Terminal(message) => Failure::terminal(cleaned(message)),
        }
    }
}

impl From<ApiError> for types::ApiError {
    fn from(error: ApiError) -> Self {
        Self {
            code: code(error.code),
            http_status: error.http_status,
            reason: error.reason,
            message: error.message,
            details: error.details,
            retry_after_ms: error
                .retry_after
                .map(|after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX)),
        }
    }
}

fn code(code: ApiCode) -> types::ApiCode {
    match code {
        ApiCode::NotFound => types::ApiCode::NotFound,
        ApiCode::AlreadyExists => types::ApiCode::AlreadyExists,
        ApiCode::Conflict => types::ApiCode::Conflict,
        ApiCode::Invalid => types::ApiCode::Invalid,
        ApiCode::Unauthorized => types::ApiCode::Unauthorized,
        ApiCode::Forbidden => types::ApiCode::Forbidden,
        ApiCode::Denied => types::ApiCode::Denied,
        ApiCode::UnknownKind => types::ApiCode::UnknownKind,
        ApiCode::Throttled => types::ApiCode::Throttled,
        ApiCode::Expired => types::ApiCode::Expired,
        ApiCode::Timeout => types::ApiCode::Timeout,
        ApiCode::Unavailable => types::ApiCode::Unavailable,
        ApiCode::LimitExceeded => types::ApiCode::LimitExceeded,
        ApiCode::ClusterGone => types::ApiCode::ClusterGone,
        ApiCode::Cancelled => types::ApiCode::Cancelled,
        ApiCode::Other => types::ApiCode::Other,
    }
}

impl From<wit::ReadMode> for ReadMode {
    fn from(mode: wit::ReadMode) -> Self {
        match mode {
            wit::ReadMode::Cached => Self::Cached,
            wit::ReadMode::Live => Self::Live,
        }
    }
}

impl From<wit::Projection> for Projection {
    fn from(projection: wit::Projection) -> Self {
        match projection {
            wit::Projection::Full => Self::Full,
            wit::Projection::Metadata => Self::Metadata,
        }
    }
}

impl From<wit::PatchType> for PatchType {
    fn from(patch_type: wit::PatchType) -> Self {
        match patch_type {
            wit::PatchType::JsonPatch => Self::Json,
            wit::PatchType::Merge => Self::Merge,
            wit::PatchType::StrategicMerge => Self::StrategicMerge,
        }
    }
}

impl From<wit::Propagation> for Propagation {
    fn from(propagation: wit::Propagation) -> Self {
        match propagation {
            wit::Propagation::Background => Self::Background,
            wit::Propagation::Foreground => Self::Foreground,
            wit::Propagation::Orphan => Self::Orphan,
        }
    }
}

impl From<wit::GetOptions> for GetOptions {
    fn from(options: wit::GetOptions) -> Self {
        Self {
            mode: options.mode.into(),
            projection: options.projection.into(),
            subresource: options.subresource,
        }
    }
}

impl From<wit::ListOptions> for ListOptions {
    fn from(options: wit::ListOptions) -> Self {
        Self {
            namespace: options.namespace,
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            index: options.index,
            limit: options.limit,
            continue_token: options.continue_token,
            mode: options.mode.into(),
            projection: options.projection.into(),
        }
    }
}

impl From<wit::WriteOptions> for WriteOptions {
    fn from(options: wit::WriteOptions) -> Self {
        Self {
            subresource: options.subresource,
            dry_run: options.dry_run,
        }
    }
}

impl From<wit::ApplyOptions> for ApplyOptions {
    fn from(options: wit::ApplyOptions) -> Self {
        Self {
            subresource: options.subresource,
            force: options.force,
            dry_run: options.dry_run,
        }
    }
}

impl From<wit::DeleteOptions> for DeleteOptions {
    fn from(options: wit::DeleteOptions) -> Self {
        Self {
            uid: options.uid,
            resource_version: options.resource_version,
            propagation: options.propagation.map(Into::into),
            grace_period_seconds: options.grace_period_seconds,
            dry_run: options.dry_run,
        }
    }
}

impl From<wit::Selection> for Selection {
    fn from(selection: wit::Selection) -> Self {
        Self {
            namespace: selection.namespace,
            label_selector: selection.label_selector,
            field_selector: selection.field_selector,
        }
    }
}

impl From<wit::Event> for Event {
    fn from(event: wit::Event) -> Self {
        let event_type = match event.event_type {
            wit::EventType::Normal => EventType::Normal,
            wit::EventType::Warning => EventType::Warning,
        };
        Self {
            kind: event.kind.into(),
            key: event.key.into(),
            event_type,
            reason: event.reason,
            action: event.action,
            note: event.note,
        }
    }
}

impl From<wit::Operation> for Operation {
    fn from(operation: wit::Operation) -> Self {
        match operation {
            wit::Operation::Get((kind, key, options)) => {
                Self::Get(kind.into(), key.into(), options.into())
            }
            wit::Operation::Create((kind, object, options)) => {
                Self::Create(kind.into(), object.into(), options.into())
            }
            wit::Operation::Update((kind, object, options)) => {
                Self::Update(kind.into(), object.into(), options.into())
            }
            wit::Operation::Patch((kind, key, patch_type, patch, options)) => Self::Patch(
                kind.into(),
                key.into(),
                patch_type.into(),
                patch.into(),
                options.into(),
            ),
            wit::Operation::Apply((kind, object, options)) => {
                Self::Apply(kind.into(), object.into(), options.into())
            }
            wit::Operation::Delete((kind, key, options)) => {
                Self::Delete(kind.into(), key.into(), options.into())
            }
            wit::Operation::List((kind, options)) => Self::List(kind.into(), options.into()),
        }
    }
}
