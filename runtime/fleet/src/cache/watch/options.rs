//! How caches follow their servers. Entry point: [`CacheOptions`].

use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;

/// How caches follow their servers. Defaults are in [`CacheOptions::default`].
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Whether caches are filled by streamed lists on servers that support them. Default: true.
    pub streaming_lists: bool,
    /// A streamed list that is silent for this long before its end is replaced by a paged one: some servers treat it as a watch, and
    /// never mark its end. Default: 10 s.
    pub stream_pause: Duration,
    /// A streamed list that has no end after this long is replaced by a paged one, and so are all later ones of the server: a proxy may drop
    /// the bookmark that marks the end, while changes keep the stream busy. Default: 30 s.
    pub stream_limit: Duration,
    /// Objects per page of a paged list. A cache uses fewer after a page was larger than a body may be, and more after a list took
    /// longer than the server keeps a version. Default: 500.
    pub page: usize,
    /// Largest cache, in bytes of its objects' texts. A larger kind is not cached, and its cluster's status says so. Default: 4 GiB.
    pub max_bytes: usize,
    /// Timeout of a watch over HTTP/1.1, which the server applies; up to a tenth more or less at random. A watch that is open and silent
    /// a few seconds later is dead: over HTTP/1.1 nothing else distinguishes a dead peer from an idle one. Default: 50 s.
    pub watch_timeout: Duration,
    /// Timeout of a watch over HTTP/2, where PINGs find dead peers; up to twice as long at random. Default: 4 min.
    pub multiplexed_watch_timeout: Duration,
    /// How long a list that is older than a cache is doubted. If a list is still older then, the server has lost its history, and all
    /// caches of the cluster are rebuilt. Default: 5 s.
    pub stale_for: Duration,
    /// Time between two comparisons of a cache with its server; up to a fifth more at random. An event that the server never sent is
    /// repaired within that time and a few seconds. Zero: never. Default: 10 min.
    pub compare_every: Duration,
    /// How long a cache that only reads use is kept after the last read. Default: 10 min.
    pub unread_life: Duration,
    /// Longest time between two checks whether a cluster serves a missing kind. A changed CustomResourceDefinition causes one sooner.
    /// Default: 30 s.
    pub look_again: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            stream_pause: Duration::from_secs(10),
            stream_limit: Duration::from_secs(30),
            page: 500,
            max_bytes: 4 << 30,
            watch_timeout: Duration::from_secs(50),
            multiplexed_watch_timeout: Duration::from_secs(240),
            stale_for: Duration::from_secs(5),
            compare_every: Duration::from_secs(600),
            unread_life: Duration::from_secs(600),
            look_again: Duration::from_secs(30),
        }
    }
}

/// The options of all caches of a manager, which may change while the caches are in use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SharedOptions(Arc<ArcSwap<CacheOptions>>);

impl SharedOptions {
    pub(crate) fn new(options: CacheOptions) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(options)))
    }

    pub(crate) fn now(&self) -> Arc<CacheOptions> {
        self.0.load_full()
    }

    pub(crate) fn set(&self, options: CacheOptions) {
        self.0.store(Arc::new(options));
    }
}
