//! `windlass release`: finds the objects that finalizers of a reconciler hold, and lets them go. Entry point: [`execute`].

use crate::app::release::LISTED;
use crate::cli::{Format, ReleaseArgs};
use crate::command::client::Client;
use crate::output::{Tone, count, printable};
use crate::status::tables::{cluster_name, held};
use crate::status::view::{ReleaseReply, ReleaseRequest, UnreadView};
use std::process::ExitCode;

/// Calls the manager until it has looked everywhere, and prints what it found.
///
/// # Errors
/// When no manager answers, or it refuses. What was let go until then is printed.
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
    let mut all = ReleaseReply::default();
    let ended = loop {
        match client
            .post_long::<ReleaseReply>("/api/v1/release", &request)
            .await
        {
            Ok(reply) => request.next = add(&mut all, reply),
            Err(error) => break Err(error),
        }
        if request.next.is_none() {
            break Ok(());
        }
    };
    if ended.is_ok() || all != ReleaseReply::default() {
        print(&all, &request, format)?;
    }
    ended?;
    let is_whole = all.failed == 0 && all.unread.is_empty();
    Ok(if is_whole { super::DONE } else { super::FAILED })
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
