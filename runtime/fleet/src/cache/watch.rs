//! Keeps one store in step with its server: list, then watch, for as long as the store lives. Entry point: [`Watcher::run`].
//!
//! * A watch that ends or breaks resumes at the last version. A 410, as HTTP status or as an event, causes exactly one new list.
//! * After a break the server must first be confirmed: it has the same identity ([`Continuity`]), and it has reached the store's
//!   version. A server accepts a watch from a version in its future, and is silent until it gets there.
//! * Waits grow with every failure. Only progress resets them: a watch that delivered something new, or that lived ([`Pace`]).
//! * What a server sends that is not a list or a watch stops this one kind until the next attempt. The cluster's status shows it.
//!
//! Cost: one task and one request per store. A list holds the new objects beside the cached ones until it is complete; objects that
//! have not changed are shared. Events are never parsed into types.
//!
//! Not guaranteed: this module does not notice that the server never sent an event. [`drift`](super::drift) does.
//!
//! Rooms: `fill` lists, `calls` builds the requests, `open_watch` reads an open watch, `listing` checks a list, `end` says how a list
//! or watch ended, `pace` how long to wait then, `server_features` which servers stream lists, `options` has what users configure.

mod calls;
mod end;
mod fill;
mod listing;
mod open_watch;
mod options;
mod pace;
mod server_features;

pub(crate) use calls::{METADATA, METADATA_LIST, StoreCall};
pub use options::CacheOptions;
pub(crate) use options::SharedOptions;
pub(crate) use server_features::ServerFeatures;

use super::continuity::{Continuity, ServerChanges};
use super::store::{Store, number};
use crate::http::lines::{Broken, Lines};
use crate::http::status;
use crate::http::transport::{AnswerBody, Call, Connection, TransportError};
use crate::json::{Frame, FrameType};
use end::{Malformed, WatchEnd};
use http::Response;
use open_watch::{Bookmark, OpenWatch, error_event};
use pace::Pace;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A kind that its server has not served for this long is gone, and its objects with it.
const UNSERVED_FOR: Duration = Duration::from_secs(5);

/// What all watches of one server share.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) connection: Connection,
    pub(crate) continuity: Arc<Continuity>,
    pub(crate) options: SharedOptions,
    pub(crate) features: Arc<ServerFeatures>,
    /// Notified when a store requests a drift check.
    pub(crate) drift_check_requested: Arc<Notify>,
}

/// Feeds one store.
pub(crate) struct Watcher {
    store: Arc<Store>,
    server: Server,
    changes: watch::Receiver<ServerChanges>,
    /// Number of histories that the server had lost when the store was filled last.
    histories_lost: u64,
    /// The options when the current list or watch began.
    options: Arc<CacheOptions>,
    pace: Pace,
    rng: fastrand::Rng,
    /// When a list was first older than the store, while lists stay so.
    stale_since: Option<Instant>,
    /// When the server was first found not to serve the kind, while it stays so.
    unserved_since: Option<Instant>,
    /// Whether the last watch was unresponsive. The store's problem then stays until the next watch has delivered something.
    untrusted: bool,
    /// Whether another server, or another history, may answer the next request. Set while a watch is open and after a failure; cleared
    /// by a watch that ended on schedule and by a list, which confirms the server.
    unconfirmed: bool,
    lists: fill::ListState,
}

impl Watcher {
    pub(crate) fn new(store: Arc<Store>, server: Server) -> Self {
        let options = server.options.now();
        let lists = fill::ListState::new(&options);
        let changes = server.continuity.changes();
        let histories_lost = changes.borrow().histories_lost;
        Self {
            store,
            server,
            changes,
            histories_lost,
            options,
            pace: Pace::new(fastrand::Rng::new()),
            rng: fastrand::Rng::new(),
            stale_since: None,
            unserved_since: None,
            untrusted: false,
            unconfirmed: false,
            lists,
        }
    }

    /// Lists and watches until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            self.refresh_options();
            let end = self.list_and_watch().await;
            self.store.watch_closed();
            self.unconfirmed = true;
            self.reset_if_unserved(&end);
            // A 410 is ordinary: the next list is the answer to it.
            if !matches!(end, WatchEnd::Expired) || self.pace.is_stuck() {
                self.report(&end);
            }
            let mut delay = self.pace.wait(&end);
            if matches!(end, WatchEnd::Stale(_)) {
                delay = delay.min(self.time_until_believed());
            }
            self.pause(delay).await;
        }
    }

    fn refresh_options(&mut self) {
        let options = self.server.options.now();
        if options.page != self.options.page {
            // The page size that was adapted to this server was derived from the other option.
            self.lists = fill::ListState::new(&options);
        }
        self.options = options;
    }

    /// Lists once, then watches for as long as a watch can resume. Returns why a new list is needed.
    async fn list_and_watch(&mut self) -> WatchEnd {
        let mut open = match self.fill().await {
            Ok(open) => open,
            Err(end) => return end,
        };
        let mut is_first = true;
        loop {
            let began = Instant::now();
            let end = match open.take() {
                Some(open) => self.follow(open, false).await,
                None => self.watch(is_first).await,
            };
            is_first = false;
            self.store.watch_closed();
            if self.pace.is_progress(&end, began.elapsed()) {
                continue;
            }
            match &end {
                WatchEnd::Ended if self.pace.is_stuck() => {
                    self.report(&Malformed::ShortWatches.into());
                }
                WatchEnd::Ended => {}
                WatchEnd::EndedEmpty => match self.check_version().await {
                    Ok(()) => {
                        self.pace.progressed();
                        continue;
                    }
                    Err(end) => return end,
                },
                WatchEnd::ServerBehind => {
                    if let Err(end) = self.check_version().await {
                        return end;
                    }
                }
                WatchEnd::Unresponsive(_) | WatchEnd::Transport(_) | WatchEnd::Malformed(_) => {
                    self.report(&end);
                }
                refused if refused.is_temporary() => self.report(refused),
                _ => return end,
            }
            let delay = self.pace.wait(&end);
            self.pause(delay).await;
        }
    }

    /// Waits, but no longer than until the server's history is found to be lost, or the server answers other requests again.
    async fn pause(&mut self, delay: Duration) {
        self.store
            .set_next_attempt(SystemTime::now().checked_add(delay));
        tokio::select! {
            () = self.server.connection.pause(delay) => {}
            () = history_lost_since(&mut self.changes, self.histories_lost) => {}
        }
        self.store.set_next_attempt(None);
    }

    /// Confirms that the server has the same identity and has reached the store's version.
    async fn confirm(&mut self) -> Result<(), WatchEnd> {
        self.server.continuity.confirm(Duration::ZERO).await?;
        self.check_version().await?;
        // Events from before the break may be lost.
        self.store.request_drift_check();
        self.server.drift_check_requested.notify_one();
        Ok(())
    }

    fn report(&mut self, end: &WatchEnd) {
        self.untrusted |= matches!(end, WatchEnd::Unresponsive(_));
        let Some(problem) = end.problem() else {
            return;
        };
        let connection = &self.server.connection;
        connection.metrics().watch_failed();
        let key = &self.store.key;
        tracing::warn!(server = connection.server(), kind = %key.kind, namespace = key.namespace.as_deref(), problem = problem.message, "watch interrupted");
        self.store.set_problem(problem);
    }

    /// Empties the store of a kind that the server no longer serves. The server sends no delete events for its objects.
    fn reset_if_unserved(&mut self, end: &WatchEnd) {
        if !end.is_unserved() {
            self.unserved_since = None;
            return;
        }
        let since = *self.unserved_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= UNSERVED_FOR && self.store.is_synced() {
            tracing::info!(server = self.server.connection.server(), kind = %self.store.key.kind, "kind no longer served: its cache is emptied");
            self.store.reset();
        }
    }

    // --- watch ---

    /// The timeout of the next watch.
    fn watch_timeout(&mut self) -> Duration {
        if self.server.connection.pings() {
            let base = self.options.multiplexed_watch_timeout;
            return base.mul_f64(1.0 + self.rng.f64());
        }
        self.options
            .watch_timeout
            .mul_f64(0.9 + 0.2 * self.rng.f64())
    }

    /// Opens a watch and follows it to its end. `is_first`: no other watch was open since the list.
    async fn watch(&mut self, is_first: bool) -> WatchEnd {
        let version = self.store.version();
        // After a reset there is no version, and a watch without one begins at a version that the server chooses.
        if version.is_empty() {
            return WatchEnd::Expired;
        }
        self.refresh_options();
        let timeout = self.watch_timeout();
        let call = StoreCall::Watch {
            version: &version,
            timeout,
        };
        let open = match self.open(&call, timeout).await {
            Ok(open) => open,
            Err(end) => {
                self.unconfirmed = true;
                return end;
            }
        };
        // Only now, so that the answer is about the server that this watch reached.
        let after_break = self.unconfirmed;
        if after_break && let Err(end) = self.confirm().await {
            return end;
        }
        if self.store.progress().borrow().watches > 0 {
            self.server.connection.metrics().watch_restarted();
        }
        self.follow(open, !after_break && !is_first).await
    }

    /// Follows an open watch to its end. `on_schedule`: the previous watch ended at its timeout, so the server is still the same.
    async fn follow(&mut self, mut open: OpenWatch, on_schedule: bool) -> WatchEnd {
        // Whatever ends this watch, the next one may reach another server. Only an end on schedule takes that back.
        self.unconfirmed = true;
        self.store.watch_opened(!self.untrusted, on_schedule);
        let from = number(&self.store.version());
        let store = self.store.clone();
        loop {
            let line = tokio::select! {
                line = tokio::time::timeout_at(open.overdue_at(), open.lines.next()) => line,
                () = store.relist_requested() => return WatchEnd::Expired,
                () = history_lost_since(&mut self.changes, self.histories_lost) => return WatchEnd::Expired,
            };
            let line = match line {
                Err(_) => return open.overdue(),
                // Resumed as if it had ended. If the server is away, the next attempt shows it.
                Ok(Err(Broken::Connection)) => return WatchEnd::Ended,
                Ok(Err(Broken::LongLine(limit))) => return Malformed::LongLine(limit).into(),
                Ok(Ok(None)) => {
                    self.trust();
                    self.unconfirmed = !open.has_timed_out();
                    return open.ended();
                }
                Ok(Ok(Some(line))) => line,
            };
            open.last_line = Some(Instant::now());
            match self.event(&line, from) {
                // Events that the store already has are not progress: a server could repeat them for ever.
                Ok(true) => self.pace.progressed(),
                Ok(false) => {}
                Err(end) => return end,
            }
            self.trust();
        }
    }

    /// Ends the distrust after an unresponsive watch: the server has delivered something.
    fn trust(&mut self) {
        if std::mem::take(&mut self.untrusted) {
            self.store.watch_proven();
        }
    }

    async fn open(&self, call: &StoreCall<'_>, timeout: Duration) -> Result<OpenWatch, WatchEnd> {
        // Before the call, so that no exchange of credentials is missed.
        let replaced = self.server.connection.replaced();
        let response = self.begin(call.call(&self.store)).await?;
        let max_line = self.server.connection.options().max_line;
        let lines = Lines::new(response.into_body(), max_line);
        Ok(OpenWatch::new(lines, timeout, replaced))
    }

    /// Sends a call whose answer is a stream, and returns once the answer has begun.
    async fn begin(&self, call: Call) -> Result<Response<AnswerBody>, WatchEnd> {
        let connection = &self.server.connection;
        let limit = connection.options().call_timeout;
        let response = match tokio::time::timeout(limit, connection.open(call)).await {
            Ok(response) => response?,
            Err(_) => {
                connection.note_down();
                return Err(TransportError::Timeout {
                    server: connection.server().to_owned(),
                    after: limit,
                }
                .into());
            }
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let retry_after = connection.retry_after(&response);
        let body = tokio::time::timeout(limit, connection.collect(response.into_body())).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        Err(status::error(status, retry_after, &body).into())
    }

    /// Applies one event of a watch that began at version `from`. Returns whether the watch made progress.
    fn event(&self, line: &[u8], from: Option<u64>) -> Result<bool, WatchEnd> {
        let frame = Frame::scan(line)?;
        let text = &line[frame.object.range()];
        match frame.frame_type {
            FrameType::Added | FrameType::Modified => {
                let progressed = self.store.apply(self.store.ingest(text)?);
                if self.store.size().1 > self.options.max_bytes {
                    return Err(WatchEnd::TooLarge(self.options.max_bytes));
                }
                Ok(progressed)
            }
            FrameType::Deleted => Ok(self.store.delete(&self.store.ingest(text)?)),
            FrameType::Bookmark => {
                let bookmark = Bookmark::read(text)?;
                let at = number(bookmark.version());
                if at.zip(from).is_some_and(|(at, from)| at < from) {
                    return Err(WatchEnd::ServerBehind);
                }
                Ok(self.store.reached(bookmark.version()))
            }
            FrameType::Error => Err(error_event(text)),
        }
    }
}

/// Returns once the server has lost more than `known` histories.
async fn history_lost_since(changes: &mut watch::Receiver<ServerChanges>, known: u64) {
    let lost = |changes: &ServerChanges| changes.histories_lost > known;
    if changes.wait_for(lost).await.is_err() {
        // The backend has ended, and this watch ends with it.
        std::future::pending().await
    }
}
