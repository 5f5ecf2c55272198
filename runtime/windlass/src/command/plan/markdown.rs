//! A plan for the comment of a pull request. Entry point: [`markdown`].

use super::difference::{Action, Field};
use super::result::{Folded, Plan};
use super::text::{clusters, counted, fields, headline, object, value};
use std::fmt::Write as _;

/// The most bytes: hosts of code take comments of 64 KB.
const MOST: usize = 60_000;

/// The most lines of each kind before the changes.
const FEW: usize = 20;

/// The plan in Markdown, cut where a comment would be too long.
pub(super) fn markdown(plan: &Plan) -> String {
    // Writing into a text cannot fail.
    let mut out = format!("### Plan: {}\n", headline(plan));
    if !plan.complete {
        out.push_str("\n**The plan is not complete.**\n\n");
        for problem in plan.problems.iter().take(FEW) {
            let _ = writeln!(out, "* {}", escaped(problem));
        }
    }
    if !plan.reconcilers.is_empty() {
        out.push('\n');
    }
    for (name, counts) in &plan.reconcilers {
        let _ = writeln!(out, "* `{name}`: {}", counted(counts));
    }
    for key in plan.failing.iter().take(FEW) {
        let _ = writeln!(out, "* `{}` fails: {}", key.key, escaped(&key.last_error));
    }
    for lack in plan.denied.iter().take(FEW) {
        for rule in &lack.rules {
            let _ = writeln!(out, "* `{}` lacks the rule `{rule}`", lack.reconciler);
        }
    }
    for (reconciler, number) in &plan.later {
        let _ = writeln!(
            out,
            "* {number} keys of `{reconciler}` asked for a later run"
        );
    }
    for objection in plan.objections.iter().take(FEW) {
        let why = objection.refused.as_deref();
        let why = why.unwrap_or("the server keeps it with other fields");
        let object = object(&objection.difference);
        let _ = writeln!(
            out,
            "* `{object}` in {}: {}",
            objection.cluster,
            escaped(why)
        );
    }
    for (at, change) in plan.changes.iter().enumerate() {
        let one = one(change);
        if out.len() + one.len() > MOST {
            let left = plan.changes.len() - at;
            let _ = writeln!(out, "\n{left} more changes do not fit here.");
            break;
        }
        out.push_str(&one);
    }
    out
}

fn one(change: &Folded) -> String {
    let word = match change.difference.action {
        Action::Create => "create",
        Action::Change => "change",
        Action::Delete => "delete",
        Action::Replace => "replace",
    };
    let title = escaped(&object(&change.difference));
    let mut out = format!(
        "\n<details><summary>{word} <code>{title}</code> in {}</summary>\n\n```diff\n",
        escaped(&clusters(change))
    );
    let (shown, more) = fields(change);
    shown.iter().for_each(|field| lines(field, &mut out));
    if more > 0 {
        let _ = writeln!(out, "# and {more} more fields");
    }
    out + "```\n\n</details>\n"
}

fn lines(field: &Field, out: &mut String) {
    // A fence in a text would end the block.
    let plain = |text: String| text.replace("```", "\u{2032}\u{2032}\u{2032}");
    let path = plain(field.path.replace('\n', " "));
    if let Some(before) = &field.before {
        let _ = writeln!(out, "- {path}: {}", plain(value(before)));
    }
    if let Some(after) = &field.after {
        let _ = writeln!(out, "+ {path}: {}", plain(value(after)));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\n', " ")
}
