//! Reads and checks documents. Entry point: [`load`].

use crate::config::kinds::{API_VERSION, Identity, Kind, Origin, Refusal, Resource};
use crate::config::kinds::{ManagerSpec, ProviderSpec, ReconcilerSpec, TenantSpec};
use crate::config::load::{Configuration, Document, Listing, Outcome, Spec};
use crate::config::pauses::Pauses;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_files::{DecodeError, Node, Part, Problem, nearest, split};
use windlass_fleet::file::{self, FileError};
use windlass_fleet::{ControllerName, TenantName};

/// Where objects of the local cluster stand, in place of a file.
const LOCAL_CLUSTER: &str = "the local cluster";
/// Largest configuration file, in bytes.
const MAX_FILE: u64 = 8 << 20;

/// A document that is not valid, or a file that could not be read.
#[derive(Debug, Clone)]
pub(crate) struct Bad {
    /// Kind and name, if they could be read.
    pub(crate) identity: Option<Identity>,
    /// The kinds that it may be: all of them if its kind cannot be read, none if it is another project's.
    pub(crate) kinds: Vec<Kind>,
    /// What is wrong.
    pub(crate) problem: Problem,
}

impl Bad {
    /// A document of which kind and name are known.
    pub(crate) fn of(identity: Identity, problem: Problem) -> Self {
        Self {
            kinds: vec![identity.kind],
            identity: Some(identity),
            problem,
        }
    }

    /// A document that may be any, or a file or a folder that may have any.
    fn unknown(problem: Problem) -> Self {
        Self {
            identity: None,
            kinds: Kind::ALL.to_vec(),
            problem,
        }
    }

    /// Whether it may be of this kind.
    pub(crate) fn may_be(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}

/// Reads all documents of files and folders. A bad document does not affect the others.
pub(crate) fn load(paths: &[PathBuf]) -> Outcome {
    let (listing, problems) = Listing::of(paths);
    let mut outcome = Outcome {
        listing,
        ..Outcome::default()
    };
    outcome.bad.extend(problems.into_iter().map(Bad::unknown));
    let mut documents = BTreeMap::new();
    for file in &outcome.listing.files {
        for document in read_file(file) {
            match document {
                Ok(document) => insert(&mut documents, document, &mut outcome.bad),
                Err(bad) => outcome.bad.push(bad),
            }
        }
    }
    outcome.configuration = Configuration {
        documents: documents.into_values().collect(),
    };
    outcome
}

/// Adds a document, unless there is one with its identity.
fn insert(documents: &mut BTreeMap<Identity, Document>, document: Document, bad: &mut Vec<Bad>) {
    let taken = match document.identity.kind {
        Kind::Manager => documents
            .values()
            .find(|other| other.identity.kind == Kind::Manager),
        _ => documents.get(&document.identity),
    };
    let Some(first) = taken else {
        documents.insert(document.identity.clone(), document);
        return;
    };
    let location = format!("{}:{}", first.file, first.position.line);
    let message = match document.identity.kind {
        Kind::Manager => format!("there is a Manager already at {location}: keep one of them"),
        kind => format!(
            "there is a {kind} of this name already at {location}: rename or remove one of them"
        ),
    };
    let problem = document.problem(message);
    bad.push(Bad::of(document.identity, problem));
}

fn read_file(file: &Arc<str>) -> Vec<Result<Document, Bad>> {
    match read_text(file) {
        Ok(text) => split(&text)
            .iter()
            .map(|part| read_part(file, part))
            .collect(),
        Err(problem) => vec![Err(Bad::unknown(problem))],
    }
}

fn read_text(file: &Arc<str>) -> Result<String, Problem> {
    let problem = |error: FileError| match error {
        FileError::TooLarge { size, most } => Problem::of_file(
            file,
            format!("{size} bytes are too much for configuration: at most {most}"),
        ),
        FileError::Io(error) if error.kind() == ErrorKind::NotFound => {
            Problem::of_file(file, "no such file: check the path")
        }
        FileError::Io(error) if error.kind() == ErrorKind::PermissionDenied => {
            Problem::of_file(file, "not readable by this user: check its permissions")
        }
        error => Problem::of_file(file, format!("cannot be read: {error}")),
    };
    let bytes = file::read(Path::new(&**file), MAX_FILE).map_err(problem)?;
    String::from_utf8(bytes)
        .map_err(|_| Problem::of_file(file, "is not UTF-8 text: save it as such"))
}

/// Reads one document.
fn read_part(file: &Arc<str>, part: &Part<'_>) -> Result<Document, Bad> {
    let node = &part.parse(file).map_err(Bad::unknown)?;
    let kind = read_kind(file, node).map_err(|problem| Bad {
        identity: None,
        kinds: possible_kinds(node),
        problem,
    })?;
    let name = node
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .and_then(Node::as_text);
    let identity = name.map(|name| Identity {
        kind,
        name: name.to_owned(),
    });
    read_spec(file, node, (kind, Origin::File), identity.as_ref()).map_err(|problem| Bad {
        identity,
        kinds: vec![kind],
        problem,
    })
}

/// The kinds that a document may be whose `apiVersion` or `kind` is not known. A word that is nearly a kind's is taken for it.
fn possible_kinds(node: &Node) -> Vec<Kind> {
    let text_of = |field: &str| node.get(field).and_then(Node::as_text);
    let group_of = |version: &str| version.split('/').next().unwrap_or_default().to_owned();
    let Some(word) = text_of("kind") else {
        return Kind::ALL.to_vec();
    };
    let kind = Kind::parse(word);
    // An object of another project may be in the folder by mistake.
    let is_ours = text_of("apiVersion").is_none_or(|version| {
        let ours = group_of(API_VERSION);
        nearest(&group_of(version), [ours.as_str()]).is_some()
    });
    let near = nearest(word, Kind::ALL.map(Kind::as_str)).and_then(Kind::parse);
    match (kind, near) {
        (Some(kind), _) => vec![kind],
        _ if !is_ours => Vec::new(),
        (None, Some(kind)) => vec![kind],
        (None, None) => Kind::ALL.to_vec(),
    }
}

/// Reads the spec of an object of the local cluster.
///
/// # Errors
/// What is wrong. It has no position.
pub(crate) fn read_object(identity: &Identity, spec: Option<&Json>) -> Result<Document, Problem> {
    let file = Arc::from(LOCAL_CLUSTER);
    let mut document = json!({
        "apiVersion": API_VERSION,
        "kind": identity.kind.as_str(),
        "metadata": {"name": identity.name},
    });
    if let Some(spec) = spec {
        document["spec"] = spec.clone();
    }
    let kind = (identity.kind, Origin::Cluster);
    read_spec(&file, &Node::of(&document), kind, Some(identity))
        .map_err(|problem| Problem::of_file(&file, problem.message))
}

/// The document's kind. Fails for another `apiVersion`.
fn read_kind(file: &Arc<str>, node: &Node) -> Result<Kind, Problem> {
    let text_of = |field: &str, remedy: &str| match node.get(field) {
        Some(value) => match value.as_text() {
            Some(text) => Ok((text.to_owned(), value.at)),
            None => Err(Problem::at(
                file,
                value.at,
                format!("{field} is not a text: {remedy}"),
            )),
        },
        None => Err(Problem::at(
            file,
            node.at,
            format!("{field} is missing: {remedy}"),
        )),
    };
    let kinds = Kind::ALL.map(Kind::as_str);
    let (api_version, at) = text_of("apiVersion", &format!("write apiVersion: {API_VERSION}"))?;
    let (kind, kind_at) = text_of("kind", &format!("write one of {}", kinds.join(", ")))?;
    if api_version != API_VERSION {
        let message = format!("apiVersion {api_version:?} is not known: write {API_VERSION}");
        return Err(Problem::at(file, at, message));
    }
    Kind::parse(&kind).ok_or_else(|| {
        let remedy = match nearest(&kind, kinds) {
            Some(known) => format!("did you mean {known:?}?"),
            None => format!("use one of {}", kinds.join(", ")),
        };
        Problem::at(
            file,
            kind_at,
            format!("kind {kind:?} is not known: {remedy}"),
        )
    })
}

fn read_spec(
    file: &Arc<str>,
    node: &Node,
    (kind, origin): (Kind, Origin),
    identity: Option<&Identity>,
) -> Result<Document, Problem> {
    let whose = identity.map_or_else(|| kind.to_string(), Identity::to_string);
    let spec = match kind {
        Kind::Manager => {
            optional(file, node, &whose, ManagerSpec::check).map(|s| Spec::Manager(Box::new(s)))
        }
        Kind::Provider => required(file, node, &whose, |spec: &ProviderSpec| spec.check(origin))
            .map(|s| Spec::Provider(Box::new(s))),
        Kind::Tenant => optional(file, node, &whose, |spec: &TenantSpec| spec.check(origin))
            .map(|s| Spec::Tenant(Box::new(s))),
        Kind::Reconciler => required(file, node, &whose, |spec: &ReconcilerSpec| {
            spec.check(origin)
        })
        .map(|s| Spec::Reconciler(Box::new(s))),
    }?;
    let at = |path: &str, message: String| {
        Problem::at(
            file,
            node.position_of(path),
            format!("{path} of {whose}: {message}"),
        )
    };
    let identity = identity.ok_or_else(|| at("metadata.name", "expected a text".to_owned()))?;
    check_name(identity, origin).map_err(|message| at("metadata.name", message))?;
    if let Spec::Reconciler(spec) = &spec {
        TenantName::new(spec.tenant()).map_err(|error| at("spec.tenant", error.to_string()))?;
    }
    Ok(Document {
        identity: identity.clone(),
        spec,
        file: file.clone(),
        position: node.at,
        origin,
        has_secrets: false,
        config: node
            .get("spec")
            .and_then(|spec| spec.get("config"))
            .map(|config| Arc::new(config.clone())),
        pauses: pauses(node),
        record: None,
    })
}

/// The pauses that a document's annotations ask for.
fn pauses(node: &Node) -> Pauses {
    let annotations = node
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    Pauses::read(|name| {
        let text = annotations?.get(name)?.as_text()?;
        Some(Cow::Borrowed(text))
    })
}

/// The spec of a kind with required fields.
fn required<S: DeserializeOwned>(
    file: &Arc<str>,
    node: &Node,
    whose: &str,
    check: impl FnOnce(&S) -> Result<(), Refusal>,
) -> Result<S, Problem> {
    checked(file, node, whose, decode(file, node, whose)?, check)
}

/// The spec of a kind without required fields.
fn optional<S: DeserializeOwned + Default>(
    file: &Arc<str>,
    node: &Node,
    whose: &str,
    check: impl FnOnce(&S) -> Result<(), Refusal>,
) -> Result<S, Problem> {
    let spec: Option<S> = decode(file, node, whose)?;
    checked(file, node, whose, spec.unwrap_or_default(), check)
}

fn decode<S: DeserializeOwned>(file: &Arc<str>, node: &Node, whose: &str) -> Result<S, Problem> {
    let problem =
        |error: DecodeError| Problem::at(file, error.at.unwrap_or(node.at), error.message(whose));
    node.decode::<Resource<S>>()
        .map(|resource| resource.spec)
        .map_err(problem)
}

fn checked<S>(
    file: &Arc<str>,
    node: &Node,
    whose: &str,
    spec: S,
    check: impl FnOnce(&S) -> Result<(), Refusal>,
) -> Result<S, Problem> {
    match check(&spec) {
        Ok(()) => Ok(spec),
        Err(Refusal { path, message }) => Err(Problem::at(
            file,
            node.position_of(&path),
            format!("{path} of {whose}: {message}"),
        )),
    }
}

/// Checks a name by the rules for tenants and controllers.
fn check_name(identity: &Identity, origin: Origin) -> Result<(), String> {
    let result = match (identity.kind, origin) {
        (_, Origin::File) if identity.name.contains('/') => {
            let name = &identity.name;
            return Err(format!(
                "name {name:?} has the character '/': use lower-case letters, digits, '-' and '.'"
            ));
        }
        (Kind::Tenant, _) => TenantName::new(&identity.name).map(|_| ()),
        _ => ControllerName::new(&identity.name).map(|_| ()),
    };
    result.map_err(|error| {
        error
            .to_string()
            .replacen("reconciler name", "name", 1)
            .replacen("tenant name", "name", 1)
    })
}
