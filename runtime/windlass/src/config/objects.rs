//! The kinds as objects of the local cluster: what each asks for, beside the documents in files. Entry points: [`Objects`], which is what the
//! cluster has, and [`Accepted::join`].
//!
//! Invariants:
//! * A Reconciler belongs to the one Tenant that has its namespace, whatever it says. Without one it does not run.
//! * Of a Tenant or a Provider in a file and an object of its name, the file counts.
//! * An object that is not valid keeps its last good version, but under the claims of namespaces as they are now.
//! * Values of Secrets are in documents only, which nothing shows.

mod claims;
mod reconciler;
#[cfg(test)]
mod tests;

pub(crate) use claims::Holding;

use crate::config::kinds::{
    AccessProviderSpec, Identity, Kind, ProfileArgsPolicy, ProfileEnvPolicy,
};
use crate::config::load::{
    Bad, Configuration, Document, Merged, Outcome, Spec, merge, read_object,
};
use crate::config::pauses::Pauses;
use crate::config::record::ObjectRecord;
use claims::Claims;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_files::Problem;

/// The reason of an object whose place a document of a file has.
const IN_A_FILE: &str = "DefinedInFile";

/// An object, as the cluster has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    /// Provider, Tenant or Reconciler.
    pub(crate) kind: Kind,
    /// `metadata.namespace`; none: the kind has no namespace.
    pub(crate) namespace: Option<String>,
    /// `metadata.name`.
    pub(crate) name: String,
    /// `metadata.uid`: another object of the name is a new one.
    pub(crate) uid: String,
    /// `metadata.generation`: the version of its spec.
    pub(crate) generation: i64,
    /// `metadata.creationTimestamp`, as the server wrote it.
    pub(crate) created: String,
    /// `status.tenant`: the Tenant that had a Reconciler's namespace when the status was written.
    pub(crate) recorded_tenant: Option<String>,
    /// What the status of a Reconciler says for the next process.
    pub(crate) record: Arc<ObjectRecord>,
    /// The pauses that its annotations ask for.
    pub(crate) pauses: Pauses,
    /// Whether it is being deleted: then it is not in effect.
    pub(crate) is_deleting: bool,
    /// `spec`.
    pub(crate) spec: Option<Json>,
}

/// A Secret or a ConfigMap that a Reconciler names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ValueSource {
    /// `Secret` or `ConfigMap`.
    pub(crate) kind: &'static str,
    /// The namespace, which is the Reconciler's.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
}

/// What is known of a [`ValueSource`]. Never printed: it may be a Secret's.
#[derive(Clone, PartialEq)]
pub(crate) enum Values {
    /// It has not been listed yet.
    Unknown,
    /// There is no such object.
    Absent,
    /// It cannot be watched, for the reason given.
    Unreadable(String),
    /// The texts by key.
    Present(BTreeMap<String, String>),
}

/// What the local cluster has.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Objects {
    /// Objects of the three kinds.
    pub(crate) objects: Vec<Object>,
    /// The namespaces, with their labels.
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// What Reconcilers name in `configFrom` and in headers of `http`.
    pub(crate) values: BTreeMap<ValueSource, Values>,
}

/// What became of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// The object.
    pub(crate) object: Arc<Object>,
    /// The tenant of a Reconciler, if one has its namespace.
    pub(crate) tenant: Option<String>,
    /// Why it is not in effect as it is; none: it is.
    pub(crate) refused: Option<Refused>,
    /// The namespaces of a Tenant.
    pub(crate) holding: Holding,
}

/// Why an object is not in effect as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// In a word.
    pub(crate) reason: &'static str,
    /// What is wrong, and what to do.
    pub(crate) message: String,
    /// Whether it may only be a matter of time.
    pub(crate) is_unknown: bool,
}

impl Refused {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            is_unknown: false,
        }
    }
}

/// An object's last good version.
struct Good {
    uid: String,
    document: Document,
}

/// The objects that were accepted, in their last good versions, and the namespaces that Tenants have.
#[derive(Default)]
pub(crate) struct Accepted {
    good: BTreeMap<Identity, Good>,
    claims: Claims,
}

impl Object {
    /// Kind, and name within the process: `<namespace>/<name>` of a Reconciler.
    pub(crate) fn identity(&self) -> Identity {
        let name = match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        };
        Identity {
            kind: self.kind,
            name,
        }
    }

    /// The Secrets and ConfigMaps that it names, valid or not.
    pub(crate) fn sources(&self) -> impl Iterator<Item = ValueSource> + '_ {
        let spec = self.spec.as_ref();
        let headers = items(spec, "http").flat_map(|rule| items(Some(rule), "headers"));
        items(spec, "configFrom")
            .chain(headers)
            .filter_map(|source| {
                let field = |field: &str| source[field].as_str();
                let (kind, name) = match (field("secret"), field("configMap")) {
                    (Some(name), None) => ("Secret", name),
                    (None, Some(name)) => ("ConfigMap", name),
                    _ => return None,
                };
                self.source(kind, name)
            })
    }

    /// A Secret or a ConfigMap of its namespace.
    fn source(&self, kind: &'static str, name: &str) -> Option<ValueSource> {
        Some(ValueSource {
            kind,
            namespace: self.namespace.clone()?,
            name: name.to_owned(),
        })
    }
}

/// The items of a list in a spec, valid or not.
fn items<'a>(of: Option<&'a Json>, field: &str) -> impl Iterator<Item = &'a Json> {
    let list = of.and_then(|of| of.get(field)?.as_array());
    list.into_iter().flatten()
}

impl Accepted {
    /// The documents of files together with the objects, and what became of each object.
    pub(crate) fn join(
        &mut self,
        last: &Configuration,
        mut files: Outcome,
        objects: &Objects,
    ) -> (Merged, Vec<Verdict>) {
        let present = || objects.objects.iter().filter(|object| !object.is_deleting);
        self.forget_others(present());
        let mut last = Cow::Borrowed(last);
        let mut verdicts = Vec::new();
        let mut problems = Vec::new();
        let mut kept = BTreeMap::new();
        let owners: Vec<&Object> = present()
            .filter(|object| object.namespace.is_none())
            .collect();
        for object in owners {
            let identity = object.identity();
            let in_file = files.defines(&identity);
            let read = read_object(&identity, object.spec.as_ref());
            let read = read.map_err(|problem| Refused::new("Invalid", problem.message));
            let read = read.and_then(|document| with_plugins(document, &files.configuration));
            let refused = match read {
                _ if in_file => Some(in_a_file(&identity)),
                Ok(document) => {
                    self.accept(object, document);
                    None
                }
                Err(refused) => Some(refused),
            };
            let good = self.good.get(&identity).filter(|_| !in_file);
            if let Some(good) = good {
                files.configuration.insert(Document {
                    pauses: object.pauses.clone(),
                    ..good.document.clone()
                });
            }
            match problem(&identity, &refused) {
                // Then it is as a document of a file that is not valid. What an earlier object of the name asked for is gone with it.
                Some(problem) if good.is_none() && !in_file => {
                    if last.get(&identity).is_some() {
                        last.to_mut().remove(&identity);
                    }
                    files.bad.push(Bad::of(identity, problem));
                }
                Some(problem) => note(&identity, problem, good.is_some(), &mut problems, &mut kept),
                None => {}
            }
            verdicts.push(Verdict::of(object, None, refused));
        }
        let mut merged = merge(&last, &files);
        self.claims.settle(&merged.configuration, objects);
        problems.extend(self.refused_claims(&merged.configuration));
        for object in present().filter(|object| object.namespace.is_some()) {
            let (tenant, refused) = self.reconciler(object, objects, &mut merged.configuration);
            let identity = object.identity();
            let serves = merged.configuration.get(&identity).is_some();
            if let Some(problem) = problem(&identity, &refused) {
                note(&identity, problem, serves, &mut problems, &mut kept);
            }
            verdicts.push(Verdict::of(object, tenant, refused));
        }
        self.add_holdings(&mut verdicts);
        merged.problems.extend(problems);
        merged.kept.extend(kept);
        (merged, verdicts)
    }

    /// What the claims of each Tenant come to, by its name. Tenants without a namespace are left out.
    pub(crate) fn holdings(&self) -> &BTreeMap<String, Holding> {
        self.claims.holdings()
    }

    /// The claims that have no effect, of files and objects.
    fn refused_claims(&self, configuration: &Configuration) -> Vec<Problem> {
        let problem = |(name, holding): (&String, &Holding)| {
            let (document, _) = configuration.tenant(name)?;
            Some(document.problem(holding.refused.as_ref()?.refused()))
        };
        self.holdings().iter().filter_map(problem).collect()
    }

    fn add_holdings(&self, verdicts: &mut [Verdict]) {
        let in_effect = |verdict: &&mut Verdict| {
            let defined_in_file = verdict.refused.as_ref().map(|of| of.reason) == Some(IN_A_FILE);
            verdict.object.kind == Kind::Tenant && !defined_in_file
        };
        for verdict in verdicts.iter_mut().filter(in_effect) {
            let holding = self.holdings().get(&verdict.object.name);
            verdict.holding = holding.cloned().unwrap_or_default();
        }
    }

    /// Notes that this version of an object is good.
    fn accept(&mut self, object: &Object, document: Document) {
        let uid = object.uid.clone();
        self.good.insert(object.identity(), Good { uid, document });
    }

    /// Forgets the versions of objects that are gone.
    fn forget_others<'a>(&mut self, present: impl Iterator<Item = &'a Object>) {
        let uids: BTreeMap<Identity, &str> = present
            .map(|object| (object.identity(), object.uid.as_str()))
            .collect();
        self.good
            .retain(|identity, good| uids.get(identity) == Some(&good.uid.as_str()));
    }
}

impl Verdict {
    fn of(object: &Object, tenant: Option<String>, refused: Option<Refused>) -> Self {
        Self {
            object: Arc::new(object.clone()),
            tenant,
            refused,
            holding: Holding::default(),
        }
    }
}

/// A refusal as a problem; none: there is no refusal, or it may only be a matter of time.
fn problem(identity: &Identity, refused: &Option<Refused>) -> Option<Problem> {
    let refused = refused.as_ref().filter(|refused| !refused.is_unknown)?;
    let file = Arc::from("the local cluster");
    let whose = identity.to_string();
    let message = if refused.message.contains(&whose) {
        refused.message.clone()
    } else {
        format!("{whose}: {}", refused.message)
    };
    Some(Problem::of_file(&file, message))
}

/// Notes a problem, and a version that is kept.
fn note(
    identity: &Identity,
    problem: Problem,
    serves: bool,
    problems: &mut Vec<Problem>,
    kept: &mut BTreeMap<Identity, Problem>,
) {
    if serves {
        kept.insert(identity.clone(), problem.clone());
    }
    problems.push(problem);
}

fn in_a_file(identity: &Identity) -> Refused {
    let message = format!(
        "a file of this process defines {identity}, and counts: remove the object, or the document in the file"
    );
    Refused::new(IN_A_FILE, message)
}

/// A Provider with its access providers as the Manager's file has them. An object only names them: which words of a ClusterProfile
/// reach a program is for the operator to say, who installs it.
fn with_plugins(mut document: Document, files: &Configuration) -> Result<Document, Refused> {
    let Spec::Provider(spec) = &mut document.spec else {
        return Ok(document);
    };
    let named = spec.cluster_profiles.iter_mut();
    for provider in named.flat_map(|from| from.access_providers.iter_mut().flatten()) {
        let installed = files.manager().and_then(|(manager, spec)| {
            let mut installed = spec.access_providers.iter();
            let found = installed.find(|installed| installed.name == provider.name)?;
            let mut found = found.clone();
            let exec = found.exec_config.as_mut()?;
            exec.resolve(|path| manager.resolve(path));
            Some(found)
        });
        let Some(installed) = installed else {
            let message = format!(
                "the Manager's file has no access provider {:?}: name one of spec.accessProviders there",
                provider.name
            );
            return Err(Refused::new("UnknownAccessProvider", message));
        };
        if asks_for_more(provider, &installed) {
            let message = format!(
                "the policies of access provider {:?} are for the Manager's file to say: remove profileSourcedCLIArgsPolicy and profileSourcedEnvVarsPolicy here",
                provider.name
            );
            return Err(Refused::new("Invalid", message));
        }
        *provider = installed;
    }
    Ok(document)
}

/// Whether an object has a policy that is neither the default nor that of the Manager's file.
fn asks_for_more(asked: &AccessProviderSpec, installed: &AccessProviderSpec) -> bool {
    let arguments = [ProfileArgsPolicy::default(), installed.arguments];
    let variables = [ProfileEnvPolicy::default(), installed.variables];
    !arguments.contains(&asked.arguments) || !variables.contains(&asked.variables)
}
