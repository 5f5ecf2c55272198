//! The rules, one module each. Every one has an entry point `check` that returns what breaks it.

pub mod files;
pub mod guests;
pub mod habits;
pub mod links;
pub mod linked;
pub mod manifests;
pub mod order;
pub mod pages;
pub mod phrases;
pub mod reference;
pub mod walls;
pub mod wit;
pub mod words;
