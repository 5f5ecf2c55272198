//! Keeps one store in step with its server: list, then watch, for as long as the store lives. Entry point: [`Watcher::run`].
//!
//! A break of any kind resumes at the last version. A 410, as HTTP status or as an event, lists anew exactly once, and the store
//! synthesises the deletes. Backoff grows with every failure and resets only after real progress: an established watch
//! that delivered something, or lived to its end. Events never pass through a typed parse.

use super::answer;
use super::store::{Problem, StaleList, Store};
use super::transport::{Body, Call, Connection, JSON, TransportError};
use crate::api::{ApiCode, ApiError, Projection};
use crate::backoff::Backoff;
use crate::json::{Frame, FrameType, Head, List, Object};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Objects per page of a list.
const PAGE: usize = 500;
/// A list that stays older than the store for this long is believed: the server has lost its history.
const STALE_FOR: Duration = Duration::from_secs(60);
/// What a watch asks its server to end it after, plus up to as much again at random.
const WATCH_TIMEOUT: Duration = Duration::from_secs(240);
/// The same where nothing else finds a dead peer: over HTTP/1.1.
const SHORT_WATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// How long after its own end a watch may be silent before its peer counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// How many watches in a row may end at once before it is trouble.
const SHORT_WATCHES: u32 = 4;
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// How a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    /// The watch came to its end, or broke: resume at the last version.
    #[error("the watch ended")]
    Ended,
    /// The version is too old: list anew.
    #[error("the version is too old")]
    Expired,
    #[error(transparent)]
    Stale(#[from] StaleList),
    /// The server refused.
    #[error("{0}")]
    Refused(ApiError),
    /// The server cannot be reached, or broke the protocol.
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("the server sent what is not a list or watch of this kind: {0}")]
    Garbage(String),
}

/// Feeds one store.
pub(crate) struct Watcher {
    store: Arc<Store>,
    connection: Connection,
    backoff: Backoff,
    rng: fastrand::Rng,
    /// When a list was first older than the store, while it stays so.
    stale_since: Option<Instant>,
}

impl Watcher {
    pub(crate) fn new(store: Arc<Store>, connection: Connection) -> Self {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        Self {
            store,
            connection,
            backoff,
            rng: fastrand::Rng::new(),
            stale_since: None,
        }
    }

    /// Lists and watches until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let interrupted = self.list_and_watch().await;
            self.store.set_watching(false);
            self.report(&interrupted);
            let delay = self.delay(&interrupted);
            self.connection.pause(delay).await;
        }
    }

    /// One list, then watches for as long as they can resume.
    async fn list_and_watch(&mut self) -> Interrupted {
        if let Err(interrupted) = self.list().await {
            return interrupted;
        }
        loop {
            let started = Instant::now();
            let interrupted = self.watch().await;
            self.store.set_watching(false);
            let mut delay = Duration::ZERO;
            match &interrupted {
                Interrupted::Ended if started.elapsed() > Duration::from_secs(1) => {
                    self.backoff.reset();
                    continue;
                }
                // A server that ends watches at once is not making progress.
                Interrupted::Ended if self.backoff.attempt() >= SHORT_WATCHES => {
                    self.report(&Interrupted::Garbage(
                        "watches that end as soon as they begin".into(),
                    ));
                }
                Interrupted::Ended => {}
                Interrupted::Transport(_) | Interrupted::Garbage(_) => self.report(&interrupted),
                Interrupted::Refused(error) if is_passing(error) => {
                    delay = error.retry_after.unwrap_or_default();
                    self.report(&interrupted);
                }
                _ => return interrupted,
            }
            delay = delay.max(self.backoff.next(&mut self.rng));
            self.connection.pause(delay).await;
        }
    }

    fn delay(&mut self, interrupted: &Interrupted) -> Duration {
        let delay = self.backoff.next(&mut self.rng);
        match interrupted {
            Interrupted::Refused(error) => delay.max(error.retry_after.unwrap_or_default()),
            _ => delay,
        }
    }

    fn report(&self, interrupted: &Interrupted) {
        let problem = match interrupted {
            Interrupted::Ended | Interrupted::Expired => return,
            Interrupted::Refused(error) => {
                let definite = matches!(
                    error.code,
                    ApiCode::Forbidden
                        | ApiCode::UnknownKind
                        | ApiCode::NotFound
                        | ApiCode::Invalid
                );
                Problem {
                    definite,
                    unreachable: false,
                    stale: false,
                    message: error.to_string(),
                    error: Some(Arc::new(error.clone())),
                }
            }
            other => Problem {
                definite: false,
                unreachable: matches!(other, Interrupted::Transport(_)),
                stale: matches!(other, Interrupted::Stale(_)),
                message: other.to_string(),
                error: None,
            },
        };
        self.connection.metrics().watch_failed();
        let key = &self.store.key;
        tracing::warn!(server = self.connection.server(), kind = %key.kind, namespace = key.namespace.as_deref(), problem = problem.message, "watch interrupted");
        self.store.set_problem(problem);
    }

    // --- list ---

    async fn list(&mut self) -> Result<(), Interrupted> {
        // This list is what a reset has asked for.
        self.store.take_relist();
        let mut objects = Vec::new();
        let mut token: Option<String> = None;
        let version = loop {
            let page = self.list_page(token.as_deref()).await?;
            self.ingest(&page, &mut objects)?;
            match page.continue_token {
                Some(next) => token = Some(next),
                None => break page.resource_version,
            }
        };
        if version.is_empty() {
            return Err(Interrupted::Garbage(
                "a list without a resource version".into(),
            ));
        }
        if self.store.take_relist() {
            // Reset while the list was on its way: it may be of the server before.
            return Err(Interrupted::Expired);
        }
        let again = self.store.progress().borrow().watches > 0;
        match self.store.replace(objects, version) {
            Ok(()) => {
                if again {
                    self.connection.metrics().relisted();
                }
                self.stale_since = None;
                Ok(())
            }
            Err(stale) => self.stale(stale),
        }
    }

    /// A quorum list that is older than the store: waited out, and believed in the end.
    fn stale(&mut self, stale: StaleList) -> Result<(), Interrupted> {
        let since = *self.stale_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= STALE_FOR {
            tracing::warn!(server = self.connection.server(), kind = %self.store.key.kind, list = stale.list, held = stale.held, "store rebuilt: the server lost its history");
            self.store.reset();
            self.stale_since = None;
        }
        Err(stale.into())
    }

    fn ingest(&self, page: &List, objects: &mut Vec<Object>) -> Result<(), Interrupted> {
        for item in page.items() {
            objects.push(
                self.store
                    .ingest(item)
                    .map_err(|e| Interrupted::Garbage(e.to_string()))?,
            );
        }
        Ok(())
    }

    async fn list_page(&self, token: Option<&str>) -> Result<List, Interrupted> {
        let mut path = self.path();
        let _ = write!(path, "limit={PAGE}");
        if let Some(token) = token {
            let _ = write!(
                path,
                "&continue={}",
                utf8_percent_encode(token, NON_ALPHANUMERIC)
            );
        }
        let accept = if self.store.key.projection == Projection::Metadata {
            METADATA_LIST
        } else {
            JSON
        };
        let answer = self
            .connection
            .send(
                Call::get(path, accept),
                self.connection.options().call_timeout,
            )
            .await?;
        let answer = answer::refusal(answer).map_err(refused)?;
        List::split(answer.body).map_err(|e| Interrupted::Garbage(e.to_string()))
    }

    /// The collection's path with the store's selectors, ready for more parameters.
    fn path(&self) -> String {
        let key = &self.store.key;
        let mut path = self
            .store
            .resource
            .collection_path(key.namespace.as_deref());
        path.push('?');
        for (name, selector) in [
            ("labelSelector", &key.label_selector),
            ("fieldSelector", &key.field_selector),
        ] {
            if !selector.is_empty() {
                let _ = write!(
                    path,
                    "{name}={}&",
                    utf8_percent_encode(selector, NON_ALPHANUMERIC)
                );
            }
        }
        path
    }

    // --- watch ---

    async fn watch(&mut self) -> Interrupted {
        // A reset store has no version to watch from: without one the server would begin where it likes.
        if self.store.version().is_empty() {
            return Interrupted::Expired;
        }
        let timeout = if self.connection.pings() {
            WATCH_TIMEOUT
        } else {
            SHORT_WATCH_TIMEOUT
        };
        let timeout = timeout + Duration::from_secs(self.rng.u64(0..=timeout.as_secs()));
        let body = match self.open_watch(timeout).await {
            Ok(body) => body,
            Err(interrupted) => return interrupted,
        };
        if self.store.progress().borrow().watches > 0 {
            self.connection.metrics().watch_restarted();
        }
        self.store.set_watching(true);
        let mut lines = Lines::new(body, self.connection.options().max_line);
        let end = tokio::time::Instant::now() + timeout + WATCH_GRACE;
        let store = self.store.clone();
        loop {
            let line = tokio::select! {
                line = tokio::time::timeout_at(end, lines.next()) => line,
                () = store.relist_asked() => return Interrupted::Expired,
            };
            match line {
                Err(_) => return Interrupted::Ended,
                // Broken off: resumed as if it had ended, and a server that is away shows at the next attempt.
                Ok(Err(Broken::Connection)) => return Interrupted::Ended,
                Ok(Err(Broken::LongLine(limit))) => {
                    return Interrupted::Garbage(format!("a line of more than {limit} bytes"));
                }
                Ok(Ok(None)) => return Interrupted::Ended,
                Ok(Ok(Some(line))) => match self.event(&line) {
                    // What has been there before is no progress: a server may send it, and fail, for ever.
                    Ok(further) if further => self.backoff.reset(),
                    Ok(_) => {}
                    Err(interrupted) => return interrupted,
                },
            }
        }
    }

    async fn open_watch(&self, timeout: Duration) -> Result<Body, Interrupted> {
        let mut path = self.path();
        let version = self.store.version();
        let _ = write!(
            path,
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            timeout.as_secs(),
            utf8_percent_encode(&version, NON_ALPHANUMERIC)
        );
        let accept = if self.store.key.projection == Projection::Metadata {
            METADATA
        } else {
            JSON
        };
        let limit = self.connection.options().call_timeout;
        let response = match tokio::time::timeout(
            limit,
            self.connection.open(Call::get(path, accept)),
        )
        .await
        {
            Ok(response) => response?,
            Err(_) => {
                return Err(TransportError::Timeout {
                    server: self.connection.server().to_owned(),
                    after: limit,
                }
                .into());
            }
        };
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let status = response.status().as_u16();
        let retry_after = self.connection.retry_after(&response);
        let body = tokio::time::timeout(limit, self.connection.collect(response.into_body())).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        Err(refused(answer::error(status, retry_after, &body)))
    }

    /// Takes in one event. Returns whether the store has come further.
    fn event(&self, line: &[u8]) -> Result<bool, Interrupted> {
        let garbage = |e: crate::json::JsonError| Interrupted::Garbage(e.to_string());
        let frame = Frame::scan(line).map_err(garbage)?;
        let text = &line[frame.object.range()];
        Ok(match frame.frame_type {
            FrameType::Added | FrameType::Modified => {
                self.store.apply(self.store.ingest(text).map_err(garbage)?)
            }
            FrameType::Deleted => self
                .store
                .delete(&self.store.ingest(text).map_err(garbage)?),
            FrameType::Bookmark => bookmark_version(text)
                .map_err(garbage)?
                .is_some_and(|version| self.store.reached(&version)),
            FrameType::Error => return Err(refused(answer::error(status_code(text), None, text))),
        })
    }
}

/// Whether a refusal may be over by itself, so that the watch resumes where it was.
fn is_passing(error: &ApiError) -> bool {
    error.http_status == 429 || error.http_status >= 500
}

fn refused(error: ApiError) -> Interrupted {
    if error.http_status == 410 {
        Interrupted::Expired
    } else {
        Interrupted::Refused(error)
    }
}

fn status_code(text: &[u8]) -> u16 {
    serde_json::from_slice::<answer::Status>(text).map_or(500, |status| status.code)
}

/// Bookmarks have no name, so they are not objects of the store.
fn bookmark_version(text: &[u8]) -> Result<Option<String>, crate::json::JsonError> {
    let head = Head::scan(text)?;
    let quoted = &text[head.resource_version.range()];
    Ok(serde_json::from_slice(quoted).ok())
}

/// Why there is no further line.
enum Broken {
    Connection,
    LongLine(usize),
}

/// Splits a body into lines, none longer than a limit.
struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Bytes at the start of `buffer` that hold no line end.
    searched: usize,
    limit: usize,
}

impl Lines {
    fn new(body: Body, limit: usize) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    /// The next line without its end; `None` at the end of the body. What stands behind the last line end is not a line.
    async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > self.limit {
                return Err(Broken::LongLine(self.limit));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(_)) => return Err(Broken::Connection),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        loop {
            let at = self.buffer[self.searched..]
                .iter()
                .position(|b| *b == b'\n');
            let Some(at) = at else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.searched + at + 1).freeze();
            self.searched = 0;
            let line = line.slice(..line.len() - 1);
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}
