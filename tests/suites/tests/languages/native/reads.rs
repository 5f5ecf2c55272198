//! The native cases that read.

use super::words::{Scene, color, deployments, live, maps, named, parsed, text};
use windlass_fleet::api::{
    ApiError, GetOptions, Json, ListOptions, ListPage, Projection, ReadMode,
};
use windlass_fleet::{GroupVersionKind, ObjectKey};

pub(super) async fn read(scene: &Scene) -> Result<(), ApiError> {
    let client = &scene.client;
    scene.info("cluster", &[("name", client.cluster_name().to_string())]);
    let (cached, live_one) = (scene.cached("apple").await?, scene.live("apple").await?);
    let colors = [
        ("cached", color(cached.as_ref())),
        ("live", color(live_one.as_ref())),
    ];
    scene.info("color", &colors);

    for (call, mode) in [
        ("cached metadata", ReadMode::Cached),
        ("live metadata", ReadMode::Live),
    ] {
        let metadata = GetOptions {
            mode,
            projection: Projection::Metadata,
            ..GetOptions::default()
        };
        let found = scene.get("apple", &metadata).await?.expect("an apple");
        let found = parsed(&found);
        let fields = [
            ("fruit", text(&found, "/metadata/labels/fruit")),
            ("color", text(&found, "/data/color")),
        ];
        scene.info(call, &fields);
    }

    let scale = GetOptions {
        subresource: Some("scale".to_owned()),
        ..GetOptions::default()
    };
    let scale = client.get(&deployments(), &scene.at("web"), &scale).await?;
    let scale = parsed(&scale.expect("a scale"));
    let fields = [
        ("kind", text(&scale, "/kind")),
        ("replicas", text(&scale, "/spec/replicas")),
    ];
    scene.info("scale", &fields);

    let absent = |found: Option<Json>| found.is_none().to_string();
    let cached = absent(scene.cached("nothing").await?);
    let live_one = absent(scene.live("nothing").await?);
    scene.info("absent", &[("cached", cached), ("live", live_one)]);

    let namespaces = GroupVersionKind::new("", "v1", "Namespace");
    let own = ObjectKey::cluster_scoped(scene.namespace());
    let own = client.get(&namespaces, &own, &live()).await?;
    let phase = text(&parsed(&own.expect("a namespace")), "/status/phase");
    scene.info("namespace", &[("phase", phase)]);
    Ok(())
}

pub(super) async fn list(scene: &Scene) -> Result<(), ApiError> {
    let here = || ListOptions {
        namespace: Some(scene.namespace().to_owned()),
        ..ListOptions::default()
    };
    let fruit = || ListOptions {
        label_selector: Some("set=fruit".to_owned()),
        ..here()
    };
    let indexed = ListOptions {
        index: Some(("color".to_owned(), "red".to_owned())),
        ..here()
    };
    let selected = ListOptions {
        field_selector: Some("metadata.name=banana".to_owned()),
        ..here()
    };
    for (call, options) in [
        ("by label", fruit()),
        ("by index", indexed),
        ("by field", selected),
    ] {
        let found = all(scene, options).await?;
        scene.info(call, &[("names", named(&found))]);
    }

    let mut pages = ListOptions {
        limit: 2,
        ..fruit()
    };
    for call in ["first page", "second page"] {
        let page = page(scene, &pages).await?;
        let fields = [
            ("names", named(&page.items)),
            ("more", page.continue_token.is_some().to_string()),
            ("versioned", (!page.resource_version.is_empty()).to_string()),
        ];
        scene.info(call, &fields);
        pages.continue_token = page.continue_token;
    }

    let paged = ListOptions {
        limit: 2,
        mode: ReadMode::Live,
        ..fruit()
    };
    let found = all(scene, paged).await?;
    scene.info("page by page", &[("names", named(&found))]);

    let metadata = ListOptions {
        mode: ReadMode::Live,
        projection: Projection::Metadata,
        ..fruit()
    };
    let found = all(scene, metadata).await?;
    let with_data = found.iter().filter(|map| parsed(map).get("data").is_some());
    let with_data = with_data.count().to_string();
    scene.info(
        "metadata",
        &[("names", named(&found)), ("with_data", with_data)],
    );

    let everywhere = ListOptions {
        label_selector: Some(format!("of={}", scene.namespace())),
        mode: ReadMode::Live,
        ..ListOptions::default()
    };
    let found = all(scene, everywhere).await?;
    scene.info("everywhere", &[("names", named(&found))]);
    Ok(())
}

/// As the sandbox asks: a page of no stated size has 500 objects.
async fn page(scene: &Scene, options: &ListOptions) -> Result<ListPage, ApiError> {
    let limit = if options.limit == 0 {
        500
    } else {
        options.limit
    };
    let options = ListOptions {
        limit,
        ..options.clone()
    };
    scene.client.list(&maps(), &options).await
}

pub(super) async fn all(scene: &Scene, mut options: ListOptions) -> Result<Vec<Json>, ApiError> {
    let mut items = Vec::new();
    loop {
        let page = page(scene, &options).await?;
        items.extend(page.items);
        options.continue_token = page.continue_token;
        if options.continue_token.is_none() {
            return Ok(items);
        }
    }
}

pub(super) async fn many(scene: &Scene) -> Result<(), ApiError> {
    let mut read = 0;
    while read < 3000 && scene.cached("apple").await?.is_some() {
        read += 1;
    }
    scene.info("many", &[("read", read.to_string())]);
    Ok(())
}
