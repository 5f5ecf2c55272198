//! A reconciler of keys that objects of another cluster ask for. Entry points: [`controller`] and [`differ`].
//!
//! One cluster, the board, has an order for each cluster. A mapper makes the key of the cluster's answer from it, which gets the order's value.
//! No object of the cluster asks for that key: where clusters have owners, only the mapper can tell a new owner of it.

use anyhow::{Context as _, Result, anyhow};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_apiserver::Server;
use windlass_fleet::api::{ApplyOptions, GetOptions, Json};
use windlass_fleet::source::{Enqueue, MapContext, MapError, Mapper, Watch};
use windlass_fleet::{
    Action, Context, Controller, ControllerName, Failure, Grant, GroupVersionKind, ObjectKey,
    Request,
};
use windlass_harness::fleet::name;

/// The board.
const BOARD: &str = "c0";
const NAMESPACE: &str = "orders";
const LABEL: &str = "order";
const ANSWER: &str = "answer";

fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

pub(super) fn controller() -> Result<Controller> {
    let mut orders = Watch::new(config_map(), Enqueue::Mapped(Arc::new(ToAnswers)));
    orders.label_selector = Some(LABEL.parse()?);
    let builder = Controller::builder(ControllerName::new("orders")?).watch(orders);
    Ok(builder.build(Arc::new(answer))?)
}

/// Makes the namespace of orders and answers.
pub(super) fn prepare(server: &Server, clusters: &[String]) -> Result<()> {
    for cluster in clusters {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let at = server.cluster(cluster).context("a cluster")?;
        at.apply(namespace).map_err(|error| anyhow!("{error:?}"))?;
    }
    Ok(())
}

/// Orders an answer in a cluster.
pub(super) fn order(server: &Server, cluster: &str, value: &str) -> Result<()> {
    let order = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": cluster, "namespace": NAMESPACE, "labels": {LABEL: ""}}, "data": {"value": value}});
    let board = server.cluster(BOARD).context("the board")?;
    board.apply(order).map_err(|error| anyhow!("{error:?}"))?;
    Ok(())
}

/// Adds what is not as it was ordered.
pub(super) fn differ(server: &Server, wrong: &mut Vec<String>) -> Result<()> {
    let board = server.cluster(BOARD).context("the board")?;
    let listed = board.list("v1", "ConfigMap", NAMESPACE);
    let objects = listed.map_err(|error| anyhow!("{error:?}"))?;
    for order in objects {
        let cluster = order["metadata"]["name"].as_str().unwrap_or_default();
        if order["metadata"]["labels"].get(LABEL).is_none() {
            continue;
        }
        let at = server.cluster(cluster).context("a cluster")?;
        let answer = at.get("v1", "ConfigMap", NAMESPACE, ANSWER);
        let answer = answer
            .map_err(|error| anyhow!("{error:?}"))?
            .unwrap_or_default();
        let answer = &answer["data"];
        if *answer != order["data"] {
            let wanted = &order["data"];
            wrong.push(format!(
                "{cluster}: the answer is {answer} and not {wanted}"
            ));
        }
    }
    Ok(())
}

struct ToAnswers;

impl Mapper for ToAnswers {
    fn map(
        &self,
        context: MapContext,
        _: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        let is_board = context.cluster.name().as_str() == BOARD;
        let request = |object: &Json| {
            let order: Value = serde_json::from_slice(object).ok()?;
            let cluster = order["metadata"]["name"].as_str()?;
            let key = ObjectKey::namespaced(NAMESPACE, ANSWER);
            Some(Request::new(name(cluster), key))
        };
        let of_board = objects.last().filter(|_| is_board);
        let requests = of_board.and_then(request).into_iter().collect();
        Box::pin(async { Ok(requests) })
    }
}

async fn answer(context: Context) -> Result<Action, Failure> {
    let grant = Arc::new(Grant::all());
    let board = context.fleet().cluster(&name(BOARD));
    let board = board.ok_or_else(|| Failure::retry("the board is not there"))?;
    let board = context.client_for(&board, &grant);
    let of = ObjectKey::namespaced(NAMESPACE, context.request.cluster.as_str());
    let order = board
        .get(&config_map(), &of, &GetOptions::default())
        .await?;
    let Some(order) = order else {
        return Ok(Action::Done);
    };
    let order: Value =
        serde_json::from_slice(&order).map_err(|error| Failure::terminal(error.to_string()))?;
    let answer = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ANSWER, "namespace": NAMESPACE}, "data": order["data"]});
    let options = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    let client = context.client(&grant);
    let answer = answer.to_string().into();
    client.apply(&config_map(), answer, &options).await?;
    Ok(Action::Done)
}
