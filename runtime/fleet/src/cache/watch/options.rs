//! How caches follow their servers. Entry point: [`CacheOptions`].

use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;

/// How caches follow their servers. Defaults are in [`CacheOptions::default`].
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Whether a cache is filled by a streaming list where the server has it, else by a paged one. Default: true.
    pub streaming_lists: bool,
    /// A streamed list that says nothing for so long before its end is given up for a paged one: some servers take it for a watch, and
    /// never say that it has ended. Default: 10 s.
    pub stream_pause: Duration,
    /// Objects per page of a paged list; fewer once a page was larger than a body may be, more once a list took longer than
    /// its server keeps a version. Default: 500.
    pub page: usize,
    /// Largest cache, in bytes of its objects' texts. A kind that is larger is not cached, and its cluster's status says so.
    /// Default: 4 GiB.
    pub max_bytes: usize,
    /// After how long a server is asked to end a watch over HTTP/1.1, more or less a tenth at random. A watch that is not over a few
    /// seconds later is dead: nothing else tells a silent peer from an idle one there. Default: 50 s.
    pub watch_timeout: Duration,
    /// The same over HTTP/2, where PINGs find dead peers, and up to twice as long at random. Default: 4 min.
    pub multiplexed_watch_timeout: Duration,
    /// After how long a server that listed less than a cache has seen is asked again. If it still does, it has lost its history and
    /// the caches of its cluster are rebuilt. Default: 5 s.
    pub stale_for: Duration,
    /// How often each cache is compared with its server, and up to a fifth later at random: an event that the server never sent is
    /// made good within that time and a few seconds. Zero: never. Default: 10 min.
    pub compare_every: Duration,
    /// How long a cache that only reads use is kept after the last one. Default: 10 min.
    pub unread_life: Duration,
    /// How often a watch looks again for a kind that its cluster does not serve, when no change of a CustomResourceDefinition
    /// tells sooner. Default: 30 s.
    pub look_again: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            streaming_lists: true,
            stream_pause: Duration::from_secs(10),
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
