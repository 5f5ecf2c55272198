//! Windlass author: the tools for authors of guests, none of which a running manager needs. Entry points: [`scaffold`] writes projects,
//! [`guest_build`] builds guests of every language, [`types`] and [`definitions`] keep types and CustomResourceDefinitions together,
//! [`simulated`] is the in-memory fleet, and [`cases`] are the tests that run over it.
//!
//! This crate knows neither the sandbox nor configuration: the program passes in what it needs of both.
//!
//! Modules are listed from the words to the whole: a module imports only modules above it.

mod embedded;
pub mod seed;
pub mod types;
pub mod guest_build;
pub mod scaffold;
pub mod simulated;
pub mod cases;
pub mod definitions;
