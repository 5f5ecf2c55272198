//! `windlass get`: what a running manager knows. Entry point: [`execute`].

use crate::cli::{Format, GetArgs, What};
use crate::client::{Client, query};
use crate::output::Table;
use crate::tables::{clusters, explanations, keys, reconcilers, tenants};
use crate::view::Items;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::process::ExitCode;

/// Prints what was asked for.
///
/// # Errors
/// When no manager answers.
pub(crate) async fn execute(args: GetArgs, format: Format) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.admin.admin);
    if args.key.is_some() && args.what != What::Keys {
        anyhow::bail!(
            "a name goes with keys alone: windlass get keys cluster://CLUSTER/NAMESPACE/NAME"
        );
    }
    match args.what {
        What::Clusters => show(&client, "/api/v1/clusters", format, clusters).await?,
        What::Reconcilers => show(&client, "/api/v1/reconcilers", format, reconcilers).await?,
        What::Tenants => show(&client, "/api/v1/tenants", format, tenants).await?,
        What::Keys => match args.key {
            Some(key) => {
                let asked = query([("key", Some(key)), ("reconciler", args.reconciler)]);
                let path = format!("/api/v1/explain{asked}");
                show(&client, &path, format, explanations).await?;
            }
            None => {
                let filter = query([
                    ("tenant", args.tenant),
                    ("reconciler", args.reconciler),
                    ("cluster", args.cluster),
                    ("state", args.state),
                    ("limit", Some(args.limit.to_string())),
                    ("continue", args.next),
                ]);
                show(&client, &format!("/api/v1/keys{filter}"), format, keys).await?;
            }
        },
    }
    Ok(super::DONE)
}

async fn show<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    format: Format,
    table: fn(&[T]) -> Table,
) -> anyhow::Result<()> {
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
            if let Some(next) = answer.next {
                anstream::eprintln!("there are more: add --continue {next}");
            }
        }
    }
    Ok(())
}
