//! `windlass rules`: finds the rules that a project's tests need and its documents lack. Entry point: [`execute`].

mod edit;

use super::test::runner::{Runner, configuration};
use crate::cli::{Format, RulesArgs};
use crate::config::kinds;
use crate::config::load::Configuration;
use crate::dev::builder;
use crate::guests::{Lack, ReconcilerNeeds};
use crate::output::{Tone, count};
use crate::run::signals::stop_on_signals;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use windlass_author::cases::{Case, DOCUMENTS};
use windlass_files::replace;
use windlass_fleet::grant::{ClusterRule, Need, RuleSet};
use windlass_fleet::{ClusterName, Rule};
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
    let mut failed = Vec::new();
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
        failed.extend((!outcome.passed).then_some(outcome.name));
    }
    let lacks = lacks(&documents, &needs);
    if args.write && !lacks.is_empty() {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let new = lacks.iter().try_fold(text, |text, lack| {
            edit::with_rules(&text, &lack.reconciler, &lack.rules)
        });
        let new = new.with_context(|| format!("{}", file.display()))?;
        replace(&file, &new).with_context(|| format!("write {}", file.display()))?;
    }
    print(&lacks, &args, format)?;
    let full = needs.full();
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
    let is_done = failed.is_empty() && full.is_empty() && (lacks.is_empty() || args.write);
    Ok(if is_done { super::DONE } else { super::FAILED })
}

fn print(lacks: &[Lack], args: &RulesArgs, format: Format) -> Result<()> {
    if format == Format::Json {
        let all = json!({"missing": lacks, "written": args.write && !lacks.is_empty()});
        anstream::println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for Lack { reconciler, rules } in lacks {
        let added = if args.write { "gets" } else { "lacks" };
        anstream::println!(
            "Reconciler {reconciler} {added} {}:",
            count(rules.len() as u64, "rule")
        );
        for rule in rules {
            anstream::println!("    - {rule}");
        }
    }
    if lacks.is_empty() {
        anstream::println!("{}: no test needs more rules", Tone::Good.paint("complete"));
    } else if !args.write {
        anstream::println!("windlass rules --write adds them to {DOCUMENTS}");
    }
    Ok(())
}

/// What the reconcilers of the documents needed and were not granted.
fn lacks(documents: &Configuration, needs: &ReconcilerNeeds) -> Vec<Lack> {
    let noted = needs.noted().into_iter();
    let lacks = noted.map(|(reconciler, needs)| {
        let mut reconcilers = documents.reconcilers();
        let granted = reconcilers.find(|(document, _)| document.identity.name == reconciler);
        let granted = granted.map_or(Vec::new(), |(_, spec)| kinds::rules(&spec.rules));
        let rules = rules(&needs, &granted);
        Lack { reconciler, rules }
    });
    lacks.filter(|lack| !lack.rules.is_empty()).collect()
}

/// The namespaces that rules are about, for the request's own cluster or for others; none: all of them, as tests have objects in some, and
/// their reconciler is for others too.
fn named(granted: &[Rule], own: bool) -> BTreeSet<&str> {
    let rules = granted.iter().filter(|rule| rule.clusters.is_none() == own);
    let all = rules.flat_map(|rule| rule.namespaces.iter().map(|name| &**name));
    let all: BTreeSet<&str> = all.collect();
    Some(all)
        .filter(|all| !all.contains("*"))
        .unwrap_or_default()
}

/// The rules for needs: first those for the request's own cluster. If those that are granted name namespaces, they are for these and for those
/// of the needs, else for all.
fn rules(needs: &BTreeSet<Need>, granted: &[Rule]) -> Vec<Rule> {
    let [own, other] = [true, false].map(|own| named(granted, own));
    let mut by_cluster: BTreeMap<Option<&ClusterName>, RuleSet> = BTreeMap::new();
    for need in needs {
        let rights = by_cluster.entry(need.cluster.as_ref()).or_default();
        let named = match need.cluster {
            None => &own,
            Some(_) => &other,
        };
        let right = || need.right.clone();
        match &need.right.namespace {
            _ if named.is_empty() || !need.namespaced => rights.add(right().within(None)),
            Some(_) => rights.add(right()),
            None => rights.extend(named.iter().map(|name| right().within(*name))),
        }
    }
    let rules = by_cluster.into_iter().flat_map(|(cluster, mut rights)| {
        rights.reduce();
        let clusters = cluster.map(ClusterRule::only);
        rights.rules().into_iter().map(move |rule| Rule {
            clusters: clusters.clone(),
            ..rule
        })
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::grant::{Right, Verb};

    fn need(resource: &str, verb: Verb, namespace: Option<&str>, cluster: Option<&str>) -> Need {
        Need {
            cluster: cluster.map(|name| ClusterName::new(name).unwrap()),
            right: Right::new("", resource, verb).within(namespace),
            namespaced: resource != "nodes",
        }
    }

    fn granted(namespaces: &[&str], is_local: bool) -> Rule {
        Rule {
            namespaces: namespaces.iter().copied().map(Into::into).collect(),
            clusters: is_local.then(|| ClusterRule::only(&ClusterName::local())),
            ..Rule::default()
        }
    }

    fn lines(needs: &BTreeSet<Need>, granted: &[Rule]) -> Vec<String> {
        let rules = rules(needs, granted);
        rules.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn needs_become_the_fewest_rules_for_each_cluster() {
        let needs = BTreeSet::from([
            need("services", Verb::Patch, Some("a"), None),
            need("services", Verb::List, None, None),
            need("configmaps", Verb::Patch, Some("b"), None),
            need("configmaps", Verb::List, None, None),
            need("secrets", Verb::Get, Some("a"), Some("")),
            need("secrets", Verb::Get, Some("a"), Some("beta")),
        ]);
        assert_eq!(
            lines(&needs, &[]),
            [
                r#"{apiGroups: [""], resources: [configmaps, services], verbs: [list, patch], namespaces: ["*"]}"#,
                r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"], clusters: {local: true}}"#,
                r#"{apiGroups: [""], resources: [secrets], verbs: [get], namespaces: ["*"], clusters: {names: [beta]}}"#,
            ]
        );
        let needs = BTreeSet::from([
            need("services", Verb::Patch, Some("a"), None),
            need("services", Verb::List, None, None),
            need("nodes", Verb::List, None, None),
        ]);
        assert_eq!(
            lines(&needs, &[granted(&["a", "b"], false)]),
            [
                r#"{apiGroups: [""], resources: [nodes], verbs: [list], namespaces: ["*"]}"#,
                r#"{apiGroups: [""], resources: [services], verbs: [list, patch], namespaces: [a]}"#,
                r#"{apiGroups: [""], resources: [services], verbs: [list], namespaces: [b]}"#,
            ]
        );
        // A rule for the local cluster says nothing about the request's.
        let everywhere = lines(&needs, &[granted(&["a"], true)]);
        assert!(everywhere.iter().all(|rule| rule.contains(r#"["*"]"#)));
    }
}
