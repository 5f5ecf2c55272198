//! Cases that read. Entry points: [`read`], [`list`] and [`many`].

use crate::Scene;
use crate::words::{ConfigMap, NONE, at, color, deployments, named};
use windlass_sdk::prelude::*;
use windlass_sdk::{GetOptions, GroupVersionKind, ListPage, Projection};

/// From the cache and from the server; parts of an object; absent objects.
pub(crate) fn read(scene: &Scene) -> Result<()> {
    let cluster = scene.cluster;
    info!("cluster", name = cluster.name());

    let apple = scene.at("apple");
    let cached: Option<ConfigMap> = cluster.get(&apple)?;
    let live: Option<ConfigMap> = cluster.get_live(&apple)?;
    info!(
        "color",
        cached = color(cached.as_ref()),
        live = color(live.as_ref())
    );

    let maps = GroupVersionKind::new("v1", "ConfigMap");
    for (call, options) in [
        ("cached metadata", GetOptions::default()),
        ("live metadata", GetOptions::live()),
    ] {
        let metadata = GetOptions {
            projection: Projection::Metadata,
            ..options
        };
        let found: Option<Object> = cluster.get_with(&maps, &apple, &metadata)?;
        let found = found.ok_or_else(|| Error::retry("there is no ConfigMap apple"))?;
        info!(
            call,
            fruit = found.label("fruit").unwrap_or(NONE),
            color = at(&found, "/data/color")
        );
    }

    let scale = GetOptions {
        subresource: Some("scale".to_owned()),
        ..GetOptions::default()
    };
    let scale: Option<Object> = cluster.get_with(&deployments(), &scene.at("web"), &scale)?;
    let scale = scale.ok_or_else(|| Error::retry("there is no Deployment web"))?;
    info!(
        "scale",
        kind = at(&scale, "/kind"),
        replicas = at(&scale, "/spec/replicas")
    );

    let nothing = scene.at("nothing");
    info!(
        "absent",
        cached = cluster.get::<ConfigMap>(&nothing)?.is_none(),
        live = cluster.get_live::<ConfigMap>(&nothing)?.is_none(),
    );

    let namespaces = cluster.of(GroupVersionKind::new("v1", "Namespace"));
    let own = namespaces.get_live(&ObjectKey::cluster_scoped(scene.namespace()))?;
    info!(
        "namespace",
        phase = own.map_or(NONE.to_owned(), |own| at(&own, "/status/phase"))
    );
    Ok(())
}

/// By label, index and field; page by page; in one namespace and in all.
pub(crate) fn list(scene: &Scene) -> Result<()> {
    let cluster = scene.cluster;
    let here = || ListOptions::default().namespace(scene.namespace());

    let labelled: Vec<ConfigMap> = cluster.list(&here().labels("set=fruit"))?;
    info!("by label", names = named(&labelled));
    let indexed: Vec<ConfigMap> = cluster.list(&here().index("color", "red"))?;
    info!("by index", names = named(&indexed));
    let selected: Vec<ConfigMap> = cluster.list(&here().fields("metadata.name=banana"))?;
    info!("by field", names = named(&selected));

    let maps = GroupVersionKind::new("v1", "ConfigMap");
    let mut options = here().labels("set=fruit").limit(2);
    let first = cluster.raw().list(&maps, &options)?;
    page("first page", &first)?;
    options.continue_token = first.continue_token;
    page("second page", &cluster.raw().list(&maps, &options)?)?;

    let all = here().labels("set=fruit").limit(2).live();
    let all: Vec<ConfigMap> = cluster.iterate(all).collect::<Result<_, _>>()?;
    info!("page by page", names = named(&all));

    let metadata = here().labels("set=fruit").live().metadata_only();
    let metadata = cluster.of(maps).list(&metadata)?;
    let with_data = metadata.iter().filter(|map| map.at("/data").is_some());
    info!(
        "metadata",
        names = named(&metadata),
        with_data = with_data.count()
    );

    let everywhere = ListOptions::default().labels(format!("of={}", scene.namespace()));
    let everywhere: Vec<ConfigMap> = cluster.list(&everywhere.live())?;
    info!("everywhere", names = named(&everywhere));
    Ok(())
}

fn page(which: &str, page: &ListPage) -> Result<()> {
    let items: Result<Vec<Object>, _> = page.items.iter().map(|item| item.parse()).collect();
    info!(
        which,
        names = named(&items?),
        more = page.continue_token.is_some(),
        versioned = !page.resource_version.is_empty(),
    );
    Ok(())
}

/// So many reads that a garbage collector must run.
pub(crate) fn many(scene: &Scene) -> Result<()> {
    let apple = scene.at("apple");
    let mut read = 0;
    while read < 3000 && cluster_has(scene, &apple)? {
        read += 1;
    }
    info!("many", read = read);
    Ok(())
}

fn cluster_has(scene: &Scene, key: &ObjectKey) -> Result<bool> {
    Ok(scene.cluster.get::<ConfigMap>(key)?.is_some())
}
