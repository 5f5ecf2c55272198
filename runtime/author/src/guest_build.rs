//! Builds guests of every language from source. Entry points: [`build`], and [`definitions()`] for what a guest's types describe.

mod bases;
mod c;
mod cargo;
mod componentize;
mod components;
mod contract;
mod definitions;
mod exports;
mod fetched;
mod go;
mod inputs;
mod language;
mod machine;
mod npm;
mod python;
mod settings;
mod source;
mod source_lines;
mod tool;

pub use bases::{Bases, NotTaken};
use components::Components;
pub use definitions::{DefinitionsError, definitions};
pub use language::Language;
pub use machine::Machine;
use settings::World;
use source::Source;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use windlass_files::{STATE, built_path};

/// The JSON Schema of a guest's config, in its source folder.
const CONFIG_SCHEMA: &str = "config.schema.json";

/// The folder of tools on a machine without a home folder.
const TOOLS: &str = ".windlass/tools";

/// The folder of intermediate files.
const WORK: &str = ".windlass/build";

/// The interval in which a build checks whether another one has ended.
const LOCKED: Duration = Duration::from_millis(50);

/// Why a guest does not build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The folder does not exist.
    #[error("{0}: no such folder: check the path")]
    NoFolder(PathBuf),
    /// No language is recognised.
    #[error(
        "{0}: there is no guest to build: it has none of {markers}, and below a package of these no guest.ts, guest.js, guest.py or main.go (a guest that is built by other tools is named by its .wasm file)",
        markers = Language::markers()
    )]
    NoGuest(PathBuf),
    /// The folder has the files of several languages.
    #[error(
        "{folder}: the guest could be in several languages, it has {found}: write language = \"…\" (rust, javascript, python, go or c) into {folder}/windlass.toml"
    )]
    SeveralGuests {
        /// The guest.
        folder: PathBuf,
        /// Which.
        found: String,
    },
    /// The project's settings for its build are invalid.
    #[error("{path}: {why}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A tool is not installed.
    #[error("{tool} is needed to build {folder} and was not found: {remedy}")]
    NoTool {
        /// The tool.
        tool: String,
        /// The guest.
        folder: PathBuf,
        /// How to get it.
        remedy: String,
    },
    /// A tool failed; it has printed the reason on standard error.
    #[error(
        "{folder}: the guest does not build ({tool}: {status}): correct the errors of {tool} above"
    )]
    Tool {
        /// The tool.
        tool: String,
        /// The guest.
        folder: PathBuf,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A tool was not downloaded; pip has printed the reason on standard error.
    #[error(
        "{package} is needed to build {folder} and was not downloaded: see the error of pip above, and whether the package index is reachable (PIP_INDEX_URL names another)"
    )]
    NotDownloaded {
        /// The package and its version.
        package: String,
        /// The guest.
        folder: PathBuf,
    },
    /// A tool's output is too large.
    #[error("{folder}: {tool} prints more than {limit} bytes: see what it prints there")]
    Output {
        /// The tool.
        tool: String,
        /// The guest.
        folder: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The build made no component, or several.
    #[error(
        "{folder}: expected one component, cargo built {found}: give the package [lib] crate-type = [\"cdylib\"]"
    )]
    NotOne {
        /// The guest.
        folder: PathBuf,
        /// How many.
        found: usize,
    },
    /// The module does not match the contract.
    #[error("{module}: no component of world {world} can be made of it: {why}")]
    Component {
        /// The compiled module.
        module: PathBuf,
        /// The world of the component.
        world: World,
        /// The reason.
        why: String,
    },
    /// The schema of the guest's config is not valid.
    #[error("{path} is no schema that can be used: {why}")]
    ConfigSchema {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A link has the path of a file that builds write.
    #[error("{0}: builds write here, and this is a link to somewhere else: remove it")]
    Link(PathBuf),
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// A failure to read or write this file.
fn io_error(path: &Path) -> impl Fn(std::io::Error) -> BuildError + use<> {
    let path = path.to_owned();
    move |error| BuildError::Io {
        path: path.clone(),
        error,
    }
}

/// Adds the JSON Schema of a guest's config to its component. Says why it cannot be used.
pub type AddConfigSchema = fn(component: Vec<u8>, schema: &str) -> Result<Vec<u8>, String>;

/// How guests are built.
#[derive(Clone)]
pub struct GuestBuilder {
    machine: Machine,
    add_config_schema: AddConfigSchema,
    /// Whether each save is built: what is made then is of no use to other folders.
    for_edits: bool,
    /// Makes guests of a base, if their language has one. None: each is made from nothing, as it is published.
    bases: Option<Arc<dyn Bases>>,
}

impl GuestBuilder {
    /// Builds guests as they are published.
    #[must_use]
    pub fn new(machine: Machine, add_config_schema: AddConfigSchema) -> Self {
        Self {
            machine,
            add_config_schema,
            for_edits: false,
            bases: None,
        }
    }

    /// The same for builds after each save. With `bases` guests are made of these.
    #[must_use]
    pub fn for_edits(self, bases: Option<Arc<dyn Bases>>) -> Self {
        Self {
            for_edits: true,
            bases,
            ..self
        }
    }

    /// What earlier builds in any folder made.
    fn components(&self) -> Components {
        match (self.for_edits, &self.machine.tools) {
            (false, Some(tools)) => Components::of_user(tools),
            _ => Components::none(),
        }
    }
}

/// Builds the guest in `folder` and returns the path of its component. Prints each command and its output on standard error.
/// One build of a package waits for another. Dropping the future stops the build.
///
/// # Errors
/// [`BuildError`] names the missing tool, the wrong setting or the failed command.
pub async fn build(folder: &Path, builder: &GuestBuilder) -> Result<PathBuf, BuildError> {
    // Its paths are absolute, because tools run in the guest's folder.
    let source = Source::of(folder)?;
    let _lock = begin(&source).await?;
    let work = source.guest.join(WORK);
    // For the languages that keep components: others need no folder for them.
    let known = || builder.components();
    let (machine, bases) = (&builder.machine, builder.bases.as_deref());
    let artifact = match source.language {
        Language::Rust => cargo::build(&source.guest, machine).await,
        Language::JavaScript => npm::build(&source, &work, &known(), bases).await,
        Language::Python => python::build(&source, &work, machine, &known(), bases).await,
        Language::Go => go::build(&source, &work).await,
        Language::C => c::build(&source, &work, machine).await,
    }?;
    keep(folder, &artifact, builder.add_config_schema)
}

/// Makes the folders that a build writes to, and waits for other builds of the package.
async fn begin(source: &Source) -> Result<File, BuildError> {
    for of in [&source.guest, &source.package] {
        refuse_links(&of.join(STATE))?;
        state_folder(of).map_err(io_error(of))?;
        let work = of.join(WORK);
        std::fs::create_dir_all(&work).map_err(io_error(&work))?;
    }
    lock(&source.package.join(WORK).join("lock")).await
}

/// Makes the base of a guest that builds after saves are made of, unless it is there: the first of them would make it, and wait for that. It
/// changes no component. A guest of a language without bases has none.
///
/// # Errors
/// As [`build`]. The next build shows the same error, or makes the component in another way.
pub async fn prepare(folder: &Path, builder: &GuestBuilder) -> Result<(), BuildError> {
    let Some(bases) = builder.bases.as_deref() else {
        return Ok(());
    };
    let source = Source::of(folder)?;
    if source.language != Language::Python {
        return Ok(());
    }
    let _lock = begin(&source).await?;
    let work = source.guest.join(WORK);
    python::prepare(&source, &work, &builder.machine, bases).await
}

/// Rejects links in the state folder of a guest. A repository may contain one, and a file that is written there would replace its target.
///
/// # Errors
/// [`BuildError::Link`] names the link.
pub fn refuse_links(path: &Path) -> Result<(), BuildError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if metadata.is_symlink() {
        return Err(BuildError::Link(path.to_owned()));
    }
    // Tools that are kept here contain links of their own.
    if !metadata.is_dir() || path.ends_with(TOOLS) {
        return Ok(());
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        // Another build may have removed what it no longer needs.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path)(error)),
    };
    for entry in entries {
        refuse_links(&entry.map_err(io_error(path))?.path())?;
    }
    Ok(())
}

/// Waits for the lock, and holds it until the file is dropped.
async fn lock(path: &Path) -> Result<File, BuildError> {
    if std::fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink()) {
        return Err(BuildError::Link(path.to_owned()));
    }
    // A file that is not a lock keeps its content.
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(io_error(path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(LOCKED).await,
            Err(std::fs::TryLockError::Error(error)) => return Err(io_error(path)(error)),
        }
    }
}

/// Checks that there is a guest to build.
///
/// # Errors
/// When there is none.
pub fn recognise(folder: &Path) -> Result<(), BuildError> {
    Source::of(folder).map(|_| ())
}

/// The folder whose files a guest is made of: its package, or its own folder when it has none.
pub fn package(folder: &Path) -> PathBuf {
    Source::of(folder).map_or_else(|_| folder.to_owned(), |source| source.package)
}

/// Moves the component to its final path in one step, so that a watcher never reads an incomplete file. The schema of the guest's
/// config becomes a part of it.
fn keep(folder: &Path, artifact: &Path, add: AddConfigSchema) -> Result<PathBuf, BuildError> {
    let path = built_path(folder);
    let bytes = std::fs::read(artifact).map_err(io_error(artifact))?;
    let bytes = with_config_schema(&folder.join(CONFIG_SCHEMA), bytes, add)?;
    if std::fs::read(&path).is_ok_and(|old| old == bytes) {
        return Ok(path);
    }
    state_folder(folder).map_err(io_error(&path))?;
    let fresh = path.with_extension(format!("wasm.{}", std::process::id()));
    std::fs::write(&fresh, bytes).map_err(io_error(&fresh))?;
    std::fs::rename(&fresh, &path).map_err(io_error(&path))?;
    Ok(path)
}

/// The component with the schema of its config, if the file is there.
fn with_config_schema(
    file: &Path,
    component: Vec<u8>,
    add: AddConfigSchema,
) -> Result<Vec<u8>, BuildError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(component),
        Err(error) => return Err(io_error(file)(error)),
    };
    add(component, &text).map_err(|why| BuildError::ConfigSchema {
        path: file.to_owned(),
        why,
    })
}

/// Makes the folder `.windlass` in `folder`. Version control ignores it.
pub fn state_folder(folder: &Path) -> std::io::Result<PathBuf> {
    let state = folder.join(STATE);
    std::fs::create_dir_all(&state)?;
    let ignore = state.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(ignore, "*\n")?;
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without sections, and a schema is text in brackets.
    const ADD: AddConfigSchema = |mut component, schema| {
        schema.ends_with('}').then_some(()).ok_or("no bracket")?;
        component.extend_from_slice(schema.as_bytes());
        Ok(component)
    };

    fn builder() -> GuestBuilder {
        GuestBuilder::new(Machine::default(), ADD)
    }

    #[tokio::test]
    async fn a_folder_without_a_guest_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = build(folder.path(), &builder()).await.unwrap_err();
        assert!(matches!(error, BuildError::NoGuest(_)), "{error}");
        let error = build(&folder.path().join("nope"), &builder())
            .await
            .unwrap_err();
        assert!(matches!(error, BuildError::NoFolder(_)), "{error}");
    }

    #[tokio::test]
    async fn a_link_that_a_repository_brings_is_not_written_through() {
        use std::os::unix::fs::symlink;
        let elsewhere = tempfile::tempdir().unwrap();
        let precious = elsewhere.path().join("precious");
        std::fs::write(&precious, "mine").unwrap();
        for link in [
            STATE,
            WORK,
            ".windlass/guest.wasm",
            ".windlass/build/lock",
            ".windlass/build/python",
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("guest.c"), "").unwrap();
            let link = folder.path().join(link);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&precious, &link).unwrap();
            let error = build(folder.path(), &builder()).await.unwrap_err();
            assert!(
                matches!(&error, BuildError::Link(path) if *path == link),
                "{error}"
            );
        }
        let link = elsewhere.path().join("lock");
        symlink(&precious, &link).unwrap();
        lock(&link).await.unwrap_err();
        drop(lock(&precious).await.unwrap());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");
    }

    #[test]
    fn the_schema_of_a_config_becomes_a_part_of_the_component() {
        let folder = tempfile::tempdir().unwrap();
        let (artifact, schema) = (
            folder.path().join("x.wasm"),
            folder.path().join(CONFIG_SCHEMA),
        );
        std::fs::write(&artifact, b"\0asm\x0d\0\x01\0").unwrap();
        std::fs::write(&schema, "{\"type\": \"object\"}").unwrap();
        let path = keep(folder.path(), &artifact, ADD).unwrap();
        let built = std::fs::read(&path).unwrap();
        assert!(built.ends_with(b"{\"type\": \"object\"}"));
        std::fs::write(&schema, "{\"type\": ").unwrap();
        let error = keep(folder.path(), &artifact, ADD).unwrap_err().to_string();
        assert!(error.ends_with("no bracket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), built);
    }

    #[test]
    fn a_kept_component_is_replaced_only_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let artifact = folder.path().join("x.wasm");
        std::fs::write(&artifact, "one").unwrap();
        assert!(windlass_files::built(folder.path()).is_none());
        let path = keep(folder.path(), &artifact, ADD).unwrap();
        assert_eq!(windlass_files::built(folder.path()).as_ref(), Some(&path));
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        keep(folder.path(), &artifact, ADD).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().modified().unwrap(),
            before
        );
        std::fs::write(&artifact, "two").unwrap();
        keep(folder.path(), &artifact, ADD).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert!(folder.path().join(".windlass/.gitignore").is_file());
    }
}
