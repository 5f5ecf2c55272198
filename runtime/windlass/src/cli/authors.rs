//! Flags of the commands for those who write guests. Entry points: the types named in [`super::Command`].

use super::IdleArgs;
use crate::config::kinds::Interval;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use windlass_author::scaffold::{Lang, NewKind};
use windlass_author::types::Language;
use windlass_fleet::GroupVersionKind;
use windlass_sandbox::By;

/// `dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// The folder with windlass.yaml and seed
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Where the in-memory fleet listens on 127.0.0.1 [default: a free port]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) port: u16,
    /// Where state, probes and metrics are served [default: as for run, or a free port if that is taken]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<std::net::SocketAddr>,
    /// Run the guest of this reconciler as a process that you start, for example under a debugger; may be given several times
    #[arg(long, value_name = "RECONCILER")]
    pub(crate) native: Vec<String>,
    #[command(flatten)]
    pub(crate) idle: IdleArgs,
}

/// `fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    /// The folder of the guest: its CustomResourceDefinitions are served
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
}

/// `new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The new folder; its last part is the guest's name
    #[arg(value_name = "NAME")]
    pub(crate) folder: PathBuf,
    /// The language of the guest
    #[arg(long, short, value_enum)]
    pub(crate) lang: Lang,
    /// A kind of its own, as Website, which is in the group example.dev, or my.group/v1/Website: its definition, types, controller and tests
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<NewKind>,
}

/// `build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The folder of the guest's source
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Build again after every save, until interrupted
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// `test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The folder with windlass.yaml and tests
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Only this test; may be given several times
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// How long a test, or a step of it, may take until nothing is left to do, without the time to load guests
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) timeout: Interval,
    /// Run again after every save, until a signal
    #[arg(long)]
    pub(crate) watch: bool,
    /// Write the results to this file too, as XML of JUnit
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub(crate) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) crash: CrashArgs,
}

/// `test --crash`.
#[derive(Debug, Args)]
pub(crate) struct CrashArgs {
    /// Run each test under faults, one at each call: it must end as it does without
    #[arg(long, conflicts_with = "watch")]
    pub(crate) crash: bool,
    /// How long to try faults, in all tests together [default: 60s]
    #[arg(long, value_name = "DURATION", requires = "crash")]
    pub(crate) budget: Option<Interval>,
    /// The order of the faults [default: random]
    #[arg(long, value_name = "NUMBER", requires = "crash")]
    pub(crate) seed: Option<u64>,
    /// Most faults in one run: with 2 or 3 also several, once all single ones are tried [default: 1]
    #[arg(long, value_name = "NUMBER", requires = "crash", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(crate) depth: Option<u8>,
}

/// `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Recordings, as `windlass record` and `windlass get recordings ID` write them
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub(crate) files: Vec<PathBuf>,
    /// The component that plays them: a file, or the folder of a guest that was built [default: the guest of the Reconciler in the project
    /// that has the name in the recording, or of the only one, which is built first]
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    pub(crate) guest: Option<PathBuf>,
    /// The folder with windlass.yaml
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) project: PathBuf,
    /// How the guest's calls find their answers
    #[arg(long, value_enum, default_value_t = ByArg::Order)]
    pub(crate) by: ByArg,
    /// Print the guest's log lines too
    #[arg(long)]
    pub(crate) lines: bool,
    /// Print the JSON Schema of recordings, and nothing else
    #[arg(long, conflicts_with = "files")]
    pub(crate) schema: bool,
}

/// How calls find their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ByArg {
    /// In the order of the recording: every call must be the same
    Order,
    /// Each from a recorded call that is equal: reads may come in another order, more often or not at all
    Content,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Order => Self::Order,
            ByArg::Content => Self::Content,
        }
    }
}

/// `rules`.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// The folder with windlass.yaml and tests
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Add them to DIR/windlass.yaml
    #[arg(long)]
    pub(crate) write: bool,
    /// Remove from DIR/windlass.yaml the rules that no test uses, if all tests pass
    #[arg(long)]
    pub(crate) prune: bool,
    /// How long a test, or a step of it, may take until nothing is left to do, without the time to load guests
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) timeout: Interval,
}

/// `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// The folder of the guest
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Overwrite files that were changed too
    #[arg(long)]
    pub(crate) force: bool,
}

/// `types`.
#[derive(Debug, Args)]
pub(crate) struct TypesArgs {
    /// Files with CustomResourceDefinitions, for example of `kubectl get crd NAME -o yaml`
    #[arg(value_name = "FILE", required_unless_present = "kinds")]
    pub(crate) files: Vec<PathBuf>,
    /// A kind of a cluster, built in or not, as apps/v1/Deployment or v1/ConfigMap; may be given several times
    #[arg(long = "kind", value_name = "KIND", value_parser = kind_of)]
    pub(crate) kinds: Vec<GroupVersionKind>,
    /// For --kind: the context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", requires = "kinds")]
    pub(crate) context: Option<String>,
    /// For --kind: the kubeconfig [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "kinds")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The folder of the guest; modules in TypeScript go into its folder src, if there is one, and those in Rust into its package types
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) into: PathBuf,
    /// The language [default: the one of the guest]
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<Language>,
    /// The version of the definitions [default: the one that is stored]
    #[arg(long, value_name = "VERSION", requires = "files")]
    pub(crate) api_version: Option<String>,
}

/// `crds`.
#[derive(Debug, Args)]
pub(crate) struct CrdsArgs {
    /// The folder of a guest in Rust or Go [default: the kinds of this program]
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Write them into the manifests of DIR, where they stand or else into DIR/crds
    #[arg(long, requires = "folder")]
    pub(crate) write: bool,
    /// Print the JSON Schema of a Manager's spec, which charts/generate writes into the chart
    #[arg(long, hide = true, conflicts_with = "folder")]
    pub(crate) manager: bool,
}

/// `v1/ConfigMap`, `apps/v1/Deployment`.
fn kind_of(text: &str) -> Result<GroupVersionKind, String> {
    let (group, version, kind) = match text.split('/').collect::<Vec<_>>()[..] {
        [version, kind] => ("", version, kind),
        [group, version, kind] => (group, version, kind),
        _ => ("", "", ""),
    };
    // `apps/v1` is a version of a group, and no kind.
    let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase());
    if version.is_empty() || !is_kind {
        Err("a kind is written as apps/v1/Deployment, or as v1/ConfigMap".to_owned())
    } else {
        Ok(GroupVersionKind::new(group, version, kind))
    }
}

/// `push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// A component (.wasm), or the folder of a guest that was built
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The image, HOST/NAME:TAG
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// `pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// The image, HOST/NAME:TAG or HOST/NAME@DIGEST
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: String,
    /// The new file [default: the last part of the name, with .wasm]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// How registries are reached.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// A file of authorities (PEM) that vouch for registries besides those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// A host that is spoken to without TLS, with its port; may be given several times
    #[arg(long, value_name = "HOST")]
    pub(crate) plain_http: Vec<String>,
}

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A component (.wasm), the folder of a guest that was built, or an image: HOST/NAME:TAG, or oci://… where that may be a file
    #[arg(value_name = "FILE", default_value = ".")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
    /// The config for its description, if the guest needs one
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) config: String,
    /// Documents whose Reconcilers of this component have the config to check; a file, or a folder of .yaml and .yml files
    #[arg(
        short = 'f',
        long = "file",
        value_name = "PATH",
        conflicts_with = "config"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// Print only the rules for what it watches and owns, as YAML to paste into its Reconciler
    #[arg(long)]
    pub(crate) rules: bool,
    /// Print only where the types and the CustomResourceDefinitions of a guest's folder differ, and which files of `windlass types` are stale;
    /// ends with 1 if there are any. The guest need not be built
    #[arg(long, conflicts_with_all = ["rules", "files", "config"])]
    pub(crate) crds: bool,
}
