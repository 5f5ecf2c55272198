//! The files that the program contains: the contract with guests, the SDKs, the templates of new projects. Entry points: [`below`]
//! and [`file()`].

/// The paths and contents of the files. Paths are as in the repository, except `templates` for `runtime/author/templates`.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The files below a folder, with their paths relative to it.
pub(crate) fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().filter_map(move |(path, bytes)| {
        let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
        Some((rest, *bytes))
    })
}

/// One file.
pub(crate) fn file(path: &str) -> Option<&'static [u8]> {
    let mut files = FILES.iter();
    files
        .find(|(name, _)| *name == path)
        .map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_and_the_sdk_are_there_without_what_tools_leave() {
        assert!(below("wit").any(|(path, _)| path == "worlds.wit"));
        assert!(below("guest-sdk/rust").any(|(path, _)| path == "src/lib.rs"));
        assert!(below("wi").next().is_none());
        for (path, _) in FILES {
            assert!(
                !path.contains("node_modules") && !path.contains("/target/"),
                "{path}"
            );
        }
    }
}
