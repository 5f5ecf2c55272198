//! Two transcripts side by side: [`difference`].

/// Lines shown around a difference.
const CONTEXT: usize = 3;
/// Lines shown of one behaviour.
const LIMIT: usize = 80;

/// What `got` has otherwise than `wanted`, or `None`.
pub(crate) fn difference(name: &str, wanted: &[String], got: &[String]) -> Option<String> {
    if wanted == got {
        return None;
    }
    let start = wanted
        .iter()
        .zip(got)
        .take_while(|(one, other)| one == other)
        .count();
    let tail = wanted[start..]
        .iter()
        .rev()
        .zip(got[start..].iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let request = wanted[..start]
        .iter()
        .rev()
        .find(|line| !line.starts_with([' ', '{', '}']))
        .map_or("", String::as_str);
    let mut lines = vec![
        format!("## {name}"),
        format!("   in the answer to {request}"),
    ];
    lines.extend(
        wanted[start.saturating_sub(CONTEXT)..start]
            .iter()
            .map(|line| format!("  {line}")),
    );
    lines.extend(
        wanted[start..wanted.len() - tail]
            .iter()
            .map(|line| format!("- {line}")),
    );
    lines.extend(
        got[start..got.len() - tail]
            .iter()
            .map(|line| format!("+ {line}")),
    );
    lines.truncate(LIMIT);
    Some(lines.join("\n"))
}
