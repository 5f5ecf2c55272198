//! Real files in temporary folders, and an engage that writes down what it is asked.

use super::*;
use crate::provider::recorder::Recorder;
use std::path::Path;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

struct World {
    folder: tempfile::TempDir,
    recorder: Arc<Recorder>,
    provider: Arc<KubeconfigFiles>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ProviderError>>,
}

/// A kubeconfig with a context per name, each for a server of its own.
fn kubeconfig(contexts: &[&str], token: &str) -> String {
    let list = |of: &dyn Fn(&str) -> String| {
        contexts
            .iter()
            .map(|context| format!("- {}\n", of(context)))
            .collect::<String>()
    };
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n{}contexts:\n{}users:\n{}",
        list(&|c| format!("{{name: {c}, cluster: {{server: 'http://127.0.0.1:1/{c}'}}}}")),
        list(&|c| format!("{{name: {c}, context: {{cluster: {c}, user: {c}}}}}")),
        list(&|c| format!("{{name: {c}, user: {{token: {token}}}}}")),
    )
}

impl World {
    /// Starts a provider over paths in a new folder, after `prepare` has filled it. Names contain the path, so that a test sees it.
    fn start(paths: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        Self::named("{path}+{context}", paths, prepare)
    }

    fn named(name: &str, paths: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        Self::with(name, false, paths, prepare)
    }

    fn with(name: &str, merged: bool, paths: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let options = KubeconfigFilesOptions {
            base: folder.path().to_owned(),
            paths: paths.iter().map(PathBuf::from).collect(),
            merged,
            globs: Vec::new(),
            name: NameTemplate::parse(name).unwrap(),
            labels: Vec::new(),
            exec: ExecPolicy::Deny,
            on_server_change: ServerChange::default(),
        };
        let provider = Arc::new(KubeconfigFiles::new(options));
        let recorder = Arc::new(Recorder::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(provider.clone().run(recorder.run(), stop.clone()));
        Self {
            folder,
            recorder,
            provider,
            stop,
            task,
        }
    }

    fn write(&self, path: &str, text: &str) {
        write(self.folder.path(), path, text);
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.folder.path().join(path)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        self.recorder.names()
    }

    async fn engages(&self, expected: &[&str]) {
        self.until(
            &format!("{expected:?} instead of {:?}", self.names()),
            || self.names() == expected,
        )
        .await;
    }

    /// Waits until a problem about a subject is reported, and returns what it says.
    async fn reports(&self, subject: &str) -> String {
        let find = || {
            self.provider
                .problems()
                .into_iter()
                .find(|problem| problem.subject == subject)
        };
        self.until(
            &format!("a problem of {subject} in {:?}", self.provider.problems()),
            || find().is_some(),
        )
        .await;
        find().map(|problem| problem.message).unwrap_or_default()
    }

    async fn is_content(&self) {
        self.until("no problems", || self.provider.problems().is_empty())
            .await;
    }

    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "{what}: {:?}, {:?}",
                self.names(),
                self.provider.problems()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.recorder.log()
    }
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn a_pipe_is_reported_and_holds_up_no_other_file() {
    let world = World::start(&["clusters"], |folder| {
        write(folder, "clusters/b.kubeconfig", &kubeconfig(&["one"], "t"));
        let pipe = folder.join("clusters/a.kubeconfig");
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
    });
    world.engages(&["clusters/b.kubeconfig+one"]).await;
    let problem = world.reports("clusters/a.kubeconfig").await;
    assert!(problem.contains("it is no regular file"), "{problem}");
}

#[tokio::test]
async fn nothing_is_engaged_at_first_and_a_folder_that_appears_is_found() {
    let world = World::start(&["clusters"], |_| {});
    assert!(
        world
            .reports("clusters")
            .await
            .contains("no such file or folder")
    );
    assert!(world.names().is_empty());
    world.write("clusters/a.kubeconfig", &kubeconfig(&["one"], "t"));
    world.engages(&["clusters/a.kubeconfig+one"]).await;
    world.is_content().await;
    assert_eq!(
        world.end().await,
        ["+clusters/a.kubeconfig+one"],
        "what is engaged stays when the provider stops"
    );
}

#[tokio::test]
async fn files_of_a_folder_are_found_by_glob() {
    let world = World::start(&["./clusters"], |folder| {
        for name in [
            "kubeconfig.yaml",
            "kubeconfig.yml",
            "a.kubeconfig",
            "b.kubeconfig.yaml",
            "c.kubeconfig.yml",
            "other.yaml",
            "kubeconfig.yaml.swp",
        ] {
            write(
                folder,
                &format!("clusters/{name}"),
                &kubeconfig(&["x"], "t"),
            );
        }
        write(
            folder,
            "clusters/deeper/d.kubeconfig",
            &kubeconfig(&["x"], "t"),
        );
        std::fs::create_dir_all(folder.join("clusters/folder.kubeconfig")).unwrap();
    });
    let found = [
        "a.kubeconfig",
        "b.kubeconfig.yaml",
        "c.kubeconfig.yml",
        "kubeconfig.yaml",
        "kubeconfig.yml",
    ]
    .map(|name| format!("clusters/{name}+x"));
    world.engages(&found.each_ref().map(String::as_str)).await;
    assert_eq!(world.end().await.len(), 5);
}

#[tokio::test]
async fn every_context_of_every_file_and_folder_is_a_cluster() {
    let world = World::start(&["one", "two", "hub.yaml"], |folder| {
        write(folder, "one/a.kubeconfig", &kubeconfig(&["x", "y"], "t"));
        write(folder, "two/a.kubeconfig", &kubeconfig(&["x"], "t"));
        write(folder, "hub.yaml", &kubeconfig(&["z"], "t"));
    });
    world
        .engages(&[
            "hub.yaml+z",
            "one/a.kubeconfig+x",
            "one/a.kubeconfig+y",
            "two/a.kubeconfig+x",
        ])
        .await;
    assert_eq!(
        world.recorder.config("one/a.kubeconfig+y").server(),
        "http://127.0.0.1:1/y"
    );
    world.end().await;
}

#[tokio::test]
async fn a_deleted_file_takes_its_clusters_with_it() {
    let world = World::start(&["."], |folder| {
        write(folder, "a.kubeconfig", &kubeconfig(&["x"], "t"));
        write(folder, "b.kubeconfig", &kubeconfig(&["y"], "t"));
    });
    world.engages(&["a.kubeconfig+x", "b.kubeconfig+y"]).await;
    world.remove("a.kubeconfig");
    world.engages(&["b.kubeconfig+y"]).await;
    world.end().await;
}

#[tokio::test]
async fn new_content_replaces_old_and_leaves_the_unchanged_alone() {
    let world = World::start(&["."], |folder| {
        write(folder, "a.kubeconfig", &kubeconfig(&["old", "same"], "t"))
    });
    world
        .engages(&["a.kubeconfig+old", "a.kubeconfig+same"])
        .await;
    // Written beside and moved over, as editors do.
    world.write("next", &kubeconfig(&["new", "same"], "t"));
    std::fs::rename(
        world.folder.path().join("next"),
        world.folder.path().join("a.kubeconfig"),
    )
    .unwrap();
    world
        .engages(&["a.kubeconfig+new", "a.kubeconfig+same"])
        .await;
    let log = world.end().await;
    assert_eq!(
        log,
        [
            "+a.kubeconfig+old",
            "+a.kubeconfig+same",
            "-a.kubeconfig+old",
            "+a.kubeconfig+new"
        ]
    );
}

#[tokio::test]
async fn changed_credentials_engage_again_under_the_same_name() {
    let world = World::start(&["."], |folder| {
        write(folder, "a.kubeconfig", &kubeconfig(&["x"], "one"))
    });
    world.engages(&["a.kubeconfig+x"]).await;
    let before = world.recorder.config("a.kubeconfig+x");
    world.write("a.kubeconfig", &kubeconfig(&["x"], "two"));
    world
        .until("a second engage", || world.recorder.log().len() == 2)
        .await;
    assert!(!world.recorder.config("a.kubeconfig+x").same(&before));
    assert_eq!(
        world.end().await,
        ["+a.kubeconfig+x", "+a.kubeconfig+x"],
        "it is swapped, not taken away and brought back"
    );
}

#[tokio::test]
async fn a_half_written_file_keeps_its_last_good_clusters() {
    let whole = kubeconfig(&["x", "y"], "t");
    let world = World::start(&["."], |folder| write(folder, "a.kubeconfig", &whole));
    world.engages(&["a.kubeconfig+x", "a.kubeconfig+y"]).await;
    for (part, at) in [
        ("", "it is empty"),
        (&whole[..whole.len() / 4], "last good clusters stay"),
        ("{not yaml", "not a kubeconfig"),
        ("- a\n- list\n", "not a kubeconfig"),
    ] {
        world.write("a.kubeconfig", part);
        world
            .until(at, || {
                world.provider.problems().iter().any(|problem| {
                    problem.subject == "a.kubeconfig" && problem.message.contains(at)
                })
            })
            .await;
        assert!(
            world
                .reports("a.kubeconfig")
                .await
                .contains("its last good clusters stay")
        );
    }
    world.write("a.kubeconfig", &kubeconfig(&["x", "y", "z"], "t"));
    world
        .engages(&["a.kubeconfig+x", "a.kubeconfig+y", "a.kubeconfig+z"])
        .await;
    world.is_content().await;
    assert_eq!(
        world.end().await,
        ["+a.kubeconfig+x", "+a.kubeconfig+y", "+a.kubeconfig+z"],
        "nothing has flapped"
    );
}

#[tokio::test]
async fn one_bad_context_hides_no_other() {
    let bad = kubeconfig(&["bad", "good"], "t").replace("http://127.0.0.1:1/bad", "not a url");
    let world = World::start(&["."], |folder| write(folder, "a.kubeconfig", &bad));
    world.engages(&["a.kubeconfig+good"]).await;
    let problem = world.reports("a.kubeconfig+bad").await;
    assert!(problem.contains("not a url"), "{problem}");
    world.write("a.kubeconfig", &kubeconfig(&["bad", "good"], "t"));
    world
        .engages(&["a.kubeconfig+bad", "a.kubeconfig+good"])
        .await;
    world.is_content().await;
    // What was good once stays.
    world.write("a.kubeconfig", &bad);
    assert!(
        world
            .reports("a.kubeconfig+bad")
            .await
            .contains("stays as it was")
    );
    world
        .engages(&["a.kubeconfig+bad", "a.kubeconfig+good"])
        .await;
    assert_eq!(
        world.end().await,
        ["+a.kubeconfig+good", "+a.kubeconfig+bad"]
    );
}

#[tokio::test]
async fn duplicates_are_reported_and_the_first_counts() {
    let world = World::start(&["a.kubeconfig", ".", "a.kubeconfig"], |folder| {
        write(folder, "a.kubeconfig", &kubeconfig(&["x"], "t"));
        write(folder, "b.kubeconfig", &kubeconfig(&["y", "y"], "t"));
    });
    world.engages(&["a.kubeconfig+x"]).await;
    let problem = world.reports("b.kubeconfig").await;
    assert!(problem.contains("has \"y\" twice"), "{problem}");
    assert_eq!(
        world.provider.problems().len(),
        1,
        "the same file named twice is one file"
    );
    world.end().await;
}

/// A kubeconfig in parts: contexts, clusters and users.
fn in_parts(contexts: &[&str]) -> [String; 3] {
    let whole = kubeconfig(contexts, "t");
    let (head, users) = whole.split_once("users:").unwrap();
    let (head, list) = head.split_once("contexts:").unwrap();
    let (_, clusters) = head.split_once("clusters:").unwrap();
    [
        format!("contexts:{list}"),
        format!("clusters:{clusters}"),
        format!("users:{users}"),
    ]
}

#[tokio::test]
async fn files_of_a_list_are_merged_and_each_keeps_its_last_good_contents() {
    let paths = ["absent", "contexts", "more", "clusters", "users"];
    let world = World::with("{path}+{context}", true, &paths, |folder| {
        let [contexts, clusters, users] = in_parts(&["x", "y"]);
        write(folder, "contexts", &contexts);
        write(folder, "clusters", &clusters);
        write(folder, "users", &users.replace("token: t", "tokenFile: t"));
        // Of `y` the context of the first file counts, with the cluster and the user of this one.
        write(folder, "more", &kubeconfig(&["y", "z"], "t"));
    });
    world.engages(&["contexts+x", "contexts+y", "more+z"]).await;
    world.is_content().await;
    let x = world.recorder.config("contexts+x");
    assert_eq!(x.referenced_files(), [world.folder.path().join("t")]);

    world.write("users", "users: [");
    let problem = world.reports("users").await;
    assert!(problem.contains("not a kubeconfig"), "{problem}");
    world.write("contexts", &in_parts(&["x", "y", "w"])[0]);
    let problem = world.reports("contexts+w").await;
    assert!(
        problem.contains("cluster \"w\" is not defined"),
        "{problem}"
    );
    assert_eq!(world.names(), ["contexts+x", "contexts+y", "more+z"]);

    world.remove("users");
    let problem = world.reports("contexts+x").await;
    assert!(problem.contains("user \"x\" is not defined"), "{problem}");
    assert!(problem.contains("it stays as it was"), "{problem}");
    assert_eq!(world.names(), ["contexts+x", "contexts+y", "more+z"]);
    let log = world.end().await;
    assert!(log.iter().all(|entry| entry.starts_with('+')), "{log:?}");
}

#[tokio::test]
async fn a_name_that_another_provider_has_is_reported_and_tried_again() {
    let world = World::start(&["."], |_| {});
    world.recorder.refuse("a.kubeconfig+x");
    world.write("a.kubeconfig", &kubeconfig(&["x", "y"], "t"));
    world.engages(&["a.kubeconfig+y"]).await;
    assert!(
        world
            .reports("a.kubeconfig+x")
            .await
            .contains("provided by other already")
    );
    world.recorder.free_all();
    world.write("b.kubeconfig", &kubeconfig(&["z"], "t"));
    world
        .engages(&["a.kubeconfig+x", "a.kubeconfig+y", "b.kubeconfig+z"])
        .await;
    world.is_content().await;
    world.end().await;
}

#[tokio::test]
async fn a_referenced_file_that_changes_is_noticed() {
    let world = World::start(&["clusters"], |folder| {
        write(folder, "secrets/token", "one");
        let text = kubeconfig(&["x"], "t").replace("token: t", "tokenFile: ../secrets/token");
        write(folder, "clusters/a.kubeconfig", &text);
    });
    world.engages(&["clusters/a.kubeconfig+x"]).await;
    world.write("secrets/token", "two");
    world
        .until("a second engage", || world.recorder.log().len() == 2)
        .await;
    world.end().await;
}

#[tokio::test]
async fn a_name_that_cannot_be_is_reported() {
    let world = World::start(&["."], |folder| {
        write(folder, "ä.kubeconfig", &kubeconfig(&["x"], "t"))
    });
    assert!(
        world
            .reports("ä.kubeconfig+x")
            .await
            .contains("printable ASCII")
    );
    assert!(world.names().is_empty());
    world.end().await;
}

#[tokio::test]
async fn reading_does_not_count_as_a_change() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.kubeconfig", "x");
    let mut watch = Watch::new();
    let changes = watch.changes();
    assert!(watch.follow([folder.path().to_owned()].into()).is_empty());
    let quiet = Duration::from_millis(50);
    let waits = |rescan| changes.quiet(quiet, Duration::from_secs(5), rescan);
    waits(Duration::from_secs(20)).await;
    // A change that is told for certain shows that the reading before it has not been.
    let start = Instant::now();
    for _ in 0..3 {
        std::fs::read(folder.path().join("a.kubeconfig")).unwrap();
        std::fs::read_dir(folder.path()).unwrap().count();
    }
    waits(Duration::from_millis(400)).await;
    assert!(
        start.elapsed() >= Duration::from_millis(400),
        "the reader has woken itself"
    );
    write(folder.path(), "a.kubeconfig", "y");
    waits(Duration::from_secs(20)).await;
    assert!(start.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_run_after_a_run_finds_what_went_meanwhile() {
    let world = World::start(&["."], |folder| {
        write(folder, "a.kubeconfig", &kubeconfig(&["x"], "t"))
    });
    world.engages(&["a.kubeconfig+x"]).await;
    world.stop.cancel();
    world.task.await.unwrap().unwrap();
    std::fs::remove_file(world.folder.path().join("a.kubeconfig")).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(
        world
            .provider
            .clone()
            .run(world.recorder.run(), stop.clone()),
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    while !world.recorder.names().is_empty() {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn clusters_are_named_as_their_contexts_by_default() {
    let default = NameTemplate::default().to_string();
    let world = World::named(&default, &["clusters"], |folder| {
        write(
            folder,
            "clusters/a.kubeconfig",
            &kubeconfig(&["prod-eu", "prod-us"], "t"),
        );
    });
    world.engages(&["prod-eu", "prod-us"]).await;
    world.end().await;
}

#[tokio::test]
async fn names_are_made_of_what_the_template_asks_for() {
    let world = World::named("{file}/{cluster}", &["."], |folder| {
        let text = kubeconfig(&["x"], "t");
        let text = text.replace("name: x, cluster:", "name: of-x, cluster:");
        let text = text.replace("cluster: x,", "cluster: of-x,");
        write(folder, "eu.kubeconfig.yaml", &text);
    });
    world.engages(&["eu/of-x"]).await;
    world.end().await;
}

#[tokio::test]
async fn a_later_duplicate_is_refused_with_the_remedy_and_the_engaged_cluster_stays() {
    let world = World::named("{context}", &["."], |folder| {
        write(folder, "b.kubeconfig", &kubeconfig(&["x"], "b"));
    });
    world.engages(&["x"]).await;
    let config = world.recorder.config("x");
    // By its path it would be first.
    world.write("a.kubeconfig", &kubeconfig(&["x", "y"], "a"));
    world.engages(&["x", "y"]).await;
    let problem = world.reports("a.kubeconfig+x").await;
    assert!(problem.contains("b.kubeconfig+x"), "{problem}");
    assert!(problem.contains("name: \"{file}+{context}\""), "{problem}");
    assert!(world.recorder.config("x").same(&config));
    world.remove("b.kubeconfig");
    world
        .until("the other one", || {
            !world.recorder.config("x").same(&config)
        })
        .await;
    world.is_content().await;
    assert_eq!(world.end().await, ["+x", "+y", "+x"]);
}

#[tokio::test]
async fn a_name_that_is_too_long_is_reported_and_hides_no_other() {
    let long = "x".repeat(254);
    let world = World::named("{context}", &["."], |folder| {
        write(folder, "a.kubeconfig", &kubeconfig(&[&long, "y"], "t"));
    });
    world.engages(&["y"]).await;
    let problem = world.reports(&format!("a.kubeconfig+{long}")).await;
    assert!(problem.contains("254 bytes is too long"), "{problem}");
    world.end().await;
}

#[tokio::test]
async fn a_context_that_runs_a_plugin_against_the_policy_is_reported_and_hides_no_other() {
    let world = World::named("{context}", &["."], |folder| {
        let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}";
        let text = kubeconfig(&["plugin"], "t").replace("token: t", plugin);
        write(folder, "a.kubeconfig", &text);
        write(folder, "b.kubeconfig", &kubeconfig(&["plain"], "t"));
    });
    world.engages(&["plain"]).await;
    let problem = world.reports("a.kubeconfig+plugin").await;
    assert!(problem.contains("runs a credential plugin"), "{problem}");
    world.end().await;
}
