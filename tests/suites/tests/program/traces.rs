//! Traces, as a real collector gets them from `run`, and from a real API server that goes on with them.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::running::SOON;
use anyhow::{Context, Result};
use serde_json::json;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};
use windlass_harness::testenv::collector::{Collector, Span};
use windlass_harness::testenv::{Environment, Spec};

/// A word that only objects have.
const IN_OBJECTS: &str = "somebody-in-particular";

/// A real API server that traces what is sampled, and a project that greets there.
async fn traced(project: &Project, collector: &Collector) -> Result<Environment> {
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration",
        "endpoint": collector.grpc(), "samplingRatePerMillion": 0,
    });
    project.write("tracing.json", config.to_string())?;
    let file = project.path().join("tracing.json");
    let spec = Spec::new("alpha").with_arg(format!("--tracing-config-file={}", file.display()));
    let environment = Environment::start([spec]).await?;
    let kubeconfig = environment.server("alpha").kubeconfig();
    project.write("clusters/alpha.kubeconfig", kubeconfig)?;
    Ok(environment)
}

/// Runs until nothing is left to do.
async fn run(project: &Project, variables: &[(&str, &str)]) -> Result<Finished> {
    let args = [
        "run",
        "-f",
        "windlass.yaml",
        "--admin",
        "127.0.0.1:0",
        "--exit-when-idle",
    ];
    let program = Program::start_with(project.path(), args, variables)?;
    program.wait(SOON).await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_reconcile_its_calls_and_what_the_server_does_are_one_trace() -> Result<()> {
    let (project, collector) = (Project::new()?, Collector::start().await?);
    let environment = traced(&project, &collector).await?;
    let maps = ConfigMaps::of(environment.server("alpha").client().await?);
    let url = collector.http();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url);

    // Off, in three ways.
    for (name, off) in [
        ("none", &[][..]),
        ("exporter", &[endpoint, ("OTEL_TRACES_EXPORTER", "none")]),
        (
            "sampler",
            &[endpoint, ("OTEL_TRACES_SAMPLER", "always_off")],
        ),
    ] {
        maps.ask(name, IN_OBJECTS).await?;
        run(&project, off).await?.expect_code(0)?;
        let greeting = format!("hello, {IN_OBJECTS}, from alpha");
        maps.expect_value(&format!("{name}-greeting"), "greeting", Some(&greeting))
            .await?;
        assert_eq!(collector.spans()?, [], "{off:?}");
    }

    maps.ask("a", IN_OBJECTS).await?;
    run(&project, &[endpoint]).await?.expect_code(0)?;
    let spans = eventually(SOON, "spans of program and server", || async {
        let there = |spans: &Vec<Span>| {
            let of = |service| spans.iter().any(|span| span.service == service);
            of("windlass") && of("apiserver")
        };
        Ok(Seen::of(collector.spans()?, there))
    })
    .await?;
    let of_a = |span: &&Span| span.name == "reconcile" && span.attribute("name") == Some("a");
    let reconcile = spans.iter().find(of_a).context("the reconcile of a")?;
    assert_eq!(reconcile.parent, "");
    assert!(!reconcile.failed, "{reconcile:?}");
    for (field, value) in [
        ("reconciler", "hello"),
        ("cluster", "alpha"),
        ("namespace", "default"),
        ("name", "a"),
    ] {
        assert_eq!(reconcile.attribute(field), Some(value), "{reconcile:?}");
    }
    // A read of the cache, and a write at the server.
    let call = |verb: &str| {
        let is_it = |span: &&Span| span.name == verb && span.parent == reconcile.id;
        spans.iter().find(is_it).context("a call")
    };
    let (get, apply) = (call("get")?, call("apply")?);
    for call in [get, apply] {
        assert_eq!(call.trace, reconcile.trace);
        assert_eq!(call.attribute("kind"), Some("v1/ConfigMap"), "{call:?}");
    }
    assert_eq!(get.attribute("url.path"), None);
    let path = apply.attribute("url.path").context("a path")?;
    assert!(
        path.starts_with("/api/v1/namespaces/default/configmaps/"),
        "{path}"
    );
    let is_child = |span: &Span| span.service == "apiserver" && span.parent == apply.id;
    assert!(spans.iter().any(is_child), "{spans:?}");
    assert!(!collector.text()?.contains(IN_OBJECTS));

    // A name of the user's own.
    maps.ask("b", IN_OBJECTS).await?;
    let named = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=fleet-eu");
    run(&project, &[endpoint, named]).await?.expect_code(0)?;
    eventually(SOON, "spans of the name", || async {
        let there = |spans: &Vec<Span>| spans.iter().any(|span| span.service == "fleet-eu");
        Ok(Seen::of(collector.spans()?, there))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_protocol_that_is_not_spoken_is_told() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[])?;
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    let finished = run(&project, &variables).await?;
    let said = finished.expect_code(1)?.stderr;
    assert!(
        said.contains("OTEL_EXPORTER_OTLP_PROTOCOL is grpc") && said.contains("4318"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_collector_that_is_away_costs_nothing_but_its_traces() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let _server = crate::running::fleet(&project, &["alpha"]).await?;
    let maps = crate::running::client_of(&project, "alpha").await?;
    maps.ask("a", "world").await?;
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let finished = run(&project, &[endpoint]).await?.expect_code(0)?;
    maps.expect_greeted("a").await?;
    // One or two lines say so, and not one a span.
    let said = finished.stderr.matches("opentelemetry").count();
    assert!(said <= 4, "{}", finished.stderr);
    assert!(
        finished.stderr.contains("telemetry data will be lost"),
        "{}",
        finished.stderr
    );
    Ok(())
}
