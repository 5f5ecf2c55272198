//! Fills a store with a list: streamed if the server can, else by pages. Entry point: [`Watcher::fill`].
//!
//! The store changes only once the list is complete, the server's identity is confirmed, and the list is not older than the store.
//! An older list is doubted for [`CacheOptions::stale_for`]. If a later list is still older, the server has lost its history.

use super::calls::StoreCall;
use super::end::WatchEnd;
use super::listing::Listing;
use super::options::CacheOptions;
use super::{Bookmark, Malformed, OpenWatch, Watcher, error_event};
use crate::cache::store::{StaleList, number};
use crate::http::lines::Broken;
use crate::http::status::error_for_status;
use crate::http::transport::TransportError;
use crate::json::{Frame, FrameType, List};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A page has at most this many times the configured number of objects. Larger pages help if a list expires before its end.
const LARGER_PAGES: usize = 64;
/// Streamed lists in a row that may break before a paged list is tried.
const BROKEN_STREAMS: u32 = 3;
/// Most pages without an item in one list.
const EMPTY_PAGES: u32 = 100;
/// A list that follows no break accepts a check of the server's identity of this age: connecting has just made one.
const RECENT: Duration = Duration::from_secs(5);

/// How to list one kind on one server, as earlier lists have shown.
pub(super) struct ListState {
    /// Objects per page: fewer than configured after a page was too large, more after a list has expired between two pages.
    page: usize,
    /// Streamed lists in a row that broke before their end.
    broken_streams: u32,
    /// The highest version that the store had seen when the current list was requested: an older list lacks own writes.
    seen: u64,
}

impl ListState {
    pub(super) fn new(options: &CacheOptions) -> Self {
        Self {
            page: options.page.max(1),
            broken_streams: 0,
            seen: 0,
        }
    }
}

impl Watcher {
    /// Replaces the store's objects by a new list. A streamed list continues as the watch that is returned.
    pub(super) async fn fill(&mut self) -> Result<Option<OpenWatch>, WatchEnd> {
        self.begin_rebuild();
        // One item shows whether the server is still behind; a whole list is requested only if it is not.
        if self.stale_since.is_some() {
            self.check_version().await?;
        }
        self.lists.seen = self.store.seen();
        // This list answers the requests so far.
        self.store.take_relist_request();
        let group = self.store.key.kind.group.clone();
        // Not every version of kcp streams the lists of wildcard endpoints.
        let streams = self.options.streaming_lists
            && !self.server.connection.is_wildcard()
            && self.server.features.streams_lists(&group);
        if !streams || self.lists.broken_streams >= BROKEN_STREAMS {
            self.lists.broken_streams = 0;
            return self.list().await.map(|()| None);
        }
        match self.stream().await {
            Err(reason @ (WatchEnd::NotStreamed | WatchEnd::Endless(_))) => {
                self.list().await?;
                self.note_paged(&group, &reason);
                Ok(None)
            }
            streamed => streamed,
        }
    }

    /// Remembers that lists are paged: those of a group, or all if a stream has no end, which is what a proxy before the server makes of it.
    fn note_paged(&self, group: &Arc<str>, reason: &WatchEnd) {
        let (server, kind) = (self.server.connection.server(), &self.store.key.kind);
        let features = &self.server.features;
        match reason {
            WatchEnd::Endless(_) if features.note_endless_streams() => {
                tracing::warn!(server, %kind, %reason, "lists are paged from now on");
            }
            WatchEnd::Endless(_) => {}
            _ => {
                tracing::debug!(server, %kind, %reason, "lists are paged");
                features.note_no_streams(group);
            }
        }
    }

    /// After a lost history the store accepts nothing but the next list.
    fn begin_rebuild(&mut self) {
        let lost = self.changes.borrow().histories_lost;
        if std::mem::replace(&mut self.histories_lost, lost) != lost {
            tracing::warn!(server = self.server.connection.server(), kind = %self.store.key.kind, "cache is rebuilt: the server lost its history");
            self.stale_since = None;
            self.store.rebuild();
        }
    }

    /// Puts a complete list into the store.
    async fn put(&mut self, listing: Listing, version: String) -> Result<(), WatchEnd> {
        if version.is_empty() {
            return Err(Malformed::NoListVersion.into());
        }
        let objects = listing.finish()?;
        let max_age = if self.unconfirmed {
            Duration::ZERO
        } else {
            RECENT
        };
        self.server.continuity.confirm(max_age).await?;
        if self.store.take_relist_request()
            || self.changes.borrow().histories_lost > self.histories_lost
        {
            // The list may belong to the history before the reset.
            return Err(WatchEnd::Expired);
        }
        let again = self.store.progress().borrow().watches > 0;
        if let Some(list) = number(&version)
            && list < self.lists.seen
        {
            let held = self.lists.seen;
            return Err(self.stale(StaleList { list, held }));
        }
        match self.store.replace(objects, version) {
            Ok(()) => {
                if again {
                    self.server.connection.metrics().relisted();
                }
                self.stale_since = None;
                self.unconfirmed = false;
                Ok(())
            }
            Err(stale) => Err(self.stale(stale)),
        }
    }

    /// A list that is older than the store: doubted at first, and believed if a later list is older, too.
    fn stale(&mut self, stale: StaleList) -> WatchEnd {
        let since = *self.stale_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.options.stale_for {
            return stale.into();
        }
        tracing::warn!(server = self.server.connection.server(), kind = %self.store.key.kind, list = stale.list, held = stale.held, "server lost its history");
        self.server.continuity.lose_history();
        self.pace.progressed();
        WatchEnd::Expired
    }

    /// How long an older list is still doubted.
    pub(super) fn time_until_believed(&self) -> Duration {
        let since = self.stale_since.map_or(Duration::ZERO, |at| at.elapsed());
        self.options.stale_for.saturating_sub(since)
    }

    /// Checks that the server has reached the store's version. A list without a version is read from a quorum, so one item suffices.
    pub(super) async fn check_version(&mut self) -> Result<(), WatchEnd> {
        let held = self.store.newest_version();
        let page = self.page(1, None).await?;
        match number(&page.resource_version).zip(held) {
            Some((list, held)) if list < held => Err(self.stale(StaleList { list, held })),
            _ => Ok(()),
        }
    }

    // --- paged ---

    async fn list(&mut self) -> Result<(), WatchEnd> {
        let mut listing = Listing::new(self.options.max_bytes);
        let mut token: Option<String> = None;
        let mut empty = 0;
        let version = loop {
            let page = match self.page(self.lists.page, token.as_deref()).await {
                Err(WatchEnd::Transport(TransportError::TooLarge { .. }))
                    if self.lists.page > 1 =>
                {
                    self.lists.page = (self.lists.page / 4).max(1);
                    continue;
                }
                // The list took longer than the server keeps a version: the next one has fewer pages.
                Err(WatchEnd::Expired) if token.is_some() => {
                    let most = self.options.page.max(1).saturating_mul(LARGER_PAGES);
                    self.lists.page = self.lists.page.saturating_mul(4).min(most);
                    return Err(WatchEnd::Expired);
                }
                page => page?,
            };
            // Without items, no limit on size would end the list.
            empty += u32::from(page.items().len() == 0);
            if empty > EMPTY_PAGES {
                return Err(Malformed::EmptyPages.into());
            }
            for item in page.items() {
                listing.add(self.store.ingest_listed(item)?)?;
            }
            match page.continue_token {
                Some(next) => token = Some(next),
                None => break page.resource_version,
            }
        };
        self.put(listing, version).await
    }

    async fn page(&self, limit: usize, token: Option<&str>) -> Result<List, WatchEnd> {
        let call = StoreCall::Page { limit, token }.call(&self.store);
        let timeout = self.server.connection.options().call_timeout;
        let answer = error_for_status(self.server.connection.send(call, timeout).await?)?;
        Ok(List::split(answer.body)?)
    }

    // --- streamed ---

    async fn stream(&mut self) -> Result<Option<OpenWatch>, WatchEnd> {
        let timeout = self.watch_timeout();
        let mut open = match self.open(&StoreCall::Stream { timeout }, timeout).await {
            Err(refused) if refused.is_rejection() => return Err(WatchEnd::NotStreamed),
            open => open?,
        };
        let (listing, version) = self.receive(&mut open).await?;
        self.put(listing, version).await?;
        self.lists.broken_streams = 0;
        self.trust();
        Ok(Some(open))
    }

    /// Receives a streamed list up to its end, and returns it with its version.
    async fn receive(&mut self, open: &mut OpenWatch) -> Result<(Listing, String), WatchEnd> {
        let mut listing = Listing::new(self.options.max_bytes);
        let store = self.store.clone();
        let began = Instant::now();
        let until = began + self.options.stream_limit;
        loop {
            let quiet_until = Instant::now() + self.options.stream_pause;
            let line = tokio::select! {
                line = tokio::time::timeout_at(quiet_until.min(until), open.lines.next()) => line,
                () = store.relist_requested() => return Err(WatchEnd::Expired),
            };
            let line = match line {
                Err(_) if Instant::now() < until => return Err(WatchEnd::NotStreamed),
                Err(_) => return Err(WatchEnd::Endless(began.elapsed())),
                Ok(Err(Broken::LongLine(limit))) => return Err(Malformed::LongLine(limit).into()),
                // No fault of the server: list again, with the new credentials.
                Ok(Err(Broken::Connection) | Ok(None)) if open.replaced.is_cancelled() => {
                    return Err(WatchEnd::Expired);
                }
                Ok(Err(Broken::Connection)) => return Err(self.broken_stream()),
                Ok(Ok(None)) if open.has_timed_out() => {
                    return Err(WatchEnd::Endless(began.elapsed()));
                }
                Ok(Ok(None)) => return Err(self.broken_stream()),
                Ok(Ok(Some(line))) => line,
            };
            open.last_line = Some(Instant::now());
            if let Some(version) = self.initial_event(&line, &mut listing)? {
                return Ok((listing, version));
            }
        }
    }

    fn broken_stream(&mut self) -> WatchEnd {
        self.lists.broken_streams += 1;
        self.server
            .connection
            .unreachable("the list broke off before its end".into())
            .into()
    }

    /// Adds one event of a streamed list to the listing. Returns the list's version at its end.
    fn initial_event(
        &self,
        line: &[u8],
        listing: &mut Listing,
    ) -> Result<Option<String>, WatchEnd> {
        let frame = Frame::scan(line)?;
        let text = &line[frame.object.range()];
        match frame.frame_type {
            FrameType::Added | FrameType::Modified => {
                listing.update(self.store.ingest_listed(text)?)?;
            }
            FrameType::Deleted => listing.remove(&self.store.ingest(text)?.key()),
            FrameType::Bookmark => {
                let bookmark = Bookmark::read(text)?;
                if !bookmark.ends_list() {
                    // The server ignores the parameter and sends an ordinary watch, which never marks the end of a list.
                    return Err(WatchEnd::NotStreamed);
                }
                return Ok(Some(bookmark.version().to_owned()));
            }
            FrameType::Error => return Err(error_event(text)),
        }
        Ok(None)
    }
}
