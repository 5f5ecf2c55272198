//! `windlass rules`: finds the rules that a project's tests need and its documents lack, and those that no test uses. Entry point: [`execute`].

mod edit;
mod findings;

use super::test::runner::{Runner, configuration};
use crate::cli::{Format, RulesArgs};
use crate::dev::builder;
use crate::guests::{Lack, ReconcilerNeeds, lacks};
use crate::output::{Tone, count, printable};
use crate::run::signals::stop_on_signals;
use anyhow::{Context, Result, bail};
use findings::{Findings, Unknown};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use windlass_author::cases::{Case, DOCUMENTS};
use windlass_files::replace;
use windlass_sandbox::Options;

/// Runs the tests with all rights, and prints or writes the rules that they needed and the documents lack.
///
/// # Errors
/// When there is no test, a guest does not build, or the file cannot be changed.
pub(crate) async fn execute(args: RulesArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    let file = args.folder.join(DOCUMENTS);
    let documents = configuration(&file)?;
    let needs = ReconcilerNeeds::default();
    let runner = Runner::new(&args.folder, args.timeout, builder(), engine, stop);
    let mut runner = runner.noting(needs.clone());
    let (mut failed, mut denied) = (Vec::new(), Vec::new());
    let cases = Case::all(&args.folder, &[])?;
    // A case with documents of its own has rules of its own.
    let (cases, others): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .partition(|case| case.configuration(&args.folder) == file);
    if cases.is_empty() {
        bail!(
            "every test of {} has a {DOCUMENTS} of its own: no test runs with {}",
            args.folder.display(),
            file.display()
        );
    }
    for case in &cases {
        let outcome = runner.run(case).await?;
        denied.extend(outcome.denied);
        failed.extend((!outcome.passed).then_some(outcome.name));
    }
    let findings = Findings::of(&documents, &needs);
    let full = needs.full();
    let is_sure = failed.is_empty() && others.is_empty() && full.is_empty();
    let edit = Edit {
        add: args.write,
        // A test that fails has not used all that it needs.
        prune: args.prune && is_sure,
    };
    edit.apply(&file, &findings)?;
    print(&findings, &edit, format)?;
    if args.prune && !is_sure {
        anstream::eprintln!(
            "no rule is removed: a rule that seems unused may be needed where a test fails or was left out"
        );
    }
    for reconciler in &full {
        anstream::eprintln!(
            "Reconciler {reconciler} needs more than could be noted: run windlass rules again once it has these rules"
        );
    }
    for case in &others {
        anstream::eprintln!(
            "test {} was left out: it has a {DOCUMENTS} of its own",
            case.name
        );
    }
    for name in &failed {
        anstream::eprintln!(
            "test {name} fails with all rights in the clusters that rules open, so more may be missing: see windlass test"
        );
    }
    if !failed.is_empty() {
        anstream::eprint!("{}", lacks(&denied));
    }
    let is_done =
        failed.is_empty() && full.is_empty() && (findings.missing.is_empty() || args.write);
    Ok(if is_done { super::DONE } else { super::FAILED })
}

/// What is changed in the documents.
struct Edit {
    add: bool,
    prune: bool,
}

impl Edit {
    fn apply(&self, file: &Path, findings: &Findings) -> Result<()> {
        let adds = self.add && !findings.missing.is_empty();
        let prunes = self.prune && !findings.unused.is_empty();
        if !adds && !prunes {
            return Ok(());
        }
        let text =
            std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let new = self.edited(text, findings);
        let new = new.with_context(|| format!("{}", file.display()))?;
        replace(file, &new).with_context(|| format!("write {}", file.display()))
    }

    fn edited(&self, mut text: String, findings: &Findings) -> Result<String> {
        if self.prune {
            for (reconciler, unused) in findings.unused_by_reconciler() {
                let places: Vec<usize> = unused.iter().map(|unused| unused.at).collect();
                text = edit::without_rules(&text, reconciler, &places)?;
            }
        }
        if self.add {
            for Lack { reconciler, rules } in &findings.missing {
                text = edit::with_rules(&text, reconciler, rules)?;
            }
        }
        Ok(text)
    }
}

fn print(findings: &Findings, edit: &Edit, format: Format) -> Result<()> {
    let Findings {
        missing,
        unused,
        unknown,
    } = findings;
    if format == Format::Json {
        let all = json!({
            "missing": missing,
            "unused": unused,
            "unknown": unknown,
            "written": edit.add && !missing.is_empty(),
            "removed": edit.prune && !unused.is_empty(),
        });
        anstream::println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for Lack { reconciler, rules } in missing {
        let added = if edit.add { "gets" } else { "lacks" };
        anstream::println!(
            "Reconciler {reconciler} {added} {}:",
            count(rules.len() as u64, "rule")
        );
        for rule in rules {
            anstream::println!("    - {rule}");
        }
    }
    if missing.is_empty() {
        anstream::println!("{}: no test needs more rules", Tone::Good.paint("complete"));
    } else if !edit.add {
        anstream::println!("windlass rules --write adds them to {DOCUMENTS}");
    }
    print_unused(findings, edit);
    for Unknown {
        reconciler,
        kind,
        like,
    } in unknown
    {
        let kind = kind.to_string();
        let like = like.as_ref().map(|like| format!(": did you mean {like}?"));
        let line = format!(
            "Reconciler {reconciler} asks for {kind}, which the clusters of the tests do not serve{}",
            like.unwrap_or_default()
        );
        anstream::println!("{}", printable(&line));
    }
    Ok(())
}

fn print_unused(findings: &Findings, edit: &Edit) {
    let verb = if edit.prune { "loses" } else { "has" };
    for (reconciler, unused) in findings.unused_by_reconciler() {
        anstream::println!(
            "Reconciler {reconciler} {verb} {} that no test uses:",
            count(unused.len() as u64, "rule")
        );
        for unused in unused {
            anstream::println!("    - {}", unused.rule);
        }
    }
    if !findings.unused.is_empty() && !edit.prune {
        anstream::println!(
            "windlass rules --prune removes them from {DOCUMENTS}, if they are not for what no test does"
        );
    }
}
