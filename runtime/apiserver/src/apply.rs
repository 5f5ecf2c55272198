//! Server-side apply: which manager owns which field, and the conflicts that follow. Entry point: [`Managers`].
//!
//! [`field_set`] holds sets of field paths, [`typed`] walks values by their schema, [`fits`] finds what a schema does not allow, and
//! `managers` keeps `metadata.managedFields`.

pub(crate) mod field_set;
pub(crate) mod fits;
pub(crate) mod last_applied;
pub(crate) mod managers;
pub(crate) mod typed;

pub(crate) use managers::{Force, Managers, Writer};
