//! How caches follow their servers, as kind `Manager` says it. Entry point: [`CachesSpec`].

use crate::config::kinds::within;
use crate::config::kinds::{Bytes, Interval, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::cluster::CacheOptions;

/// How caches follow their servers, all of them alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct CachesSpec {
    /// Whether caches are filled by streaming lists where the server has them. Default: true.
    pub(crate) streaming_lists: Option<bool>,
    /// Objects per page of a list that is not streamed, up to 10000. Default: 500.
    pub(crate) page: Option<usize>,
    /// Largest cache, 1Mi to 1Ti; a larger kind is not cached, and its cluster's status says so. Default: 4Gi.
    pub(crate) max_size: Option<Bytes>,
    /// Length of a watch over HTTP/1.1, where only its end shows that a server is silent and not idle, 5s to 1h. Default: 50s.
    pub(crate) watch_timeout: Option<Interval>,
    /// How often each cache is compared with its server, for events that were never sent: 10s or more, 0s for never. Default: 10m.
    pub(crate) compare_every: Option<Interval>,
    /// Time until a server that lists less than a cache has seen is asked again, 1s to 1h. If it still does, its caches are rebuilt.
    /// Default: 5s.
    pub(crate) stale_for: Option<Interval>,
    /// How long a cache that no watch uses is kept after its last read, 1s to 24h. Default: 10m.
    pub(crate) keep_unread: Option<Interval>,
}

impl CachesSpec {
    /// How caches follow their servers, the defaults filled in.
    pub(crate) fn options(&self) -> CacheOptions {
        let default = CacheOptions::default();
        let time = |given: Option<Interval>, otherwise| given.map_or(otherwise, |time| time.0);
        let most = |size: Bytes| usize::try_from(size.0).unwrap_or(usize::MAX);
        CacheOptions {
            streaming_lists: self.streaming_lists.unwrap_or(default.streaming_lists),
            page: self.page.unwrap_or(default.page),
            max_bytes: self.max_size.map_or(default.max_bytes, most),
            watch_timeout: time(self.watch_timeout, default.watch_timeout),
            compare_every: time(self.compare_every, default.compare_every),
            stale_for: time(self.stale_for, default.stale_for),
            unread_life: time(self.keep_unread, default.unread_life),
            ..default
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let hour = Interval::seconds(3600);
        let times = [
            (
                "watchTimeout",
                self.watch_timeout,
                Interval::seconds(5)..=hour,
            ),
            ("staleFor", self.stale_for, Interval::seconds(1)..=hour),
            (
                "keepUnread",
                self.keep_unread,
                Interval::seconds(1)..=Interval::seconds(24 * 3600),
            ),
        ];
        for (name, time, range) in times {
            let path = format!("spec.caches.{name}");
            time.map_or(Ok(()), |time| within(&path, time, &range))?;
        }
        if let Some(page) = self.page {
            within("spec.caches.page", page, &(1..=10_000))?;
        }
        if let Some(size) = self.max_size {
            let range = Bytes::mebibytes(1)..=Bytes::mebibytes(1 << 20);
            within("spec.caches.maxSize", size, &range)?;
        }
        match self.compare_every {
            Some(every) if !every.0.is_zero() && every < Interval::seconds(10) => {
                Err(Refusal::new(
                    "spec.caches.compareEvery",
                    format!("expected 10s or more, or 0s for never, found {every}"),
                ))
            }
            _ => Ok(()),
        }
    }
}
