//! What Windlass relies on of kcp: questions that state it, asked of a real kcp and of the one in memory.
//!
//! Each question makes workspaces of its own, so that all can be asked at the same time.

mod bindings;
mod claims;
mod reading;
mod rights;
mod shop;
mod types;
mod watching;
mod writing;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::future::BoxFuture;
use windlass_apiserver::Server;
use windlass_harness::testenv::Kcp;
use windlass_harness::testenv::kcp::Client;

/// Questions at once; most of them only wait.
const AT_ONCE: usize = 6;

struct Question {
    name: &'static str,
    ask: fn(&Client) -> BoxFuture<'_, Result<()>>,
}

macro_rules! questions {
    ($($module:ident::$name:ident,)*) => {
        &[$(Question { name: stringify!($name), ask: |client| Box::pin($module::$name(client)) },)*]
    };
}

const QUESTIONS: &[Question] = questions![
    reading::a_list_of_all_clusters_names_the_cluster_of_each_object,
    reading::a_list_from_the_cache_has_everything,
    reading::pages_go_on_across_clusters,
    reading::versions_in_all_clusters_are_one_sequence,
    reading::only_lists_and_watches_go_to_all_clusters,
    reading::discovery_is_the_exports_in_every_cluster,
    reading::what_is_not_bound_is_refused_in_the_same_words,
    watching::a_watch_of_all_clusters_has_every_change,
    watching::a_watch_without_a_version_begins_with_what_is_there,
    watching::a_streaming_list_ends_with_a_bookmark,
    writing::a_write_reaches_one_cluster,
    writing::a_status_is_written_apart,
    writing::a_collection_is_deleted_in_one_cluster,
    writing::an_event_is_one_object_in_both_groups,
    writing::bindings_are_only_read,
    writing::an_apply_is_noted_as_an_update,
    claims::a_rejected_claim_is_refused_and_hidden,
    claims::a_claim_that_is_answered_later_shows_and_hides_objects,
    claims::a_claim_without_an_answer_shows_in_the_status,
    claims::a_verb_must_be_named_on_both_sides,
    claims::a_selector_hides_objects_and_marks_new_ones,
    claims::claimed_objects_are_listed_after_the_binding_is_gone,
    bindings::an_endpoint_comes_with_the_first_consumer_and_goes_with_the_last,
    bindings::a_binding_waits_for_finalizers,
    bindings::a_second_binding_of_an_export_is_never_ready,
    bindings::the_binding_of_a_deleted_workspace_goes,
    bindings::a_slice_may_lie_in_another_workspace,
    bindings::a_deleted_export_serves_nothing,
    types::a_type_has_the_urls_of_both_virtual_workspaces,
    types::an_initializer_fills_a_workspace_and_lets_it_go,
    types::a_terminator_holds_a_deleted_workspace,
];

#[tokio::test(flavor = "multi_thread")]
async fn the_kcp_in_memory_answers_so() -> Result<()> {
    let server = Server::builder().kcp_shards(1).bind("127.0.0.1:0").await?;
    let url = server.shard_url(0).context("a server without a shard")?;
    let client = Client::plain(url).await?;
    all(&client, QUESTIONS.iter()).await?;
    server.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn a_real_kcp_answers_so_and_keeps_it_when_killed() -> Result<()> {
    let kcp = Kcp::start(&[rights::USER]).await?;
    let client = kcp.client().await?;
    all(&client, QUESTIONS.iter()).await?;
    rights::a_provider_needs_three_rights(&client, &kcp.client_of(rights::USER).await?).await?;
    ensure!(kcp.resident()? > 100 << 20, "kcp takes half a gigabyte");

    let kept = reading::Kept::make(&client).await?;
    kcp.restart().await?;
    kept.is_there(&client).await
}

/// Asks them and reports all that are answered otherwise.
async fn all(client: &Client, questions: impl Iterator<Item = &'static Question>) -> Result<()> {
    let asked = futures::stream::iter(questions).map(|question| async move {
        let answer = (question.ask)(client).await;
        answer
            .err()
            .map(|error| format!("{}: {error:#}", question.name))
    });
    let wrong: Vec<String> = asked
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    ensure!(
        wrong.is_empty(),
        "{} answers differ:\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    Ok(())
}
