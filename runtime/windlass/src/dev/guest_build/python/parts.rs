//! What a component in Python is made of, in the project or in a copy. Entry point: [`Parts::inputs`].

use super::{CHECKER, MODULES, OUTSIDE, PACKAGE, file_names, remedy, site_packages};
use crate::dev::guest_build::BuildError;
use crate::dev::guest_build::inputs::Inputs;
use crate::dev::guest_build::settings::World;
use crate::dev::guest_build::source::Source;
use crate::dev::guest_build::tool::Tool;
use crate::watch::is_left_by_tools;
use std::path::{Path, PathBuf};

/// Folders of a copy: for each part one, so that none has a name of another.
const PROJECT_COPY: &str = "project";
const PACKAGES_COPY: &str = "packages";
const EXPORTS_COPY: &str = "exports";
const WIT_COPY: &str = "contract";

/// Most bytes that are read of a file that links packages.
const MOST_LINKS: u64 = 1 << 20;

/// What a component is made of.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) source: Source,
    pub(super) world: World,
    /// The folder with the module that says what the component exports.
    pub(super) exports: PathBuf,
    pub(super) wit: PathBuf,
    /// The environment of its packages.
    pub(super) packages: PathBuf,
}

impl Parts {
    /// All inputs of the component: the whole project, because its modules may read any file while they are imported, and the packages. None:
    /// some are elsewhere. With a folder for a copy, it gets all of them.
    pub(super) fn inputs(&self, copy: Option<&Path>) -> Result<Option<Inputs>, BuildError> {
        let package = &self.source.package;
        let guest = self.source.guest.strip_prefix(package).unwrap_or(package);
        let environment = site_packages(&self.packages)?;
        if environment
            .iter()
            .any(|folder| has_links_to_packages(folder))
        {
            return Ok(None);
        }
        let count = environment.len().to_string();
        let words = [PACKAGE.1, CHECKER.1, self.world.name(), &count];
        let mut inputs = Inputs::new(&words).word(&guest.to_string_lossy());
        for (path, place) in [(&self.exports, EXPORTS_COPY), (&self.wit, WIT_COPY)] {
            inputs = match copy {
                Some(copy) => inputs.copying(&copy.join(place), path)?.path(path)?,
                None => inputs.path(path)?,
            };
        }
        for folder in environment {
            if let Some(copy) = copy {
                let place = folder.parent().unwrap_or(&folder);
                let place = place.strip_prefix(&self.packages).unwrap_or(place);
                let into = copy.join(PACKAGES_COPY).join(place);
                inputs = inputs.copying(&into, &self.packages)?;
            }
            inputs = inputs.path(&folder)?;
        }
        let project = copy.map(|copy| copy.join(PROJECT_COPY));
        for name in file_names(package)? {
            let path = package.join(&name);
            if OUTSIDE.contains(&name.as_str()) || is_left_by_tools(&path) {
                continue;
            }
            if let Some(project) = &project {
                // The SDK may be a link.
                let own = MODULES.contains(&name.as_str()) && path.is_dir();
                inputs = inputs.copying(project, if own { &path } else { package })?;
            }
            inputs = inputs.entry(&path)?;
        }
        // It may be in a folder that is no part of the component, or a link.
        if let Some(around) = guest.parent().filter(|_| self.source.is_part()) {
            if let Some(project) = &project {
                inputs = inputs.copying(&project.join(around), &self.source.guest)?;
            }
            inputs = inputs.path(&self.source.guest)?;
        }
        Ok(Some(inputs))
    }

    /// The parts in a copy.
    pub(super) fn of_copy(&self, copy: &Path) -> Self {
        let (guest, package) = (&self.source.guest, &self.source.package);
        let of = copy.join(PROJECT_COPY);
        Self {
            source: Source {
                guest: of.join(guest.strip_prefix(package).unwrap_or(Path::new(""))),
                package: of,
                ..self.source
            },
            exports: copy
                .join(EXPORTS_COPY)
                .join(self.exports.file_name().unwrap_or_default()),
            wit: copy
                .join(WIT_COPY)
                .join(self.wit.file_name().unwrap_or_default()),
            packages: copy.join(PACKAGES_COPY),
            ..self.clone()
        }
    }

    /// componentize-py without what it is to build.
    pub(super) fn tool(&self, componentizer: &Path) -> Tool {
        Tool::new(componentizer, &self.source.guest, remedy(PACKAGE))
            // Prints the exceptions of the guest's modules, without the stack of the tool.
            .without_env("RUST_BACKTRACE")
            // As in an activated environment.
            .env("VIRTUAL_ENV", &self.packages)
            .args(["--quiet", "--wit-path"])
            .arg(&self.wit)
            .args(["--world", self.world.name(), "componentize"])
    }
}

/// Whether an environment has packages that are elsewhere, as of `pip install --editable`: they change unseen.
pub(super) fn has_links_to_packages(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    let mut links = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "pth"));
    links.any(|path| leads_elsewhere(&path))
}

/// Whether a file of links names a folder. Lines may also be code, which a build does not run.
fn leads_elsewhere(links: &Path) -> bool {
    let Ok(text) = windlass_fleet::file::read(links, MOST_LINKS) else {
        return true;
    };
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim);
    let is_code = |line: &str| line.starts_with("import ") || line.starts_with("import\t");
    lines.any(|line| !line.is_empty() && !line.starts_with('#') && !is_code(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_elsewhere_are_told_from_code_of_packages() {
        let folder = tempfile::tempdir().unwrap();
        let links = folder.path().join("a.pth");
        assert!(!has_links_to_packages(folder.path()));
        for (text, leads) in [
            ("# nothing\n\nimport os; os.environ\n", false),
            ("import x\n/somewhere/else\n", true),
            ("../beside\n", true),
        ] {
            std::fs::write(&links, text).unwrap();
            assert_eq!(has_links_to_packages(folder.path()), leads, "{text}");
        }
    }
}
