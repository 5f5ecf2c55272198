//! The manifest of the Rust SDK outside of this workspace. Entry point: [`manifest`].

use crate::embedded;
use anyhow::{Context, Result};
use toml::{Table, Value};

const HEAD: &str = "# The Windlass SDK for guests in Rust, as `windlass new` wrote it.\n\n";

/// Tables of a manifest that name other packages.
const DEPENDENCIES: [&str; 2] = ["dependencies", "build-dependencies"];

/// The SDK's own manifest with the values that it inherits from the workspace, and without the dependencies of its tests.
///
/// # Errors
/// When it inherits a value that the workspace does not have.
pub(super) fn manifest(sdk: &[u8]) -> Result<String> {
    let workspace = embedded::file("Cargo.toml").context("the workspace's manifest is missing")?;
    resolve(
        std::str::from_utf8(sdk)?.parse()?,
        &std::str::from_utf8(workspace)?.parse()?,
    )
}

fn resolve(mut manifest: Table, root: &Table) -> Result<String> {
    let shared = |table: &str, key: &str| {
        let value = root
            .get("workspace")
            .and_then(|it| it.get(table))
            .and_then(|it| it.get(key));
        value
            .cloned()
            .with_context(|| format!("the workspace has no {table}.{key}"))
    };
    manifest.remove("dev-dependencies");
    if let Some(Value::Table(package)) = manifest.get_mut("package") {
        for (key, value) in package.iter_mut() {
            if is_inherited(value) {
                *value = shared("package", key)?;
            }
        }
    }
    for table in DEPENDENCIES {
        let Some(Value::Table(dependencies)) = manifest.get_mut(table) else {
            continue;
        };
        for (name, wanted) in dependencies.iter_mut() {
            if is_inherited(wanted) {
                *wanted = merged(shared("dependencies", name)?, wanted);
            }
        }
    }
    Ok(format!("{HEAD}{}", toml::to_string(&manifest)?))
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// The workspace's entry of a dependency, with the additions of the package.
fn merged(shared: Value, own: &Value) -> Value {
    let mut table = match shared {
        Value::Table(table) => table,
        version => Table::from_iter([("version".to_owned(), version)]),
    };
    for (key, value) in own.as_table().into_iter().flatten() {
        match (key.as_str(), value, table.get_mut(key)) {
            ("workspace", ..) => {}
            ("features", Value::Array(more), Some(Value::Array(features))) => {
                features.extend(more.iter().cloned())
            }
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_workspace_says_is_put_in() {
        let root = "[workspace.package]\nversion = \"1.2.3\"\n[workspace.dependencies]\na = \"1\"\nb = { version = \"2\", features = [\"x\"] }\n";
        let own = "[package]\nname = \"p\"\nversion.workspace = true\n[dependencies]\na.workspace = true\n\
                   b = { workspace = true, optional = true, features = [\"y\"] }\nc = \"3\"\n[dev-dependencies]\nd.workspace = true\n";
        let text = resolve(own.parse().unwrap(), &root.parse().unwrap()).unwrap();
        let manifest: Table = text.parse().unwrap();
        assert_eq!(manifest["package"]["version"].as_str(), Some("1.2.3"));
        assert_eq!(manifest["dependencies"]["a"]["version"].as_str(), Some("1"));
        assert_eq!(
            manifest["dependencies"]["b"]["optional"].as_bool(),
            Some(true)
        );
        assert_eq!(
            manifest["dependencies"]["b"]["features"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(manifest["dependencies"]["c"].as_str(), Some("3"));
        assert!(
            !text.contains("workspace = true") && !text.contains("dev-dependencies"),
            "{text}"
        );
    }

    #[test]
    fn the_sdks_manifest_needs_no_workspace() {
        let (_, sdk) = embedded::below("guest-sdk/rust")
            .find(|(path, _)| *path == "Cargo.toml")
            .unwrap();
        let text = manifest(sdk).unwrap();
        assert!(
            !text.contains("workspace = true") && text.contains("=0.61.1"),
            "{text}"
        );
    }
}
