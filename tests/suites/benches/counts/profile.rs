//! What callgrind writes of a process: costs by function and by who called it. Entry point: [`read`].
//!
//! The file has a record for each chain of callers. Names are numbers behind their first use, and so are chains: `(7)'(3)'(1)` is
//! function 7, called by 3, called by 1.

use anyhow::{Context as _, Result};
use std::collections::HashMap;

/// The columns of a cost, in their order.
pub(crate) const COLUMNS: [&str; 5] = ["instructions", "allocations", "locked", "clock", "calls"];
const ALLOCATIONS: usize = 1;
const CLOCK: usize = 3;
const CALLS: usize = 4;

/// Of one function or of many: instructions; allocations; instructions that lock the bus, as of locks and counts of references; looks at a
/// clock; other calls of the system.
pub(crate) type Cost = [f64; COLUMNS.len()];

const ALLOCATE: [&str; 6] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
];
const LOOK: &str = "clock_gettime";
/// What callgrind calls the file of code that is in none.
const NO_FILE: &str = "???";

/// A function, called in one way.
#[derive(Default)]
pub(crate) struct Function<'a> {
    /// Its name, and before all others those of its nearest callers.
    pub(crate) chain: Vec<&'a str>,
    /// It is in no file: compiled code of a guest.
    pub(crate) is_guest: bool,
}

/// Reads what callgrind wrote with `--collect-bus`, `--collect-systime` and `--compress-mangled`.
///
/// # Errors
/// When it is none of that.
pub(crate) fn read<'a>(text: &'a str, mut found: impl FnMut(&Function<'a>, &Cost)) -> Result<()> {
    let (mut names, mut files) = (Names::default(), Names::default());
    let mut function = Function::default();
    let (mut callee, mut calls) = ("", None);
    let mut no_file = false;
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "ob" => no_file = files.name(value)? == NO_FILE,
                "cob" => drop(files.name(value)?),
                "fn" => {
                    let chain = names.chain(value)?;
                    let unnamed = chain.first().is_some_and(|name| name.starts_with("0x"));
                    let is_guest = no_file && unnamed;
                    function = Function { chain, is_guest };
                }
                "cfn" => callee = names.chain(value)?.first().copied().unwrap_or_default(),
                "calls" => calls = value.split(' ').next().map(str::parse).transpose()?,
                _ => {}
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let own = function.chain.first().copied().unwrap_or_default();
            let cost = match calls.take() {
                Some(calls) => called(own, callee, calls),
                None => spent(own, line)?,
            };
            found(&function, &cost);
        }
    }
    Ok(())
}

/// What calls of a function are beside what they cost, which its own record has.
fn called(own: &str, callee: &str, calls: f64) -> Cost {
    let mut cost = Cost::default();
    if ALLOCATE.contains(&callee) && !ALLOCATE.contains(&own) {
        cost[ALLOCATIONS] = calls;
    }
    cost
}

/// A line of a function's own cost: its place, instructions, locked ones, calls of the system.
fn spent(own: &str, line: &str) -> Result<Cost> {
    let numbers = line.split(' ').skip(1).map(str::parse);
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().context("a cost")?;
    let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
    let mut cost = [number(0), 0.0, number(1), 0.0, 0.0];
    cost[if own.contains(LOOK) { CLOCK } else { CALLS }] = number(2);
    Ok(cost)
}

/// Names by their numbers.
#[derive(Default)]
struct Names<'a>(HashMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    /// `(7) name` at its first use, then `(7)`.
    fn name(&mut self, text: &'a str) -> Result<&'a str> {
        match text.split_once(' ') {
            Some((number, name)) => {
                self.0.insert(number, name);
                Ok(name)
            }
            None => self.0.get(text).copied().context("a name"),
        }
    }

    /// `(7)'(3)'(1)`. What has no parentheses says how often a function is in the chain.
    fn chain(&mut self, text: &'a str) -> Result<Vec<&'a str>> {
        let name = self.name(text)?;
        // A name may begin with a parenthesis too: `(below main)`.
        let of_number = |part: &str| {
            let first = part.strip_prefix('(').and_then(|rest| rest.chars().next());
            first.is_some_and(|first| first.is_ascii_digit())
        };
        if !of_number(name) {
            return Ok(vec![name]);
        }
        let parts = name.split('\'').filter(|part| of_number(part));
        parts
            .map(|part| self.0.get(part).copied().context("a name in a chain"))
            .collect()
    }
}
