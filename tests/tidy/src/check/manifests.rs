//! Versions live in one place. Entry point: [`check`].

use crate::crates::crates;
use crate::{Finding, Repository};

/// Dependencies of members that do not come from their workspace's list.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in crates(repository) {
        // A package that is its own workspace, such as a template for a new guest, has no list elsewhere.
        if krate.manifest.text.contains("[workspace") || is_template(krate.folder) {
            continue;
        }
        for dependency in krate.dependencies() {
            let shared =
                dependency.rest == "workspace" || dependency.rest.contains("workspace = true");
            if !shared {
                let message = format!(
                    "`{}` has its own version: put it under [workspace.dependencies] of the workspace and write `workspace = true`",
                    dependency.name
                );
                findings.push(Finding::new(&krate.manifest.path, dependency.line, message));
            }
        }
    }
    findings
}

fn is_template(folder: &str) -> bool {
    folder.split('/').any(|part| part.starts_with("template"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_outside_the_workspace_list_is_found() {
        let manifest = "[package]\n[dependencies]\na.workspace = true\nb = { workspace = true, features = [\"x\"] }\nc = \"1\"\nd = { version = \"2\" }\n";
        let found = check(&Repository::of(&[("runtime/x/Cargo.toml", manifest)]));
        let lines: Vec<_> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [5, 6]);
    }

    #[test]
    fn a_package_that_is_its_own_workspace_passes() {
        let manifest = "[workspace]\n[package]\n[dependencies]\nc = \"1\"\n";
        assert!(check(&Repository::of(&[("examples/x/Cargo.toml", manifest)])).is_empty());
    }
}
