//! `windlass build`: a guest's source into a component. Entry point: [`execute`].

use crate::cli::{BuildArgs, Format};
use crate::guest_build;
use crate::guests;
use crate::output::{Tone, size};
use serde_json::json;
use std::process::ExitCode;
use windlass_sandbox::Options;

/// Builds, checks that the result is a component of our world, and tells where it is.
///
/// # Errors
/// When it does not build or is no guest.
pub(crate) async fn execute(
    args: BuildArgs,
    format: Format,
    engine: Options,
) -> anyhow::Result<ExitCode> {
    let path = guest_build::build(&args.folder).await?;
    let component = guests::load(engine, &path).await?;
    match format {
        Format::Json => {
            let built = json!({ "path": path, "bytes": component.size(), "digest": component.digest().to_string() });
            anstream::println!("{}", serde_json::to_string_pretty(&built)?);
        }
        Format::Text | Format::Wide => {
            anstream::println!(
                "{} {} ({})",
                Tone::Good.paint("built"),
                path.display(),
                size(component.size() as u64)
            );
            anstream::println!("next: windlass check {}", path.display());
        }
    }
    Ok(super::DONE)
}
