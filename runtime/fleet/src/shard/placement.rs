//! The shard of a cluster, and the member that should own a shard. Entry points: [`shard_of`], [`Placement`].
//!
//! Rendezvous hashing: every member has a score for every shard, and the highest score wins. So a member that joins takes shards only for
//! itself, about its part of them, and a member that leaves gives only its own.
//!
//! Invariants:
//! * Every process computes the same, in every version: the hashes are fixed, and the arithmetic is integer.
//! * A member's scores depend on its name and its weight alone. A process that starts again under its old name gets its old shards.
//!
//! Cost: a member that is new, or has another weight, costs `weight` × shards hashes, once.

use super::set::ShardSet;
use crate::name::ClusterName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The shard of a cluster in a fleet with so many shards.
pub(crate) fn shard_of(cluster: &ClusterName, shards: u16) -> u16 {
    let hash = mix(fnv(cluster.as_str()));
    u16::try_from(hash % u64::from(shards.max(1))).unwrap_or_default()
}

/// The members' shards by rendezvous hashing.
#[derive(Debug)]
pub(crate) struct Placement {
    shards: u16,
    rows: BTreeMap<Arc<str>, Row>,
    parts: BTreeMap<Arc<str>, ShardSet>,
}

/// The scores of a member.
#[derive(Debug)]
struct Row {
    weight: u8,
    scores: Vec<u64>,
}

impl Placement {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            shards,
            rows: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Places all shards on these members, which have names and weights.
    pub(crate) fn update(&mut self, members: &BTreeMap<Arc<str>, u8>) {
        let known = |name: &Arc<str>, row: &Row| members.get(name) == Some(&row.weight);
        if members.len() == self.rows.len() && self.rows.iter().all(|(name, row)| known(name, row))
        {
            return;
        }
        self.rows.retain(|name, row| known(name, row));
        for (name, weight) in members {
            let row = || Row::new(name, *weight, self.shards);
            self.rows.entry(name.clone()).or_insert_with(row);
        }
        self.parts.clear();
        for shard in 0..self.shards {
            if let Some(name) = self.best(shard) {
                self.parts.entry(name).or_default().insert(shard);
            }
        }
    }

    /// The shards that the member of this name should own.
    pub(crate) fn part(&self, name: &str) -> ShardSet {
        self.parts.get(name).copied().unwrap_or_default()
    }

    /// Whether there is no member that could own a shard.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn best(&self, shard: u16) -> Option<Arc<str>> {
        let score = |row: &Row| row.scores.get(usize::from(shard)).copied();
        let best = self.rows.iter().max_by_key(|(_, row)| score(row));
        best.map(|(name, _)| name.clone())
    }
}

impl Row {
    /// The best of `weight` random scores is the best of all with a probability in proportion to the weight.
    fn new(name: &str, weight: u8, shards: u16) -> Self {
        let name = mix(fnv(name));
        let score = |shard: u16| {
            let one = |replica: u8| mix(name ^ mix(u64::from(replica) << 16 | u64::from(shard)));
            (0..weight).map(one).max().unwrap_or_default()
        };
        Self {
            weight,
            scores: (0..shards).map(score).collect(),
        }
    }
}

/// FNV-1a, 64 bits.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Spreads every bit over the whole number: the last step of SplitMix64. FNV alone leaves similar names close together.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(weights: &[u8]) -> BTreeMap<Arc<str>, u8> {
        let name = |index| format!("windlass-{index}").into();
        let members = weights.iter().enumerate();
        members
            .map(|(index, weight)| (name(index), *weight))
            .collect()
    }

    fn placed(shards: u16, weights: &[u8]) -> Placement {
        let mut placement = Placement::new(shards);
        placement.update(&members(weights));
        placement
    }

    fn sizes(placement: &Placement) -> Vec<u32> {
        placement.parts.values().map(ShardSet::len).collect()
    }

    #[test]
    fn the_hashes_are_the_same_in_every_version() {
        let shard = |name: &str| shard_of(&ClusterName::new(name).unwrap(), 256);
        let found = ["", "prod-eu-1", "prod-eu-2", "kind/a"].map(shard);
        assert_eq!(found, PINNED_SHARDS);
        let placement = placed(16, &[1, 1, 3]);
        let parts: Vec<_> = placement.parts.values().map(ShardSet::to_string).collect();
        assert_eq!(parts, PINNED_PARTS);
    }

    const PINNED_SHARDS: [u16; 4] = [155, 90, 151, 111];
    const PINNED_PARTS: [&str; 3] = ["4,8,10-12,14-15", "2,7,13", "0-1,3,5-6,9"];

    #[test]
    fn similar_names_of_clusters_spread_over_all_shards() {
        let mut count = [0_u32; 256];
        for index in 0..25_600 {
            let name = ClusterName::new(format!("cluster-{index:05}")).unwrap();
            count[usize::from(shard_of(&name, 256))] += 1;
        }
        let (least, most) = (count.iter().min().unwrap(), count.iter().max().unwrap());
        assert!(*least > 60 && *most < 145, "{least} to {most}");
        assert_eq!(shard_of(&ClusterName::local(), 1), 0);
    }

    #[test]
    fn members_of_equal_weight_get_about_equal_parts() {
        for weight in [1, 10] {
            for count in [2, 3, 5, 10] {
                let sizes = sizes(&placed(1024, &vec![weight; count]));
                let fair = 1024 / count as u32;
                let near = |size: &u32| size.abs_diff(fair) * 3 < fair;
                assert!(sizes.iter().all(near), "{count}: {sizes:?}");
            }
        }
    }

    #[test]
    fn a_member_of_three_times_the_weight_gets_about_three_times_the_shards() {
        let sizes = sizes(&placed(1024, &[30, 10, 10, 10]));
        assert!((430..600).contains(&sizes[0]), "{sizes:?}");
        assert!(sizes[1..].iter().all(|size| (110..230).contains(size)));
    }

    #[test]
    fn a_member_that_joins_or_leaves_moves_its_own_part_and_nothing_else() {
        for count in 1..8 {
            let mut placement = placed(1024, &vec![10; count]);
            let before = placement.parts.clone();
            placement.update(&members(&vec![10; count + 1]));
            let joined = placement.part(&format!("windlass-{count}"));
            let fair = 1024 / (count as u32 + 1);
            assert!(joined.len().abs_diff(fair) * 3 < fair, "{joined:?}");
            for (name, part) in &before {
                assert_eq!(placement.part(name), *part - joined);
            }
            placement.update(&members(&vec![10; count]));
            assert_eq!(placement.parts, before);
        }
    }

    #[test]
    fn a_weight_that_changes_moves_shards_only_to_or_from_its_member() {
        let mut placement = placed(512, &[10, 10, 10]);
        let before = placement.parts.clone();
        placement.update(&members(&[10, 20, 10]));
        let grown = placement.part("windlass-1");
        assert!(grown.len() > before["windlass-1"].len());
        assert_eq!(placement.part("windlass-0"), before["windlass-0"] - grown);
        assert_eq!(placement.part("windlass-2"), before["windlass-2"] - grown);
    }

    #[test]
    fn without_members_nothing_is_placed() {
        let placement = placed(256, &[]);
        assert!(placement.is_empty() && placement.part("a").is_empty());
    }
}
