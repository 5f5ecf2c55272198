//! Objects of API servers, kept in step with them. Entry point: [`stores::Stores::open`].
//!
//! * [`stores`]: the stores of one server, shared by all controllers and tenants.
//! * [`store`]: the objects of one resource, and the rules by which they change.
//! * [`watch`]: lists and watches one resource, for as long as its store lives.
//! * [`drift`]: finds stores that differ from their server although the watch runs.
//! * [`continuity`]: detects another server under the same address, and a server that lost its history.
//!
//! A watch writes into its store, own writes do too, and sinks and readers use it. Continuity ends or rebuilds all stores of a server
//! at once, drift causes a new list of one.

pub(crate) mod continuity;
pub(crate) mod drift;
pub(crate) mod store;
pub(crate) mod stores;
pub(crate) mod watch;
