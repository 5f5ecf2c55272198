//! The engine on simulated clusters: what it promises about clusters, caches, keys and runs. Entry points: the modules below.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod arrivals;
mod caches;
mod filling;
mod clients;
mod cluster_profiles;
mod cluster_objects;
mod connections;
mod election;
mod endings;
mod events;
mod inventories;
mod faults;
mod engagement;
mod fixture;
mod keys;
mod labels;
mod leaks;
mod locality;
mod outside;
mod providers;
mod parts;
mod pauses;
mod proxies;
mod readiness;
mod redirects;
mod shares;
mod starvation;
mod sources;
mod semantics;
mod stores;
mod typed;
mod workspaces;
