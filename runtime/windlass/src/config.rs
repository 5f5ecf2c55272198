//! Configuration: documents from files, their kinds, and what they ask for. Entry points: [`load::load`] reads them, [`load::merge`]
//! keeps the last good version of what is bad, [`kinds`] has the fields,
//! [`schema`] compares a guest's `config` with its schema.

pub(crate) mod clusters;
pub(crate) mod crd;
pub(crate) mod kinds;
pub(crate) mod load;
pub(crate) mod objects;
pub(crate) mod proxy;
pub(crate) mod rbac;
pub(crate) mod pauses;
pub(crate) mod record;
pub(crate) mod registries;
pub(crate) mod schema;
