//! `windlass replay`: runs recordings again, offline. Entry points: [`execute`], and [`Player`] for `windlass test`.

mod text;

use crate::cli::{Format, ReplayArgs};
use crate::config::load::Configuration;
use crate::dev::builder;
use crate::guests::component;
use crate::output::{Tone, count};
use crate::reconcilers;
use crate::run::source_folders;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use text::{divergence, summary};
use windlass_author::cases::DOCUMENTS;
use windlass_author::guest_build::build;
use windlass_fleet::file;
use windlass_sandbox::recording::{Outcome, Recording, Step};
use windlass_sandbox::{By, Divergence, Options, Replayed, Revision, Sandbox};

/// A recording that did not play as it was recorded.
const DIVERGED: u8 = 2;

/// Largest file of a recording, in bytes.
const MOST: u64 = 64 << 20;

/// Plays the recordings, and prints where each leaves its recording.
///
/// # Errors
/// When a file is no recording, or there is no guest that loads.
pub(crate) async fn execute(args: ReplayArgs, format: Format, engine: Options) -> Result<ExitCode> {
    if args.schema {
        let schema = schemars::schema_for!(Recording);
        anstream::println!("{}", serde_json::to_string_pretty(&schema)?);
        return Ok(super::DONE);
    }
    // All files first: a wrong one ends the command before a guest is built.
    let recordings = args.files.iter().map(|file| read(file));
    let recordings: Vec<Recording> = recordings.collect::<Result<_>>()?;
    let guests = match &args.guest {
        Some(path) => Guests::One(super::registry::component_of(path)?),
        None => Guests::of_project(&args.project).await?,
    };
    let mut player = Player::new(engine, args.by.into())?;
    let (mut same, mut results) = (true, Vec::new());
    for (file, recording) in args.files.iter().zip(&recordings) {
        let played = player.play(guests.of(recording)?, recording).await?;
        same &= played.replayed.divergence.is_none();
        match format {
            Format::Json => results.push(played.result(file)),
            _ => print(file, recording, &played, args.lines),
        }
    }
    if format == Format::Json {
        anstream::println!("{}", serde_json::to_string_pretty(&results)?);
    }
    Ok(if same {
        super::DONE
    } else {
        ExitCode::from(DIVERGED)
    })
}

/// Reads a file.
///
/// # Errors
/// When there is none, or it is no recording that this program can play.
pub(super) fn read(file: &Path) -> Result<Recording> {
    if !file.is_file() {
        bail!(
            "{}: no such file: name one that `windlass record` has written",
            file.display()
        );
    }
    let text = file::read(file, MOST).with_context(|| format!("read {}", file.display()))?;
    Recording::parse(&text).with_context(|| file.display().to_string())
}

/// Where the components are that recordings are played with.
pub(super) enum Guests {
    /// This one for all.
    One(PathBuf),
    /// Those of the Reconcilers of a project, by name.
    Project(BTreeMap<String, PathBuf>),
}

impl Guests {
    /// Builds the guests of a project.
    async fn of_project(folder: &Path) -> Result<Self> {
        let documents = folder.join(DOCUMENTS);
        if !documents.is_file() {
            bail!(
                "{}: no such file: name the guest with --guest FILE, or its project with --project DIR",
                documents.display()
            );
        }
        let configuration = super::test::runner::configuration(&documents)?;
        for folder in source_folders(&configuration) {
            build(&folder, &builder()).await?;
        }
        Self::built(&configuration)
    }

    /// Those of the Reconcilers of a configuration, which are built.
    pub(super) fn built(configuration: &Configuration) -> Result<Self> {
        let components = configuration.reconcilers().map(|(document, spec)| {
            let name = document.identity.name.clone();
            let component = reconcilers::component(document, spec);
            component
                .map(|path| (name, path))
                .map_err(|failure| anyhow::anyhow!("{}: {failure}", document.identity))
        });
        Ok(Self::Project(components.collect::<Result<_>>()?))
    }

    /// The component for a recording: of the Reconciler of its name, or of the only one.
    pub(super) fn of(&self, recording: &Recording) -> Result<&Path> {
        let name = &recording.reconciler;
        let of_project = match self {
            Self::One(path) => return Ok(path),
            Self::Project(of_project) => of_project,
        };
        let only = || of_project.values().next().filter(|_| of_project.len() == 1);
        if let Some(path) = of_project.get(name).or_else(only) {
            return Ok(path);
        }
        let names: Vec<_> = of_project.keys().map(String::as_str).collect();
        bail!(
            "the recording is of {name}, and the project has {}: name the guest with --guest FILE",
            names.join(", ")
        )
    }
}

/// Plays recordings, each component loaded once.
pub(super) struct Player {
    sandbox: Sandbox,
    by: By,
    loaded: BTreeMap<PathBuf, Revision>,
}

/// How a recording played, and with which revision.
pub(super) struct Played {
    pub(super) replayed: Replayed,
    /// Whether it is the one that ran.
    pub(super) is_same_revision: bool,
    revision: String,
}

impl Player {
    pub(super) fn new(engine: Options, by: By) -> Result<Self> {
        Ok(Self {
            sandbox: component::small_sandbox(engine)?,
            by,
            loaded: BTreeMap::new(),
        })
    }

    /// Plays a recording.
    ///
    /// # Errors
    /// When the component does not load.
    pub(super) async fn play(&mut self, path: &Path, recording: &Recording) -> Result<Played> {
        let revision = match self.loaded.get(path) {
            Some(revision) => revision.clone(),
            None => {
                let revision = component::load_into(&self.sandbox, path).await?;
                self.loaded.insert(path.to_owned(), revision.clone());
                revision
            }
        };
        let replayed = self.sandbox.replay(&revision, recording, self.by).await?;
        let digest = revision.digest().to_string();
        Ok(Played {
            replayed,
            is_same_revision: digest == recording.revision,
            revision: digest,
        })
    }
}

impl Played {
    /// Why it did not do the same, in lines. `None`: it did.
    pub(super) fn why(&self, recording: &Recording) -> Option<String> {
        let found = self.replayed.divergence.as_ref()?;
        let mut why = divergence(found, recording);
        if recording.stand_ins > 0 {
            let values = count(recording.stand_ins as u64, "value");
            why.push_str(&format!(
                "\n{values} of Secrets have stand-ins in the recording: a guest that looks into them may do something else"
            ));
        }
        Some(why)
    }

    /// Whether the run ended by a trap or a limit, and the recorded one did not.
    pub(super) fn did_not_come_back(&self) -> bool {
        match &self.replayed.divergence {
            Some(Divergence::Outcome { ended, .. }) => {
                matches!(ended, Outcome::Failed { reason, .. } if reason != "error")
            }
            _ => false,
        }
    }

    fn result(&self, file: &Path) -> ReplayResult {
        ReplayResult {
            file: file.to_owned(),
            same: self.replayed.divergence.is_none(),
            revision: self.revision.clone(),
            same_revision: self.is_same_revision,
            divergence: self.replayed.divergence.as_ref().map(text::as_json),
            outcome: self.replayed.outcome.to_string(),
            log: self.replayed.lines.clone(),
        }
    }
}

/// For programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplayResult {
    file: PathBuf,
    same: bool,
    /// The component that played it.
    revision: String,
    same_revision: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    divergence: Option<serde_json::Value>,
    outcome: String,
    log: Vec<Step>,
}

fn print(file: &Path, recording: &Recording, played: &Played, lines: bool) {
    let word = match played.replayed.divergence {
        None => Tone::Good.paint("same    "),
        Some(_) => Tone::Bad.paint("diverged"),
    };
    let other = if played.is_same_revision {
        ""
    } else {
        ", with another revision"
    };
    anstream::println!("{word}  {}  {}{other}", file.display(), summary(recording));
    let why = played.why(recording).unwrap_or_default();
    for line in why.lines() {
        anstream::println!("          {line}");
    }
    let log = played.replayed.lines.iter().filter(|_| lines);
    for line in log.filter_map(text::log_line) {
        anstream::println!("          {}", Tone::Dim.paint(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_in_the_docs_is_that_of_the_program() {
        let docs = include_str!("../../../../docs/recording.schema.json");
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(Recording)).unwrap();
        assert!(
            docs.trim_end() == schema,
            "write it anew: windlass replay --schema > docs/recording.schema.json"
        );
    }
}
