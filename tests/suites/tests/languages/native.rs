//! The reconciler of `guests/conformance` on `windlass-fleet`, without a sandbox. Entry point: [`Native`].
//!
//! A sandbox says some things itself: that a cluster is not opened, that a batch is too large, that a mapper may not read live. They
//! are spelled out here, so that the suite holds the sandbox to them.

mod around;
mod reads;
mod servers;
mod words;
mod writes;

use crate::book::{Book, MAPPED};
use crate::cases::HTTP;
use futures::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;
use windlass_fleet::api::{ApiCode, ApiError, GetOptions, Json, Projection};
use windlass_fleet::controller::Reconciler;
use windlass_fleet::outbound::HttpGrant;
use windlass_fleet::path::FieldPath;
use windlass_fleet::predicate::Predicate;
use windlass_fleet::source::{Enqueue, Index, MapContext, MapError, Mapper, Watch, WatchClusters};
use windlass_fleet::{
    Action, Client, ClusterName, Context, Failure, Grant, GroupVersionKind, ObjectKey, Request,
};
use words::{Scene, Sheet, maps, text};

const CASE: &str = "conformance.windlass.dev/case";
const ASK: &str = "conformance.windlass.dev/ask";
const FOR: &str = "conformance.windlass.dev/for";

/// The reconciler.
pub(crate) struct Native {
    grant: Arc<Grant>,
    /// What it may call besides API servers.
    http: Arc<HttpGrant>,
    config: Value,
    book: Arc<Book>,
    /// Itself, as the mapper of its watches.
    mapper: Arc<dyn Mapper>,
}

impl Native {
    pub(crate) fn new(grant: Grant, http: Arc<HttpGrant>, config: Value, book: Arc<Book>) -> Self {
        let grant = Arc::new(grant);
        let mapper = Arc::new(NativeMapper {
            grant: grant.clone(),
            book: book.clone(),
        });
        Self {
            grant,
            http,
            config,
            book,
            mapper,
        }
    }

    pub(crate) fn primary(&self) -> GroupVersionKind {
        maps()
    }

    pub(crate) fn watches(&self) -> Vec<Watch> {
        let any_of = |predicates: [Predicate; 2]| Predicate::Any(predicates.into());
        let of = |group: &str, kind: &str, enqueue| {
            Watch::new(GroupVersionKind::new(group, "v1", kind), enqueue)
        };
        let fields = "metadata.namespace!=kube-system".parse();
        vec![
            Watch {
                clusters: WatchClusters::Provider,
                predicate: any_of([Predicate::Labels, Predicate::Annotations]),
                ..of("", "ConfigMap", Enqueue::Primary)
            },
            Watch {
                predicate: any_of([Predicate::Generation, Predicate::Status]),
                ..of("apps", "Deployment", Enqueue::ControllerOwner)
            },
            Watch {
                label_selector: Some(ASK.parse().expect("a selector")),
                projection: Projection::Metadata,
                ..of("", "Secret", Enqueue::Mapped(self.mapper.clone()))
            },
            of("", "ServiceAccount", Enqueue::AnyOwner),
            Watch {
                field_selector: Some(fields.expect("a selector")),
                ..of("", "PersistentVolumeClaim", Enqueue::SameName)
            },
            of("", "Service", Enqueue::ByIndex("service".to_owned())),
        ]
    }

    pub(crate) fn indexes(&self) -> Vec<Index> {
        let path = |path: &str| FieldPath::parse(path).expect("a path");
        let index = |name: &str, at, namespace: Option<&str>| Index {
            kind: maps(),
            name: name.to_owned(),
            path: path(at),
            namespace_path: namespace.map(path),
        };
        vec![
            index("color", "data.color", None),
            index("service", "data.service", Some("data['service.namespace']")),
        ]
    }
}

impl Reconciler for Native {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        Box::pin(self.run(context))
    }
}

impl Native {
    async fn run(&self, context: Context) -> Result<Action, Failure> {
        let key = context.request.key.clone();
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let sheet = Sheet::new(&self.book, namespace);
        let client = context.client(&self.grant);
        let primary = client.get(&maps(), &key, &GetOptions::default()).await?;
        let Some(primary) = primary.as_ref().map(words::parsed) else {
            sheet.info("gone", &[("key", format!("{namespace}/{}", key.name))]);
            return Ok(Action::Done);
        };
        let case = text(
            &primary,
            &format!("/metadata/labels/{}", CASE.replace('/', "~1")),
        );
        let scene = Scene {
            client: client.clone(),
            sheet,
            key,
            primary,
        };
        self.case(&case, &scene, &context).await
    }

    async fn case(&self, case: &str, scene: &Scene, context: &Context) -> Result<Action, Failure> {
        match case {
            "none" => {}
            "read" => reads::read(scene).await?,
            "list" => reads::list(scene).await?,
            "many" => reads::many(scene).await?,
            "create" => writes::create(scene).await?,
            "update" => writes::update(scene).await?,
            "patch" => writes::patch(scene).await?,
            "apply" => writes::apply(scene).await?,
            "status" => writes::status(scene).await?,
            "delete" => writes::delete(scene).await?,
            "collection" => writes::collection(scene).await?,
            "batch" => writes::batch(scene).await?,
            "text" => writes::text_case(scene).await?,
            "large" => writes::large(scene).await?,
            "events" => around::events(scene),
            "log" => around::log(scene),
            "config" => around::config(scene, &self.config),
            "clock" => around::clock(scene),
            "clusters" => around::clusters(scene),
            "open" => around::open(scene, context, &self.grant).await?,
            "across" => around::across(scene, context, &self.grant).await?,
            HTTP => servers::http(scene, &context.http(&self.http)).await?,
            "codes" => around::codes(scene).await,
            "limits" => around::limits(scene),
            "cancelled" => around::refused_read(scene, "cancelled", "answers-never").await,
            _ => return end(case, scene).await,
        }
        Ok(Action::Done)
    }
}

/// The cases about how a run ends.
async fn end(case: &str, scene: &Scene) -> Result<Action, Failure> {
    let after = |seconds| {
        Ok(Action::RequeueAfter(std::time::Duration::from_secs(
            seconds,
        )))
    };
    match case {
        "done" => Ok(Action::Done),
        "requeue" => after(90),
        "requeue-now" => after(0),
        "retry" => Err(Failure::retry("not yet")),
        "terminal" => Err(Failure::terminal("never")),
        "terminal-cut" => Err(Failure::terminal("half \u{fffd}")),
        "exception" => Err(Failure::retry("broken")),
        "retry-api" => {
            scene.live("answers-503").await?;
            Ok(Action::Done)
        }
        "terminal-api" => match scene.live("answers-503").await {
            Err(error) => Err(Failure::terminal(format!("reading: {error}"))),
            Ok(_) => Ok(Action::Done),
        },
        _ => Err(Failure::terminal(format!("there is no case {case:?}"))),
    }
}

struct NativeMapper {
    grant: Arc<Grant>,
    book: Arc<Book>,
}

impl Mapper for NativeMapper {
    fn map(
        &self,
        context: MapContext,
        kind: GroupVersionKind,
        objects: Vec<Json>,
    ) -> BoxFuture<'_, Result<Vec<Request>, MapError>> {
        Box::pin(async move {
            let Some(newest) = objects.last().map(words::parsed) else {
                return Ok(Vec::new());
            };
            let asked = newest["metadata"]["annotations"][FOR].as_str();
            let no_cluster = || MapError::Failed("no cluster is asked for".to_owned());
            let asked = asked.ok_or_else(no_cluster)?;
            let namespace = text(&newest, "/metadata/namespace");
            let client: Client = context.client(&self.grant);
            let apple = ObjectKey::namespaced(&namespace, "apple");
            let apple = client.get(&maps(), &apple, &GetOptions::default()).await;
            let apple = apple.map_err(failed)?;
            let granted = context.fleet.clusters();
            let granted = granted.iter().map(|cluster| cluster.name().as_str());
            let granted: Vec<_> = granted.filter(|name| *name != "gamma").collect();
            let sheet = Sheet::new(&self.book, MAPPED);
            sheet.info(
                "mapped",
                &[
                    ("kind", format!("{}/{}", kind.api_version(), kind.kind)),
                    ("objects", objects.len().to_string()),
                    ("color", words::color(apple.as_ref())),
                    ("clusters", granted.join(",")),
                ],
            );
            sheet.refuse(
                "live",
                &ApiError::host(
                    ApiCode::Denied,
                    "a mapper has cached reads only: enqueue a request and do the rest in reconcile",
                ),
            );
            let cluster = ClusterName::new(asked).map_err(failed)?;
            Ok(vec![Request::new(
                cluster,
                ObjectKey::namespaced(&namespace, "asked"),
            )])
        })
    }
}

fn failed(error: impl std::fmt::Display) -> MapError {
    MapError::Failed(error.to_string())
}
