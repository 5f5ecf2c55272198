//! `windlass get`: what a running manager knows. Entry point: [`execute`].

use crate::cli::{Format, GetArgs, What};
use crate::client::{Client, query};
use crate::output::{Cell, Table, Tone, age, size};
use crate::view::{ClusterView, Items, KeyView, ReconcilerView, TenantView};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::process::ExitCode;

/// Prints what was asked for.
///
/// # Errors
/// When no manager answers.
pub(crate) async fn execute(args: GetArgs, format: Format) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.admin.admin);
    match args.what {
        What::Clusters => show(&client, "/api/v1/clusters", format, clusters).await?,
        What::Reconcilers => show(&client, "/api/v1/reconcilers", format, reconcilers).await?,
        What::Tenants => show(&client, "/api/v1/tenants", format, tenants).await?,
        What::Keys => {
            let filter = query([
                ("reconciler", args.reconciler),
                ("cluster", args.cluster),
                ("state", args.state),
                ("limit", Some(args.limit.to_string())),
            ]);
            show(&client, &format!("/api/v1/keys{filter}"), format, keys).await?;
        }
    }
    Ok(super::DONE)
}

async fn show<T: DeserializeOwned>(client: &Client, path: &str, format: Format, table: fn(&[T]) -> Table) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            let answer: Json = client.get(path).await?;
            anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
        }
        Format::Text => {
            let answer: Items<T> = client.get(path).await?;
            if answer.items.is_empty() {
                anstream::eprintln!("none");
            } else {
                anstream::print!("{}", table(&answer.items));
            }
        }
    }
    Ok(())
}

/// The local cluster has no name of its own to print.
pub(crate) fn cluster_name(name: &str) -> &str {
    if name.is_empty() { "(local)" } else { name }
}

fn clusters(views: &[ClusterView]) -> Table {
    let mut table = Table::new(&["CLUSTER", "STATE", "SINCE", "OBJECTS", "SIZE", "SERVER", "REASON"]);
    for view in views {
        let tone = match view.state.as_str() {
            "Ready" => Tone::Good,
            "Degraded" | "Gone" => Tone::Bad,
            _ => Tone::Warn,
        };
        table.row([
            Cell::text(cluster_name(&view.name)),
            Cell::toned(&view.state, tone),
            Cell::number(age(view.since_seconds)),
            Cell::number(view.objects),
            Cell::number(size(view.bytes)),
            Cell::text(&view.server),
            Cell::text(&view.reason),
        ]);
    }
    table
}

fn reconcilers(views: &[ReconcilerView]) -> Table {
    let headings =
        ["TENANT", "RECONCILER", "STATE", "REVISION", "ATTEMPTS", "FAILED", "RUNNING", "WAITING", "BACKOFF", "TERMINAL", "PROBLEM"];
    let mut table = Table::new(&headings);
    for view in views {
        let (state, tone) = match (view.ready, view.problem.is_empty()) {
            (true, true) => ("Ready", Tone::Good),
            (true, false) => ("Ready", Tone::Warn),
            (false, true) => ("Syncing", Tone::Warn),
            (false, false) => ("Stopped", Tone::Bad),
        };
        let problem = if view.problem.is_empty() { &view.last_failure } else { &view.problem };
        table.row([
            Cell::text(&view.tenant),
            Cell::text(&view.name),
            Cell::toned(state, tone),
            Cell::text(view.revision.chars().take(12).collect::<String>()),
            Cell::number(view.attempts),
            Cell::bad_number(view.failed),
            Cell::number(view.running),
            Cell::number(view.waiting),
            Cell::bad_number(view.backoff),
            Cell::bad_number(view.terminal),
            Cell::text(problem),
        ]);
    }
    table
}

fn tenants(views: &[TenantView]) -> Table {
    let mut table = Table::new(&["TENANT", "WEIGHT", "CONCURRENCY", "CEILING", "RECONCILERS", "RUNNING", "ATTEMPTS", "FAILED"]);
    for view in views {
        table.row([
            Cell::text(&view.name),
            Cell::number(view.weight),
            Cell::number(view.concurrency.map_or("-".to_owned(), |limit| limit.to_string())),
            Cell::text(if view.ceiling { "yes" } else { "no" }),
            Cell::number(view.reconcilers),
            Cell::number(view.running),
            Cell::number(view.attempts),
            Cell::bad_number(view.failed),
        ]);
    }
    table
}

/// Keys with what went wrong; `dev` and `run` print it too.
pub(crate) fn keys(views: &[KeyView]) -> Table {
    let headings = ["KEY", "RECONCILER", "STATE", "SINCE", "ATTEMPTS", "NEXT", "BLAME", "CAUSE", "LAST ERROR"];
    let mut table = Table::new(&headings);
    for view in views {
        let tone = match view.state.as_str() {
            "terminal" => Tone::Bad,
            "backoff" => Tone::Warn,
            "running" => Tone::Good,
            _ => Tone::Plain,
        };
        table.row([
            Cell::text(&view.key),
            Cell::text(format!("{}/{}", view.tenant, view.reconciler)),
            Cell::toned(&view.state, tone),
            Cell::number(age(view.since_seconds)),
            Cell::number(view.attempts),
            Cell::number(view.next_run_seconds.map_or("-".to_owned(), age)),
            Cell::text(&view.blame),
            Cell::text(&view.cause),
            Cell::text(&view.last_error),
        ]);
    }
    table
}
