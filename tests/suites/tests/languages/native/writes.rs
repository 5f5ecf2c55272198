//! The native cases that write.

use super::reads::all;
use super::words::{Scene, bytes, color, deployments, maps, named, parsed, text};
use serde_json::{Value, json};
use windlass_fleet::GroupVersionKind;
use windlass_fleet::api::{
    ApiCode, ApiError, ApplyOptions, DeleteOptions, GetOptions, ListOptions, Operation, PatchType,
    Propagation, ReadMode, Reply, Selection, WriteOptions,
};

const TEXT: &str = "żółć 🍐 \"quoted\" \\ back\tslash\u{7f} </end>\n";

fn stored() -> WriteOptions {
    WriteOptions::default()
}

fn dry_run() -> WriteOptions {
    WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    }
}

impl Scene {
    async fn create(&self, object: &Value) -> Result<Value, ApiError> {
        let created = self.client.create(&maps(), bytes(object), &stored()).await;
        created.map(|json| parsed(&json))
    }

    async fn update(
        &self,
        kind: &GroupVersionKind,
        object: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let updated = self.client.update(kind, bytes(object), options).await;
        updated.map(|json| parsed(&json))
    }

    async fn apply(&self, object: &Value, options: &ApplyOptions) -> Result<Value, ApiError> {
        let applied = self.client.apply(&maps(), bytes(object), options).await;
        applied.map(|json| parsed(&json))
    }

    async fn patch(
        &self,
        (kind, name): (&GroupVersionKind, &str),
        patch_type: PatchType,
        patch: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let key = self.at(name);
        let patched = self
            .client
            .patch(kind, &key, patch_type, bytes(patch), options)
            .await;
        patched.map(|json| parsed(&json))
    }

    /// Whether there was one to delete.
    async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<bool, ApiError> {
        match self.client.delete(&maps(), &self.at(name), options).await {
            Err(error) if error.code == ApiCode::NotFound => Ok(false),
            answer => answer.map(|()| true),
        }
    }

    async fn read(&self, name: &str) -> Result<Value, ApiError> {
        Ok(self
            .cached(name)
            .await?
            .as_ref()
            .map_or(Value::Null, parsed))
    }

    /// Writes down parts of a ConfigMap's data.
    fn data(&self, message: &str, map: &Value, names: [&str; 2]) {
        let fields = names.map(|name| (name, text(map, &format!("/data/{name}"))));
        self.info(message, &fields);
    }

    fn dry(&self, answered: String, stored: String) {
        self.info("dry", &[("answered", answered), ("stored", stored)]);
    }
}

pub(super) async fn create(scene: &Scene) -> Result<(), ApiError> {
    let mut pear = scene.map("pear", json!({"color": "green"}));
    pear["metadata"]["labels"] = json!({"fruit": "pear"});
    let created = scene.create(&pear).await?;
    let is_stored = created["metadata"]["uid"].is_string().to_string();
    scene.info(
        "created",
        &[
            ("color", text(&created, "/data/color")),
            ("stored", is_stored),
        ],
    );
    scene.refuse("again", &scene.create(&pear).await);
    scene.refuse("wrong", &scene.create(&scene.map("Wrong", json!({}))).await);
    let read = scene.cached("pear").await?;
    scene.info("read", &[("color", color(read.as_ref()))]);
    Ok(())
}

pub(super) async fn update(scene: &Scene) -> Result<(), ApiError> {
    let mut stale = scene.read("apple").await?;
    let size = json!({"data": {"size": "2"}});
    scene
        .patch((&maps(), "apple"), PatchType::Merge, &size, &stored())
        .await?;
    stale["data"]["color"] = json!("green");
    let answer = scene.update(&maps(), &stale, &stored()).await;
    scene.refuse("stale", &answer);
    let mut fresh = scene.read("apple").await?;
    fresh["data"]["color"] = json!("green");
    let updated = scene.update(&maps(), &fresh, &stored()).await?;
    scene.data("updated", &updated, ["color", "size"]);

    let mut other = updated;
    other["data"]["color"] = json!("blue");
    let answered = scene.update(&maps(), &other, &dry_run()).await?;
    let read = scene.read("apple").await?;
    scene.dry(text(&answered, "/data/color"), text(&read, "/data/color"));

    let mut brown = scene.map("apple", json!({"color": "brown"}));
    brown["metadata"]["labels"] = json!({"set": "fruit"});
    let replaced = scene.update(&maps(), &brown, &stored()).await?;
    scene.data("replaced", &replaced, ["color", "size"]);

    let mut web = scene.web().await?;
    web["spec"]["replicas"] = json!(3);
    let scaled = scene.update(&deployments(), &web, &stored()).await?;
    let grace = text(&scaled, "/spec/template/spec/terminationGracePeriodSeconds");
    scene.info(
        "scaled",
        &[
            ("replicas", text(&scaled, "/spec/replicas")),
            ("grace", grace),
        ],
    );
    Ok(())
}

pub(super) async fn patch(scene: &Scene) -> Result<(), ApiError> {
    let apple = (&maps(), "apple");
    let steps = json!([
        {"op": "test", "path": "/data/color", "value": "red"},
        {"op": "add", "path": "/data/shape", "value": "round"},
    ]);
    let patched = scene
        .patch(apple, PatchType::Json, &steps, &stored())
        .await?;
    scene.data("json", &patched, ["color", "shape"]);
    let merge = json!({"data": {"color": null, "size": "3"}});
    let patched = scene
        .patch(apple, PatchType::Merge, &merge, &stored())
        .await?;
    scene.data("merge", &patched, ["color", "size"]);

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
    let web = (&deployments(), "web");
    let web = scene
        .patch(web, PatchType::StrategicMerge, &image, &stored())
        .await?;
    let of = |at: u8| text(&web, &format!("/spec/template/spec/containers/{at}/image"));
    scene.info("strategic", &[("first", of(0)), ("second", of(1))]);

    let size = json!({"data": {"size": "4"}});
    let answered = scene
        .patch(apple, PatchType::Merge, &size, &dry_run())
        .await?;
    let read = scene.read("apple").await?;
    scene.dry(text(&answered, "/data/size"), text(&read, "/data/size"));
    let absent = scene
        .patch((&maps(), "nothing"), PatchType::Merge, &size, &stored())
        .await;
    scene.refuse("absent", &absent);
    Ok(())
}

pub(super) async fn apply(scene: &Scene) -> Result<(), ApiError> {
    let plain = ApplyOptions::default();
    let mut fig = scene.map("fig", json!({"color": "purple", "size": "1"}));
    fig["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": scene.key.name.to_string(),
        "uid": scene.primary["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    let applied = scene.apply(&fig, &plain).await?;
    let owner = text(&applied, "/metadata/ownerReferences/0/name");
    let fields = [
        ("color", text(&applied, "/data/color")),
        ("size", text(&applied, "/data/size")),
        ("owner", owner),
    ];
    scene.info("applied", &fields);
    fig["data"] = json!({"color": "purple"});
    scene.data(
        "dropped",
        &scene.apply(&fig, &plain).await?,
        ["color", "size"],
    );

    let apple = scene.map("apple", json!({"color": "blue"}));
    scene.refuse("theirs", &scene.apply(&apple, &plain).await);
    let forced = ApplyOptions {
        force: true,
        ..ApplyOptions::default()
    };
    let taken = scene.apply(&apple, &forced).await?;
    scene.info("taken", &[("color", text(&taken, "/data/color"))]);

    fig["data"] = json!({"color": "white"});
    let dry = ApplyOptions {
        dry_run: true,
        ..ApplyOptions::default()
    };
    let answered = scene.apply(&fig, &dry).await?;
    let read = scene.cached("fig").await?;
    scene.dry(text(&answered, "/data/color"), color(read.as_ref()));
    Ok(())
}

pub(super) async fn status(scene: &Scene) -> Result<(), ApiError> {
    let status = WriteOptions {
        subresource: Some("status".to_owned()),
        ..WriteOptions::default()
    };
    let ready = json!({"status": {"replicas": 2, "readyReplicas": 1}});
    let web = (&deployments(), "web");
    let patched = scene.patch(web, PatchType::Merge, &ready, &status).await?;
    scene.info(
        "patched",
        &[("ready", text(&patched, "/status/readyReplicas"))],
    );

    let mut web = scene.web().await?;
    web["status"]["readyReplicas"] = json!(2);
    web["spec"]["replicas"] = json!(9);
    let updated = scene.update(&deployments(), &web, &status).await?;
    let fields = [
        ("ready", text(&updated, "/status/readyReplicas")),
        ("replicas", text(&updated, "/spec/replicas")),
    ];
    scene.info("updated", &fields);
    Ok(())
}

pub(super) async fn delete(scene: &Scene) -> Result<(), ApiError> {
    let plain = DeleteOptions::default;
    let other_uid = DeleteOptions {
        uid: Some("another".to_owned()),
        ..plain()
    };
    scene.refuse("uid", &scene.delete("apple", &other_uid).await);
    let old_version = DeleteOptions {
        resource_version: Some("1".to_owned()),
        ..plain()
    };
    scene.refuse("version", &scene.delete("banana", &old_version).await);

    let read = scene.read("apple").await?;
    let this_one = DeleteOptions {
        uid: Some(text(&read, "/metadata/uid")),
        resource_version: Some(text(&read, "/metadata/resourceVersion")),
        ..plain()
    };
    let fields = [
        (
            "deleted",
            scene.delete("apple", &this_one).await?.to_string(),
        ),
        ("again", scene.delete("apple", &plain()).await?.to_string()),
        ("gone", scene.cached("apple").await?.is_none().to_string()),
    ];
    scene.info("deleted", &fields);

    let dry = DeleteOptions {
        dry_run: true,
        ..plain()
    };
    let fields = [
        ("deleted", scene.delete("banana", &dry).await?.to_string()),
        ("there", scene.cached("banana").await?.is_some().to_string()),
    ];
    scene.info("dry", &fields);

    let at_once = DeleteOptions {
        propagation: Some(Propagation::Background),
        grace_period_seconds: Some(0),
        ..plain()
    };
    let deleted = scene.delete("cherry", &at_once).await?.to_string();
    scene.info("at once", &[("deleted", deleted)]);
    Ok(())
}

pub(super) async fn collection(scene: &Scene) -> Result<(), ApiError> {
    let red = Selection {
        namespace: Some(scene.namespace().to_owned()),
        label_selector: Some("color=red".to_owned()),
        ..Selection::default()
    };
    let plain = DeleteOptions::default();
    scene
        .client
        .delete_collection(&maps(), &red, &plain)
        .await?;
    let left = ListOptions {
        namespace: Some(scene.namespace().to_owned()),
        label_selector: Some("set=fruit".to_owned()),
        mode: ReadMode::Live,
        ..ListOptions::default()
    };
    let left = all(scene, left).await?;
    scene.info("left", &[("names", named(&left))]);
    Ok(())
}

pub(super) async fn batch(scene: &Scene) -> Result<(), ApiError> {
    let mut apple = scene.read("apple").await?;
    apple["data"]["size"] = json!("7");
    let selected = ListOptions {
        namespace: Some(scene.namespace().to_owned()),
        field_selector: Some("metadata.name=banana".to_owned()),
        limit: 500,
        ..ListOptions::default()
    };
    let get = |name: &str| Operation::Get(maps(), scene.at(name), GetOptions::default());
    let create = |map: Value| Operation::Create(maps(), bytes(&map), stored());
    let delete = |name: &str| Operation::Delete(maps(), scene.at(name), DeleteOptions::default());
    let size = bytes(&json!({"data": {"size": "9"}}));
    let fig = scene.map("fig", json!({"color": "purple"}));
    let replies = scene.client.batch(vec![
        get("case"),
        get("nothing"),
        create(scene.map("pear", json!({"color": "green"}))),
        create(scene.map("banana", json!({}))),
        Operation::Update(maps(), bytes(&apple), stored()),
        Operation::Patch(maps(), scene.at("banana"), PatchType::Merge, size, stored()),
        Operation::Apply(maps(), bytes(&fig), ApplyOptions::default()),
        delete("cherry"),
        delete("nothing"),
        Operation::List(maps(), selected),
    ]);
    for reply in replies.await {
        answered(scene, reply);
    }
    Ok(())
}

/// Writes down an answer of a batch.
pub(super) fn answered(scene: &Scene, reply: Result<Reply, ApiError>) {
    match reply {
        Err(error) => scene.sheet.refuse("refused", &error),
        Ok(Reply::Nothing) => scene.info("nothing", &[]),
        Ok(Reply::Page(page)) => scene.info("page", &[("names", named(&page.items))]),
        Ok(Reply::Object(json)) => {
            let object = parsed(&json);
            let fields = [
                ("name", text(&object, "/metadata/name")),
                ("color", text(&object, "/data/color")),
                ("size", text(&object, "/data/size")),
            ];
            scene.info("object", &fields);
        }
    }
}

pub(super) async fn text_case(scene: &Scene) -> Result<(), ApiError> {
    scene
        .create(&scene.map("text", json!({"text": TEXT})))
        .await?;
    let read = scene.live("text").await?.expect("what was created");
    let same = text(&parsed(&read), "/data/text") == TEXT;
    scene.info(
        "text",
        &[("same", same.to_string()), ("text", TEXT.to_owned())],
    );
    Ok(())
}

pub(super) async fn large(scene: &Scene) -> Result<(), ApiError> {
    let long = "0123456789".repeat(30_000);
    scene
        .create(&scene.map("large", json!({"text": long})))
        .await?;
    let read = scene.read("large").await?;
    let length = text(&read, "/data/text").len().to_string();
    scene.info("large", &[("length", length)]);
    Ok(())
}
