//! Flags and commands. Entry point: [`Cli`].
//!
//! Rooms: `authors` holds the flags of the commands for those who write guests, `operators` of those for people who run the manager.

mod authors;
mod operators;

pub(crate) use authors::{
    BuildArgs, CheckArgs, CrashArgs, CrdsArgs, DevArgs, FleetArgs, NewArgs, PullArgs, PushArgs,
    RegistryArgs, ReplayArgs, RulesArgs, TestArgs, TypesArgs, UpgradeArgs,
};
pub(crate) use operators::{
    AdminArgs, Baseline, DrainArgs, GetArgs, KcpCommand, PauseArgs, PauseTarget, PlanArgs,
    PreflightArgs, PublishArgs, RbacArgs, RecordArgs, ReleaseArgs, RequeueArgs, ResumeArgs,
    RollbackArgs, RunArgs, What,
};

use crate::config::kinds::Interval;
use crate::logging::LogFormat;
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
    /// Which log lines to show, for example `debug` or `info,windlass_fleet=debug` [default: $WINDLASS_LOG, else info, or warn for build, test, rules, check, crds, push and pull, error for fleet, test --crash, replay, preflight, types, get, requeue, record, pause, resume, release, rollback and drain]
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// The format of log lines [default: text on a terminal, else json]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// The format of results
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// The folder of compiled guests and pulled images, in folders that only this user can read; `none` keeps none [default:
    /// $XDG_CACHE_HOME/windlass, else ~/.cache/windlass]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[value(alias = "table")]
    Text,
    /// For people with wide terminals: `get` and `preflight` show more.
    Wide,
    /// For programs.
    Json,
    /// For the comment of a pull request: `plan` alone has it, to other commands it is text.
    Markdown,
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
    /// Writes a small reconciler, its tests, the SDK of its language and a windlass.yaml into a new folder. It greets the people that
    /// ConfigMaps name. With --kind it is the controller of a new kind, as `create api` of kubebuilder makes one: with the
    /// CustomResourceDefinition, its types, the rules, a finalizer and conditions. `--kind my.group/v1/Website` names the group and the version,
    /// `--kind Website` is example.dev/v1alpha1/Website. Change spec in seed/crd.yaml, then run `windlass types seed/crd.yaml`.
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
    /// Then runs the recordings in DIR/tests/recordings again: one of a success must go the same way, one of a failure must not.
    ///
    /// With --crash each test runs many more times, each time with a fault at another call of the guest: its run is killed, the call
    /// fails, the object is changed by somebody, the process restarts with old caches. Each run must end with the same objects. A failure
    /// is printed as a file for DIR/tests that shows it again.
    Test(TestArgs),
    /// Run recordings again, without any cluster
    ///
    /// The component gets the same request, configuration, answers, times and random numbers. Prints where it does something else first.
    /// Ends with 0 if it does the same, 2 if not. `windlass test` does this with the files in DIR/tests/recordings.
    Replay(ReplayArgs),
    /// Serve clusters in memory to the unit tests of a guest
    ///
    /// The SDKs' test kits start it by themselves. Prints the path of a socket that only this user reaches; each connection has a fleet of its
    /// own. Ends with its standard input.
    Fleet(FleetArgs),
    /// Find the rules that the tests of a guest need, and that DIR/windlass.yaml lacks
    ///
    /// Runs the tests as `windlass test` does, with all rights that the tenant allows, and notes what no rule grants. Prints that as rules,
    /// or writes them. Names the rules that no test uses. Ends with 1 if rules are missing and were not written.
    Rules(RulesArgs),
    /// Replace the SDK in a guest's project by that of this program
    ///
    /// The folder `sdk`, as `windlass new` made it. A file in it that you have changed is not overwritten without --force; then nothing is.
    Upgrade(UpgradeArgs),
    /// Write types of kinds into a guest, from their CustomResourceDefinitions or from a cluster
    ///
    /// Writes one file for each definition, and for each --kind of a cluster, with the descriptions of its schema. Run it again when a
    /// definition changes. It overwrites only files that it has written itself.
    Types(TypesArgs),
    /// Show what a component needs and offers
    ///
    /// With --crds, show where the types and the CustomResourceDefinitions of a guest differ.
    Check(CheckArgs),
    /// Print the CustomResourceDefinitions of Provider, Tenant and Reconciler, or those that a guest's own types describe
    ///
    /// Without DIR, to pipe into `kubectl apply -f -`, before `windlass run --from-cluster`. With DIR, in Rust, what the example `crds` of the
    /// package prints; in Go, what controller-gen makes of the markers. `windlass check --crds` says where manifests differ from that.
    Crds(CrdsArgs),
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
    /// What a configuration, or another revision of a guest, would change in the fleet
    ///
    /// Runs the configuration over copies of its clusters until nothing is left to do, and prints how the copies differ from the clusters.
    /// The clusters are read, with get and list, and nothing is written anywhere. Other controllers do not run in the copies.
    Plan(PlanArgs),
    /// What the owner of a service puts into a workspace of kcp
    #[command(subcommand)]
    Kcp(KcpCommand),
    /// Show the state of a running manager
    Get(GetArgs),
    /// Print the address of the page about a running manager, for a browser
    ///
    /// The address has the token of its caller. Who has the address can do what the caller may.
    Console(AdminArgs),
    /// Make a running manager reconcile a key now
    Requeue(RequeueArgs),
    /// Make a running manager reconcile a key now, and record the run
    ///
    /// Writes all that the guest got in this run into a file, for `windlass replay`. Values of Secrets have stand-ins in it.
    Record(RecordArgs),
    /// Make a running manager leave an object, a reconciler, a tenant or a cluster alone for a while
    ///
    /// Writes the annotation windlass.dev/paused-until on the object, or on the Reconciler, the Tenant or the cluster's Provider, which every
    /// process honours and `kubectl annotate` writes too. Nothing is reconciled there until then; deletions go on. A run under way goes on.
    Pause(PauseArgs),
    /// End a pause, and reconcile what waits
    Resume(ResumeArgs),
    /// Find the objects that finalizers of a reconciler hold, over the fleet, and let them go with --yes
    ///
    /// An object with a finalizer stays until the reconciler removes it, and the reconciler may be gone. Which finalizers are its own, the
    /// objects' managedFields say. The running manager looks at every cluster, with its own credentials. With --yes it removes these finalizers
    /// and no others: what the reconciler was to clean up stays. A reconciler that is at work would put them back: remove or pause it first.
    Release(ReleaseArgs),
    /// Make a reconciler serve its previous revision, until its guest's file changes
    ///
    /// The running manager keeps the revision compiled. It describes itself again under the current rules and serves at once,
    /// even if the new revision traps. A change of the file, `--undo` or a restart of the manager ends the rollback.
    Rollback(RollbackArgs),
    /// Make a process of several give its clusters to the others, and stay without any until it is stopped
    ///
    /// With shards, a process that ends does so by itself. Its clusters pass on once their last runs have ended, and others have filled caches.
    Drain(DrainArgs),
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
    /// Compile only functions that are not in the input, on several processors, and print all for the next build
    #[arg(long)]
    pub(crate) often: bool,
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

/// For scripts.
#[derive(Debug, Clone, Args)]
pub(crate) struct IdleArgs {
    /// End once every cluster is ready and nothing is left to reconcile; print what was done
    #[arg(long)]
    pub(crate) exit_when_idle: bool,
    /// How long to wait for that, without the time to load guests; then the failing keys are listed
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "60s",
        requires = "exit_when_idle"
    )]
    pub(crate) idle_timeout: Interval,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    /// The file may be below the folder that is watched: each run would begin another.
    #[test]
    fn a_watched_test_writes_no_file() {
        let args = ["windlass", "test", "--watch", "--junit", "results.xml"];
        assert!(Cli::try_parse_from(args).is_err());
        assert!(Cli::try_parse_from(&args[..3]).is_ok());
    }

    #[test]
    fn a_kind_has_a_version_and_a_name() {
        let parsed = |kind| Cli::try_parse_from(["windlass", "types", "--kind", kind]);
        for kind in ["v1/ConfigMap", "apps/v1/Deployment"] {
            assert!(parsed(kind).is_ok(), "{kind}");
        }
        for kind in ["ConfigMap", "apps/v1", "apps/v1/", "/Deployment", "a/b/C/D"] {
            assert!(parsed(kind).is_err(), "{kind}");
        }
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
