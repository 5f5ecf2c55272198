//! The commands: one file each, from flags to exit code. Entry points: their `execute` functions.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod dev;
pub(crate) mod get;
pub(crate) mod rbac;
pub(crate) mod requeue;
pub(crate) mod rollback;
pub(crate) mod run;

use std::process::ExitCode;

/// Done.
pub(crate) const DONE: ExitCode = ExitCode::SUCCESS;

/// Something failed that was told already.
pub(crate) const FAILED: ExitCode = ExitCode::FAILURE;
