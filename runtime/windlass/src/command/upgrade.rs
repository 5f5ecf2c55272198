//! `windlass upgrade`: replaces the SDK in a project by that of this program. Entry point: [`execute`].

use crate::cli::{Format, UpgradeArgs};
use crate::output::count;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass_author::guest_build::Language;
use windlass_author::scaffold::{Lang, sdk};

/// Upgrades, and says from which version.
///
/// # Errors
/// When the folder is no guest with an SDK of `windlass new`, or an author has changed the SDK.
pub(crate) fn execute(args: &UpgradeArgs, format: Format) -> Result<ExitCode> {
    let lang = match Language::of(&args.folder)? {
        Language::Rust => Lang::Rust,
        // Both have the same SDK.
        Language::JavaScript => Lang::Javascript,
        Language::Python => Lang::Python,
        Language::Go => Lang::Go,
        Language::C => Lang::C,
    };
    let done = sdk::upgrade(&args.folder, lang, args.force)?;
    let from = done.from.as_deref();
    if format == Format::Json {
        let done = json!({"from": from, "to": done.to, "changed": done.changed});
        anstream::println!("{}", serde_json::to_string_pretty(&done)?);
        return Ok(super::DONE);
    }
    let files = count(done.changed as u64, "file");
    let to = done.to;
    match from {
        Some(from) if from == to => {
            anstream::println!("the SDK is of windlass {to}: {files} changed")
        }
        Some(from) => {
            anstream::println!("the SDK was of windlass {from} and is of {to}: {files} changed")
        }
        None => anstream::println!("the SDK is of windlass {to}: {files} changed"),
    }
    Ok(super::DONE)
}
