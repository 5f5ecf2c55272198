//! Names of the clusters of all files, each for one context. Entry point: [`Names::assign`].

use super::scan::{Context, Files};
use super::{KubeconfigFilesOptions, LabelsByName};
use crate::engage::ClusterSpec;
use crate::name::ClusterName;
use crate::provider::Problem;
use crate::provider::name_template::{NameTemplate, Named};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The context that each name stood for after the last scan. It keeps the name while it is there, so that a file that is added takes no
/// cluster away.
#[derive(Default)]
pub(super) struct Names(BTreeMap<ClusterName, Origin>);

/// A context of a file.
#[derive(Clone, PartialEq, Eq)]
struct Origin {
    path: PathBuf,
    context: String,
}

impl Origin {
    fn subject(&self) -> String {
        subject(&self.path, &self.context)
    }
}

fn subject(path: &Path, context: &str) -> String {
    format!("{}+{context}", path.display())
}

type Candidates<'a> = BTreeMap<ClusterName, Vec<(Origin, &'a Context)>>;

impl Names {
    /// The clusters of all files under their names. Contexts that get none, and those that cannot be used, are added to the problems.
    pub(super) fn assign(
        &mut self,
        files: &Files,
        options: &KubeconfigFilesOptions,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<ClusterName, ClusterSpec> {
        let template = &options.name;
        let mut specs = BTreeMap::new();
        let mut names = BTreeMap::new();
        for (name, candidates) in candidates(files, template, problems) {
            let before = self.0.get(&name);
            let is_before = |(origin, _): &(Origin, _)| before == Some(origin);
            let chosen = candidates.iter().position(is_before).unwrap_or_default();
            let (holder, context) = &candidates[chosen];
            let others = candidates.iter().filter(|(origin, _)| origin != holder);
            problems.extend(others.map(|(origin, _)| Problem {
                subject: origin.subject(),
                message: format!(
                    "{} has the name {name:?} already: set name: \"{}\", or rename one of the contexts",
                    holder.subject(),
                    template.finer()
                ),
            }));
            let spec = ClusterSpec {
                labels: labels(&options.labels, holder).into(),
                ..ClusterSpec::new(name.clone(), context.config.clone())
            };
            specs.insert(name.clone(), spec);
            names.insert(name, holder.clone());
        }
        self.0 = names;
        specs
    }
}

/// The labels of a context's cluster.
fn labels(all: &[LabelsByName], origin: &Origin) -> BTreeMap<String, String> {
    let file = origin
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let about_it = all
        .iter()
        .filter(|labels| labels.files.matches(&file) && labels.contexts.matches(&origin.context));
    about_it.flat_map(|labels| labels.labels.clone()).collect()
}

/// The contexts that each name could stand for, in the order of their files.
fn candidates<'a>(
    files: &'a Files,
    template: &NameTemplate,
    problems: &mut Vec<Problem>,
) -> Candidates<'a> {
    let mut candidates = Candidates::new();
    for (path, file) in files.in_order() {
        problems.extend(file.problems.iter().map(|problem| Problem {
            subject: subject(path, &problem.subject),
            message: problem.message.clone(),
        }));
        for (name, context) in &file.contexts {
            let origin = Origin {
                path: path.to_owned(),
                context: name.clone(),
            };
            let named = template.name(&Named {
                path,
                context: name,
                cluster: &context.cluster,
            });
            match ClusterName::new(named) {
                Ok(name) if name.is_local() => problems.push(Problem {
                    subject: origin.subject(),
                    message: "its name is empty: set another name".to_owned(),
                }),
                Ok(name) => candidates.entry(name).or_default().push((origin, context)),
                Err(error) => problems.push(Problem {
                    subject: origin.subject(),
                    message: error.to_string(),
                }),
            }
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NamePattern;

    #[test]
    fn labels_are_by_file_and_context_and_of_equal_ones_the_last_counts() {
        let of = |files: &str, contexts: &str, (key, value): (&str, &str)| LabelsByName {
            files: NamePattern::new(files),
            contexts: NamePattern::new(contexts),
            labels: [(key.to_owned(), value.to_owned())].into(),
        };
        let all = [
            of("prod-*", "*", ("env", "prod")),
            of("*", "canary", ("tier", "first")),
            of("prod-*", "canary", ("env", "canary")),
        ];
        let labels = |path: &str, context: &str| {
            let origin = Origin {
                path: path.into(),
                context: context.to_owned(),
            };
            let labels = labels(&all, &origin).into_iter();
            let labels = labels.map(|(key, value)| format!("{key}={value}"));
            labels.collect::<Vec<_>>().join(",")
        };
        assert_eq!(labels("clusters/prod-eu.kubeconfig", "a"), "env=prod");
        assert_eq!(
            labels("prod-eu.kubeconfig", "canary"),
            "env=canary,tier=first"
        );
        assert_eq!(labels("clusters/dev", "canary"), "tier=first");
        assert_eq!(labels("prod-clusters/dev", "a"), "", "folders do not count");
    }
}
