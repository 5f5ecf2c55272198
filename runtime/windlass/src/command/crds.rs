//! `windlass crds`: the definitions of the kinds that a cluster may have. Entry point: [`execute`].

use crate::cli::Format;
use crate::config::crd::definitions;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;

/// Prints the definitions.
///
/// # Errors
/// When a type of the program has no definition. A test excludes that.
pub(crate) fn execute(format: Format) -> Result<ExitCode> {
    let definitions = definitions()?;
    match format {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
            anstream::println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Format::Text | Format::Wide => {
            anstream::print!("{}", serde_saphyr::to_string_multiple(&definitions)?);
        }
    }
    Ok(super::DONE)
}
