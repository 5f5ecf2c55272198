//! `windlass release`: finds the objects that finalizers of a reconciler hold, and lets them go. Entry point: [`execute`].

use crate::app::release::LISTED;
use crate::cli::{Format, ReleaseArgs};
use crate::command::client::{Client, NotDone};
use crate::output::{Tone, count, printable};
use crate::status::tables::{cluster_name, held};
use crate::status::view::{ReleaseReply, ReleaseRequest, UnreadView};
use anyhow::Context;
use std::process::ExitCode;
use windlass_fleet::ClusterName;

/// Calls the manager until it has looked everywhere, and prints what it found.
///
/// # Errors
/// When no manager answers, or it refuses. What was let go until then is printed. The process that answers may die in the middle: the error
/// then says that the command may be run again, which finds only objects that are still held.
pub(crate) async fn execute(args: ReleaseArgs, format: Format) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.admin).await?;
    let mut request = ReleaseRequest {
        reconciler: args.reconciler,
        tenant: args.tenant,
        cluster: args.cluster,
        namespace: args.in_namespace,
        kinds: args.kinds,
        deleting: args.deleting,
        release: args.yes,
        next: None,
    };
    // Each process of several looks at the clusters that it works on.
    let each = match &request.cluster {
        Some(cluster) => vec![(None, client.of(&ClusterName::new(cluster)?).await?)],
        None => client.each().await?,
    };
    let mut all = ReleaseReply::default();
    let mut ended = Ok(());
    for (name, client) in each {
        request.next = None;
        let searched = search(&client, &mut request, &mut all).await;
        let searched = match name {
            Some(name) => searched.context(name),
            None => searched,
        };
        // The other processes are asked all the same.
        ended = ended.and(searched);
    }
    if ended.is_ok() || all != ReleaseReply::default() {
        print(&all, &request, format)?;
    }
    ended.map_err(|error| unfinished(error, &all, &request))?;
    let is_whole = all.failed == 0 && all.unread.is_empty();
    Ok(if is_whole { super::DONE } else { super::FAILED })
}

/// What to do after a call without an answer, which may have let objects go all the same.
fn unfinished(error: anyhow::Error, all: &ReleaseReply, asked: &ReleaseRequest) -> anyhow::Error {
    if *all == ReleaseReply::default() && error.is::<NotDone>() {
        return error;
    }
    if !asked.release {
        return error.context("not everything was looked at: run the same command again");
    }
    let released = count(all.released, "object");
    error.context(format!(
        "{released} let go for certain, perhaps more, and not everything was looked at: run the same command again, which goes on with those that are still held"
    ))
}

/// Calls a manager until it has looked everywhere.
async fn search(
    client: &Client,
    request: &mut ReleaseRequest,
    all: &mut ReleaseReply,
) -> anyhow::Result<()> {
    loop {
        let reply = client.post_long::<ReleaseReply>("/api/v1/release", request);
        request.next = add(all, reply.await?);
        if request.next.is_none() {
            return Ok(());
        }
    }
}

/// Adds an answer to those before, and returns what the next one continues from.
fn add(all: &mut ReleaseReply, reply: ReleaseReply) -> Option<String> {
    all.manager = reply.manager;
    let room = LISTED.saturating_sub(all.items.len());
    all.items.extend(reply.items.into_iter().take(room));
    all.count += reply.count;
    all.deleting += reply.deleting;
    all.released += reply.released;
    all.failed += reply.failed;
    all.lists += reply.lists;
    all.more_unread += reply.more_unread;
    let room = LISTED.saturating_sub(all.unread.len());
    all.more_unread += reply.unread.len().saturating_sub(room) as u64;
    all.unread.extend(reply.unread.into_iter().take(room));
    let known = std::mem::take(&mut all.not_allowed);
    all.not_allowed = known.into_iter().chain(reply.not_allowed).collect();
    all.not_allowed.sort_unstable();
    all.not_allowed.dedup();
    reply.next
}

fn print(all: &ReleaseReply, asked: &ReleaseRequest, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        anstream::println!("{}", serde_json::to_string_pretty(all)?);
        return Ok(());
    }
    if !all.items.is_empty() {
        anstream::println!("{}", held(&all.items, format == Format::Wide));
    }
    let more = all.count.saturating_sub(all.items.len() as u64);
    if more > 0 {
        anstream::println!("... and {more} more");
    }
    for unread in &all.unread {
        anstream::eprintln!("{}", Tone::Warn.paint(not_read(unread)));
    }
    if all.more_unread > 0 {
        let more = count(all.more_unread, "more cluster or kind");
        anstream::eprintln!("{}", Tone::Warn.paint(format!("not read: {more}")));
    }
    if !all.not_allowed.is_empty() {
        let kinds = all.not_allowed.join(", ");
        let text = format!(
            "not looked at, because the credentials may not list them in every cluster: {kinds}"
        );
        anstream::eprintln!("{}", Tone::Warn.paint(text));
    }
    anstream::println!("{}", summary(all, asked));
    Ok(())
}

fn not_read(unread: &UnreadView) -> String {
    let cluster = cluster_name(&unread.cluster);
    let mut what = unread.kinds.join(", ");
    if unread.more > 0 {
        what = format!("{what} and {} more", unread.more);
    }
    let what = if what.is_empty() {
        String::new()
    } else {
        format!(": {what}")
    };
    let text = format!("not read: {cluster}{what}: {}", unread.why);
    printable(&text).into_owned()
}

/// What was found, and what to do next.
fn summary(all: &ReleaseReply, asked: &ReleaseRequest) -> String {
    let (manager, name) = (&all.manager, &asked.reconciler);
    if all.lists == 0 && all.unread.is_empty() {
        return format!(
            "nothing was looked at: no cluster that was asked for has a kind that {name} may write; --kind names others"
        );
    }
    if all.count == 0 {
        return format!("no object holds a finalizer of {manager}");
    }
    let objects = count(all.count, "object");
    if !asked.release {
        return format!(
            "held by finalizers of {manager}: {objects}, {} of them being deleted; --yes lets them go, with --deleting the latter alone",
            all.deleting
        );
    }
    let mut text = format!("{} let go", count(all.released, "object"));
    if all.failed > 0 {
        text.push_str(&format!(", {} not: the table says why", all.failed));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::view::HeldView;

    fn reply(objects: usize, next: Option<&str>) -> ReleaseReply {
        ReleaseReply {
            manager: "windlass:default/hello".to_owned(),
            items: vec![HeldView::default(); objects],
            count: objects as u64,
            lists: 1,
            not_allowed: vec!["Secret".to_owned()],
            next: next.map(str::to_owned),
            ..ReleaseReply::default()
        }
    }

    #[test]
    fn answers_are_added_up_and_not_all_objects_are_kept() {
        let mut all = ReleaseReply::default();
        assert_eq!(
            add(&mut all, reply(LISTED, Some("x"))),
            Some("x".to_owned())
        );
        assert_eq!(add(&mut all, reply(3, None)), None);
        assert_eq!((all.items.len(), all.count, all.lists), (LISTED, 1003, 2));
        assert_eq!(all.not_allowed, ["Secret"]);
    }

    #[test]
    fn after_a_call_without_an_answer_the_command_may_be_run_again() {
        let asked = ReleaseRequest {
            release: true,
            ..ReleaseRequest::default()
        };
        let (nothing, some) = (ReleaseReply::default(), reply(2, Some("x")));
        let refused = || anyhow::Error::new(NotDone::Refused("another process leads".to_owned()));
        let refusal = unfinished(refused(), &nothing, &asked);
        assert_eq!(format!("{refusal:#}"), "another process leads");
        let broken = anyhow::anyhow!("the manager closed the connection");
        for (error, all) in [(broken, &nothing), (refused(), &some)] {
            let text = format!("{:#}", unfinished(error, all, &asked));
            assert!(
                text.starts_with("0 objects let go for certain, perhaps more, and not everything")
                    && text.contains("run the same command again"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_summary_says_what_to_do_next() {
        let mut asked = ReleaseRequest::default();
        let dry = summary(&reply(2, None), &asked);
        assert!(
            dry.starts_with("held by finalizers of windlass:default/hello: 2 objects, 0 of"),
            "{dry}"
        );
        assert!(summary(&reply(0, None), &asked).starts_with("no object holds"));
        asked.release = true;
        let done = ReleaseReply {
            released: 1,
            failed: 1,
            ..reply(2, None)
        };
        assert_eq!(
            summary(&done, &asked),
            "1 object let go, 1 not: the table says why"
        );
    }
}
