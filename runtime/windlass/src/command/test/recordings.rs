//! The recordings of a project: runs that go again as they went, or no longer end as they did. Entry point: [`Recordings`].

use super::runner::{Outcome, Runner};
use crate::command::replay::{Played, Player, read};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Instant;
use windlass_sandbox::recording::{Must, Recording};
use windlass_sandbox::{By, Options};

/// The folder in `tests`, and what stands before the names of its files.
const FOLDER: &str = "recordings";

/// The files to play, by name, sorted.
pub(super) struct Recordings(Vec<(String, PathBuf)>);

impl Recordings {
    /// Those of a project; with names, only these.
    ///
    /// # Errors
    /// When the folder cannot be read, or a name is none of its files.
    pub(super) fn of(project: &Path, names: &[String]) -> Result<Self> {
        let mut found = all(&project.join("tests").join(FOLDER))?;
        let wanted: Vec<&String> = names.iter().filter(|name| is_name(name)).collect();
        let is_there = |name: &str| found.iter().any(|(found, _)| found == name);
        if let Some(missing) = wanted.iter().find(|name| !is_there(name)) {
            bail!("there is no test {missing:?}: no such file in tests/{FOLDER}");
        }
        if !names.is_empty() {
            found.retain(|(name, _)| wanted.contains(&name));
        }
        Ok(Self(found))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Plays them with the guests of the project.
    ///
    /// # Errors
    /// When one cannot be read, a guest does not build, or there is none for it.
    pub(super) async fn run(&self, runner: &mut Runner, engine: Options) -> Result<Vec<Outcome>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let guests = runner.guests().await?;
        // A change that only moves a read breaks no test.
        let mut player = Player::new(engine, By::Content)?;
        let mut outcomes = Vec::new();
        for (name, file) in &self.0 {
            let start = Instant::now();
            let recording = read(file)?;
            let path = guests.of(&recording).context(name.clone())?;
            let played = player.play(path, &recording).await?;
            let problem = problem(&recording, &played);
            outcomes.push(Outcome {
                name: name.clone(),
                passed: problem.is_none(),
                seconds: start.elapsed().as_secs_f64(),
                differences: Vec::new(),
                problems: problem.into_iter().collect(),
                denied: Vec::new(),
                crash: None,
            });
        }
        Ok(outcomes)
    }
}

/// Whether a name is one of a recording.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with("recordings/")
}

fn all(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder);
    let entries = entries.with_context(|| format!("read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy());
        if let Some(name) = name.filter(|_| path.extension().is_some_and(|end| end == "json")) {
            found.push((format!("{FOLDER}/{name}"), path.clone()));
        }
    }
    found.sort();
    Ok(found)
}

/// Why a recording does not pass, by what it must be.
fn problem(recording: &Recording, played: &Played) -> Option<String> {
    let why = played.why(recording);
    match (recording.must(), why) {
        (Must::Same, why) => why,
        (Must::Differ, None) => Some(format!(
            "it still goes as it was recorded: {}",
            recording.outcome
        )),
        // What cannot be played proves nothing.
        (Must::Differ, Some(why)) if played.is_same_revision => Some(format!(
            "the guest that was recorded does something else now, so that this recording cannot show its mistake: {why}"
        )),
        (Must::Differ, Some(why)) if played.did_not_come_back() => Some(why),
        (Must::Differ, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_folder_are_tests_by_their_names() {
        let project = tempfile::tempdir().unwrap();
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let found = Recordings::of(project.path(), &names)?;
            Ok(found
                .0
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>())
        };
        let none: Result<_> = names(&[]);
        assert!(none.unwrap().is_empty(), "no folder");
        let folder = project.path().join("tests/recordings");
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["b.json", "a.json", "README.md"] {
            std::fs::write(folder.join(file), "{}").unwrap();
        }
        assert_eq!(names(&[]).unwrap(), ["recordings/a", "recordings/b"]);
        assert_eq!(names(&["recordings/b", "other"]).unwrap(), ["recordings/b"]);
        assert!(names(&["other"]).unwrap().is_empty());
        let missing = names(&["recordings/c"]).unwrap_err();
        assert!(missing.to_string().contains("recordings/c"), "{missing}");
    }
}
