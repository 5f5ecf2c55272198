//! `windlass get`: the state of a running manager. Entry point: [`execute`].

mod changes;

use crate::cli::{Format, GetArgs, What};
use crate::command::client::{Client, query};
use crate::output::{Table, terminal_width};
use crate::status::tables::{
    clusters, explanations, keys, providers, reconcilers, recordings, tenants,
};
use crate::status::view::Items;
use changes::{Change, Changes};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// The interval of `--watch`.
const LOOK: Duration = Duration::from_millis(500);

/// Prints the list, and with `--watch` its changes, until the process is interrupted.
///
/// # Errors
/// When no manager answers.
pub(crate) async fn execute(args: GetArgs, format: Format) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.admin).await?;
    let named = matches!(args.what, What::Keys | What::Recordings);
    if args.key.is_some() && !named {
        anyhow::bail!(
            "only keys and recordings take a name: windlass get keys cluster://CLUSTER/NAMESPACE/NAME"
        );
    }
    let get = Get {
        client: &client,
        format,
        watch: args.watch,
        // What is asked of one key is its whole error.
        cuts: format != Format::Wide && args.key.is_none(),
    };
    match args.what {
        What::Clusters => get.show("/api/v1/clusters", clusters).await?,
        What::Providers => get.show("/api/v1/providers", providers).await?,
        What::Reconcilers => get.show("/api/v1/reconcilers", reconcilers).await?,
        What::Tenants => get.show("/api/v1/tenants", tenants).await?,
        What::Recordings => match args.key {
            Some(_) if args.watch => {
                anyhow::bail!("a recording does not change: leave out --watch");
            }
            // The file, to be redirected into one.
            Some(id) => {
                let file = client.get_bytes(&super::recording(&id)).await?;
                std::io::stdout().write_all(&file)?;
            }
            None => get.show("/api/v1/recordings", recordings).await?,
        },
        What::Keys => match args.key {
            Some(key) => {
                let asked = query([("key", Some(key)), ("reconciler", args.reconciler)]);
                get.show(&format!("/api/v1/explain{asked}"), explanations)
                    .await?;
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
                get.show(&format!("/api/v1/keys{filter}"), keys).await?;
            }
        },
    }
    Ok(super::DONE)
}

/// The format of the output.
struct Get<'a> {
    client: &'a Client,
    format: Format,
    watch: bool,
    /// Whether errors are cut to a terminal's width.
    cuts: bool,
}

/// Shows views in a table, wide or not.
type ToTable<T> = fn(&[T], bool) -> Table;

impl Get<'_> {
    fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    async fn show<T: DeserializeOwned>(&self, path: &str, table: ToTable<T>) -> anyhow::Result<()> {
        if self.watch {
            return self.follow(path, table).await;
        }
        match self.format {
            Format::Json => {
                let answer: Json = self.client.get(path).await?;
                anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
            }
            Format::Text | Format::Wide | Format::Markdown => {
                let answer: Items<T> = self.client.get(path).await?;
                if answer.items.is_empty() {
                    anstream::eprintln!("none");
                } else {
                    self.print(table(&answer.items, self.is_wide()), &mut Vec::new());
                }
                if let Some(next) = answer.next {
                    anstream::eprintln!("there are more: add --continue {next}");
                }
            }
        }
        Ok(())
    }

    /// Prints everything, then the changes. Returns only after an error.
    async fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        table: ToTable<T>,
    ) -> anyhow::Result<()> {
        let (mut changes, mut widths) = (Changes::default(), Vec::new());
        loop {
            let answer: Items<Json> = self.client.get(path).await?;
            let news = changes.between(answer.items);
            match self.format {
                Format::Json => {
                    for change in news {
                        anstream::println!("{}", change.to_json());
                    }
                }
                Format::Text | Format::Wide | Format::Markdown => {
                    self.print_changes(news, &mut widths, table)?;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Prints the changes as rows under a heading that is printed once.
    fn print_changes<T: DeserializeOwned>(
        &self,
        news: Vec<Change>,
        widths: &mut Vec<usize>,
        table: ToTable<T>,
    ) -> anyhow::Result<()> {
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        for change in news {
            match change {
                Change::Now(item) => there.push(serde_json::from_value(item)?),
                Change::Gone(item) => gone.push(changes::name(&item)),
            }
        }
        if !there.is_empty() {
            self.print(table(&there, self.is_wide()), widths);
        }
        for name in gone {
            anstream::println!("gone: {name}");
        }
        Ok(())
    }

    /// Prints rows, under a heading if nothing was printed yet, in columns at least as wide as before.
    fn print(&self, mut rows: Table, widths: &mut Vec<usize>) {
        let is_first = widths.is_empty();
        rows.widen(widths);
        if let Some(line) = terminal_width().filter(|_| self.cuts) {
            rows.cut(widths, line);
        }
        if is_first {
            anstream::println!("{}", rows.heading(widths));
        }
        for line in rows.lines(widths) {
            anstream::println!("{line}");
        }
    }
}
