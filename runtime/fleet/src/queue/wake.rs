//! Brings keys forward that failed through no fault of their reconciler, once what made them fail may be repaired: credentials, a server
//! that was away, a kind that was not served; and paused keys, once pauses have changed. Entry points: [`Queue::wake`] and
//! [`Queue::wake_paused`].
//!
//! Without it such a key waits for the end of its backoff, which is up to a thousand seconds, though the next attempt would succeed.

use super::key::{Entry, State};
use super::options::Cause;
use super::slab::{FlowId, KeyId};
use super::{Queue, nanos};
use crate::name::ClusterName;
use crate::outcome::Blame;
use std::time::{Duration, Instant};

/// Keys that are woken together become ready one after the other within this time.
pub(super) const SPREAD: Duration = Duration::from_secs(1);

impl Queue {
    /// Has the keys of a cluster in backoff run within a second, or those of all clusters (`None`), unless their last failure was the
    /// reconciler's. Their attempts stay: if they fail again, their delay goes on growing. Linear in the keys that wait for a time.
    pub fn wake(&mut self, now: Instant, cluster: Option<&ClusterName>) {
        let now = self.nanos(now);
        for flow in self.flows_in(cluster) {
            let lists = &self.classes.flows[flow].lists;
            let keys = self.keys.alarmed(lists);
            let keys: Vec<KeyId> = keys.filter(|key| self.may_be_repaired(*key)).collect();
            for key in keys {
                self.bring_forward(now, key, State::Backoff);
            }
        }
    }

    /// Has all paused keys look at their pauses again within a second. Linear in the keys that wait for a time.
    pub fn wake_paused(&mut self, now: Instant) {
        let now = self.nanos(now);
        for flow in self.flows_in(None) {
            let lists = &self.classes.flows[flow].lists;
            let keys = self.keys.alarmed(lists);
            let is_paused = |key: &KeyId| self.keys.entry(*key).state == State::Paused;
            let keys: Vec<KeyId> = keys.filter(is_paused).collect();
            for key in keys {
                self.bring_forward(now, key, State::Paused);
            }
        }
    }

    fn flows_in(&self, cluster: Option<&ClusterName>) -> Vec<FlowId> {
        let clusters = match cluster {
            Some(name) => self.classes.cluster_id(name).into_iter().collect(),
            None => self.classes.known_clusters(),
        };
        let flows = clusters
            .into_iter()
            .flat_map(|id| &self.classes.clusters[id].flows);
        flows.copied().collect()
    }

    /// Of a key beyond [`Limits::failures_per_controller`](super::Limits) the failure is not known: it runs too.
    fn may_be_repaired(&self, key: KeyId) -> bool {
        let last = self.failures.get(&key);
        self.keys.entry(key).state == State::Backoff
            && last.is_none_or(|last| last.blame != Blame::Guest)
    }

    fn bring_forward(&mut self, now: u64, key: KeyId, state: State) {
        let Entry { hash, at, .. } = *self.keys.entry(key);
        let left = at.saturating_sub(now).min(nanos(SPREAD));
        // The same key has the same place in each wave.
        let place = (u128::from(left) * u128::from(hash)) >> u32::BITS;
        let due = now.saturating_add(place as u64);
        let due = due.max(self.run_counts.throttled_until(hash, now).unwrap_or(0));
        if due >= at {
            return;
        }
        self.leave(now, key);
        if state == State::Backoff {
            self.keys.entry_mut(key).cause = Cause::Cluster;
        }
        self.wait(now, key, Some(due), state);
    }
}
