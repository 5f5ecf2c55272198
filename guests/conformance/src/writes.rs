//! Cases that write. Entry points: a function for each.

use crate::Scene;
use crate::words::{ConfigMap, NONE, at, color, deployments, named, refused};
use serde_json::json;
use windlass_sdk::prelude::*;
use windlass_sdk::{
    ApplyOptions, DeleteOptions, GroupVersionKind, Operation, PatchType, Propagation, Reply,
    Selection, WriteOptions,
};

/// Text that differs in every encoding.
const TEXT: &str = "żółć 🍐 \"quoted\" \\ back\tslash\u{7f} </end>\n";

fn maps() -> GroupVersionKind {
    GroupVersionKind::new("v1", "ConfigMap")
}

fn dry_run() -> WriteOptions {
    WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    }
}

/// A new object, an existing one, and an invalid one.
pub(crate) fn create(scene: &Scene) -> Result<()> {
    let mut pear = ConfigMap::with(&scene.at("pear"), [("color", "green")]);
    pear.metadata = pear.metadata.label("fruit", "pear");
    let created = scene.cluster.create(&pear)?;
    info!(
        "created",
        color = created.value("color"),
        stored = created.metadata.uid.is_some()
    );
    if let Err(error) = scene.cluster.create(&pear) {
        refused("again", &error);
    }
    let wrong = ConfigMap::with(&scene.at("Wrong"), []);
    if let Err(error) = scene.cluster.create(&wrong) {
        refused("wrong", &error);
    }
    let read: Option<ConfigMap> = scene.cluster.get(&scene.at("pear"))?;
    info!("read", color = color(read.as_ref()));
    Ok(())
}

/// A conflict, solved by a new read; without a version; dry; numbers that do not fit 32 bits.
pub(crate) fn update(scene: &Scene) -> Result<()> {
    let cluster = scene.cluster;
    let apple = scene.at("apple");
    let mut stale = scene.read("apple")?;
    cluster.patch::<ConfigMap>(&apple, &json!({"data": {"size": "2"}}))?;
    stale.0["data"]["color"] = json!("green");
    let updated = match cluster.update(&stale) {
        Err(error) if error.is_conflict() => {
            refused("stale", &error);
            let mut fresh = scene.read("apple")?;
            fresh.0["data"]["color"] = json!("green");
            cluster.update(&fresh)?
        }
        other => other?,
    };
    info!(
        "updated",
        color = at(&updated, "/data/color"),
        size = at(&updated, "/data/size")
    );

    let mut other = updated;
    other.0["data"]["color"] = json!("blue");
    let answered = cluster.update_with(&other, &dry_run())?;
    let stored = scene.read("apple")?;
    info!(
        "dry",
        answered = at(&answered, "/data/color"),
        stored = at(&stored, "/data/color")
    );

    let mut brown = ConfigMap::with(&apple, [("color", "brown")]);
    brown.metadata = brown.metadata.label("set", "fruit");
    let replaced = cluster.update(&brown)?;
    info!(
        "replaced",
        color = replaced.value("color"),
        size = replaced.value("size")
    );

    let mut web = scene.web()?;
    web.0["spec"]["replicas"] = json!(3);
    let scaled = cluster.update(&web)?;
    info!(
        "scaled",
        replicas = at(&scaled, "/spec/replicas"),
        grace = at(&scaled, "/spec/template/spec/terminationGracePeriodSeconds"),
    );
    Ok(())
}

/// The three types of patch; dry run; of an absent object.
pub(crate) fn patch(scene: &Scene) -> Result<()> {
    let cluster = scene.cluster;
    let apple = scene.at("apple");
    let stored = WriteOptions::default();
    let steps = json!([
        {"op": "test", "path": "/data/color", "value": "red"},
        {"op": "add", "path": "/data/shape", "value": "round"},
    ]);
    let patched: ConfigMap =
        cluster.patch_with(&maps(), &apple, PatchType::JsonPatch, &steps, &stored)?;
    info!(
        "json",
        color = patched.value("color"),
        shape = patched.value("shape")
    );

    let patched: ConfigMap =
        cluster.patch(&apple, &json!({"data": {"color": null, "size": "3"}}))?;
    info!(
        "merge",
        color = patched.value("color"),
        size = patched.value("size")
    );

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
    let key = scene.at("web");
    let web: Object = cluster.patch_with(
        &deployments(),
        &key,
        PatchType::StrategicMerge,
        &image,
        &stored,
    )?;
    info!(
        "strategic",
        first = at(&web, "/spec/template/spec/containers/0/image"),
        second = at(&web, "/spec/template/spec/containers/1/image"),
    );

    let size = json!({"data": {"size": "4"}});
    let answered: ConfigMap =
        cluster.patch_with(&maps(), &apple, PatchType::Merge, &size, &dry_run())?;
    let read: Option<ConfigMap> = cluster.get(&apple)?;
    info!(
        "dry",
        answered = answered.value("size"),
        stored = read.as_ref().map_or(NONE, |map| map.value("size"))
    );

    if let Err(error) = cluster.patch::<ConfigMap>(&scene.at("nothing"), &size) {
        refused("absent", &error);
    }
    Ok(())
}

/// With an owner; fields that are dropped; a field of another manager, and taking it over; dry.
pub(crate) fn apply(scene: &Scene) -> Result<()> {
    let cluster = scene.cluster;
    let fig = scene.at("fig");
    let mut wanted = ConfigMap::with(&fig, [("color", "purple"), ("size", "1")]);
    wanted.metadata = wanted.metadata.owner(scene.primary.controller_reference());
    let applied = cluster.apply(&wanted)?;
    let owner = applied.metadata.controller();
    info!(
        "applied",
        color = applied.value("color"),
        size = applied.value("size"),
        owner = owner.map_or(NONE, |owner| &owner.name)
    );

    wanted.data.remove("size");
    let applied = cluster.apply(&wanted)?;
    info!(
        "dropped",
        color = applied.value("color"),
        size = applied.value("size")
    );

    let apple = ConfigMap::with(&scene.at("apple"), [("color", "blue")]);
    if let Err(error) = cluster.apply(&apple) {
        refused("theirs", &error);
    }
    let taken = cluster.force_apply(&apple)?;
    info!("taken", color = taken.value("color"));

    wanted.data.insert("color".to_owned(), "white".to_owned());
    let dry = ApplyOptions {
        dry_run: true,
        ..ApplyOptions::default()
    };
    let answered = cluster.apply_with(&wanted, &dry)?;
    let stored: Option<ConfigMap> = cluster.get(&fig)?;
    info!(
        "dry",
        answered = answered.value("color"),
        stored = color(stored.as_ref())
    );
    Ok(())
}

/// The status without the other fields, by patch and by update.
pub(crate) fn status(scene: &Scene) -> Result<()> {
    let all = scene.cluster.of(deployments());
    let patched = all.patch_status(
        &scene.at("web"),
        &json!({"replicas": 2, "readyReplicas": 1}),
    )?;
    info!("patched", ready = at(&patched, "/status/readyReplicas"));

    let mut web = scene.web()?;
    web.0["status"]["readyReplicas"] = json!(2);
    web.0["spec"]["replicas"] = json!(9);
    let updated = scene.cluster.update_status(&web)?;
    info!(
        "updated",
        ready = at(&updated, "/status/readyReplicas"),
        replicas = at(&updated, "/spec/replicas")
    );
    Ok(())
}

/// With preconditions that fail and that hold; dry; with every option; of what is not there.
pub(crate) fn delete(scene: &Scene) -> Result<()> {
    let cluster = scene.cluster;
    let (apple, banana) = (scene.at("apple"), scene.at("banana"));
    let other_uid = DeleteOptions {
        uid: Some("another".to_owned()),
        ..DeleteOptions::default()
    };
    if let Err(error) = cluster.delete_with(&maps(), &apple, &other_uid) {
        refused("uid", &error);
    }
    let old_version = DeleteOptions {
        resource_version: Some("1".to_owned()),
        ..DeleteOptions::default()
    };
    if let Err(error) = cluster.delete_with(&maps(), &banana, &old_version) {
        refused("version", &error);
    }

    let read = scene.read("apple")?;
    let this_one = DeleteOptions {
        uid: Some(at(&read, "/metadata/uid")),
        resource_version: Some(at(&read, "/metadata/resourceVersion")),
        ..DeleteOptions::default()
    };
    let deleted = cluster.delete_with(&maps(), &apple, &this_one)?;
    let again = cluster.delete::<ConfigMap>(&apple)?;
    let gone = cluster.get::<ConfigMap>(&apple)?.is_none();
    info!("deleted", deleted = deleted, again = again, gone = gone);

    let dry = DeleteOptions {
        dry_run: true,
        ..DeleteOptions::default()
    };
    let deleted = cluster.delete_with(&maps(), &banana, &dry)?;
    let there = cluster.get::<ConfigMap>(&banana)?.is_some();
    info!("dry", deleted = deleted, there = there);

    let at_once = DeleteOptions {
        propagation: Some(Propagation::Background),
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    let deleted = cluster.delete_with(&maps(), &scene.at("cherry"), &at_once)?;
    info!("at once", deleted = deleted);
    Ok(())
}

/// Objects in every form that a server may keep otherwise.
pub(crate) fn ensure(scene: &Scene) -> Result<()> {
    let objects: Vec<Object> = serde_json::from_str(scene.primary.value("objects"))?;
    for mut object in objects {
        object.0["metadata"]["namespace"] = json!(scene.namespace());
        let written = scene.cluster.ensure(&object)?;
        let effect = format!("{:?}", written.effect).to_lowercase();
        info!(
            "ensured",
            kind = object.kind().kind,
            name = object.key().name,
            effect = effect
        );
    }
    Ok(())
}

/// Many objects with one call, by label.
pub(crate) fn collection(scene: &Scene) -> Result<()> {
    let red = Selection::default()
        .namespace(scene.namespace())
        .labels("color=red");
    scene.cluster.delete_collection::<ConfigMap>(&red)?;
    let left = ListOptions::default()
        .namespace(scene.namespace())
        .labels("set=fruit");
    let left: Vec<ConfigMap> = scene.cluster.list(&left.live())?;
    info!("left", names = named(&left));
    Ok(())
}

/// Every operation in one batch.
pub(crate) fn batch(scene: &Scene) -> Result<()> {
    let mut apple = scene.read("apple")?;
    apple.0["data"]["size"] = json!("7");
    let size = json!({"data": {"size": "9"}}).to_string();
    let fig = ConfigMap::with(&scene.at("fig"), [("color", "purple")]);
    let pear = ConfigMap::with(&scene.at("pear"), [("color", "green")]);
    let selected = ListOptions::default()
        .namespace(scene.namespace())
        .fields("metadata.name=banana");
    let operations = [
        Operation::get::<ConfigMap>(scene.key),
        Operation::get::<ConfigMap>(&scene.at("nothing")),
        Operation::create(&pear)?,
        Operation::create(&ConfigMap::with(&scene.at("banana"), []))?,
        Operation::Update((maps(), apple.0.to_string(), WriteOptions::default())),
        Operation::Patch((
            maps(),
            scene.at("banana"),
            PatchType::Merge,
            size,
            WriteOptions::default(),
        )),
        Operation::apply(&fig, ApplyOptions::default())?,
        Operation::delete::<ConfigMap>(&scene.at("cherry")),
        Operation::delete::<ConfigMap>(&scene.at("nothing")),
        Operation::list::<ConfigMap>(selected),
    ];
    for reply in scene.cluster.batch(&operations) {
        answered(reply)?;
    }
    Ok(())
}

/// Logs an answer of a batch.
pub(crate) fn answered(reply: Result<Reply, ApiError>) -> Result<()> {
    match reply {
        Err(error) => refused("refused", &error),
        Ok(Reply::Nothing) => info!("nothing"),
        Ok(Reply::Object(text)) => {
            let object: Object = text.parse()?;
            info!(
                "object",
                name = object.key().name,
                color = at(&object, "/data/color"),
                size = at(&object, "/data/size")
            );
        }
        Ok(page) => info!("page", names = named(&page.objects::<ConfigMap>()?)),
    }
    Ok(())
}

/// A round trip of unusual text.
pub(crate) fn text(scene: &Scene) -> Result<()> {
    let key = scene.at("text");
    scene
        .cluster
        .create(&ConfigMap::with(&key, [("text", TEXT)]))?;
    let read: Option<ConfigMap> = scene.cluster.get_live(&key)?;
    let same = read.is_some_and(|read| read.value("text") == TEXT);
    info!("text", same = same, text = TEXT);
    Ok(())
}

/// A round trip of an object of 300 KB.
pub(crate) fn large(scene: &Scene) -> Result<()> {
    let (key, text) = (scene.at("large"), "0123456789".repeat(30_000));
    scene
        .cluster
        .create(&ConfigMap::with(&key, [("text", &text)]))?;
    let read: Option<ConfigMap> = scene.cluster.get(&key)?;
    let read = read.map_or(0, |read| read.value("text").len());
    info!("large", length = read);
    Ok(())
}
