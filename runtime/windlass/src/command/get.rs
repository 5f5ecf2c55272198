//! `windlass get`: the state of a running manager. Entry point: [`execute`].

mod changes;
mod merge;

use crate::cli::{Format, GetArgs, What};
use crate::command::client::{Client, query};
use crate::output::{Table, Tone, count, printable, terminal_width};
use crate::status::tables::{
    cluster_name, clusters, explanations, keys, providers, reconcilers, recordings, shards, tenants,
};
use crate::status::view::{Items, ShardsView};
use anyhow::Context;
use changes::{Change, Changes};
use futures::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use windlass_fleet::Request;

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
        is_partial: Cell::new(false),
    };
    match args.what {
        What::Clusters => {
            get.show(
                Query::of_each("/api/v1/clusters", merge::clusters),
                clusters,
            )
            .await?
        }
        What::Providers => {
            get.show(Query::same("/api/v1/providers"), providers)
                .await?
        }
        What::Reconcilers => {
            get.show(
                Query::of_each("/api/v1/reconcilers", merge::reconcilers),
                reconcilers,
            )
            .await?
        }
        What::Tenants => {
            get.show(Query::of_each("/api/v1/tenants", merge::tenants), tenants)
                .await?
        }
        What::Shards => {
            get.show(Query::same("/api/v1/shards"), shards).await?;
            if !args.watch && format != Format::Json {
                describe_shards(&client.get("/api/v1/shards").await?);
            }
        }
        What::Recordings => match args.key {
            Some(_) if args.watch => {
                anyhow::bail!("a recording does not change: leave out --watch");
            }
            // The file, to be redirected into one.
            Some(id) => {
                let file = client.find_bytes(&super::recording(&id)).await?;
                std::io::stdout().write_all(&file)?;
            }
            None => {
                get.show(
                    Query::of_each("/api/v1/recordings", merge::recordings),
                    recordings,
                )
                .await?
            }
        },
        What::Keys => match args.key {
            Some(key) => {
                // What is no key is refused by the manager.
                let client = match key.parse::<Request>() {
                    Ok(request) => client.clone().of(&request.cluster).await?,
                    Err(_) => client.clone(),
                };
                let asked = query([("key", Some(key)), ("reconciler", args.reconciler)]);
                let get = Get {
                    client: &client,
                    is_partial: Cell::new(false),
                    ..get
                };
                let asked = Query::same(&format!("/api/v1/explain{asked}"));
                get.show(asked, explanations).await?;
            }
            None => {
                let filter = query([
                    ("tenant", args.tenant),
                    ("reconciler", args.reconciler),
                    ("cluster", args.cluster),
                    ("state", args.state),
                    ("limit", Some(args.limit.to_string())),
                ]);
                let asked = Query::of_each(&format!("/api/v1/keys{filter}"), merge::keys);
                let next = args.next;
                get.show(Query { next, ..asked }, keys).await?;
            }
        },
    }
    let is_partial = get.is_partial.get();
    Ok(if is_partial {
        super::FAILED
    } else {
        super::DONE
    })
}

/// Tells what no row of the table does.
fn describe_shards(view: &ShardsView) {
    if !view.enabled {
        anstream::eprintln!(
            "one process works, or one leads: spec.sharding of its Manager is not enabled"
        );
        return;
    }
    let lacks = view.shards_without_owner > 0;
    if lacks {
        let (shards, clusters) = (view.shards_without_owner, view.clusters_without_owner);
        let named: Vec<&str> = view
            .without_owner
            .iter()
            .map(|name| cluster_name(name))
            .collect();
        let named = named.join(", ");
        let text = format!(
            "without an owner: {} and {}: {named}",
            count(shards, "shard"),
            count(clusters, "cluster")
        );
        anstream::eprintln!("{}", Tone::Bad.paint(printable(&text)));
    }
    if !view.problem.is_empty() {
        let text = format!("{}: {}", view.member, view.problem);
        anstream::eprintln!("{}", Tone::Bad.paint(printable(&text)));
    }
}

/// What is asked, and of whom.
struct Query<T> {
    path: String,
    /// Makes one list of what the processes answer that share the work. `None`: each answers the same, and one is asked.
    merge: Option<Merge<T>>,
    /// Where the list goes on.
    next: Option<String>,
}

type Merge<T> = fn(Vec<T>) -> Vec<T>;

impl<T> Query<T> {
    fn same(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            merge: None,
            next: None,
        }
    }

    fn of_each(path: &str, merge: Merge<T>) -> Self {
        Self {
            merge: Some(merge),
            ..Self::same(path)
        }
    }

    /// The path from a position on.
    fn from(&self, next: Option<&str>) -> String {
        let Some(next) = next else {
            return self.path.clone();
        };
        let next = query([("continue", Some(next.to_owned()))]);
        let is_first = !self.path.contains('?');
        let next = if is_first {
            next
        } else {
            next.replacen('?', "&", 1)
        };
        format!("{}{next}", self.path)
    }
}

/// How things are asked for and printed.
struct Get<'a> {
    client: &'a Client,
    format: Format,
    watch: bool,
    /// Whether errors are cut to a terminal's width.
    cuts: bool,
    /// Whether a process has not answered.
    is_partial: Cell<bool>,
}

/// Shows views in a table, wide or not.
type ToTable<T> = fn(&[T], bool) -> Table;

impl Get<'_> {
    fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    async fn show<T: DeserializeOwned + Serialize>(
        &self,
        asked: Query<T>,
        table: ToTable<T>,
    ) -> anyhow::Result<()> {
        if self.watch {
            return self.follow(asked, table).await;
        }
        let answer = self.answer(&asked).await?;
        if self.format == Format::Json {
            anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
            return Ok(());
        }
        let answer: Items<T> = serde_json::from_value(answer)?;
        if answer.items.is_empty() {
            anstream::eprintln!("none");
        } else {
            self.print(table(&answer.items, self.is_wide()), &mut Vec::new());
        }
        if let Some(next) = answer.next {
            anstream::eprintln!("there are more: add --continue {next}");
        }
        Ok(())
    }

    /// The answer of one process, or what those of all are together.
    async fn answer<T: DeserializeOwned + Serialize>(
        &self,
        asked: &Query<T>,
    ) -> anyhow::Result<Json> {
        let each = match asked.merge {
            Some(_) => self.client.each().await?,
            None => Vec::new(),
        };
        let (Some(merge), false) = (asked.merge, matches!(each[..], [] | [(None, _)])) else {
            return self.client.get(&asked.from(asked.next.as_deref())).await;
        };
        let positions = asked.next.as_deref().map(positions).transpose()?;
        let each = each.into_iter().filter_map(|(name, client)| {
            let (name, positions) = (name?, positions.as_ref());
            let next = positions.map(|positions| positions.get(&name));
            // A list that goes on does so where it has not ended.
            let next = match next {
                None => None,
                Some(next) => Some(next?.clone()),
            };
            Some((name, client, asked.from(next.as_deref())))
        });
        let answers = each.map(async |(name, client, path)| {
            let answer = client.get::<Items<T>>(&path).await;
            (name, answer)
        });
        let (mut items, mut next) = (Vec::new(), Vec::new());
        for (name, answer) in join_all(answers).await {
            match answer {
                Ok(answer) => {
                    items.extend(answer.items);
                    next.extend(answer.next.map(|next| format!("{name}={next}")));
                }
                Err(error) => self.lacks(&name, &error),
            }
        }
        let next = (!next.is_empty()).then(|| next.join(","));
        let items = merge(items);
        Ok(serde_json::to_value(Items { items, next })?)
    }

    /// The list is without the answer of a process.
    fn lacks(&self, name: &str, error: &anyhow::Error) {
        self.is_partial.set(true);
        let text = format!("without {name}: {error:#}");
        anstream::eprintln!("{}", Tone::Bad.paint(printable(&text)));
    }

    /// Prints everything, then the changes. Returns only after an error.
    async fn follow<T: DeserializeOwned + Serialize>(
        &self,
        asked: Query<T>,
        table: ToTable<T>,
    ) -> anyhow::Result<()> {
        let (mut changes, mut widths) = (Changes::default(), Vec::new());
        loop {
            let answer: Items<Json> = serde_json::from_value(self.answer(&asked).await?)?;
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

/// Where the lists of processes go on, by their names.
fn positions(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let parts = text.split(',').map(|part| {
        let (name, next) = part.rsplit_once('=').with_context(|| {
            format!(
                "{text:?} is no position of several processes: give what the list before printed"
            )
        })?;
        Ok((name.to_owned(), next.to_owned()))
    });
    parts.collect()
}
