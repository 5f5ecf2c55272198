//! `windlass plan`: what a configuration, or another revision of a guest, would change in the fleet. Entry point: [`execute`].
//!
//! The configuration runs over copies of its clusters until nothing is left to do; then each copy is compared with what it was copied
//! from. Nothing is written anywhere.
//!
//! * `forks`: the copies. `revision`: what is planned in place of the documents.
//! * `difference`: what differs in an object; `result`: equal differences of many clusters as one; `text` and `markdown` show it.

mod difference;
mod forks;
mod markdown;
mod result;
mod revision;
mod text;

use super::progress::Progress;
use crate::cli::{Baseline, Format, IdleArgs, PlanArgs};
use crate::command::rbac;
use crate::config::load::Configuration;
use crate::run::idle::Report;
use crate::run::signals::stop_on_signals;
use crate::run::{self, Rehearsal, RunOptions, manager_options};
use crate::status::process::raise_descriptor_limit;
use anyhow::{Result, bail};
use forks::Forks;
use result::Plan;
use revision::Revision;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::source::ClusterFilter;
use windlass_sandbox::{NativeGuests, Options};

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
    refuse_kcp(&configuration)?;
    let revision = Revision::new(&args.guests, &args.reconcilers, &configuration)?;
    if args.baseline == Baseline::Serving && !revision.has_guests() {
        bail!(
            "--baseline serving compares two guests: name the new one with --guest RECONCILER=FILE"
        );
    }
    let filter = filter(&args)?;
    let manager = manager_options(&configuration.manager_spec())?;
    let forks = Forks::start(manager, args.memory.0).await?;
    let rehearsal = |revision: Revision| {
        let filter = filter.clone();
        Arc::new(Rehearsal {
            reroute: forks.clone(),
            selection: Arc::new(move |spec| filter.matches(&spec.name, &spec.labels)),
            revise: Box::new(move |documents| revision.apply(documents)),
        })
    };
    let run = async |revision: Revision| {
        let options = options(&args, rehearsal(revision), engine.clone(), stop.clone());
        followed(&forks, Box::pin(run::run(options))).await
    };
    if args.baseline == Baseline::Serving {
        run(revision.without_guests()).await?;
        forks.settle();
    }
    let Some(report) = run(revision.clone()).await? else {
        bail!("the plan was interrupted: nothing was changed");
    };
    let mut planned = configuration;
    revision.apply(&mut planned);
    let plan = Plan::new(forks.changes(), vec![report], only_reconciler(&planned));
    print(&plan, format)?;
    Ok(code(&plan, args.detailed_exitcode))
}

/// Shows how much has been copied while a rehearsal runs.
async fn followed(
    forks: &Forks,
    mut run: impl Future<Output = Result<Option<Report>>> + Unpin,
) -> Result<Option<Report>> {
    let mut progress = Progress::new();
    loop {
        tokio::select! {
            ended = &mut run => return ended,
            () = tokio::time::sleep(TICK) => {
                let (bytes, servers) = forks.copied();
                let mebibytes = bytes as f64 / 1_048_576.0;
                progress.show(format!("{mebibytes:.1} MiB of {servers} servers copied"));
            }
        }
    }
}

fn options(
    args: &PlanArgs,
    rehearsal: Arc<Rehearsal>,
    engine: Options,
    stop: CancellationToken,
) -> RunOptions {
    RunOptions {
        files: args.files.clone(),
        from_cluster: false,
        simulated: None,
        rebuild: None,
        admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        found_in: None,
        idle: IdleArgs {
            exit_when_idle: true,
            idle_timeout: args.timeout,
        },
        gives_up: Some(MOST_FAILURES),
        then: None,
        needs: None,
        rehearsal: Some(rehearsal),
        natives: NativeGuests::default(),
        engine,
        stop,
    }
}

/// The endpoints of a kcp hold many workspaces in one place, which a copy cannot.
fn refuse_kcp(configuration: &Configuration) -> Result<()> {
    let mut providers = configuration.providers();
    if let Some((document, _)) = providers.find(|(_, spec)| spec.is_kcp()) {
        bail!(
            "the workspaces of {} cannot be copied: plan with a file that has the Reconcilers and another Provider",
            document.identity
        );
    }
    Ok(())
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
