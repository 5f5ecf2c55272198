//! A host of a later version of the contract, which has a function more, and guests of both versions on both hosts.

use super::*;
use crate::component::revision::{LoadError, Source};
use crate::guest::{Guest, GuestOptions};
use crate::options::{CacheOptions, Isolation, Limits, TenantLimits};
use anyhow::{Context as _, Result, anyhow};
use clock::Host as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wasmtime::StoreContextMut;
use windlass_apiserver::Server;
use windlass_fleet::cluster::ClusterConfig;
use windlass_fleet::engage::ClusterSpec;
use windlass_fleet::grant::{ClusterRule, Rule};
use windlass_fleet::name::{ClusterName, ControllerName, NamePattern, TenantName};
use windlass_fleet::outcome::Disposition;
use windlass_fleet::provider::single::Single;
use windlass_fleet::{
    Action, Context, Controller, Failure, Grant, Manager, ObjectKey, Reconciler, Request,
};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::{self, LANGUAGES, guest};

/// The later host's result of the later function.
const UPTIME: u32 = 1234;

/// The contract of version 0.1.1: `clock` has `uptime-ms`, and is there under that version alone.
fn next(engine: &Engine, with_fleet: bool) -> wasmtime::Result<Linker<Call>> {
    let mut linker = without_clock(engine, with_fleet)?;
    let mut clock = linker.instance("windlass:runtime/clock@0.1.1")?;
    clock.func_wrap("now", |mut store: StoreContextMut<'_, Call>, (): ()| {
        Ok((store.data_mut().now()?,))
    })?;
    clock.func_wrap("uptime-ms", |_: StoreContextMut<'_, Call>, (): ()| {
        Ok((UPTIME,))
    })?;
    Ok(linker)
}

fn options() -> Options {
    Options {
        instances: 4,
        describe_timeout: Duration::from_secs(5),
        cache: Some(CacheOptions::new(guests::compiled())),
        ..Options::default()
    }
}

/// A component as if it were built against version 0.1.1: only the names differ.
fn built_later(component: &std::path::Path) -> Result<Source> {
    let (from, to) = (b"@0.1.0", b"@0.1.1");
    let mut bytes = std::fs::read(component)?;
    for at in 0..bytes.len().saturating_sub(from.len()) {
        let named = bytes[..at].ends_with(b"windlass:runtime/clock")
            || bytes[..at].ends_with(b"windlass:runtime/client")
            || bytes[..at].ends_with(b"windlass:runtime/types")
            || bytes[..at].ends_with(b"windlass:runtime/log")
            || bytes[..at].ends_with(b"windlass:runtime/config")
            || bytes[..at].ends_with(b"windlass:runtime/fleet")
            || bytes[..at].ends_with(b"windlass:runtime/http")
            || bytes[..at].ends_with(b"windlass:runtime/reconciler")
            || bytes[..at].ends_with(b"windlass:runtime/mapper");
        if named && bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    let name = format!("{} of 0.1.1", component.display());
    Ok(Source::Bytes { name, bytes })
}

/// A ConfigMap that asks the conformance reconciler for a case.
fn asking(case: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "case", "labels": {"conformance.windlass.dev/case": case}},
    })
}

/// Runs a guest over these objects, one of which causes a request for the ConfigMap `case`. Returns the result of that request, and the
/// ConfigMaps after it.
async fn run(
    sandbox: &Sandbox,
    source: impl Into<Source>,
    objects: &[Value],
) -> Result<(Result<Action, Failure>, Vec<Value>)> {
    let server = Server::builder()
        .cluster("alpha")
        .bind("127.0.0.1:0")
        .await?;
    let name = ClusterName::new("alpha")?;
    let spec = ClusterSpec::new(name, ClusterConfig::from_url(&server.url("alpha"))?);
    let revision = sandbox.load(source).await?;
    let rule = |resources: &[&str], verb: &str| Rule {
        api_groups: vec!["*".into()],
        resources: resources.iter().map(|&resource| resource.into()).collect(),
        verbs: vec![verb.into()],
        namespaces: vec!["*".into()],
        ..Rule::default()
    };
    let others = ClusterRule {
        names: vec![NamePattern::any()],
        ..ClusterRule::default()
    };
    let grant = Arc::new(Grant::new([
        rule(&["*"], "*"),
        Rule {
            clusters: Some(others),
            ..rule(&["*"], "get")
        },
    ]));
    let guest = Guest::new(
        sandbox,
        GuestOptions {
            tenant: Tenant::new(TenantName::default(), &TenantLimits::default()),
            name: ControllerName::new("guest")?,
            grant: grant.clone(),
            http: Arc::default(),
            config: r#"{"greeting": "hello"}"#.into(),
            limits: Limits {
                memory: 128 << 20,
                ..Limits::default()
            },
            isolation: Isolation::Fresh,
            record: None,
            secrets: Vec::new(),
        },
        revision,
    )
    .await?;

    let key = ObjectKey::namespaced("default", "case");
    let request = Request::new(ClusterName::new("alpha")?, key);
    let ended = Arc::new(Mutex::new(None));
    let parts = guest.controller_parts();
    let mut controller = Controller::builder(ControllerName::new("guest")?).grant(grant);
    if let Some(primary) = parts.primary {
        controller = controller.primary(primary);
    }
    for watch in parts.watches {
        controller = controller.watch(watch);
    }
    for index in parts.indexes {
        controller = controller.index(index);
    }
    let (seen, asked) = (ended.clone(), request.clone());
    let reconciler = move |context: Context| {
        let (guest, seen, asked) = (guest.clone(), seen.clone(), asked.clone());
        async move {
            let is_asked = context.request == asked;
            let outcome = guest.reconcile(context).await;
            if is_asked {
                seen.lock().get_or_insert(outcome);
            }
            Ok(Action::Done)
        }
    };
    let manager = Manager::builder()
        .provider(Arc::new(Single::new(spec)))
        .controller(controller.build(Arc::new(reconciler))?)
        .build()?;
    let alpha = server.cluster("alpha").context("the cluster")?;
    for object in objects.iter().cloned() {
        alpha.create(object).map_err(|error| anyhow!("{error:?}"))?;
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.bind().run(stop.clone()));
    let outcome = eventually(Duration::from_secs(60), "the end of the case", || {
        let ended = ended.lock().clone();
        async move { Ok(ended.map_or_else(|| Seen::NotYet("nothing".to_owned()), Seen::Yes)) }
    });
    let outcome = outcome.await?;
    stop.cancel();
    running.await??;
    let maps = alpha.list("v1", "ConfigMap", "default");
    Ok((outcome, maps.map_err(|error| anyhow!("{error:?}"))?))
}

/// Checks the work of a pinned guest (see `tests/contract/0.1.0`) for `case`, beside three others of which two are red.
fn assert_did_all(what: &str, maps: &[Value]) {
    let data = |name: &str| {
        let of = |map: &&Value| map["metadata"]["name"] == name;
        maps.iter().find(of).map(|map| map["data"].clone())
    };
    let made = json!({"greeting": "hello", "patched": "yes"});
    assert_eq!(data("case-made"), Some(made), "{what}");
    let seen = json!({
        "red": "2", "absent": "404", "read": "true", "clusters": "alpha", "opened": "alpha", "now": "24",
    });
    assert_eq!(data("case-seen"), Some(seen), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_one_more_function_runs_a_guest_in_rust_that_does_not_know_it() -> Result<()> {
    runs_on_both_hosts(&["rust"]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs other languages' tools"]
async fn a_host_with_one_more_function_runs_the_guests_of_other_languages_that_do_not_know_it()
-> Result<()> {
    let others: Vec<&str> = LANGUAGES.into_iter().filter(|one| *one != "rust").collect();
    runs_on_both_hosts(&others).await
}

/// That guests of 0.1.0 do their work on the host of today and on one with a later contract.
async fn runs_on_both_hosts(languages: &[&str]) -> Result<()> {
    let map = |name: &str, color: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": name}, "data": {"color": color},
        })
    };
    // The mapper has the Secret ask for the ConfigMap `case`.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": "default", "name": "asks", "labels": {"contract.windlass.dev/ask": "case"}},
    });
    let objects = [
        map("apple", "red"),
        map("banana", "yellow"),
        map("cherry", "red"),
        map("case", "yellow"),
        secret.clone(),
    ];
    let hosts = [
        ("the host of today", Sandbox::new(options())?),
        ("a host of 0.1.1", Sandbox::linked(options(), next)?),
    ];
    for language in languages {
        let component = guests::pinned("0.1.0", language)?;
        for (host, sandbox) in &hosts {
            let what = format!("{language} on {host}");
            let (outcome, maps) = run(sandbox, component.clone(), &objects).await?;
            let again = Action::RequeueAfter(Duration::from_secs(60));
            assert_eq!(outcome, Ok(again), "{what}");
            assert_did_all(&what, &maps);

            let (outcome, maps) =
                run(sandbox, component.clone(), std::slice::from_ref(&secret)).await?;
            let failure = outcome.err().context("there is nothing to reconcile")?;
            assert_eq!(failure.message, "there is no case", "{what}");
            assert_eq!(failure.disposition, Disposition::Terminal, "{what}");
            assert_eq!(maps, Vec::<Value>::new(), "{what}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_calls_a_later_function_is_refused_with_the_reason_and_runs_on_a_later_host()
-> Result<()> {
    let component = guest("test-next");
    let now = Sandbox::new(options())?;
    for source in [Source::from(component.clone()), built_later(&component)?] {
        let refused = now
            .load(source)
            .await
            .err()
            .context("it is to be refused")?;
        assert!(matches!(refused, LoadError::Newer { .. }), "{refused:?}");
        let said = refused.to_string();
        for words in [
            "test_next.wasm",
            "windlass:runtime/clock@0.1.1",
            "`uptime-ms`",
            "this host serves windlass:runtime@0.1.0",
        ] {
            assert!(said.contains(words), "{words} in: {said}");
        }
    }

    let later = Sandbox::linked(options(), next)?;
    let (outcome, _) = run(&later, component, &[asking("none")]).await?;
    let failure = outcome.err().context("it answers in a failure")?;
    assert_eq!(failure.message, "up for 1234 ms");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_built_later_that_calls_nothing_new_runs_on_this_host() -> Result<()> {
    let now = Sandbox::new(options())?;
    let component = built_later(&guest("conformance"))?;
    let revision = now.load(component.clone()).await?;
    assert_eq!(
        revision.world(),
        "windlass:runtime/http-mapped-fleet-reconcile@0.1.1"
    );
    let (outcome, maps) = run(&now, component, &[asking("create")]).await?;
    assert_eq!(outcome, Ok(Action::Done));
    assert!(maps.iter().any(|map| map["metadata"]["name"] == "pear"));
    Ok(())
}
