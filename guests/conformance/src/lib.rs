//! The conformance reconciler: a case for each part of the contract. Entry point: [`Conformance`].
//!
//! A ConfigMap labelled [`CASE`] names the case that runs for it. `README.md` says what each case calls and what it logs; every
//! language has the same reconciler, and one suite compares what they do.

mod errors;
mod fleet;
mod outcomes;
mod reads;
mod servers;
mod settings;
mod words;
mod writes;

use serde::Deserialize;
use windlass_sdk::prelude::*;
use windlass_sdk::{Change, ClusterScope, GroupVersionKind, Index, Mapper};
use words::{ConfigMap, deployments, names, refused};

/// The label of a ConfigMap that asks for a case. Its value is the case's name.
const CASE: &str = "conformance.windlass.dev/case";
/// The label of a Secret that asks for requests.
const ASK: &str = "conformance.windlass.dev/ask";
/// The annotation of such a Secret: the cluster that is asked for.
const FOR: &str = "conformance.windlass.dev/for";

/// The configuration for the load. The cases read more.
#[derive(Deserialize)]
struct Config {
    /// What `describe` fails with.
    refuse: Option<String>,
    /// What has an option that no host knows.
    later: Option<String>,
}

/// The guest.
struct Conformance;
windlass_sdk::guest!(Conformance, mapper);

impl Reconciler for Conformance {
    fn describe() -> Result<Description> {
        let config: Config = config()?;
        if let Some(refusal) = config.refuse {
            return Err(Error::retry(refusal));
        }
        let of = |api_version, kind| Watch::of(GroupVersionKind::new(api_version, kind));
        let mut description = Description::new("walks through the contract")
            .primary_watch(
                of("v1", "ConfigMap")
                    .clusters(ClusterScope::Provider)
                    .on(Change::Labels)
                    .on(Change::Annotations),
            )
            .watch(
                of("apps/v1", "Deployment")
                    .enqueue(Enqueue::ControllerOwner)
                    .on(Change::Generation)
                    .on(Change::Status),
            )
            .watch(
                of("v1", "Secret")
                    .enqueue(Enqueue::Mapped)
                    .labels(ASK)
                    .metadata_only(),
            )
            .watch(of("v1", "ServiceAccount").enqueue(Enqueue::AnyOwner))
            .watch(
                of("v1", "PersistentVolumeClaim")
                    .enqueue(Enqueue::SameName)
                    .fields("metadata.namespace!=kube-system"),
            )
            .watch(of("v1", "Service").enqueue(Enqueue::ByIndex("service".into())))
            .index::<ConfigMap>("color", "data.color");
        description.indexes.push(Index {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            name: "service".into(),
            path: "data.service".into(),
            namespace_path: Some("data['service.namespace']".into()),
            options: Vec::new(),
        });
        let options = match config.later.as_deref() {
            Some("watch") => description
                .watches
                .last_mut()
                .map(|watch| &mut watch.options),
            Some("index") => description
                .indexes
                .last_mut()
                .map(|index| &mut index.options),
            Some(_) => Some(&mut description.options),
            None => None,
        };
        options
            .into_iter()
            .for_each(|options| options.push(("later".into(), "yes".into())));
        Ok(description)
    }

    fn reconcile(request: &Request, cluster: &Cluster) -> Result<Action> {
        let Some(primary) = cluster.get::<ConfigMap>(&request.key)? else {
            info!("gone", key = request.key);
            return Ok(Action::Done);
        };
        let Some(case) = primary.metadata.labels.get(CASE) else {
            return Ok(Action::Done); // objects of the cases
        };
        let scene = Scene {
            cluster,
            key: &request.key,
            primary: &primary,
        };
        match case.as_str() {
            "read" => reads::read(&scene)?,
            "list" => reads::list(&scene)?,
            "many" => reads::many(&scene)?,
            "create" => writes::create(&scene)?,
            "update" => writes::update(&scene)?,
            "patch" => writes::patch(&scene)?,
            "apply" => writes::apply(&scene)?,
            "status" => writes::status(&scene)?,
            "delete" => writes::delete(&scene)?,
            "ensure" => writes::ensure(&scene)?,
            "collection" => writes::collection(&scene)?,
            "batch" => writes::batch(&scene)?,
            "text" => writes::text(&scene)?,
            "large" => writes::large(&scene)?,
            "events" => settings::events(&scene),
            "log" => settings::log(),
            "config" => settings::config()?,
            "clock" => settings::clock(),
            "clusters" => fleet::clusters()?,
            "open" => fleet::open(&scene)?,
            "across" => fleet::across(&scene)?,
            "http" => servers::http(&scene)?,
            "codes" => errors::codes(&scene),
            "limits" => errors::limits(&scene),
            "cancelled" => errors::cancelled(&scene),
            _ => return outcomes::end(case, &scene),
        }
        Ok(Action::Done)
    }
}

impl Mapper for Conformance {
    fn map(cluster: &Cluster, kind: &GroupVersionKind, objects: &[Object]) -> Result<Vec<Request>> {
        let Some(newest) = objects.last() else {
            return Ok(Vec::new());
        };
        let asked = newest
            .annotation(FOR)
            .ok_or_else(|| Error::retry("no cluster is asked for"))?;
        let apple = newest.key().sibling("apple");
        let color = cluster.get::<ConfigMap>(&apple)?;
        info!(
            "mapped",
            kind = kind,
            objects = objects.len(),
            color = words::color(color.as_ref()),
            clusters = names(
                windlass_sdk::fleet::clusters()?
                    .iter()
                    .map(|info| &*info.name)
            ),
        );
        if let Err(error) = cluster.get_live::<ConfigMap>(&apple) {
            refused("live", &error);
        }
        Ok(vec![Request {
            cluster: asked.to_owned(),
            key: newest.key().sibling("asked"),
        }])
    }
}

/// The surroundings of a case.
struct Scene<'a> {
    /// The request's cluster.
    cluster: &'a Cluster,
    /// The request's key.
    key: &'a ObjectKey,
    /// The ConfigMap that asked for the case.
    primary: &'a ConfigMap,
}

impl Scene<'_> {
    /// The namespace of the case, which has it for itself.
    fn namespace(&self) -> &str {
        self.key.namespace.as_deref().unwrap_or_default()
    }

    /// An object of the namespace.
    fn at(&self, name: &str) -> ObjectKey {
        self.key.sibling(name)
    }

    /// A ConfigMap of the namespace, without a type, as it is read before it is replaced.
    fn read(&self, name: &str) -> Result<Object> {
        let maps = self.cluster.of(GroupVersionKind::new("v1", "ConfigMap"));
        let found = maps.get(&self.at(name))?;
        found.ok_or_else(|| Error::retry(format!("there is no ConfigMap {name}")))
    }

    /// The Deployment `web`, from the API server.
    fn web(&self) -> Result<Object> {
        let found = self.cluster.of(deployments()).get_live(&self.at("web"))?;
        found.ok_or_else(|| Error::retry("there is no Deployment web"))
    }
}
