//! Components of other people: read, checked, and compiled in a process of their own. Entry points: [`revision::Revision`] and
//! [`compiler::run`].

pub(crate) mod compiler;
pub(crate) mod revision;
