//! Runs a test in a process of its own, so that other tests do not change its memory. Entry point: [`ran_alone`].

use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// Set in the process that runs only one test.
const ALONE: &str = "WINDLASS_TEST_ALONE";

/// Runs the calling test again, in a process of its own with these variables, and returns `true` after it has
/// passed there. In that process, returns `false` at once: the test continues.
///
/// `test` is the test's full name.
///
/// # Errors
/// When the test fails in its process, whose output is printed first.
pub fn ran_alone(test: &str, variables: &[(&str, &str)]) -> Result<bool> {
    if std::env::var_os(ALONE).is_some() {
        return Ok(false);
    }
    let output = Command::new(std::env::current_exe()?)
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .envs(variables.iter().copied())
        .output()
        .context("start a process for the test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success() && text.contains("1 passed"),
        "{test} failed in its own process: its output says why"
    );
    Ok(true)
}
