//! Objects of API servers, kept in step with them. Entry point: [`stores::Stores::open`].
//!
//! * [`stores`]: the stores of one server, shared by all controllers and tenants.
//! * [`store`]: the objects of one resource, and the rules by which they change.
//! * [`watch`]: lists and watches one resource, for as long as its store lives.
//! * [`made`]: objects that the host makes, in place of a watch.
//! * [`drift`]: finds stores that differ from their server although the watch runs.
//! * [`continuity`]: detects another server under the same address, and a server that lost its history.
//!
//! A watch writes into its store, and so do the clients' own writes. Readers look objects up; *sinks* are subscribers, which see every
//! change. Continuity ends or rebuilds all stores of a server at once. Drift lists one store again, or has all of them rebuilt.
//!
//! The invariants, costs and limits stand at [`store`] for what readers see, and at [`watch`] for how new it is.

pub(crate) mod continuity;
pub(crate) mod drift;
pub(crate) mod made;
pub(crate) mod store;
pub(crate) mod stores;
pub(crate) mod watch;
