//! A plan for people. Entry point: [`text`].

use super::difference::{Action, Difference, Field};
use super::dry_run::Objection;
use super::result::{Counts, Folded, Plan};
use crate::guests::lacks;
use crate::output::{Tone, count, printable};
use crate::status::tables::{cluster_name, keys};
use serde_json::Value;
use std::fmt::Write as _;

/// The most clusters that are named beside a change.
const NAMED: usize = 5;
/// The most fields of a change that are shown, and characters of a value.
const FIELDS: usize = 40;
const LONGEST: usize = 160;

/// The plan, with colours.
pub(super) fn text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing into a text cannot fail.
    let _ = writeln!(out, "{}", Tone::Bold.paint(headline(plan)));
    for (name, counts) in &plan.reconcilers {
        let _ = writeln!(out, "  {}: {}", printable(name), counted(counts));
    }
    for change in &plan.changes {
        let _ = write!(out, "\n{}", one(change));
    }
    out + &rest(plan)
}

/// What a person decides on, in a line.
pub(super) fn headline(plan: &Plan) -> String {
    let clusters = count(plan.clusters.len() as u64, "cluster");
    if plan.total.objects() == 0 {
        return format!("nothing to change in {clusters}");
    }
    format!("{} of {clusters}", counted(&plan.total))
}

/// For example `3 to create, 1 to delete, in 2`.
pub(super) fn counted(counts: &Counts) -> String {
    let parts = [
        (counts.create, "create"),
        (counts.change, "change"),
        (counts.delete, "delete"),
        (counts.replace, "replace"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, word)| format!("{number} to {word}"))
        .collect();
    format!("{}, in {}", parts.join(", "), counts.clusters.len())
}

/// The object of a change.
pub(super) fn object(difference: &Difference) -> String {
    let Difference {
        api_version,
        kind,
        namespace,
        name,
        ..
    } = difference;
    let slash = if namespace.is_empty() { "" } else { "/" };
    printable(&format!("{api_version}/{kind} {namespace}{slash}{name}")).into_owned()
}

/// The clusters of a change, not more than fit a line.
pub(super) fn clusters(change: &Folded) -> String {
    let named: Vec<&str> = change
        .clusters
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect();
    let more = change.clusters.len() - named.len();
    let named = named.join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    printable(&format!("{named}{more}")).into_owned()
}

/// A value on one line.
pub(super) fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) if !text.is_empty() => text.replace('\n', "\\n"),
        other => other.to_string(),
    };
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push('\u{2026}');
    }
    printable(&shown).into_owned()
}

/// The fields of a change that are shown, and how many are not.
pub(super) fn fields(change: &Folded) -> (&[Field], usize) {
    let fields = &change.difference.fields;
    let shown = &fields[..fields.len().min(FIELDS)];
    (shown, fields.len() - shown.len())
}

fn one(change: &Folded) -> String {
    let (sign, tone) = match change.difference.action {
        Action::Create => ("+", Tone::Good),
        Action::Change => ("~", Tone::Warn),
        Action::Delete => ("-", Tone::Bad),
        Action::Replace => ("\u{b1}", Tone::Bad),
    };
    let mut out = tone.paint(format!("{sign} {}", object(&change.difference)));
    let by: Vec<&str> = change.reconcilers.iter().map(String::as_str).collect();
    if !by.is_empty() {
        let _ = write!(out, "  by {}", printable(&by.join(", ")));
    }
    if change.objects > change.clusters.len() {
        let _ = write!(out, ", {} times", change.objects);
    }
    let places = format!("  in {}", clusters(change));
    let _ = writeln!(out, "{}", Tone::Dim.paint(places));
    if !change.difference.finalizers.is_empty() {
        let waits = change.difference.finalizers.join(", ");
        let _ = writeln!(out, "    waits for {}", printable(&waits));
    }
    let (shown, more) = fields(change);
    for field in shown {
        let _ = writeln!(out, "    {}", line(field));
    }
    if more > 0 {
        let _ = writeln!(out, "    and {more} more fields: see -o json");
    }
    out
}

fn line(field: &Field) -> String {
    let path = printable(&field.path);
    match (&field.before, &field.after) {
        (None, Some(after)) => Tone::Good.paint(format!("+ {path}: {}", value(after))),
        (Some(before), None) => Tone::Bad.paint(format!("- {path}: {}", value(before))),
        (before, after) => {
            let shown = |side: &Option<Value>| side.as_ref().map(value).unwrap_or_default();
            let (before, after) = (shown(before), shown(after));
            Tone::Warn.paint(format!("~ {path}: {before} \u{2192} {after}"))
        }
    }
}

/// What a real server makes of a change otherwise.
fn objected(objection: &Objection) -> String {
    let object = object(&objection.difference);
    let place = printable(cluster_name(&objection.cluster)).into_owned();
    let mut out = match &objection.refused {
        Some(why) => {
            let text = format!("! {object} in {place} is refused");
            format!("{}: {}\n", Tone::Bad.paint(text), printable(why))
        }
        None => {
            let text = format!("! {object} in {place} is kept with other fields");
            format!("{}\n", Tone::Warn.paint(text))
        }
    };
    for field in objection.instead.iter().take(FIELDS) {
        let _ = writeln!(out, "    {}", line(field));
    }
    out
}

/// What a person has to know beside the changes.
fn rest(plan: &Plan) -> String {
    let mut out = String::new();
    for (reconciler, number) in &plan.later {
        let _ = writeln!(
            out,
            "\n{} of {} asked for a later run: what other controllers do, as making Deployments ready, does not happen in a plan",
            count(*number as u64, "key"),
            printable(reconciler)
        );
    }
    for objection in &plan.objections {
        let _ = write!(out, "\n{}", objected(objection));
    }
    if !plan.failing.is_empty() {
        let _ = writeln!(out, "\n{}", keys(&plan.failing, false));
    }
    if !plan.denied.is_empty() {
        let _ = write!(out, "\n{}", lacks(&plan.denied));
    }
    if !plan.complete {
        let _ = writeln!(out, "\n{}", Tone::Bad.paint("the plan is not complete"));
        for problem in &plan.problems {
            let _ = writeln!(out, "  {}", printable(problem));
        }
    }
    out
}
