//! `windlass new`: a guest project that builds and passes its own tests. Entry point: [`execute`].

use crate::cli::{Format, NewArgs};
use crate::output::Tone;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass_author::scaffold;

/// Writes the project and prints the next steps.
///
/// # Errors
/// When the folder is not empty, or its name is not valid for a guest.
pub(crate) fn execute(args: &NewArgs, format: Format) -> Result<ExitCode> {
    let name = scaffold::write(&args.folder, args.lang, args.kind.as_ref())?;
    let folder = args.folder.display();
    if format == Format::Json {
        let created = json!({ "path": args.folder, "name": name });
        anstream::println!("{}", serde_json::to_string_pretty(&created)?);
        return Ok(super::DONE);
    }
    anstream::println!("{} {folder}", Tone::Good.paint("made"));
    anstream::println!("next:");
    if args.folder.canonicalize().ok() != std::env::current_dir().ok() {
        anstream::println!("  {}", Tone::Bold.paint(format_args!("cd {folder}")));
    }
    for (command, does) in [
        (args.lang.unit_tests().to_owned(), "its unit tests"),
        (
            "windlass dev".to_owned(),
            "runs it over in-memory clusters, and again as you save",
        ),
        (
            "windlass test".to_owned(),
            "the component against what tests/ expects",
        ),
    ] {
        let command = Tone::Bold.paint(format_args!("{command:<24}"));
        anstream::println!("  {command}  {}", Tone::Dim.paint(does));
    }
    Ok(super::DONE)
}
