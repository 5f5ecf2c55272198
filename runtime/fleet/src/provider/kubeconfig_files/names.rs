//! Names of the clusters of all files, each for one context. Entry point: [`Names::assign`].

use super::scan::{Context, Files};
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
        template: &NameTemplate,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<ClusterName, ClusterSpec> {
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
            let spec = ClusterSpec::new(name.clone(), context.config.clone());
            specs.insert(name.clone(), spec);
            names.insert(name, holder.clone());
        }
        self.0 = names;
        specs
    }
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
