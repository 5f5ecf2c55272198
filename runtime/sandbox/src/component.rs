//! Components of other people: read, checked, and compiled in a process of their own. Entry points: [`revision::Revision`],
//! [`compiler::run`] and [`section::config_schema`].

pub(crate) mod compiler;
pub(crate) mod revision;
pub(crate) mod section;
