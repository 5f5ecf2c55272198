//! Which runs of a reconciler are recorded. Entry point: [`RecordSpec`].

use crate::config::kinds::bounded::{DAY, KI, MI, SECOND};
use crate::config::kinds::{Bytes, Interval, Within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_sandbox::RecordOptions;

/// Which runs are recorded. What is kept is in the memory of the process, and counts for the tenant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RecordSpec {
    /// The last failed runs that are kept, one of a key; above 0 every run has an instance of its own. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failures: Option<Within<u32, 0, 20>>,
    /// The last sampled runs that are kept, one of a key. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sample: Option<Within<u32, 0, 20>>,
    /// The least time between two sampled runs. Default: 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) every: Option<Within<Interval, SECOND, DAY>>,
    /// Bytes of a recording; a longer one is dropped. Default: 1Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<Within<Bytes, { 4 * KI }, { 16 * MI }>>,
}

impl RecordSpec {
    /// The same for guests, the defaults filled in.
    pub(crate) fn guests(&self) -> RecordOptions {
        let default = RecordOptions::default();
        let count = |count: Option<Within<u32, 0, 20>>| count.map(|count| count.get() as usize);
        RecordOptions {
            failures: count(self.failures).unwrap_or(default.failures),
            sample: count(self.sample).unwrap_or(default.sample),
            every: self.every.map_or(default.every, |every| every.get().0),
            bytes: self
                .bytes
                .map_or(default.bytes, |bytes| bytes.get().count()),
        }
    }
}
