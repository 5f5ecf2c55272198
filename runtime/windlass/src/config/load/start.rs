//! Reads the documents at the start of a process. Entry point: [`start`].

use crate::config::kinds::Kind;
use crate::config::load::{Bad, Outcome, load};
use std::path::PathBuf;
use windlass_files::Problem;

/// Why a process does not start, with the problems.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum StartError {
    /// The Manager is refused.
    #[error(
        "{}\n  the Manager is not valid, and nothing starts with defaults in its place: correct it",
        lines(.0)
    )]
    Manager(Vec<Problem>),
    /// There is no Manager, and what cannot be read may be one.
    #[error(
        "{}\n  the Manager may be there, and nothing starts with defaults in its place: correct this, or leave it out",
        lines(.0)
    )]
    Unreadable(Vec<Problem>),
}

/// The documents of files and folders, when none has an earlier version. Bad ones can be left out.
///
/// Not so the Manager: its defaults are no leader election, other registries and other addresses, and a process without an election
/// writes beside the leader.
///
/// # Errors
/// When the Manager is refused, or there is none and a document, a file or a folder that cannot be read may have it.
pub(crate) fn start(paths: &[PathBuf]) -> Result<Outcome, StartError> {
    let outcome = load(paths);
    let problems = |is_it: &dyn Fn(&Bad) -> bool| {
        let bad = outcome.bad.iter().filter(|bad| is_it(bad));
        let problems: Vec<Problem> = bad.map(|bad| bad.problem.clone()).collect();
        Some(problems).filter(|problems| !problems.is_empty())
    };
    if let Some(problems) = problems(&|bad| bad.kinds == [Kind::Manager]) {
        return Err(StartError::Manager(problems));
    }
    if outcome.configuration.manager().is_none()
        && let Some(problems) = problems(&|bad| bad.may_be(Kind::Manager))
    {
        return Err(StartError::Unreadable(problems));
    }
    Ok(outcome)
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
