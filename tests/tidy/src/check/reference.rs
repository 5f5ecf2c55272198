//! The reference of the configuration matches the comments of the kinds, field for field. Entry point: [`check`].

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, Repository};

/// The page.
const PAGE: &str = "docs/configuration.md";
/// Where the kinds are.
const KINDS: &str = "runtime/windlass/src/config/kinds/";
/// The kinds by their headings, and the type of each one's `spec`.
const SPECS: [(&str, &str); 4] = [
    ("Manager", "ManagerSpec"),
    ("Provider", "ProviderSpec"),
    ("Tenant", "TenantSpec"),
    ("Reconciler", "ReconcilerSpec"),
];

/// A field as its type declares it.
struct Field {
    name: String,
    /// Its type, without `Option` and the like around it.
    of: String,
    optional: bool,
    list: bool,
    comment: String,
}

type Types = BTreeMap<String, Vec<Field>>;

/// Rows that the page lacks, and rows without a field.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut types = Types::new();
    for file in repository
        .rust
        .iter()
        .filter(|file| file.path.starts_with(KINDS))
    {
        read(&file.text, &mut types);
    }
    let Some(page) = repository.texts.iter().find(|file| file.path == PAGE) else {
        return vec![Finding::new(PAGE, 1, "the page is missing")];
    };
    let mut findings = Vec::new();
    for (kind, spec) in SPECS {
        let mut wanted = Vec::new();
        rows("spec", spec, &types, &mut wanted);
        let (line, section) = section(&page.text, kind);
        let there: BTreeSet<&str> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        for row in wanted.iter().filter(|row| !there.contains(row.as_str())) {
            let message = format!("the section {kind} lacks the row: {row}");
            findings.push(Finding::new(PAGE, line, &message));
        }
        for row in there.iter().filter(|row| !wanted.iter().any(|w| w == *row)) {
            let message = format!("the section {kind} has a row that matches no field: {row}");
            findings.push(Finding::new(PAGE, line, &message));
        }
    }
    findings
}

/// The structures of a file and their fields.
fn read(text: &str, types: &mut Types) {
    let mut current: Option<String> = None;
    let mut comment = String::new();
    let mut renamed: Option<String> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub(crate) struct ")
            && line.ends_with('{')
        {
            let name = rest.split([' ', '<', '(']).next().unwrap_or_default();
            types.entry(name.to_owned()).or_default();
            current = Some(name.to_owned());
            comment.clear();
        } else if line == "}" {
            current = None;
        }
        let Some(fields) = current.as_ref().and_then(|name| types.get_mut(name)) else {
            continue;
        };
        if let Some(words) = line.trim_start().strip_prefix("///") {
            comment.push_str(words);
        } else if let Some(name) = own_name(line) {
            renamed = Some(name.to_owned());
        } else if let Some((name, of)) = line
            .strip_prefix("    pub(crate) ")
            .and_then(|field| field.trim_end_matches(',').split_once(": "))
        {
            let inner = of.replace(['>', ' '], "");
            fields.push(Field {
                name: renamed.take().unwrap_or_else(|| camel(name)),
                of: inner.rsplit('<').next().unwrap_or_default().to_owned(),
                optional: of.starts_with("Option<"),
                list: of.contains("Vec<"),
                comment: std::mem::take(&mut comment).trim().to_owned(),
            });
        }
    }
}

/// The name that an attribute of a field gives it.
fn own_name(line: &str) -> Option<&str> {
    let attribute = line.trim_start().strip_prefix("#[serde(")?;
    let (_, name) = attribute.split_once("rename = \"")?;
    name.split('"').next()
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut all, word| {
        let mut characters = word.chars();
        all.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        all + characters.as_str()
    })
}

/// The rows of a type's fields, and of the fields of their types.
fn rows(path: &str, of: &str, types: &Types, all: &mut Vec<String>) {
    for field in types.get(of).into_iter().flatten() {
        let own = format!("{path}.{}", field.name);
        let nested = types.contains_key(&field.of);
        let (what, default) = match field.comment.split_once("Default: ") {
            Some((what, default)) => (what.trim(), default.trim_end_matches('.')),
            None if nested || field.optional => (field.comment.as_str(), ""),
            None => (field.comment.as_str(), "required"),
        };
        all.push(format!("| `{own}` | {what} | {default} |"));
        if nested {
            let items = if field.list { "[]" } else { "" };
            rows(&format!("{own}{items}"), &field.of, types, all);
        }
    }
}

/// The text under a heading, and the heading's line.
fn section<'a>(page: &'a str, kind: &str) -> (usize, &'a str) {
    let heading = format!("## {kind}\n");
    let Some(start) = page.find(&heading) else {
        return (1, "");
    };
    let body = &page[start + heading.len()..];
    let end = body.find("\n## ").unwrap_or(body.len());
    (page[..start].lines().count() + 1, &body[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "\
pub(crate) struct Amount(pub(crate) u64);

impl Amount {
    pub(crate) const fn of(count: u64) -> Self {
        Self(count)
    }
}

pub(crate) struct TenantSpec {
    /// Its share
    /// of all. Default: 1.
    pub(crate) own_weight: Option<Amount>,
    /// What it may.
    pub(crate) rules: Option<Vec<RuleSpec>>,
    /// Its interface.
    #[serde(default, rename = \"ownAPI\")]
    pub(crate) own_api: Option<String>,
}

pub(crate) struct RuleSpec {
    /// Verbs.
    pub(crate) verbs: Vec<String>,
}
";

    fn found(page: &str) -> Vec<String> {
        let repository = Repository::of(&[
            ("runtime/windlass/src/config/kinds/tenant.rs", KIND),
            ("docs/configuration.md", page),
        ]);
        let findings = check(&repository).into_iter();
        findings.map(|finding| finding.message).collect()
    }

    #[test]
    fn the_page_says_what_the_fields_say() {
        let good = "## Tenant\n\n| field | what | default |\n|---|---|---|\n| `spec.ownWeight` | Its share of all. | 1 |\n\
                    | `spec.rules` | What it may. |  |\n| `spec.rules[].verbs` | Verbs. | required |\n\
                    | `spec.ownAPI` | Its interface. |  |\n";
        assert_eq!(found(good), Vec::<String>::new());
        let stale = good.replace("| 1 |", "| 2 |");
        assert_eq!(
            found(&stale).len(),
            2,
            "a row that is missing, and one too many"
        );
    }

    #[test]
    fn a_page_that_is_missing_is_found() {
        let repository = Repository::of(&[("runtime/windlass/src/config/kinds/tenant.rs", KIND)]);
        assert_eq!(check(&repository).len(), 1);
    }
}
