//! The file of each kind. Entry point: [`place`].
//!
//! Kinds of two groups may have one name: Istio and the Gateway API both have a Gateway. The file of one of them has its group in its name.

use super::header::Header;
use super::kind::Kind;
use super::{Language, Types, files};

/// Why a file has no place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Two kinds would have the same file.
    #[error("{0} and {1} would both be in {2}: write one into another folder with --into")]
    Both(String, String, String),
    /// Somebody else wrote the file.
    #[error("{0} is there, and was not written by windlass types: rename it")]
    OfOthers(String),
}

/// The types of all kinds, for a folder whose files `read` returns by name.
///
/// A kind stays in the file that it has. A new one gets a file without its group, unless another kind has that file, or would get it in this call.
///
/// # Errors
/// When two kinds would have the same file, or the file is of somebody else.
pub fn place(
    kinds: &[Kind],
    language: Language,
    read: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Types>, PlaceError> {
    let mut all: Vec<Types> = Vec::new();
    for kind in kinds {
        let types = super::write(kind, language, is_grouped(kind, kinds, language, &read));
        let name = types.file().to_owned();
        if let Some(other) = all.iter().find(|other| other.file() == name) {
            let [one, other] = [&types.kind, &other.kind].map(ToString::to_string);
            return Err(PlaceError::Both(other, one, name));
        }
        for (name, _) in &types.files {
            if read(name).is_some_and(|text| Header::read(&text).is_none()) {
                return Err(PlaceError::OfOthers(name.clone()));
            }
        }
        all.push(types);
    }
    Ok(all)
}

/// Whether the file of a kind has its group in its name.
fn is_grouped(
    kind: &Kind,
    kinds: &[Kind],
    language: Language,
    read: &impl Fn(&str) -> Option<String>,
) -> bool {
    let [plain, grouped] = [false, true].map(|grouped| files::name(kind, language, grouped));
    // Whether the file is of the kind, or of another one.
    let is_of = |file: &str| {
        let text = read(file)?;
        let header = Header::read(&text)?;
        Some(header.is_of(&text, &kind.gvk.group, &kind.gvk.kind))
    };
    if is_of(&grouped) == Some(true) {
        return true;
    }
    match is_of(&plain) {
        Some(is_its) => !is_its,
        None => kinds.iter().any(|other| {
            other.gvk.group != kind.gvk.group && files::name(other, language, false) == plain
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use serde_json::json;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use windlass_files::Node;

    fn kind(group: &str, kind: &str) -> Kind {
        let inner = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"spec": inner}});
        let document = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a"},
            "spec": {"group": group, "names": {"kind": kind}, "versions": [
                {"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        Kind::of_definition(&Node::of(&document), None).unwrap()
    }

    fn file(language: Language, group: &str, of: &str) -> String {
        let placed = place(&[kind(group, of)], language, |_| None).unwrap();
        placed[0].file().to_owned()
    }

    /// A folder, and the files that a call writes into it.
    #[derive(Default)]
    struct Folder(RefCell<BTreeMap<String, String>>);

    impl Folder {
        fn run(&self, kinds: &[Kind], language: Language) -> Vec<String> {
            let read = |name: &str| self.0.borrow().get(name).cloned();
            let placed = place(kinds, language, read).unwrap();
            let names = placed.iter().map(|types| types.file().to_owned()).collect();
            self.0
                .borrow_mut()
                .extend(placed.into_iter().flat_map(|types| types.files));
            names
        }
    }

    #[test]
    fn kinds_of_one_name_keep_apart_in_one_call_and_in_several() {
        let istio = || kind("networking.istio.io", "Gateway");
        let other = || kind("gateway.networking.k8s.io", "Gateway");
        for &language in Language::value_variants() {
            let both = Folder::default();
            let [first, second] = &both.run(&[istio(), other()], language)[..] else {
                panic!("two kinds have two files");
            };
            assert!(first.starts_with("gateway_networking_istio_io"), "{first}");
            assert!(
                second.starts_with("gateway_gateway_networking_k8s_io"),
                "{second}"
            );
            // Each stays where it is.
            assert_eq!(
                both.run(&[other()], language)[..],
                *std::slice::from_ref(second)
            );
            assert_eq!(
                both.run(&[istio()], language)[..],
                *std::slice::from_ref(first)
            );

            let apart = Folder::default();
            let plain = apart.run(&[istio()], language);
            assert!(!plain[0].contains("istio"), "{plain:?}");
            assert_eq!(
                apart.run(&[other()], language)[..],
                *std::slice::from_ref(second)
            );
            assert_eq!(
                apart.run(&[istio(), other()], language),
                [plain[0].clone(), second.clone()]
            );
        }
        let go = Folder::default();
        go.run(&[istio(), other()], Language::Go);
        let all = go.0.borrow().values().cloned().collect::<String>();
        let types = all.lines().filter_map(|line| line.strip_prefix("type "));
        let types: Vec<&str> = types.filter_map(|line| line.split(' ').next()).collect();
        let expected = [
            "GatewayNetworkingK8sIoGateway",
            "GatewayNetworkingK8sIoGatewaySpec",
            "NetworkingIstioIoGateway",
            "NetworkingIstioIoGatewaySpec",
        ];
        assert_eq!(types, expected, "a package has all names of its files");
    }

    #[test]
    fn a_file_has_no_name_that_a_tool_gives_a_meaning() {
        for (language, kind, expected) in [
            (Language::Go, "LoadTest", "load_test_kind.go"),
            (Language::Go, "NodeWindows", "node_windows_kind.go"),
            (Language::Go, "BuildAmd64", "build_amd64_kind.go"),
            (Language::Go, "Linux", "linux.go"),
            (Language::Go, "Main", "main_kind.go"),
            (Language::Python, "Operator", "operator_kind.py"),
            (Language::Python, "Class", "class_kind.py"),
            (Language::Python, "TestRun", "test_run_kind.py"),
            (Language::Python, "Website", "website.py"),
            (Language::Rust, "Type", "type_kind.rs"),
            (Language::Rust, "Serde", "serde_kind.rs"),
            (Language::Rust, "LoadTest", "load_test.rs"),
            (Language::Typescript, "LoadTest", "load_test_kind.ts"),
            (Language::Typescript, "Index", "index_kind.ts"),
            (Language::C, "Time", "time_types.h"),
        ] {
            assert_eq!(file(language, "x.dev", kind), expected);
        }
    }

    #[test]
    fn a_type_hides_none_that_the_language_has() {
        for (language, named, expected) in [
            (
                Language::Typescript,
                "Record",
                "export interface RecordKind extends",
            ),
            (
                Language::Typescript,
                "Record",
                "export const RecordKind = kind<RecordKind>(",
            ),
            (Language::Rust, "Option", "pub struct OptionKind {"),
            (Language::Rust, "Option", "pub struct OptionSpec {"),
            (Language::Python, "Warning", "class WarningKind(TypedDict):"),
            (Language::Python, "VPC", "VPC_KIND: str"),
        ] {
            let placed = place(&[kind("x.dev", named)], language, |_| None).unwrap();
            let text: String = placed[0].files.iter().map(|(_, text)| &**text).collect();
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn a_file_of_somebody_else_stays() {
        let read = |_: &str| Some("package main\n".to_owned());
        let refused = place(&[kind("x.dev", "Site")], Language::Go, read);
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("was not written by windlass types"), "{said}");
    }
}
