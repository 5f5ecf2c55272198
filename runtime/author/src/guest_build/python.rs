//! Builds guests in Python with componentize-py. Entry point: [`build`].

mod base;
mod parts;

use super::components::Components;
use super::inputs::Inputs;
use super::settings::{self, Settings, read_toml};
use super::source::Source;
use super::tool::Tool;
use super::{Bases, BuildError, Machine, contract, fetched, io_error};
use base::Base;
use parts::Parts;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The tool that makes the component.
pub(super) const PACKAGE: (&str, &str) = ("componentize-py", "0.25.1");

/// The module of the reconciler if pyproject.toml names none.
pub(super) const ENTRY: &str = "guest";

/// The tool that checks types.
pub(super) const CHECKER: (&str, &str) = ("pyrefly", "1.4.1");

/// The version of Python in a component.
const PYTHON_VERSION: &str = "3.14";

/// The error text for settings in the wrong file.
const ELSEWHERE: &str = "pyproject.toml has it, in [tool.windlass]";

/// The module that the build writes: componentize-py looks in it for classes that are called as the contract's exports.
const EXPORTS: &str = "windlass_exports";

/// Files of a project that are not part of its component.
const OUTSIDE: [&str; 4] = ["README.md", "seed", "tests", "windlass.yaml"];

/// Folders of a project that may contain modules.
const MODULES: [&str; 2] = ["src", "sdk"];

/// The parts of pyproject.toml that matter here.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    tool: Tools,
}

#[derive(Default, Deserialize)]
struct Tools {
    #[serde(default)]
    windlass: Settings,
    /// Settings of the tool that checks types, which are its own. `None`: nothing is checked.
    pyrefly: Option<serde::de::IgnoredAny>,
}

/// Builds a guest and returns the component in `work`. With `bases` it makes it of a base, if it can.
pub(super) async fn build(
    source: &Source,
    work: &Path,
    machine: &Machine,
    known: &Components,
    bases: Option<&dyn Bases>,
) -> Result<PathBuf, BuildError> {
    let Prepared { parts, entry } = &prepared(source, work, machine)?;
    let component = work.join("guest.wasm");
    if let Some(inputs) = parts.inputs(None)?
        && known.restore(&inputs, &component)?
    {
        return Ok(component);
    }
    let (folder, package) = (&source.guest, &source.package);
    let componentizer = program(folder, machine, PACKAGE).await?;
    let base = base(parts, entry, work);
    let make = async {
        if let Some(bases) = bases
            && let Some(made) = base.make(bases, || parts.tool(&componentizer)).await?
        {
            return Ok((made, None));
        }
        let inputs = from_nothing(parts, work, &componentizer, &component).await?;
        Ok((component.clone(), inputs))
    };
    let ((made, inputs), ()) =
        tokio::try_join!(make, check_types(package, machine, &parts.packages))?;
    if let Some(inputs) = inputs {
        known.keep(&inputs, &component)?;
    }
    Ok(made)
}

/// Makes the base of a guest, unless it is there.
pub(super) async fn prepare(
    source: &Source,
    work: &Path,
    machine: &Machine,
    bases: &dyn Bases,
) -> Result<(), BuildError> {
    let Prepared { parts, entry } = &prepared(source, work, machine)?;
    let componentizer = program(&source.guest, machine, PACKAGE).await?;
    let base = base(parts, entry, work);
    let made = base.make(bases, || parts.tool(&componentizer)).await;
    made.map(drop)
}

/// What builds of a guest begin with.
struct Prepared {
    parts: Parts,
    /// The module of the reconciler.
    entry: String,
}

fn base<'a>(parts: &'a Parts, entry: &'a str, work: &'a Path) -> Base<'a> {
    Base {
        source: &parts.source,
        work,
        wit: &parts.wit,
        packages: &parts.packages,
        entry,
        world: parts.world,
    }
}

fn prepared(source: &Source, work: &Path, machine: &Machine) -> Result<Prepared, BuildError> {
    let (folder, package) = (&source.guest, &source.package);
    let settings = settings(source)?;
    let (file, setting) = settings_file(source);
    let refused = |why: String| BuildError::Settings {
        path: file.clone(),
        why,
    };
    if settings.language.is_some() {
        let why =
            "tool.windlass.language means nothing here: write language = \"…\" into windlass.toml";
        return Err(refused(why.to_owned()));
    }
    let entry = settings.entry.as_deref().unwrap_or(ENTRY);
    // Installed packages are not searched.
    let own = Some(package.join(".venv")).filter(|venv| venv.is_dir());
    let has_module = [folder, package].iter().any(|it| has_module(it, entry));
    if own.is_none() && !has_module {
        return Err(refused(format!(
            "there is no module {entry}: name the reconciler's with {setting} = \"module\", or \"module:Class\""
        )));
    }
    let exports = work.join("python");
    write_exports(source, &exports, &settings)?;
    let packages = match own.or_else(|| machine.virtual_env.clone()) {
        Some(venv) => venv,
        None => no_packages(work)?,
    };
    let parts = Parts {
        source: source.clone(),
        world: settings.world,
        exports,
        wit: contract::folder(package)?,
        packages,
    };
    let entry = entry.to_owned();
    Ok(Prepared { parts, entry })
}

/// Makes a component of the guest's modules and all that they import. Returns its inputs, unless some are elsewhere.
///
/// componentize-py gets a copy of the inputs: in the project it would see more than them, such as what Python compiled, and what somebody
/// saves meanwhile.
async fn from_nothing(
    parts: &Parts,
    work: &Path,
    componentizer: &Path,
    component: &Path,
) -> Result<Option<Inputs>, BuildError> {
    let copy = private_copy(work)?;
    let inputs = parts.inputs(Some(copy.path()))?;
    let (guest, parts) = match inputs {
        Some(_) => (&parts.source.guest, &parts.of_copy(copy.path())),
        None => (&parts.source.guest, parts),
    };
    let source = &parts.source;
    let mut tool = parts
        .tool(componentizer)
        .arg("--python-path")
        .arg(&parts.exports)
        .args(["--python-path", "."]);
    let package = &source.package;
    let shared = Some(package.clone()).filter(|_| source.is_part());
    let modules = MODULES.map(|name| package.join(name)).into_iter();
    for folder in shared.into_iter().chain(modules) {
        if folder.is_dir() {
            tool = tool.arg("--python-path").arg(folder);
        }
    }
    let made = tool.arg(EXPORTS).arg("--output").arg(component).run().await;
    made.map_err(|error| match error {
        BuildError::Tool { tool, status, .. } => BuildError::Tool {
            tool,
            status,
            folder: guest.clone(),
        },
        other => other,
    })?;
    Ok(inputs)
}

/// The empty folder of a copy, for this user alone, which is removed on drop.
fn private_copy(work: &Path) -> Result<TempDir, BuildError> {
    const NAME: &str = "python-copy";
    let path = work.join(NAME);
    // Of a build that was killed.
    if path.is_dir() {
        std::fs::remove_dir_all(&path).map_err(io_error(&path))?;
    }
    let mut named = tempfile::Builder::new();
    let copy = named.prefix(NAME).rand_bytes(0).tempdir_in(work);
    copy.map_err(io_error(&path))
}

/// Checks the types of the whole package, if its pyproject.toml has settings for that. `environment` is that of its packages.
async fn check_types(
    package: &Path,
    machine: &Machine,
    environment: &Path,
) -> Result<(), BuildError> {
    let manifest: Manifest = read_toml(&package.join("pyproject.toml"))?;
    if manifest.tool.pyrefly.is_none() {
        return Ok(());
    }
    let checker = program(package, machine, CHECKER).await?;
    let mut checker = Tool::new(checker, package, remedy(CHECKER))
        // Without lines on what it does.
        .env("PYREFLY_LOG", "error")
        .args(["check", "--output-format=min-text", "--summary=none"])
        // A guest in a folder of the package imports modules of that folder.
        .arg("--enable-fallback-search-path=true")
        .args(["--python-version", PYTHON_VERSION])
        // As componentize-py, it needs no Python in the environment.
        .arg("--skip-interpreter-query");
    for packages in site_packages(environment)? {
        checker = checker.arg("--site-packages-path").arg(packages);
    }
    checker.run().await
}

/// The folders of packages of an environment: `lib/python3.14/site-packages`, or `lib/site-packages`.
fn site_packages(environment: &Path) -> Result<Vec<PathBuf>, BuildError> {
    const NAME: &str = "site-packages";
    let lib = environment.join("lib");
    if !lib.is_dir() {
        return Ok(Vec::new());
    }
    let versions = file_names(&lib)?.into_iter();
    let below = versions.map(|version| lib.join(version).join(NAME));
    let all = below.chain([lib.join(NAME)]);
    Ok(all.filter(|folder| folder.is_dir()).collect())
}

/// The settings of a guest: of its pyproject.toml, or of the windlass.toml in its folder of a package.
fn settings(source: &Source) -> Result<Settings, BuildError> {
    if source.is_part() {
        return Settings::of(&source.guest, "Python", &["world", "entry"], ELSEWHERE);
    }
    Settings::of(&source.guest, "Python", &[], ELSEWHERE)?;
    let manifest: Manifest = read_toml(&source.package.join("pyproject.toml"))?;
    Ok(manifest.tool.windlass)
}

/// The file with the settings of a guest, and the name of its entry there.
fn settings_file(source: &Source) -> (PathBuf, &'static str) {
    if source.is_part() {
        (source.guest.join(settings::FILE), "entry")
    } else {
        (source.package.join("pyproject.toml"), "tool.windlass.entry")
    }
}

/// An environment without packages: without one, the tool uses the packages of the machine.
fn no_packages(work: &Path) -> Result<PathBuf, BuildError> {
    let packages = work.join("no-packages");
    let folder = packages.join("lib/site-packages");
    std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
    Ok(packages)
}

/// Whether the project has the module of an entry.
fn has_module(folder: &Path, entry: &str) -> bool {
    let module = entry.split(':').next().unwrap_or(entry).replace('.', "/");
    let mut folders = [".", MODULES[0], MODULES[1]].into_iter();
    folders.any(|below| {
        let module = folder.join(below).join(&module);
        module.is_dir() || module.with_added_extension("py").is_file()
    })
}

/// The entries of a folder, sorted.
fn file_names(folder: &Path) -> Result<Vec<String>, BuildError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io_error(folder))? {
        let name = entry.map_err(io_error(folder))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Writes the module of the exports. The SDK connects it with the guest that the project names.
fn write_exports(source: &Source, into: &Path, settings: &Settings) -> Result<(), BuildError> {
    let entry = settings.entry.as_deref().unwrap_or(ENTRY);
    let legal = |c: char| c.is_alphanumeric() || "_.:".contains(c);
    if entry.is_empty() || !entry.chars().all(legal) {
        let (path, setting) = settings_file(source);
        return Err(BuildError::Settings {
            path,
            why: format!("{setting} = {entry:?} is neither a module nor module:Class"),
        });
    }
    let (classes, mapper) = if settings.world.mapper {
        ("Reconciler, Mapper", "True")
    } else {
        ("Reconciler, _", "False")
    };
    let text = format!(
        "\"\"\"What the component exports. Written by `windlass build`.\"\"\"\n\n\
         from windlass import component\n\n\
         {classes} = component.exports(\"{entry}\", mapper={mapper})\n"
    );
    std::fs::create_dir_all(into).map_err(io_error(into))?;
    let path = into.join(EXPORTS).with_extension("py");
    std::fs::write(&path, text).map_err(io_error(&path))
}

/// A tool: the one on the PATH if it has the right version, else our own.
async fn program(
    folder: &Path,
    machine: &Machine,
    tool: (&str, &str),
) -> Result<PathBuf, BuildError> {
    let (name, version) = tool;
    if let Some(found) = machine.on_path(name) {
        let said = Tool::new(&found, folder, remedy(tool)).arg("--version");
        let said = said.ask().await?;
        if said.is_some_and(|said| said.split_whitespace().any(|word| word == version)) {
            return Ok(found);
        }
    }
    let programs = fetched::venv(folder, machine, name, version).await?;
    Ok(programs.join(name))
}

fn remedy((name, version): (&str, &str)) -> String {
    format!("pip install {name}=={version}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_build::settings::World;

    #[tokio::test]
    async fn an_entry_that_is_not_there_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let manifest = "[tool.windlass]\nentry = \"greeter:Guest\"\n";
        std::fs::write(path.join("pyproject.toml"), manifest).unwrap();
        let source = Source::of(path).unwrap();
        let said = build(
            &source,
            path,
            &Machine::default(),
            &Components::none(),
            None,
        )
        .await
        .unwrap_err()
        .to_string();
        assert!(
            said.contains("greeter") && said.contains("tool.windlass.entry"),
            "{said}"
        );
        std::fs::write(path.join("greeter.py"), "").unwrap();
        std::fs::create_dir_all(path.join("src/deep")).unwrap();
        std::fs::write(path.join("src/deep/guest.py"), "").unwrap();
        for entry in ["greeter", "greeter:Guest", "deep.guest"] {
            assert!(has_module(path, entry), "{entry}");
        }
        assert!(!has_module(path, "deep.other"));
    }

    #[test]
    fn the_exports_are_those_of_the_world() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pyproject.toml"), "").unwrap();
        let source = Source::of(folder.path()).unwrap();
        let written = |world, entry: Option<&str>| {
            let settings = Settings {
                world,
                entry: entry.map(str::to_owned),
                ..Settings::default()
            };
            write_exports(&source, folder.path(), &settings)
                .map(|()| std::fs::read_to_string(folder.path().join("windlass_exports.py")))
        };
        let text = written(World::default(), None).unwrap().unwrap();
        assert!(
            text.ends_with("Reconciler, _ = component.exports(\"guest\", mapper=False)\n"),
            "{text}"
        );
        let both = World {
            fleet: true,
            mapper: true,
            ..World::default()
        };
        let text = written(both, Some("a.b:C"));
        let text = text.unwrap().unwrap();
        assert!(
            text.ends_with("Reconciler, Mapper = component.exports(\"a.b:C\", mapper=True)\n"),
            "{text}"
        );
        let said = written(World::default(), Some("guest.py\"")).unwrap_err();
        assert!(said.to_string().contains("tool.windlass.entry"), "{said}");
    }
}
