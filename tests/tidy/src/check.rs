//! The rules, one module each. The entry point `check` of each module returns the places that break its rule.

pub mod alerts;
pub mod files;
pub mod guests;
pub mod habits;
pub mod links;
pub mod linked;
pub mod manifests;
pub mod order;
pub mod pages;
pub mod phrases;
pub mod walls;
pub mod wit;
pub mod words;
