//! Every guest that misbehaves has a test that runs it. Entry point: [`check`].

use std::collections::BTreeSet;

use crate::{Finding, Repository};

/// Guests named `test-…` that no test names.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let folders = repository
        .paths
        .iter()
        .filter_map(|path| path.strip_prefix("guests/"))
        .map(|path| path.strip_prefix("js/").unwrap_or(path));
    let guests: BTreeSet<&str> = folders
        .filter_map(|path| path.split_once('/'))
        .map(|(guest, _)| guest)
        .filter(|guest| guest.starts_with("test-"))
        .collect();
    let unused = guests.into_iter().filter(|guest| {
        let name = format!("\"{guest}\"");
        let tests = repository
            .rust
            .iter()
            .filter(|file| !file.path.starts_with("guests/"));
        !tests.into_iter().any(|file| file.text.contains(&name))
    });
    unused
        .map(|guest| {
            let message = "no test runs this guest: write the test, or delete the guest";
            Finding::new(&format!("guests/{guest}"), 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_no_test_names_is_found() {
        let repository = Repository::of(&[
            ("guests/hello/src/lib.rs", ""),
            ("guests/test-loops/src/lib.rs", "// \"test-traps\""),
            ("guests/test-traps/src/lib.rs", ""),
            ("guests/js/test-throws/guest.js", ""),
            ("tests/suites/tests/limits.rs", "guest(\"test-loops\")"),
        ]);
        let found: Vec<_> = check(&repository)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(found, ["guests/test-throws", "guests/test-traps"]);
    }
}
