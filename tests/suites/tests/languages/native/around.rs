//! The native cases about events, the log, other clusters and calls that fail.

use super::words::{Scene, bytes, color, maps, parsed, text};
use super::writes::answered;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_fleet::api::{
    ApiCode, ApiError, DeleteOptions, Event, EventType, GetOptions, Operation, Reply, WriteOptions,
};
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::{Client, ClusterName, Context, Grant, GroupVersionKind};

pub(super) fn events(scene: &Scene) {
    let event = |name: &str, event_type, reason: &str, note: &str| Event {
        kind: maps(),
        key: scene.at(name),
        event_type,
        reason: reason.to_owned(),
        action: "Reconcile".to_owned(),
        note: note.to_owned(),
    };
    let (client, odd) = (&scene.client, "the apple is odd: \"żółty\"");
    client.record_event(event("case", EventType::Normal, "Checked", "all is well"));
    client.record_event(event("apple", EventType::Warning, "Odd", odd));
    scene.info("told", &[]);
}

pub(super) fn log(scene: &Scene) {
    let sheet = &scene.sheet;
    let line = |level, message, fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        sheet.line(level, message, &fields);
    };
    line("DEBUG", "looked", &[("at", "apple")]);
    line("INFO", "did", &[("what", "two words"), ("count", "2")]);
    line(
        "WARN",
        "odd",
        &[("text", "żółty = \"yellow\""), ("empty", "")],
    );
    line("ERROR", "broken", &[("line", "one\ntwo")]);
    line("INFO", "no values", &[]);
    line("INFO", "cut", &[("text", "half \u{fffd}")]);
}

pub(super) fn config(scene: &Scene, config: &Value) {
    let list = config["list"].as_array().into_iter().flatten();
    let list: Vec<_> = list.filter_map(Value::as_str).collect();
    let fields = [
        ("greeting", text(config, "/greeting")),
        ("count", text(config, "/count")),
        ("list", list.join(",")),
        ("deep", text(config, "/nested/deep")),
    ];
    scene.info("config", &fields);
}

/// What the contract promises of the time; a native reconciler has no such clock.
pub(super) fn clock(scene: &Scene) {
    let zone = ("zone", "Z".to_owned());
    scene.info(
        "clock",
        &[
            ("length", "24".to_owned()),
            zone,
            ("forward", "true".to_owned()),
        ],
    );
}

pub(super) fn clusters(scene: &Scene) {
    for (name, tier) in [("alpha", "first"), ("beta", "second")] {
        let fields = [
            ("name", name.to_owned()),
            ("labels", format!("fleet:test,tier:{tier}")),
            ("properties", "region:north".to_owned()),
            ("ready", "true".to_owned()),
        ];
        scene.info("cluster", &fields);
    }
    scene.info("by label", &[("names", "beta".to_owned())]);
    let wrong = LabelSelector::parse("tier in (").expect_err("it is none");
    let error = ApiError::host(ApiCode::Invalid, wrong.to_string());
    scene.sheet.refuse("no selector", &error);
}

/// A client of another cluster, and what the sandbox says where it gives none.
fn other(context: &Context, grant: &Arc<Grant>, name: &str) -> Result<Client, ApiError> {
    let rule = match name {
        "" => "local: true".to_owned(),
        name => format!("names: [{name:?}]"),
    };
    match name {
        "bye" => Err(ApiError::host(
            ApiCode::ClusterGone,
            "no cluster \"bye\" is in the fleet",
        )),
        "gamma" | "" => Err(ApiError::host(
            ApiCode::Denied,
            format!("no rule opens a cluster {name:?}: add clusters: {{{rule}}} to a rule"),
        )),
        name => {
            let name = ClusterName::new(name).expect("a cluster's name");
            let cluster = context.fleet().cluster(&name).expect("a cluster");
            Ok(context.client_for(&cluster, grant))
        }
    }
}

pub(super) async fn open(
    scene: &Scene,
    context: &Context,
    grant: &Arc<Grant>,
) -> Result<(), ApiError> {
    let beta = other(context, grant, "beta")?;
    let apple = beta
        .get(&maps(), &scene.at("apple"), &GetOptions::default())
        .await?;
    let fields = [
        ("name", beta.cluster_name().to_string()),
        ("color", color(apple.as_ref())),
    ];
    scene.info("opened", &fields);
    let sent = scene.map(
        "sent",
        json!({"from": scene.client.cluster_name().to_string()}),
    );
    let sent = beta
        .create(&maps(), bytes(&sent), &WriteOptions::default())
        .await?;
    scene.info("sent", &[("from", text(&parsed(&sent), "/data/from"))]);
    for name in ["gamma", "bye", ""] {
        scene.refuse("not opened", &other(context, grant, name).map(drop));
    }
    Ok(())
}

pub(super) async fn across(
    scene: &Scene,
    context: &Context,
    grant: &Arc<Grant>,
) -> Result<(), ApiError> {
    let get = || Operation::Get(maps(), scene.at("apple"), GetOptions::default());
    let pear = bytes(&scene.map("pear", json!({"color": "green"})));
    let operations = [
        ("alpha", get()),
        ("beta", get()),
        ("gamma", get()),
        (
            "beta",
            Operation::Create(maps(), pear, WriteOptions::default()),
        ),
        (
            "bye",
            Operation::Delete(maps(), scene.at("apple"), DeleteOptions::default()),
        ),
    ];
    let mut replies: Vec<Result<Reply, ApiError>> = Vec::new();
    for (name, operation) in operations {
        replies.push(match other(context, grant, name) {
            Ok(client) => client.run(operation).await,
            Err(error) => Err(error),
        });
    }
    for reply in replies {
        answered(scene, reply);
    }
    Ok(())
}

pub(super) async fn codes(scene: &Scene) {
    for answer in [
        "400", "401", "403", "409", "410", "418", "429", "500", "503", "504", "cut", "endless",
    ] {
        refused_read(scene, answer, &format!("answers-{answer}")).await;
    }
    for (group, kind) in [("", "Pod"), ("apps", "Submarine")] {
        let kind = GroupVersionKind::new(group, "v1", kind);
        let plain = GetOptions::default();
        let answer = scene.client.get(&kind, &scene.at("nothing"), &plain).await;
        scene.refuse(&kind.kind, &answer);
    }
}

pub(super) async fn refused_read(scene: &Scene, call: &str, name: &str) {
    scene.refuse(call, &scene.live(name).await);
}

pub(super) fn limits(scene: &Scene) {
    scene.info("limits", &[("replies", "21".to_owned())]);
    let message = "a batch of 21 operations is too large: send at most 20 at once";
    scene
        .sheet
        .refuse("too many", &ApiError::host(ApiCode::LimitExceeded, message));
}
