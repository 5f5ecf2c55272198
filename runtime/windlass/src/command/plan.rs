//! `windlass plan`: what a configuration, or another revision of a guest, would change in the fleet. Entry point: [`execute`].
//!
//! The configuration runs over copies of its clusters until nothing is left to do; then each copy is compared with what it was copied
//! from. Nothing is written anywhere.
//!
//! * `forks`: the copies, of as many clusters at a time as `batches` says; `reads`: what they copy. `revision`: what is planned in place of the documents.
//! * `difference`: what differs in an object; `result`: equal differences of many clusters as one; `text` and `markdown` show it.
//! * `dry_run`: what the real servers say of it. `outside`: the end of calls to servers that are no API servers.

mod batches;
mod difference;
mod dry_run;
mod forks;
mod markdown;
mod outside;
mod reads;
mod result;
mod revision;
mod text;

use super::progress::Progress;
use crate::cli::{Baseline, Format, IdleArgs, PlanArgs};
use crate::command::rbac;
use crate::config::load::Configuration;
use crate::output::count;
use crate::run::idle::Report;
use crate::run::signals::stop_on_signals;
use crate::run::{self, Pace, Rehearsal, RunOptions, manager_options};
use crate::status::process::raise_descriptor_limit;
use anyhow::{Result, bail};
use batches::Batches;
use forks::Forks;
use outside::PlanDoor;
use result::Plan;
use revision::Revision;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::manager::ManagerOptions;
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::source::ClusterFilter;
use windlass_fleet::{ClusterName, kubectl};
use windlass_sandbox::{Doorkeeper, NativeGuests, Options};

/// Something changes, and `--detailed-exitcode` asks.
const CHANGES: u8 = 2;
/// So many failures in a row of a key end a plan: nothing else changes the copies.
const MOST_FAILURES: u32 = 5;
/// How often the progress is shown.
const TICK: Duration = Duration::from_millis(200);

/// Rehearses a configuration over copies of its clusters, and prints what changes.
///
/// # Errors
/// When a document or a flag is not valid, or nothing can start.
pub(crate) async fn execute(args: PlanArgs, format: Format, engine: Options) -> Result<ExitCode> {
    raise_descriptor_limit();
    let stop = stop_on_signals()?;
    let configuration = rbac::valid(&args.files)?;
    let is_from_cluster = args.is_from_cluster();
    let revision = Revision::new(&args.guests, &args.reconcilers)?;
    if !is_from_cluster {
        revision.check(&configuration)?;
    }
    if args.baseline == Baseline::Serving && !revision.has_guests() {
        bail!(
            "--baseline serving compares two guests: name the new one with --guest RECONCILER=FILE"
        );
    }
    if args.baseline == Baseline::Serving && args.server_dry_run {
        bail!(
            "--server-dry-run asks about what the servers hold, and --baseline serving compares with what they do not hold: give one of both"
        );
    }
    let mut planned = configuration;
    revision.apply(&mut planned);
    let parallel = args.parallel.map(usize::from);
    let planning = Planning {
        batches: Arc::new(Batches::new(&planned, is_from_cluster, parallel)?),
        local: is_from_cluster.then(|| local(&args)).transpose()?,
        filter: filter(&args)?,
        manager: manager_options(&planned.manager_spec())?,
        args,
        revision,
        engine,
        stop,
    };
    let only = only_reconciler(&planned).filter(|_| !is_from_cluster);
    let mut plan = Plan::new();
    loop {
        planning.rehearse(&mut plan, only).await?;
        if !planning.batches.next() {
            break;
        }
    }
    if plan.clusters.is_empty() {
        plan.lacks(
            "no cluster takes part: `windlass preflight` shows those of the Providers".to_owned(),
        );
    }
    let plan = plan.finished();
    print(&plan, format)?;
    Ok(code(&plan, planning.args.detailed_exitcode))
}

/// What all rehearsals of a plan have in common.
struct Planning {
    args: PlanArgs,
    /// The cluster whose objects count too.
    local: Option<ClusterSpec>,
    revision: Revision,
    filter: ClusterFilter,
    batches: Arc<Batches>,
    manager: ManagerOptions,
    engine: Options,
    stop: CancellationToken,
}

impl Planning {
    /// Rehearses in some clusters, whose copies end with this.
    async fn rehearse(&self, plan: &mut Plan, only: Option<&str>) -> Result<()> {
        let forks = Forks::start(self.manager.clone(), self.args.memory.0).await?;
        if self.args.baseline == Baseline::Serving {
            let serving = self.revision.without_guests();
            let Some(report) = self.run(&forks, serving).await? else {
                bail!("the plan was interrupted: nothing was changed");
            };
            if !report.done {
                plan.lacks(
                    "the baseline is not complete: what the guests of the documents would do is partly shown as a change"
                        .to_owned(),
                );
                plan.take(report);
            }
            forks.settle();
        }
        let Some(report) = self.run(&forks, self.revision.clone()).await? else {
            bail!("the plan was interrupted: nothing was changed");
        };
        let changes = forks.changes();
        if self.args.server_dry_run {
            plan.objections.extend(dry_run::ask(&forks, &changes).await);
        }
        plan.add(&changes, only);
        plan.take(report);
        for name in self.revision.unused() {
            plan.lacks(format!(
                "there is no Reconciler {name}: `windlass get reconcilers` shows the names"
            ));
        }
        Ok(())
    }

    async fn run(&self, forks: &Arc<Forks>, revision: Revision) -> Result<Option<Report>> {
        let (filter, batches) = (self.filter.clone(), self.batches.clone());
        let rehearsal = Rehearsal {
            reroute: forks.clone(),
            local: self.local.clone(),
            selection: Arc::new(move |spec| {
                filter.matches(&spec.name, &spec.labels) && batches.admits(&spec.name)
            }),
            revise: Box::new(move |documents| revision.apply(documents)),
        };
        let options = self.options(rehearsal);
        let mut run = Box::pin(run::run(options));
        let mut progress = Progress::new();
        loop {
            tokio::select! {
                ended = &mut run => return ended,
                () = tokio::time::sleep(TICK) => {
                    let mebibytes = forks.copied() as f64 / 1_048_576.0;
                    let clusters = count(self.batches.admitted() as u64, "cluster");
                    progress.show(format!("{clusters}, {mebibytes:.1} MiB copied"));
                }
            }
        }
    }

    fn options(&self, rehearsal: Rehearsal) -> RunOptions {
        RunOptions {
            files: self.args.files.clone(),
            from_cluster: self.args.is_from_cluster(),
            simulated: None,
            rebuild: None,
            admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            found_in: None,
            idle: IdleArgs {
                exit_when_idle: true,
                idle_timeout: self.args.timeout,
            },
            gives_up: Some(MOST_FAILURES),
            then: None,
            pace: Pace::default(),
            needs: None,
            rehearsal: Some(Arc::new(rehearsal)),
            natives: NativeGuests::default(),
            engine: Options {
                door: Doorkeeper::new(Arc::new(PlanDoor::new(&self.args.allow_http))),
                ..self.engine.clone()
            },
            stop: self.stop.clone(),
        }
    }
}

/// The cluster whose objects count.
fn local(args: &PlanArgs) -> Result<ClusterSpec> {
    let config = kubectl::cluster(args.kubeconfig.as_deref(), args.context.as_deref())?;
    Ok(ClusterSpec::new(ClusterName::local(), config))
}

/// The clusters that take part.
fn filter(args: &PlanArgs) -> Result<ClusterFilter> {
    let names: Vec<NamePattern> = args.clusters.iter().map(NamePattern::new).collect();
    let selector = args.selector.as_deref().map(LabelSelector::parse);
    Ok(ClusterFilter {
        names: if names.is_empty() {
            vec![NamePattern::any()]
        } else {
            names
        },
        selector: selector.transpose()?,
    })
}

/// The reconciler, if there is no other.
fn only_reconciler(configuration: &Configuration) -> Option<&str> {
    let mut reconcilers = configuration.reconcilers();
    let first = reconcilers.next()?.0;
    let is_only = reconcilers.next().is_none();
    is_only.then_some(first.identity.name.as_str())
}

fn print(plan: &Plan, format: Format) -> Result<()> {
    match format {
        Format::Json => anstream::println!("{}", serde_json::to_string_pretty(plan)?),
        Format::Markdown => anstream::print!("{}", markdown::markdown(plan)),
        Format::Text | Format::Wide => anstream::print!("{}", text::text(plan)),
    }
    Ok(())
}

fn code(plan: &Plan, detailed: bool) -> ExitCode {
    if !plan.complete {
        return super::FAILED;
    }
    if detailed && plan.total.objects() > 0 {
        return ExitCode::from(CHANGES);
    }
    super::DONE
}
