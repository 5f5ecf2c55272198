//! The cases, as far as the suite has to know them. Entry points: [`CASES`], [`SHORT`] and [`RANDOM`].

/// A case of `guests/conformance/README.md`.
pub(crate) struct Case {
    /// Its name, which is that of its namespace too.
    pub(crate) name: &'static str,
    /// How many events it records.
    pub(crate) events: usize,
    /// Whether calls of it reach a server at once, in no order.
    pub(crate) at_once: bool,
}

const fn case(name: &'static str) -> Case {
    Case {
        name,
        events: 0,
        at_once: false,
    }
}

const fn at_once(name: &'static str) -> Case {
    Case {
        at_once: true,
        ..case(name)
    }
}

/// The one that calls a server that is no API server.
pub(crate) const HTTP: &str = "http";

/// Those that end by themselves. Events are recorded in the background, so that the case with events is the last.
pub(crate) const CASES: &[Case] = &[
    case("read"),
    case("list"),
    case("many"),
    case("create"),
    case("update"),
    case("patch"),
    case("apply"),
    case("status"),
    case("delete"),
    case("collection"),
    at_once("batch"),
    case("text"),
    case("large"),
    case("log"),
    case("config"),
    case("clock"),
    case("clusters"),
    case("open"),
    at_once("across"),
    case(HTTP),
    case("codes"),
    case("limits"),
    case("done"),
    case("requeue"),
    case("requeue-now"),
    case("retry"),
    case("terminal"),
    case("terminal-cut"),
    case("retry-api"),
    case("terminal-api"),
    case("exception"),
    case("nonsense"),
    case("mapped"),
    Case {
        events: 2,
        ..case("events")
    },
];

/// Those that run on a real server alone: `steady`.
const REAL: &[Case] = &[case("ensure")];

/// The one whose runs differ: `random`.
pub(crate) const RANDOM: &[Case] = &[case("random")];

/// Those that the host has to end.
pub(crate) const SHORT: &[Case] = &[case("cancelled")];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Two that stand for what is no case: a name that there is none of, and what the mapper does.
    const NO_CASES: [&str; 2] = ["nonsense", "mapped"];

    #[test]
    fn every_case_that_is_told_of_runs() {
        let page = windlass_harness::repository().join("guests/conformance/README.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let (_, ends) = page.split_once("### How it ends").expect("the table");
        let headed = page.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("**")?.split_once("**")?;
            Some(name.to_owned())
        });
        let rows = ends.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("| ")?.split_once(" |")?;
            (name != "case").then(|| name.to_owned())
        });
        let told: BTreeSet<String> = headed.chain(rows).collect();
        let run: BTreeSet<String> = CASES
            .iter()
            .chain(SHORT)
            .chain(REAL)
            .chain(RANDOM)
            .map(|case| case.name.to_owned())
            .filter(|name| !NO_CASES.contains(&name.as_str()))
            .collect();
        assert_eq!(told, run);
    }
}
