//! From the contract's types to those of recordings, and answers back. Entry points: the `From` implementations, and [`Answered`].

use super::{
    Answer, ApiError, ApplyOptions, ClusterInfo, Code, DeleteOptions, Event, GetOptions, HttpBody,
    HttpRequest, Key, Kind, ListOptions, Mode, Operation, PatchType, Projection, Propagation,
    Selection, WriteOptions,
};
use crate::contract::windlass::runtime::{client as wit, fleet, http, types};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

impl From<types::GroupVersionKind> for Kind {
    fn from(kind: types::GroupVersionKind) -> Self {
        let types::GroupVersionKind {
            group,
            version,
            kind,
        } = kind;
        Self {
            group,
            version,
            kind,
        }
    }
}

impl From<types::ObjectKey> for Key {
    fn from(key: types::ObjectKey) -> Self {
        let types::ObjectKey { namespace, name } = key;
        Self { namespace, name }
    }
}

impl From<wit::ReadMode> for Mode {
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
            wit::PatchType::JsonPatch => Self::JsonPatch,
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

impl From<wit::Selection> for Selection {
    fn from(selection: wit::Selection) -> Self {
        Self {
            namespace: selection.namespace,
            label_selector: selection.label_selector,
            field_selector: selection.field_selector,
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

impl From<wit::Event> for Event {
    fn from(event: wit::Event) -> Self {
        Self {
            kind: event.kind.into(),
            key: event.key.into(),
            warning: matches!(event.event_type, wit::EventType::Warning),
            reason: event.reason,
            action: event.action,
            note: event.note,
        }
    }
}

impl From<wit::Operation> for Operation {
    fn from(operation: wit::Operation) -> Self {
        match operation {
            wit::Operation::Get((kind, key, options)) => Self::Get {
                kind: kind.into(),
                key: key.into(),
                options: options.into(),
            },
            wit::Operation::List((kind, options)) => Self::List {
                kind: kind.into(),
                options: options.into(),
            },
            wit::Operation::Create((kind, object, options)) => Self::Create {
                kind: kind.into(),
                object: object.into(),
                options: options.into(),
            },
            wit::Operation::Update((kind, object, options)) => Self::Update {
                kind: kind.into(),
                object: object.into(),
                options: options.into(),
            },
            wit::Operation::Patch((kind, key, patch_type, patch, options)) => Self::Patch {
                kind: kind.into(),
                key: key.into(),
                patch_type: patch_type.into(),
                patch: patch.into(),
                options: options.into(),
            },
            wit::Operation::Apply((kind, object, options)) => Self::Apply {
                kind: kind.into(),
                object: object.into(),
                options: options.into(),
            },
            wit::Operation::Delete((kind, key, options)) => Self::Delete {
                kind: kind.into(),
                key: key.into(),
                options: options.into(),
            },
        }
    }
}

/// The codes of errors have the same names on both sides.
macro_rules! codes {
    ($($name:ident)*) => {
        impl From<types::ApiCode> for Code {
            fn from(code: types::ApiCode) -> Self {
                match code {
                    $(types::ApiCode::$name => Self::$name,)*
                }
            }
        }

        impl From<Code> for types::ApiCode {
            fn from(code: Code) -> Self {
                match code {
                    $(Code::$name => Self::$name,)*
                }
            }
        }
    };
}

codes! {
    NotFound AlreadyExists Conflict Invalid Unauthorized Forbidden Denied UnknownKind Throttled Expired Timeout Unavailable
    LimitExceeded ClusterGone Cancelled Other
}

impl From<types::ApiError> for ApiError {
    fn from(error: types::ApiError) -> Self {
        Self {
            code: error.code.into(),
            http_status: error.http_status,
            reason: error.reason,
            message: error.message,
            details: error.details.map(Into::into),
            retry_after_ms: error.retry_after_ms,
        }
    }
}

impl From<ApiError> for types::ApiError {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.code.into(),
            http_status: error.http_status,
            reason: error.reason,
            message: error.message,
            details: error.details.map(|details| details.0),
            retry_after_ms: error.retry_after_ms,
        }
    }
}

/// A value of the contract that a call returns.
pub(crate) trait Answered: Sized {
    /// Bytes of its texts.
    fn bytes(&self) -> usize;
    /// Its form in a recording.
    fn recorded(&self) -> Answer;
    /// Back from this form. `None`: it is of another call.
    fn replayed(answer: Answer) -> Option<Self>;
}

impl Answered for () {
    fn bytes(&self) -> usize {
        0
    }

    fn recorded(&self) -> Answer {
        Answer::Nothing
    }

    fn replayed(answer: Answer) -> Option<Self> {
        matches!(answer, Answer::Nothing).then_some(())
    }
}

impl Answered for String {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn recorded(&self) -> Answer {
        Answer::Object(self.clone().into())
    }

    fn replayed(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Object(text) => Some(text.0),
            _ => None,
        }
    }
}

impl Answered for Option<String> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, String::len)
    }

    fn recorded(&self) -> Answer {
        self.as_ref().map_or(Answer::Nothing, Answered::recorded)
    }

    fn replayed(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Nothing => Some(None),
            other => String::replayed(other).map(Some),
        }
    }
}

impl Answered for wit::ListPage {
    fn bytes(&self) -> usize {
        let items = self.items.iter().map(String::len).sum::<usize>();
        items + self.continue_token.bytes() + self.resource_version.len()
    }

    fn recorded(&self) -> Answer {
        let items = self.items.iter().map(|item| item.clone().into());
        Answer::Page {
            items: items.collect(),
            continue_token: self.continue_token.clone(),
            resource_version: self.resource_version.clone(),
        }
    }

    fn replayed(answer: Answer) -> Option<Self> {
        let Answer::Page {
            items,
            continue_token,
            resource_version,
        } = answer
        else {
            return None;
        };
        Some(Self {
            items: items.into_iter().map(|item| item.0).collect(),
            continue_token,
            resource_version,
        })
    }
}

impl Answered for wit::Reply {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Object(object) => object.bytes(),
            Self::Page(page) => page.bytes(),
        }
    }

    fn recorded(&self) -> Answer {
        match self {
            Self::Nothing => Answer::Nothing,
            Self::Object(object) => object.recorded(),
            Self::Page(page) => page.recorded(),
        }
    }

    fn replayed(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Nothing => Some(Self::Nothing),
            Answer::Object(_) => String::replayed(answer).map(Self::Object),
            Answer::Page { .. } => wit::ListPage::replayed(answer).map(Self::Page),
            _ => None,
        }
    }
}

impl From<Vec<u8>> for HttpBody {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(STANDARD.encode(error.as_bytes())),
        }
    }
}

impl HttpBody {
    /// Its bytes. `None`: it is not base64.
    fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

impl From<http::Request> for HttpRequest {
    fn from(request: http::Request) -> Self {
        Self {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body.into(),
            timeout_ms: request.timeout_ms,
        }
    }
}

impl Answered for http::Response {
    fn bytes(&self) -> usize {
        let header = |(name, value): &(String, String)| name.len() + value.len();
        self.headers.iter().map(header).sum::<usize>() + self.body.len()
    }

    fn recorded(&self) -> Answer {
        Answer::Http {
            status: self.status,
            headers: self.headers.clone(),
            body: self.body.clone().into(),
        }
    }

    fn replayed(answer: Answer) -> Option<Self> {
        let Answer::Http {
            status,
            headers,
            body,
        } = answer
        else {
            return None;
        };
        Some(Self {
            status,
            headers,
            body: body.bytes()?,
        })
    }
}

impl Answered for Vec<fleet::ClusterInfo> {
    fn bytes(&self) -> usize {
        let pair = |(name, value): &(String, String)| name.len() + value.len();
        let texts = |info: &fleet::ClusterInfo| {
            let pairs = info.labels.iter().chain(&info.properties).map(pair);
            info.name.len() + pairs.sum::<usize>()
        };
        self.iter().map(texts).sum()
    }

    fn recorded(&self) -> Answer {
        let infos = self.iter().map(|info| ClusterInfo {
            name: info.name.clone(),
            labels: info.labels.clone(),
            properties: info.properties.clone(),
            ready: info.ready,
        });
        Answer::Clusters(infos.collect())
    }

    fn replayed(answer: Answer) -> Option<Self> {
        let Answer::Clusters(infos) = answer else {
            return None;
        };
        let infos = infos.into_iter().map(|info| fleet::ClusterInfo {
            name: info.name,
            labels: info.labels,
            properties: info.properties,
            ready: info.ready,
        });
        Some(infos.collect())
    }
}

/// A call, or an operation of a batch, that may fail.
impl<T: Answered> Answered for Result<T, types::ApiError> {
    fn bytes(&self) -> usize {
        match self {
            Ok(value) => value.bytes(),
            Err(error) => error.message.len() + error.reason.len() + error.details.bytes(),
        }
    }

    fn recorded(&self) -> Answer {
        match self {
            Ok(value) => value.recorded(),
            Err(error) => Answer::Error(error.clone().into()),
        }
    }

    fn replayed(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Error(error) => Some(Err(error.into())),
            other => T::replayed(other).map(Ok),
        }
    }
}

impl Answered for Vec<Result<wit::Reply, types::ApiError>> {
    fn bytes(&self) -> usize {
        self.iter().map(Answered::bytes).sum()
    }

    fn recorded(&self) -> Answer {
        Answer::Batch(self.iter().map(Answered::recorded).collect())
    }

    fn replayed(answer: Answer) -> Option<Self> {
        let Answer::Batch(answers) = answer else {
            return None;
        };
        answers.into_iter().map(Answered::replayed).collect()
    }
}
