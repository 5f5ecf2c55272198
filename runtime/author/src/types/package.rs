//! The package of a project's types in Rust. Entry point: [`package`].
//!
//! A schema can be hundreds of structs, which is a minute of compiling. In a package of their own they are compiled once, and not at each save of the
//! guest.

use super::header::{Header, MARK};
use std::path::Path;
use toml::{Table, Value};

/// Its name, and its folder in the project.
pub const NAME: &str = "types";
/// The crate that types use, as a project names it.
const SDK: &str = "windlass-sdk";

/// Why a project gets no package.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The project's manifest is broken.
    #[error("Cargo.toml: {0}")]
    Broken(#[from] toml::de::Error),
    /// Types use the SDK.
    #[error(
        "Cargo.toml has no dependency windlass-sdk, which types need: add it, or write plain modules with --into src"
    )]
    SdkMissing,
    /// The folder is somebody else's.
    #[error(
        "{0} is there, and was not written by windlass types: rename the folder, or write plain modules with --into src"
    )]
    OfOthers(String),
    /// The name is taken.
    #[error(
        "Cargo.toml has another dependency {NAME}: rename it there (package = \"{NAME}\"), or write plain modules with --into src"
    )]
    OtherDependency,
}

/// The files of the package, and of the project that depends on it.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// `types/Cargo.toml`.
    pub manifest: String,
    /// `types/src/lib.rs`.
    pub library: String,
    /// The project's Cargo.toml with the dependency; `None`: it has it already.
    pub project: Option<String>,
}

/// Whether a file of the package was written here.
pub fn is_ours(text: &str) -> bool {
    Header::read(text).is_some()
}

/// The package for a project with this Cargo.toml. `modules`: the files of the package's `src` that were written here, such as `website.rs`.
///
/// # Errors
/// When Cargo.toml is broken, lacks the SDK, or means something else by `types`.
pub fn package(project: &str, modules: &[String]) -> Result<Package, PackageError> {
    let parsed: Table = project.parse()?;
    let dependency = |name| parsed.get("dependencies")?.get(name);
    let sdk = dependency(SDK).ok_or(PackageError::SdkMissing)?;
    let own = dependency(NAME);
    if own.is_some_and(|it| it.get("path").and_then(Value::as_str) != Some(NAME)) {
        return Err(PackageError::OtherDependency);
    }
    let project = own.is_none().then(|| depending(project));
    Ok(Package {
        manifest: format!(
            "# {MARK}\n# A package of its own, so that a save of the guest does not compile the types again.\n\n[package]\nname = \"{NAME}\"\n\
             version = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\
             serde_json = \"1\"\n{SDK} = {}\n",
            from_below(sdk.clone())
        ),
        library: library(modules),
        project,
    })
}

/// A module for each file.
fn library(modules: &[String]) -> String {
    let mut names: Vec<&str> = modules
        .iter()
        .filter_map(|file| file.strip_suffix(".rs"))
        .collect();
    names.sort_unstable();
    let modules: String = names
        .into_iter()
        .map(|name| format!("pub mod {name};\n"))
        .collect();
    format!("//! {MARK}\n\n{modules}")
}

/// A dependency as a package in a folder of the project has it.
fn from_below(mut dependency: Value) -> Value {
    if let Some(table) = dependency.as_table_mut() {
        table.remove("optional");
        if let Some(Value::String(path)) = table.get_mut("path")
            && Path::new(path).is_relative()
        {
            *path = format!("../{path}");
        }
    }
    dependency
}

/// A Cargo.toml with the package among its dependencies; the rest stays as it was written.
fn depending(project: &str) -> String {
    let is_head =
        |line: &str| line.split('#').next().unwrap_or_default().trim() == "[dependencies]";
    let mut text = String::new();
    let mut is_there = false;
    for line in project.split_inclusive('\n') {
        text += line;
        if is_head(line) && line.ends_with('\n') {
            text += &format!("{NAME} = {{ path = \"{NAME}\" }}\n");
            is_there = true;
        }
    }
    if !is_there {
        text += &format!("\n[dependencies.{NAME}]\npath = \"{NAME}\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = "[package]\nname = \"demo\"\n\n# What it uses.\n[dependencies]\nserde = \"1\"\nwindlass-sdk = { path = \"sdk\", optional = true }\n";

    #[test]
    fn a_project_gets_the_package_once() {
        let modules = ["website.rs", "alert.rs"].map(str::to_owned);
        let made = package(PROJECT, &modules).unwrap();
        assert!(is_ours(&made.manifest) && is_ours(&made.library) && !is_ours(PROJECT));
        let manifest: Table = made.manifest.parse().unwrap();
        let sdk = &manifest["dependencies"][SDK];
        assert_eq!(sdk.to_string(), "{ path = \"../sdk\" }");
        assert!(
            made.library.ends_with("pub mod alert;\npub mod website;\n"),
            "{}",
            made.library
        );
        let project = made.project.unwrap();
        assert_eq!(
            project,
            PROJECT.replace("serde =", "types = { path = \"types\" }\nserde =")
        );
        assert_eq!(package(&project, &modules).unwrap().project, None);
    }

    #[test]
    fn a_dependency_that_names_no_place_beside_the_project_stays() {
        for (of, expected) in [
            ("{ workspace = true }", "{ workspace = true }"),
            ("\"0.1\"", "\"0.1\""),
            ("{ path = \"/sdk\" }", "{ path = \"/sdk\" }"),
        ] {
            let project = PROJECT.replace("{ path = \"sdk\", optional = true }", of);
            let made = package(&project, &[]).unwrap();
            let line = format!("{SDK} = {expected}\n");
            assert!(made.manifest.contains(&line), "{}", made.manifest);
        }
    }

    #[test]
    fn the_dependency_is_added_to_whatever_tables_there_are() {
        for (from, to) in [
            ("[dependencies]", "[dependencies] # all of them"),
            ("[dependencies]\n", "[dependencies]\r\n"),
            ("# What it uses.\n[dependencies]\n", "[dependencies]\n"),
            (
                "[dependencies]\nserde = \"1\"\nwindlass-sdk = { path = \"sdk\", optional = true }\n",
                "[dependencies.windlass-sdk]\npath = \"sdk\"",
            ),
        ] {
            let project = PROJECT.replace(from, to);
            let made = package(&project, &[]).unwrap().project.unwrap();
            let parsed: Table = made.parse().unwrap();
            assert_eq!(
                parsed["dependencies"][NAME]["path"].as_str(),
                Some(NAME),
                "{made}"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (project, expected) in [
            ("[dependencies]\n".to_owned(), "no dependency windlass-sdk"),
            (
                PROJECT.replace("serde =", "types ="),
                "another dependency types",
            ),
            ("[dependencies".to_owned(), "Cargo.toml: "),
        ] {
            let said = package(&project, &[]).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
