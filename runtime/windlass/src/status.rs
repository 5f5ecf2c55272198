//! What the running program shows of itself: the state of reconcilers, guests, process and threads, and the views of it that the admin
//! endpoints serve. Entry points: [`view`] has the views, [`tables`] prints them.

pub(crate) mod guest_metrics;
pub(crate) mod reconcilers;
pub(crate) mod heartbeat;
pub(crate) mod history;
pub(crate) mod pressure;
pub(crate) mod process;
pub(crate) mod guest_registry;
pub(crate) mod tables;
pub(crate) mod view;
