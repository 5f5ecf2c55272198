//! A guest in the simulated fleet, which greets. Entry point: [`controller`].

use crate::oracle::WITHIN;
use crate::rig::Rig;
use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_apiserver::Cluster;
use windlass_fleet::controller::ControllerOptions;
use windlass_fleet::{Controller, ControllerName, Grant, Rule, TenantName};
use windlass_harness::eventually;
use windlass_harness::eventually::Seen;
use windlass_harness::guests;
use windlass_sandbox::{
    CacheOptions, Guest, GuestOptions, Isolation, Limits, Options, Sandbox, Tenant, TenantLimits,
};

/// Where those are who are to be greeted.
pub(super) const NAMESPACE: &str = "greeted";
const GREET: &str = "hello.windlass.dev/greet";
const GREETING: &str = "-greeting";

/// An engine in one thread. What it compiles is kept for the next process.
fn sandbox() -> Result<Sandbox> {
    Ok(Sandbox::new(Options {
        instances: 64,
        in_place: true,
        cache: Some(CacheOptions::new(guests::compiled())),
        ..Options::default()
    })?)
}

/// Builds the guest and compiles it, so that no simulated process has to.
pub(super) fn prepare() -> Result<PathBuf> {
    let component = guests::guest("hello");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        sandbox()?.load(component.clone()).await?;
        Ok(component)
    })
}

/// The guest's controller.
pub(super) async fn controller(component: &Path, options: ControllerOptions) -> Result<Controller> {
    let sandbox = sandbox()?;
    let revision = sandbox.load(component.to_path_buf()).await?;
    let (name, tenant) = (ControllerName::new("hello")?, TenantName::new("greeters")?);
    let rule = Rule {
        api_groups: vec!["".into()],
        resources: vec!["configmaps".into(), "events".into()],
        verbs: vec!["*".into()],
        namespaces: vec!["*".into()],
        ..Rule::default()
    };
    let grant = Arc::new(Grant::new(vec![rule]));
    let guest = GuestOptions {
        tenant: Tenant::new(tenant.clone(), &TenantLimits::default()),
        name: name.clone(),
        grant: grant.clone(),
        http: Arc::default(),
        config: "{}".to_owned(),
        limits: Limits::default(),
        isolation: Isolation::Fresh,
        record: None,
        secrets: Vec::new(),
    };
    let guest = Guest::new(&sandbox, guest, revision).await?;
    let parts = guest.controller_parts();
    let builder = Controller::builder(name)
        .tenant(tenant)
        .grant(grant)
        .options(options);
    let builder = parts
        .primary
        .into_iter()
        .fold(builder, |builder, kind| builder.primary(kind));
    let watches = parts.watches.into_iter();
    let builder = watches.fold(builder, |builder, watch| builder.watch(watch));
    Ok(builder.build(guest)?)
}

/// Has somebody greeted, or by another name.
pub(super) fn greet(at: &Cluster, object: &str, who: &str) -> Result<()> {
    let apply = |object: Value| {
        at.apply(object)
            .map(drop)
            .map_err(|error| anyhow!("{error:?}"))
    };
    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))?;
    apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": object, "namespace": NAMESPACE, "labels": {GREET: who}}}))
}

/// Waits until everybody is greeted by the right name, and nobody else is.
pub(super) async fn all_greeted(rig: &Rig) -> Result<()> {
    eventually(WITHIN, "everybody to be greeted", || {
        let names = rig.server.clusters();
        let wrong = names.iter().map(|name| ungreeted(&rig.simulated(name)));
        let wrong = wrong.collect::<Result<Vec<_>>>();
        async move { wrong.map(|wrong| Seen::of(wrong.concat(), Vec::is_empty)) }
    })
    .await
    .map(drop)
}

fn ungreeted(at: &Cluster) -> Result<Vec<String>> {
    let maps = at.list("v1", "ConfigMap", NAMESPACE);
    let maps = maps.map_err(|error| anyhow!("{error:?}"))?;
    let mut wanted = BTreeMap::new();
    let mut present = BTreeMap::new();
    for map in &maps {
        let name = map["metadata"]["name"].as_str().context("a name")?;
        let text = map["data"]["greeting"].as_str();
        if let Some(who) = map["metadata"]["labels"][GREET].as_str() {
            wanted.insert(name.to_owned() + GREETING, who);
        } else if name.ends_with(GREETING) {
            present.insert(name.to_owned(), text.unwrap_or_default());
        }
    }
    let mut is_right = |name: &String, who: &str| {
        let text = present.remove(name);
        text.is_some_and(|text| text.contains(&format!(", {who},")))
    };
    let mut wrong: Vec<String> = wanted
        .iter()
        .filter(|(name, who)| !is_right(name, who))
        .map(|(name, who)| format!("{}: {name} does not greet {who}", at.name()))
        .collect();
    wrong.extend(
        present
            .keys()
            .map(|name| format!("{}: {name} greets nobody", at.name())),
    );
    Ok(wrong)
}
