//! How caches follow their servers. Entry point: [`CacheOptions`].

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
    /// How long a server may list less than a cache has seen before it is believed to have lost its history and the cache is
    /// rebuilt. Default: 60 s.
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
            stale_for: Duration::from_secs(60),
            compare_every: Duration::from_secs(600),
            unread_life: Duration::from_secs(600),
            look_again: Duration::from_secs(30),
        }
    }
}
