//! What shells and `man` know of this program, made from its flags. Entry points: [`execute`], [`write_pages`].

use super::DONE;
use crate::cli::{Cli, CompletionArgs, ManArgs};
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

/// Prints the completion of a shell.
///
/// # Errors
/// When nobody reads it.
pub(crate) fn execute(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    // In memory first: the library takes a failed write for a bug.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windlass", &mut script);
    std::io::stdout()
        .write_all(&script)
        .context("print the completion")?;
    Ok(DONE)
}

/// Writes the manual pages.
///
/// # Errors
/// When the folder or a file in it cannot be written.
pub(crate) fn write_pages(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("write the manual pages into {}", folder.display()))?;
    Ok(DONE)
}
