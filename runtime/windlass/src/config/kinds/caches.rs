//! How caches follow their servers, as kind `Manager` says it. Entry point: [`CachesSpec`].

use crate::config::kinds::bounded::{DAY, HOUR, MI, SECOND, TI};
use crate::config::kinds::{Bytes, Interval, Refusal, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::cluster::CacheOptions;

/// How caches follow their servers, all of them alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct CachesSpec {
    /// Whether caches are filled by streaming lists where the server has them. Default: true.
    pub(crate) streaming_lists: Option<bool>,
    /// Objects per page of a list that is not streamed. Default: 500.
    pub(crate) page: Option<Within<usize, 1, 10_000>>,
    /// Largest cache; a larger kind is not cached, and its cluster's status says so. Default: 4Gi.
    pub(crate) max_size: Option<Within<Bytes, MI, TI>>,
    /// Length of a watch over HTTP/1.1, where only its end shows that a server is silent and not idle. Default: 50s.
    pub(crate) watch_timeout: Option<Within<Interval, { 5 * SECOND }, HOUR>>,
    /// How often each cache is compared with its server, for events that were never sent: 10s or more, 0s for never. Default: 10m.
    pub(crate) compare_every: Option<Interval>,
    /// Time until a server that lists less than a cache has seen is asked again. If it still does, its caches are rebuilt.
    /// Default: 5s.
    pub(crate) stale_for: Option<Within<Interval, SECOND, HOUR>>,
    /// How long a cache that no watch uses is kept after its last read. Default: 10m.
    pub(crate) keep_unread: Option<Within<Interval, SECOND, DAY>>,
}

impl CachesSpec {
    /// How caches follow their servers, the defaults filled in.
    pub(crate) fn options(&self) -> CacheOptions {
        let default = CacheOptions::default();
        let time = |given: Option<Interval>, otherwise| given.map_or(otherwise, |time| time.0);
        let size = self.max_size.map(Within::get);
        CacheOptions {
            streaming_lists: self.streaming_lists.unwrap_or(default.streaming_lists),
            page: self.page.map_or(default.page, Within::get),
            max_bytes: size.map_or(default.max_bytes, Bytes::count),
            watch_timeout: time(self.watch_timeout.map(Within::get), default.watch_timeout),
            compare_every: time(self.compare_every, default.compare_every),
            stale_for: time(self.stale_for.map(Within::get), default.stale_for),
            unread_life: time(self.keep_unread.map(Within::get), default.unread_life),
            ..default
        }
    }

    /// Refuses what cannot be honoured.
    pub(super) fn check(&self) -> Result<(), Refusal> {
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
