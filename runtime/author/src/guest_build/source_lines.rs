//! Which line of which file a line of a bundle is from. Entry point: [`SourceLines::read`].
//!
//! A bundle ends with these lines, and the SDK names them in place of its own in stacks. Columns are left out: a bundle has one statement a line.

use serde::Deserialize;
use serde_json::json;

/// The parts of a source map that matter here: <https://tc39.es/ecma426/>.
#[derive(Deserialize)]
struct SourceMap {
    sources: Vec<String>,
    mappings: String,
}

/// The lines of the guest's own files in a bundle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceLines {
    files: Vec<String>,
    /// Lines that follow each other in both: the first one in the bundle, their number, the file, and the first one there. From 1.
    runs: Vec<[usize; 4]>,
}

impl SourceLines {
    /// Of a source map, without the files of packages. `None`: it is no source map.
    pub(super) fn read(map: &[u8]) -> Option<Self> {
        let map: SourceMap = serde_json::from_slice(map).ok()?;
        // The SDK is a package, or a folder that `windlass new` makes.
        let others = ["node_modules/", "guest-sdk/js/", "../../sdk/"];
        let is_own = |file: &str| !others.iter().any(|other| file.contains(other));
        let mut runs: Vec<[usize; 4]> = Vec::new();
        let (mut file, mut line) = (0, 0);
        for (at, segments) in map.mappings.split(';').enumerate() {
            let mut first = None;
            for segment in segments.split(',').filter(|segment| !segment.is_empty()) {
                // Column, file, line, column, name: each beside that of the segment before.
                let fields = numbers(segment)?;
                if let [_, of_file, of_line, ..] = *fields {
                    file += of_file;
                    line += of_line;
                    first.get_or_insert((file, line));
                }
            }
            let Some((file, line)) = first else { continue };
            let (file, line) = (usize::try_from(file).ok()?, usize::try_from(line).ok()? + 1);
            if !map.sources.get(file).is_some_and(|name| is_own(name)) {
                continue;
            }
            match runs.last_mut() {
                Some([bundled, many, of, first])
                    if *of == file && *bundled + *many == at + 1 && *first + *many == line =>
                {
                    *many += 1;
                }
                _ => runs.push([at + 1, 1, file, line]),
            }
        }
        let files = map.sources.iter().map(|file| {
            // Relative to the folder of the bundle, which is .windlass/build.
            file.strip_prefix("../../").unwrap_or(file).to_owned()
        });
        Some(Self {
            files: files.collect(),
            runs,
        })
    }

    /// A statement that tells the SDK.
    pub(super) fn statement(&self) -> String {
        let lines = json!({"files": self.files, "runs": self.runs});
        format!("globalThis.windlassSourceLines = {lines};\n")
    }
}

/// The numbers of a segment: base64 digits of five bits and a mark that more follow, with the sign last.
fn numbers(segment: &str) -> Option<Vec<i64>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut numbers, mut number, mut shift) = (Vec::new(), 0_i64, 0_u32);
    for letter in segment.bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == letter)?;
        let digit = i64::try_from(digit).ok()?;
        number |= (digit & 31).checked_shl(shift)?;
        if digit & 32 == 0 {
            let value = number >> 1;
            numbers.push(if number & 1 == 1 { -value } else { value });
            (number, shift) = (0, 0);
        } else {
            shift += 5;
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_own_files_are_runs() {
        // Line 2 is line 1 of a package, 4 to 6 are 3 to 5 of the guest, 8 is its line 1.
        let map = br#"{"version":3,"sources":["../../node_modules/x/a.js","../../src/guest.ts"],
            "mappings":";AAAA;;ACEA,IAAI;AACA;AACA;;AAJA","names":[]}"#;
        let lines = SourceLines::read(map).unwrap();
        assert_eq!(lines.files[1], "src/guest.ts");
        assert_eq!(lines.runs, [[4, 3, 1, 3], [8, 1, 1, 1]]);
        assert!(
            lines
                .statement()
                .starts_with("globalThis.windlassSourceLines = {\"files\":[")
        );
        assert_eq!(SourceLines::read(b"{}"), None);
        assert_eq!(SourceLines::read(br#"{"sources":[],"mappings":"?"}"#), None);
    }

    #[test]
    fn numbers_have_their_sign_and_their_size() {
        assert_eq!(numbers("ADgB/B"), Some(vec![0, -1, 16, -31]));
    }
}
