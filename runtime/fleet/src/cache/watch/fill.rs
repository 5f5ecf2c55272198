//! Fills a store: by a streamed list where the server has it, else by a paged one. Entry point: [`Watcher::fill`].

use super::calls::StoreCall;
use super::end::WatchEnd;
use super::listing::Listing;
use super::options::CacheOptions;
use super::{Bookmark, Open, Watcher, error_event, long_line};
use crate::cache::store::{StaleList, number};
use crate::http::answer::refusal;
use crate::http::lines::Broken;
use crate::http::transport::TransportError;
use crate::json::{Frame, FrameType, List};
use std::time::Duration;
use tokio::time::Instant;

/// Most objects per page where pages expire before a list has come to its end, by the configured number.
const LARGER_PAGES: usize = 64;
/// How many streamed lists in a row may break before a paged one is tried.
const BROKEN_STREAMS: u32 = 3;
/// Most pages without an item in one list.
const EMPTY_PAGES: u32 = 100;
/// So old may the last check of the server's identity be for a list that follows no break: engaging a cluster has just made one.
const RECENT: Duration = Duration::from_secs(5);
/// The longest time that a streamed list is given.
const MAX_STREAM: Duration = Duration::from_secs(600);

/// What a watcher has learnt of the lists of its kind.
pub(super) struct Filling {
    /// Objects per page: less than configured once a page was too large, more once the next one had expired before it was asked for.
    page: usize,
    /// Streamed lists in a row that broke before their end.
    broken_streams: u32,
    /// The highest version that the store had seen before the list under way was asked for: a list that is older lacks what its
    /// server has confirmed.
    seen: u64,
    /// By how much longer than a watch a streamed list may take: doubles while the server ends it too soon.
    stretch: u32,
}

impl Filling {
    pub(super) fn new(options: &CacheOptions) -> Self {
        Self {
            page: options.page.max(1),
            broken_streams: 0,
            seen: 0,
            stretch: 1,
        }
    }
}

impl Watcher {
    /// Brings the whole kind into the store. A streamed list goes on as the watch that is returned.
    pub(super) async fn fill(&mut self) -> Result<Option<Open>, WatchEnd> {
        self.begin_rebuild();
        // A server that is behind is not asked for everything each time.
        if self.stale_since.is_some() {
            self.probe().await?;
        }
        self.filling.seen = self.store.seen();
        // This list is what a reset has asked for.
        self.store.take_relist_request();
        let group = self.store.key.kind.group.clone();
        let streams = self.options.streaming_lists && self.features.streams(&group);
        if !streams || self.filling.broken_streams >= BROKEN_STREAMS {
            self.filling.broken_streams = 0;
            return self.list().await.map(|()| None);
        }
        match self.stream().await {
            Err(WatchEnd::Unstreamed) => {
                self.list().await?;
                tracing::debug!(server = self.connection.server(), kind = %self.store.key.kind, "lists are paged: the server does not stream them");
                self.features.note_unstreamed(&group);
                Ok(None)
            }
            streamed => streamed,
        }
    }

    /// Where the server's history was lost, the store takes in nothing but the next list.
    fn begin_rebuild(&mut self) {
        let lost = self.verdicts.borrow().histories_lost;
        if std::mem::replace(&mut self.histories_lost, lost) != lost {
            tracing::warn!(server = self.connection.server(), kind = %self.store.key.kind, "cache is rebuilt: the server lost its history");
            self.stale_since = None;
            self.store.rebuild();
        }
    }

    /// Puts a whole list into the store.
    async fn put(&mut self, listing: Listing, version: String) -> Result<(), WatchEnd> {
        if version.is_empty() {
            return Err(WatchEnd::Garbage(
                "a list without a resource version".into(),
            ));
        }
        let objects = listing.finish()?;
        let allowance = if self.broken { Duration::ZERO } else { RECENT };
        self.continuity.confirm(allowance).await?;
        if self.store.take_relist_request()
            || self.verdicts.borrow().histories_lost > self.histories_lost
        {
            // Reset while the list was on its way: it may be of the server before.
            return Err(WatchEnd::Expired);
        }
        let again = self.store.progress().borrow().watches > 0;
        if let Some(list) = number(&version)
            && list < self.filling.seen
        {
            let held = self.filling.seen;
            return Err(self.stale(StaleList { list, held }));
        }
        match self.store.replace(objects, version) {
            Ok(()) => {
                if again {
                    self.connection.metrics().relisted();
                }
                self.stale_since = None;
                self.broken = false;
                Ok(())
            }
            Err(stale) => Err(self.stale(stale)),
        }
    }

    /// A quorum list that is older than the store: doubted at first, and believed once another one says the same.
    fn stale(&mut self, stale: StaleList) -> WatchEnd {
        let since = *self.stale_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.options.stale_for {
            return stale.into();
        }
        tracing::warn!(server = self.connection.server(), kind = %self.store.key.kind, list = stale.list, held = stale.held, "server lost its history");
        self.continuity.lose_history();
        self.pace.progressed();
        WatchEnd::Expired
    }

    /// How long the server is still doubted that listed less than the store has seen.
    pub(super) fn doubted_for(&self) -> Duration {
        let since = self.stale_since.map_or(Duration::ZERO, |at| at.elapsed());
        self.options.stale_for.saturating_sub(since)
    }

    /// Asks a quorum how far the server is.
    pub(super) async fn probe(&mut self) -> Result<(), WatchEnd> {
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
            let page = match self.page(self.filling.page, token.as_deref()).await {
                Err(WatchEnd::Transport(TransportError::TooLarge { .. }))
                    if self.filling.page > 1 =>
                {
                    self.filling.page = (self.filling.page / 4).max(1);
                    continue;
                }
                // A list that takes longer than its server keeps a version can only begin anew, in fewer steps.
                Err(WatchEnd::Expired) if token.is_some() => {
                    let most = self.options.page.max(1).saturating_mul(LARGER_PAGES);
                    self.filling.page = self.filling.page.saturating_mul(4).min(most);
                    return Err(WatchEnd::Expired);
                }
                page => page?,
            };
            // What never grows need never end.
            empty += u32::from(page.items().len() == 0);
            if empty > EMPTY_PAGES {
                return Err(WatchEnd::Garbage("a list of empty pages".into()));
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
        let timeout = self.connection.options().call_timeout;
        let answer = refusal(self.connection.send(call, timeout).await?)?;
        Ok(List::split(answer.body)?)
    }

    // --- streamed ---

    async fn stream(&mut self) -> Result<Option<Open>, WatchEnd> {
        let watch_time = self.watch_time();
        let timeout = watch_time
            .saturating_mul(self.filling.stretch)
            .min(MAX_STREAM.max(watch_time));
        let mut open = match self.open(&StoreCall::Stream { timeout }, timeout).await {
            Err(refused) if refused.is_rejection() => return Err(WatchEnd::Unstreamed),
            open => open?,
        };
        let (listing, version) = self.receive(&mut open).await?;
        self.put(listing, version).await?;
        self.filling.broken_streams = 0;
        self.trust();
        // One that was given longer than a watch would be found silent too late.
        Ok((self.filling.stretch == 1).then_some(open))
    }

    /// Receives a streamed list up to its end.
    async fn receive(&mut self, open: &mut Open) -> Result<(Listing, String), WatchEnd> {
        let mut listing = Listing::new(self.options.max_bytes);
        let store = self.store.clone();
        loop {
            let line = tokio::select! {
                line = tokio::time::timeout(self.options.stream_pause, open.lines.next()) => line,
                () = store.relist_requested() => return Err(WatchEnd::Expired),
            };
            let line = match line {
                Err(_) => return Err(WatchEnd::Unstreamed),
                Ok(Err(Broken::LongLine(limit))) => return Err(long_line(limit)),
                Ok(Err(Broken::Connection)) => return Err(self.broken_stream()),
                Ok(Ok(None)) => {
                    self.filling.stretch = self.filling.stretch.saturating_mul(2);
                    return Err(self.broken_stream());
                }
                Ok(Ok(Some(line))) => line,
            };
            open.heard = Some(Instant::now());
            if let Some(version) = self.initial_event(&line, &mut listing)? {
                return Ok((listing, version));
            }
        }
    }

    fn broken_stream(&mut self) -> WatchEnd {
        self.filling.broken_streams += 1;
        self.connection
            .unreachable("the list broke off before its end".into())
            .into()
    }

    /// Takes in one event of a streamed list. Returns the list's version at its end.
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
                    // An ordinary watch, which begins with what there is and then goes on without a word.
                    return Err(WatchEnd::Unstreamed);
                }
                return Ok(Some(bookmark.metadata.resource_version));
            }
            FrameType::Error => return Err(error_event(text)),
        }
        Ok(None)
    }
}
