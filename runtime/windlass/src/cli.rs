//! Flags and commands. Entry point: [`Cli`].

use crate::config::kinds::Interval;
use crate::logging::LogFormat;
use crate::types::Language;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for run and dev: drained after a signal, or idle with every key reconciled
  1  failed: the message says what and what to do next; for preflight: something is missing or cannot be reached
  2  the command line is wrong

Begin with: windlass new my-guest --lang rust";

/// WebAssembly reconcilers across many Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, after_help = EXIT_CODES, styles = STYLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Which log lines to show, for example `debug` or `info,windlass_fleet=debug` [default: $WINDLASS_LOG, else info, or warn for build, test, check, push and pull, error for preflight, get, requeue and rollback]
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// The format of log lines [default: text on a terminal, else json]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// The format of results
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// The folder of compiled guests, readable only by this user; `none` keeps none [default: $XDG_CACHE_HOME/windlass, else
    /// ~/.cache/windlass]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[value(alias = "table")]
    Text,
    /// For people with wide terminals: `get providers`, `get reconcilers`, `get tenants` and `preflight` show more.
    Wide,
    /// For programs.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the manager in the foreground
    ///
    /// Reads documents of windlass.dev/v1alpha1 from files and folders, reloads them and the guests as they change, and
    /// drains on SIGTERM or SIGINT; a second signal ends it at once.
    Run(RunArgs),
    /// Try guests against an in-memory fleet, rebuilding them as you save
    ///
    /// Builds the guests of DIR/windlass.yaml, starts an in-memory cluster for each folder of DIR/seed (or alpha, beta and
    /// gamma) in place of the Providers and the local cluster, fills them with the manifests in DIR/seed, and runs.
    Dev(DevArgs),
    /// Begin a guest: a project that builds and passes its own tests
    ///
    /// Writes a small reconciler, its tests, the SDK of its language and a windlass.yaml into a new folder.
    New(NewArgs),
    /// Build a guest into a component
    ///
    /// A file in DIR decides the language: Cargo.toml, package.json, pyproject.toml, go.mod or guest.c. The build prints each command
    /// that it runs; the component is DIR/.windlass/guest.wasm.
    Build(BuildArgs),
    /// Run a guest's component against an in-memory fleet and compare the result
    ///
    /// For each folder DIR/tests/NAME: fills in-memory clusters from its `seed`, as `dev` does, runs DIR/windlass.yaml or its own until
    /// nothing is left to do, and compares: each manifest in `expect` must be there with at least its fields (`null`: without that
    /// field), each in `absent` must not be there. Manifests in a folder of these are for the cluster of its name, others for all.
    Test(TestArgs),
    /// Replace the SDK in a guest's project by that of this program
    ///
    /// The folder `sdk`, as `windlass new` made it. A file in it that you have changed is not overwritten without --force; then nothing is.
    Upgrade(UpgradeArgs),
    /// Write types of kinds into a guest, from their CustomResourceDefinitions
    ///
    /// Writes one file for each definition, with the descriptions of its schema. Run it again when a definition changes. It
    /// overwrites only files that it has written itself.
    Types(TypesArgs),
    /// Show what a component needs and offers
    Check(CheckArgs),
    /// Print the CustomResourceDefinitions of Provider, Tenant and Reconciler
    ///
    /// To pipe into `kubectl apply -f -`, before `windlass run --from-cluster`.
    Crds,
    /// Push a component into a registry of images
    ///
    /// The image is a Wasm artifact as wkg and wash write it. The same component has the same digest. The login is that of `docker login`.
    Push(PushArgs),
    /// Pull the component of an image into a file
    Pull(PullArgs),
    /// Print the RBAC that the manager's own credentials need for a configuration
    ///
    /// Prints a ClusterRole for the clusters of providers, and Roles where rules name namespaces, to pipe into `kubectl apply -f -`:
    /// the grants of all reconcilers, within the limits of their tenants, and the manager's own needs.
    Rbac(RbacArgs),
    /// Look before the start: which clusters a configuration reaches, and what the credentials may not do there
    ///
    /// Asks the Providers once, connects to every cluster, and asks each server what the rules and watches of the Reconcilers lack.
    /// Prints a table of the clusters, and the roles that would grant what is missing. Reconciles nothing and changes nothing.
    Preflight(PreflightArgs),
    /// What the owner of a service puts into a workspace of kcp
    #[command(subcommand)]
    Kcp(KcpCommand),
    /// Show the state of a running manager
    Get(GetArgs),
    /// Make a running manager reconcile a key now
    Requeue(RequeueArgs),
    /// Make a reconciler serve its previous revision, until its guest's file changes
    ///
    /// The running manager keeps the revision compiled. It describes itself again under the current rules and serves at once,
    /// even if the new revision traps. A change of the file, `--undo` or a restart of the manager ends the rollback.
    Rollback(RollbackArgs),
    /// Print a shell's completion of this program's commands
    ///
    /// For bash: `windlass completion bash > ~/.local/share/bash-completion/completions/windlass`. Other shells have such a folder too.
    Completion(CompletionArgs),
    /// Write the manual pages of this program and of its commands into a folder
    Man(ManArgs),
    /// Compile the component on standard input, within limits; the other commands start this for each guest
    #[command(hide = true)]
    CompileComponent(CompileArgs),
}

/// `compile-component`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CompileArgs {
    /// Limit of address space, in bytes
    pub(crate) memory: u64,
    /// Limit of processor time, in seconds
    pub(crate) seconds: u64,
}

/// `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder, which is made if it is missing; `man -M` wants it to be called man1
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A file of documents, or a folder of .yaml and .yml files; may be given several times
    #[arg(short = 'f', long = "file", value_name = "PATH", required_unless_present = "from_cluster", num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Read Providers, Tenants and Reconcilers of the local cluster too; `windlass crds` prints their definitions
    #[arg(long)]
    pub(crate) from_cluster: bool,
    /// Where state, probes and metrics are served [default: the Manager's admin.address, else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<std::net::SocketAddr>,
    #[command(flatten)]
    pub(crate) idle: IdleArgs,
}

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
    #[command(flatten)]
    pub(crate) idle: IdleArgs,
}

/// For scripts.
#[derive(Debug, Clone, Args)]
pub(crate) struct IdleArgs {
    /// End once every cluster is ready and nothing is left to reconcile; print what was done
    #[arg(long)]
    pub(crate) exit_when_idle: bool,
    /// How long to wait for that; then the failing keys are listed
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "60s",
        requires = "exit_when_idle"
    )]
    pub(crate) idle_timeout: Interval,
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
}

/// A language with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    /// Rust
    Rust,
    /// TypeScript
    #[value(alias = "ts")]
    Typescript,
    /// JavaScript
    #[value(alias = "js")]
    Javascript,
    /// Python
    Python,
    /// Go
    Go,
    /// C
    C,
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
    /// How long a test, or a step of it, may take until nothing is left to do
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) timeout: Interval,
    /// Run again after every save, until a signal
    #[arg(long)]
    pub(crate) watch: bool,
    /// Write the results to this file too, as XML of JUnit
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub(crate) junit: Option<PathBuf>,
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
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The folder of the guest
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) into: PathBuf,
    /// The language [default: the one of the guest]
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<Language>,
    /// The version of the kinds [default: the one that is stored]
    #[arg(long, value_name = "VERSION")]
    pub(crate) api_version: Option<String>,
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
    #[arg(value_name = "FILE")]
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
}

/// `rbac`.
#[derive(Debug, Args)]
pub(crate) struct RbacArgs {
    /// A file of documents, or a folder of .yaml and .yml files; may be given several times
    #[arg(short = 'f', long = "file", value_name = "PATH", required_unless_present_any = ["from_cluster", "callers"], num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// For `run --from-cluster`: of the process itself, and of the people who write the objects
    #[arg(long, conflicts_with_all = ["files", "local", "provider"])]
    pub(crate) from_cluster: bool,
    /// For people and programs that call the admin API, instead of the manager: what they may read, and what they may change
    #[arg(long, conflicts_with_all = ["files", "local", "provider", "bind", "from_cluster"])]
    pub(crate) callers: bool,
    /// For the local cluster, instead of the clusters of providers
    #[arg(long)]
    pub(crate) local: bool,
    /// For the hub that this Provider reads, instead of the clusters of providers
    #[arg(long, value_name = "NAME", conflicts_with = "local")]
    pub(crate) provider: Option<String>,
    /// The name of the roles [default: windlass; windlass-local with --local; windlass-hub with --provider;
    /// windlass-from-cluster with --from-cluster; windlass-api with --callers]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Bind the roles too, to user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) bind: Option<crate::config::rbac::Subject>,
}

/// `kcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum KcpCommand {
    /// Print the APIExport and the APIResourceSchemas of CustomResourceDefinitions
    ///
    /// To publish kinds of a cluster: `kubectl get crd NAME -o yaml | windlass kcp publish -f - --export EXPORT`. What it prints is for
    /// `kubectl apply --server-side -f -` in the provider's workspace; it changes nothing itself. A definition that has changed gets a
    /// schema of another name, because schemas never change.
    Publish(PublishArgs),
}

/// `kcp publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// A file with CustomResourceDefinitions, or - for standard input; may be given several times
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// The name of the APIExport
    #[arg(long, value_name = "NAME")]
    pub(crate) export: String,
    /// The one version to publish [default: all that are served]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// A resource that consumers are asked for, as secrets or events.events.k8s.io; may be given several times
    #[arg(long = "claim", value_name = "RESOURCE[.GROUP]")]
    pub(crate) claims: Vec<String>,
}

/// `preflight`.
#[derive(Debug, Args)]
pub(crate) struct PreflightArgs {
    /// A file of documents, or a folder of .yaml and .yml files; may be given several times
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// How long Providers and clusters are waited for
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) timeout: Interval,
}

/// The manager to call: one at an address, or the leader in a cluster if any other flag than `--token` is given.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// The manager's admin address
    #[arg(
        long, value_name = "ADDRESS",
        default_value_t = crate::config::kinds::ManagerSpec::DEFAULT_ADMIN.to_string(),
        conflicts_with_all = ["context", "namespace", "kubeconfig", "lease", "pod", "port", "as_service_account"]
    )]
    pub(crate) admin: String,
    /// A file with the token to call with [default: the token file of a manager of this user at that address]
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Call the leader in a cluster through its API server: the context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Call the leader in a cluster: the namespace of its pod and of its Lease [default: the context's]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Call the leader in a cluster: the kubeconfig [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Call the leader in a cluster: the name of its Lease [default: windlass]
    #[arg(long, value_name = "NAME", conflicts_with = "pod")]
    pub(crate) lease: Option<String>,
    /// Call this pod in a cluster, instead of the leader
    #[arg(long, value_name = "NAME")]
    pub(crate) pod: Option<String>,
    /// Call the leader in a cluster: the port of its API [default: 8080]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Call the leader in a cluster with a token of this service account in its namespace, as `kubectl create token` makes it
    #[arg(long, value_name = "NAME", conflicts_with = "token")]
    pub(crate) as_service_account: Option<String>,
    /// The audience of that token, as in the Manager's admin.audiences
    #[arg(long, value_name = "NAME", default_value = crate::config::kinds::AdminSpec::AUDIENCE, requires = "as_service_account")]
    pub(crate) audience: String,
}

impl AdminArgs {
    /// Whether a cluster is called, and not an address.
    pub(crate) fn is_in_cluster(&self) -> bool {
        let texts = [
            &self.context,
            &self.namespace,
            &self.lease,
            &self.pod,
            &self.as_service_account,
        ];
        let named = texts.into_iter().any(Option::is_some);
        named || self.kubeconfig.is_some() || self.port.is_some()
    }
}

/// `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// What to list
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) what: What,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    /// Then print the changes, until interrupted
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// With keys: only this key, and why it is not reconciled; `cluster://CLUSTER/NAMESPACE/NAME`
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Only keys of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only keys of this reconciler
    #[arg(long, value_name = "NAME")]
    pub(crate) reconciler: Option<String>,
    /// Only keys in this cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Only keys in this state: ready, held, running, delayed, backoff, throttled, terminal, or failing
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// The largest number of keys
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue an earlier list, with the value that it printed
    #[arg(long = "continue", value_name = "TOKEN")]
    pub(crate) next: Option<String>,
}

/// What `get` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Clusters: state, age of the state, objects
    #[value(alias = "cluster")]
    Clusters,
    /// Providers: clusters found, engaged and refused, problems, when last listed
    #[value(alias = "provider")]
    Providers,
    /// Reconcilers: their runs and waiting keys
    #[value(alias = "reconciler")]
    Reconcilers,
    /// Tenants: weight, limits, reconcilers
    #[value(alias = "tenant")]
    Tenants,
    /// Keys that fail, wait, run or are terminal
    #[value(alias = "key")]
    Keys,
}

/// `requeue`.
#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    /// `cluster://<cluster>/<namespace>/<name>`, as `get keys` prints it
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// Only for this reconciler [default: every one that knows the key]
    #[arg(long, value_name = "NAME")]
    pub(crate) reconciler: Option<String>,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// `rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The reconciler
    #[arg(value_name = "RECONCILER")]
    pub(crate) reconciler: String,
    /// The digest of the revision, or its beginning, as `get reconcilers` shows it [default: the previous one]
    #[arg(long, value_name = "DIGEST")]
    pub(crate) to: Option<String>,
    /// Serve the guest's file again
    #[arg(long, conflicts_with = "to")]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_idle_timeout_needs_its_flag() {
        assert!(Cli::try_parse_from(["windlass", "dev", "--idle-timeout", "5s"]).is_err());
        let cli = Cli::try_parse_from([
            "windlass",
            "dev",
            "x",
            "--exit-when-idle",
            "--idle-timeout",
            "5s",
        ])
        .unwrap();
        let Command::Dev(dev) = cli.command else {
            panic!("not dev")
        };
        assert_eq!((dev.idle.idle_timeout, dev.port), (Interval::seconds(5), 0));
    }
}
