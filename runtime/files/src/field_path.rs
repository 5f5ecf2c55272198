//! Paths of fields, as results print them. Entry point: [`below`].

/// The path of a field: after a dot, or in brackets if its name has characters of a path.
#[must_use]
pub fn below(path: &str, name: &str) -> String {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    match (plain, path.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{name:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_characters_of_a_path_is_in_brackets() {
        assert_eq!(below("", "spec"), "spec");
        assert_eq!(below("metadata", "labels"), "metadata.labels");
        let label = below("metadata.labels", "x.dev/a");
        assert_eq!(label, "metadata.labels[\"x.dev/a\"]");
    }
}
