//! Flags of the commands for those who run the manager. Entry points: the types named in [`super::Command`].

use super::IdleArgs;
use crate::config::kinds::{Bytes, Interval};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

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
    /// The name of the roles, which a role of the same name is replaced by [default: windlass, windlass-local with --local or windlass-hub
    /// with --provider, and a digest of what they allow whom; windlass-from-cluster with --from-cluster; windlass-api with --callers]
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
    /// The one version to publish, of the definition PLURAL.GROUP or of all that no --version names; may be given several times [default:
    /// all that are served]
    #[arg(long = "version", value_name = "[PLURAL.GROUP=]VERSION")]
    pub(crate) versions: Vec<String>,
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

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// A file of documents, or a folder of .yaml and .yml files; may be given several times
    #[arg(short = 'f', long = "file", value_name = "PATH", required_unless_present_any = ["context", "in_cluster"], num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Plan with the Providers, Tenants and Reconcilers of the cluster of this context too, in place of the local cluster of the files
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The same for the cluster of the current context, or in a pod for the cluster of that
    #[arg(long, conflicts_with = "context")]
    pub(crate) in_cluster: bool,
    /// The kubeconfig of that context [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Another component for a reconciler: a file or an image; may be given several times
    #[arg(long = "guest", value_name = "RECONCILER=FILE|IMAGE")]
    pub(crate) guests: Vec<String>,
    /// Only this reconciler; may be given several times [default: all]
    #[arg(long = "reconciler", value_name = "NAME")]
    pub(crate) reconcilers: Vec<String>,
    /// Only the clusters of Providers with this name, * for any characters; may be given several times [default: all]
    #[arg(long = "cluster", value_name = "NAME")]
    pub(crate) clusters: Vec<String>,
    /// Only the clusters of Providers with these labels, as kubectl takes them [default: all]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// What the changes are compared with
    #[arg(long, value_enum, default_value_t = Baseline::Live)]
    pub(crate) baseline: Baseline,
    /// How many clusters are copied at once [default: 50; all, where a reconciler reaches other clusters than that of its request]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) parallel: Option<u16>,
    /// Ask the servers about each change with dryRun=All: show what they would refuse or keep with other fields
    #[arg(long)]
    pub(crate) server_dry_run: bool,
    /// Let GET and HEAD of this host through, where a rule of a Reconciler allows them (repeatable); a plan calls no other server
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_http: Vec<String>,
    /// How long to wait until nothing is left to do, without the time to load guests
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(crate) timeout: Interval,
    /// How much the copies of all clusters may take together
    #[arg(long, value_name = "BYTES", default_value = "1Gi")]
    pub(crate) memory: Bytes,
    /// Exit with 0 if nothing changes, 1 if the plan is not complete, 2 if something changes
    #[arg(long)]
    pub(crate) detailed_exitcode: bool,
}

impl PlanArgs {
    /// Whether objects of the local cluster count too.
    pub(crate) fn is_from_cluster(&self) -> bool {
        self.in_cluster || self.context.is_some()
    }
}

/// What a plan is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Baseline {
    /// What the clusters hold
    Live,
    /// What the guests of the documents would make of that: only what --guest adds is shown
    Serving,
}

/// The manager to call: one at an address, or the leader in a cluster if any other flag than `--token` is given.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// The manager's admin address [default: that of the windlass dev of this folder or of one around it, else 127.0.0.1:8080]
    #[arg(
        long, value_name = "ADDRESS",
        conflicts_with_all = ["context", "namespace", "kubeconfig", "lease", "pod", "port", "as_service_account"]
    )]
    pub(crate) admin: Option<String>,
    /// A file with the token to call with [default: the token file of a manager of this user at that address]
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Call the leader in a cluster, or the processes that share the clusters, through its API server: the context of the kubeconfig [default: the current one]
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
    /// Call this pod in a cluster, instead of the leader, or of all that share the clusters
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
    /// With keys: only this key, and why it is not reconciled; `cluster://CLUSTER/NAMESPACE/NAME`. With recordings: the file of this one, by its
    /// id, or by its key: the last one of it
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
    /// Only keys in this state: ready, held, running, delayed, backoff, throttled, paused, terminal, or failing
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
    /// Shards: which of several processes works on how many clusters, and how many nobody works on
    #[value(alias = "shard")]
    Shards,
    /// Recordings of runs: the last failures and a sample, as spec.record of their Reconcilers asks, and those of `windlass record`
    #[value(alias = "recording")]
    Recordings,
}

/// `record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// `cluster://<cluster>/<namespace>/<name>`, as `get keys` prints it
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// Only of this reconciler [default: every one that knows the key]
    #[arg(long, value_name = "NAME")]
    pub(crate) reconciler: Option<String>,
    /// The file to write [default: RECONCILER-ID.json in this folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// How long to wait until the run has ended
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) timeout: Interval,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
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

/// `pause`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) target: PauseTarget,
    /// How long: 30m, 1h30m [default: until `windlass resume`]
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<Interval>,
    /// Why, for people: `get`, the Event and the object show it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Hold objects that are being deleted too; otherwise they are reconciled
    #[arg(long)]
    pub(crate) deletions: bool,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// `resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) target: PauseTarget,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// What is paused or resumed.
#[derive(Debug, Args)]
pub(crate) struct PauseTarget {
    /// One object, for all reconcilers: `cluster://<cluster>/<namespace>/<name>`, as `get keys` prints it
    #[arg(value_name = "KEY", required_unless_present_any = ["reconciler", "tenant", "cluster"])]
    pub(crate) key: Option<String>,
    /// A whole reconciler; with KEY: the object of this reconciler's kind, with its rights
    #[arg(long, value_name = "NAME")]
    pub(crate) reconciler: Option<String>,
    /// All reconcilers of a tenant
    #[arg(long, value_name = "NAME", conflicts_with_all = ["key", "reconciler", "cluster"])]
    pub(crate) tenant: Option<String>,
    /// All reconcilers in a cluster
    #[arg(long, value_name = "NAME", conflicts_with_all = ["key", "reconciler"])]
    pub(crate) cluster: Option<String>,
}

/// `release`.
#[derive(Debug, Args)]
#[command(after_help = RELEASE_EXAMPLE)]
pub(crate) struct ReleaseArgs {
    /// The reconciler, which may be gone: `NAME`, or `NAMESPACE/NAME` of an object
    #[arg(value_name = "RECONCILER")]
    pub(crate) reconciler: String,
    /// Remove the finalizers; otherwise the objects are only listed
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only objects that are being deleted
    #[arg(long)]
    pub(crate) deleting: bool,
    /// Only in this cluster [default: all in which it may write; all, if it is gone]
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Only in the namespace of this name, in each cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) in_namespace: Option<String>,
    /// Only of this kind, as ConfigMap or Deployment.apps; may be given several times [default: those that its rules let it write; all,
    /// if it is gone]
    #[arg(long = "kind", value_name = "KIND[.GROUP]")]
    pub(crate) kinds: Vec<String>,
    /// The tenant of a reconciler that is gone and was a document of a file [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

const RELEASE_EXAMPLE: &str = "\
Example:
  windlass release team-a/hello                           # which objects does it hold?
  kubectl delete reconciler hello -n team-a               # or windlass pause --reconciler team-a/hello
  windlass release team-a/hello --deleting --yes          # those that wait for it may go";

/// `drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The process in a cluster, as `get shards` lists it: the name of its pod
    #[arg(value_name = "MEMBER", conflicts_with_all = ["admin", "pod"])]
    pub(crate) member: Option<String>,
    /// How long to wait until others hold its shards
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    pub(crate) timeout: Interval,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// `rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The reconciler
    #[arg(value_name = "RECONCILER")]
    pub(crate) reconciler: String,
    /// The digest of the revision, or its beginning, as `get reconcilers -o wide` shows it [default: the previous one]
    #[arg(long, value_name = "DIGEST")]
    pub(crate) to: Option<String>,
    /// Serve the guest's file again
    #[arg(long, conflicts_with = "to")]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}
