//! Objects of API servers, kept in step with them. Entry point: [`stores::Stores::open`].
//!
//! * [`stores`]: the stores of one server, shared by all controllers and tenants.
//! * [`store`]: the objects of one resource, and the rules by which they change.
//! * [`watch`]: lists and watches one resource, for as long as its store lives.
//! * [`compare`]: finds changes that no watch has told.
//! * [`continuity`]: whether the server and its history are still the same.

pub(crate) mod drift;
pub(crate) mod continuity;
pub(crate) mod store;
pub(crate) mod stores;
pub(crate) mod watch;
