//! Every item of the contract with guests is documented. Entry point: [`check`].

use crate::{Finding, Repository, TextFile};

/// Words that begin a named item.
const ITEMS: [&str; 8] = [
    "interface",
    "world",
    "record",
    "variant",
    "enum",
    "flags",
    "resource",
    "type",
];

/// Items, functions, fields and cases without a `///` above them.
pub fn check(repository: &Repository) -> Vec<Finding> {
    repository
        .texts_ending(".wit")
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut documented = false;
    // The blocks around the line: an item's keyword, or "" for a use or parameter list that spans lines.
    let mut inside: Vec<&str> = Vec::new();
    for (index, raw) in file.text.lines().enumerate() {
        let line = raw.trim();
        if line.starts_with("///") {
            documented = true;
            continue;
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        if code.is_empty() || code.starts_with('@') {
            continue;
        }
        let name = declared(code, inside.last().copied());
        if let Some(name) = name.filter(|_| !documented) {
            let message = format!("`{name}` has no documentation: write `///` above it");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
        documented = false;
        follow(code, &mut inside);
    }
    findings
}

/// The name that a line declares, if it declares one.
fn declared<'a>(code: &'a str, inside: Option<&str>) -> Option<&'a str> {
    let mut words = code
        .split(|c: char| c.is_whitespace() || matches!(c, '{' | ';' | ',' | '(' | ':' | '='))
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    match inside {
        Some("record" | "variant" | "enum" | "flags") if !first.starts_with('}') => Some(first),
        Some("interface" | "resource") if code.contains("func(") || first == "constructor" => {
            Some(first)
        }
        None | Some("interface" | "world") if ITEMS.contains(&first) => words.next(),
        _ => None,
    }
}

/// Updates the blocks around the next line.
fn follow<'a>(code: &'a str, inside: &mut Vec<&'a str>) {
    let first = code.split_whitespace().next().unwrap_or_default();
    for character in code.chars() {
        match character {
            '{' | '(' => inside.push(if character == '{' && ITEMS.contains(&first) {
                first
            } else {
                ""
            }),
            '}' | ')' => drop(inside.pop()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "package a:b@0.1.0;\n\n/// I.\ninterface i {\n  use types.{x, y};\n  /// R.\n  record r {\n    /// F.\n    f: u32,\n  }\n  /// V.\n  variant v {\n    /// C.\n    c(string),\n    /// D.\n    d,\n  }\n  /// T.\n  type t = string;\n  /// H.\n  resource h {\n    /// G.\n    get: func(\n      a: string,\n    ) -> option<r>;\n  }\n  /// G.\n  go: func(a: r) -> result<_, v>;\n}\n\n/// W.\nworld w {\n  import i;\n  export x;\n}\n";

    fn names(text: &str) -> Vec<String> {
        let found = check(&Repository::of(&[("wit/a.wit", text)]));
        found
            .into_iter()
            .map(|finding| finding.message.split('`').nth(1).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn a_documented_file_passes() {
        assert_eq!(names(GOOD), Vec::<String>::new());
    }

    #[test]
    fn every_undocumented_item_is_found() {
        let bare: String = GOOD
            .lines()
            .filter(|line| !line.contains("///"))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(
            names(&bare),
            ["i", "r", "f", "v", "c", "d", "t", "h", "get", "go", "w"]
        );
    }
}
