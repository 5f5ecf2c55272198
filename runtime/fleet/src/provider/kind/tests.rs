//! A program in a temporary folder that prints what the test wrote there, as `kind` prints it.

use super::*;
use crate::provider::recorder::Recorder;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use tokio::task::JoinHandle;

/// The program: `clusters` is the list, `<name>.kubeconfig` what is printed of a cluster. `before` is run first.
const SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >> calls
. ./before
case "$2" in
clusters) cat clusters ;;
kubeconfig) cat "$4.kubeconfig" ;;
esac
"#;

const SOON: Duration = Duration::from_secs(20);

/// As quick as a test can want it.
const QUICK: Pace = Pace {
    list: Duration::from_millis(20),
    most: Duration::from_millis(200),
    read: Duration::from_millis(50),
    deadline: SOON,
};

struct World {
    folder: tempfile::TempDir,
    recorder: Arc<Recorder>,
    kind: Arc<Kind>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ProviderError>>,
}

/// Written beside and moved over, so that the program never sees half of it.
fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join("next"), text).unwrap();
    std::fs::rename(folder.join("next"), folder.join(name)).unwrap();
}

/// Another process writes the program: a thread of this one that starts a process at that moment would keep the file open for writing,
/// and such a file cannot be run.
fn install(folder: &Path) {
    let text = "cat > new && chmod +x new && mv new kind";
    let mut shell = std::process::Command::new("sh")
        .args(["-c", text])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(SCRIPT.as_bytes()).unwrap();
    drop(input);
    assert!(shell.wait().unwrap().success());
}

/// A kubeconfig as kind prints it, for a server at a port.
fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: kind-a\n\
         clusters: [{{name: kind-a, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n\
         contexts: [{{name: kind-a, context: {{cluster: kind-a, user: kind-a}}}}]\n\
         users: [{{name: kind-a, user: {{token: t}}}}]\n"
    )
}

impl World {
    /// Starts a provider of these clusters, with servers at the ports 1, 2, …
    fn start(clusters: &[&str]) -> Self {
        Self::with(clusters, QUICK, "")
    }

    fn with(clusters: &[&str], pace: Pace, name_prefix: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path());
        write(folder.path(), "before", "");
        write(folder.path(), "clusters", &clusters.join("\n"));
        for (name, port) in clusters.iter().zip(1..) {
            let name = format!("{name}.kubeconfig");
            write(folder.path(), &name, &kubeconfig(port));
        }
        let options = KindOptions {
            program: folder.path().join("kind"),
            name_prefix: name_prefix.to_owned(),
        };
        let kind = Kind::new("laptop", options);
        let kind = Arc::new(Kind { pace, ..kind });
        let recorder = Arc::new(Recorder::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(kind.clone().run(recorder.run(), stop.clone()));
        Self {
            folder,
            recorder,
            kind,
            stop,
            task,
        }
    }

    fn write(&self, name: &str, text: &str) {
        write(self.folder.path(), name, text);
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + SOON;
        while !condition() {
            let (log, problems) = (self.recorder.log(), self.kind.problems());
            assert!(Instant::now() < deadline, "{what}: {log:?}, {problems:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn engages(&self, names: &[&str]) {
        let what = format!("{names:?} to be engaged");
        self.until(&what, || self.recorder.names() == names).await;
    }

    /// Waits until a problem about a subject says this.
    async fn reports(&self, subject: &str, message: &str) {
        let says =
            |problem: Problem| problem.subject == subject && problem.message.contains(message);
        let what = format!("{subject} to report {message:?}");
        self.until(&what, || self.kind.problems().into_iter().any(says))
            .await;
    }

    async fn is_content(&self) {
        self.until("no problems", || self.kind.problems().is_empty())
            .await;
    }

    /// Waits for so many further lists.
    async fn lists(&self, more: usize) {
        let lists = || self.read("calls").matches("get clusters").count();
        let wanted = lists() + more;
        self.until("further lists", || lists() >= wanted).await;
    }

    async fn end(self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.recorder.log()
    }
}

#[tokio::test]
async fn clusters_come_and_go_with_the_list() {
    let world = World::start(&["b", "a"]);
    world.recorder.until_listed().await;
    assert_eq!(world.recorder.names(), ["a", "b"], "all before it says so");
    assert_eq!(world.recorder.config("a").server(), "https://127.0.0.1:2/");
    world.write("c.kubeconfig", &kubeconfig(3));
    world.write("clusters", "c\na\n");
    world.engages(&["a", "c"]).await;
    world.is_content().await;
    let log = world.end().await;
    assert_eq!(log.len(), 4, "each was engaged once: {log:?}");
}

#[tokio::test]
async fn only_clusters_with_the_prefix_are_provided_and_they_keep_it() {
    let world = World::with(&["fleet-a", "other"], QUICK, "fleet-");
    world.engages(&["fleet-a"]).await;
    world.lists(2).await;
    assert!(!world.read("calls").contains("--name other"));
    assert_eq!(world.end().await, ["+fleet-a"]);
}

#[tokio::test]
async fn a_cluster_made_anew_under_its_name_is_engaged_anew() {
    let world = World::start(&["a"]);
    world.engages(&["a"]).await;
    world.write("a.kubeconfig", &kubeconfig(77));
    let server = || world.recorder.config("a").server();
    world
        .until("the new server", || server() == "https://127.0.0.1:77/")
        .await;
    assert_eq!(world.end().await, ["+a", "+a"]);
}

#[tokio::test]
async fn a_cluster_whose_kubeconfig_fails_hides_no_other_and_joins_later() {
    let world = World::start(&["a", "b", "c"]);
    world.engages(&["a", "b", "c"]).await;
    world.write("b.kubeconfig", "{not a kubeconfig");
    world.write("d.kubeconfig", &kubeconfig(4));
    world.write("clusters", "b\nc\nd\nmade");
    world.engages(&["b", "c", "d"]).await;
    world.reports("b", "what cannot be used").await;
    world.reports("made", "the cluster is being made").await;
    world.write("b.kubeconfig", &kubeconfig(2));
    world.write("made.kubeconfig", &kubeconfig(5));
    world.engages(&["b", "c", "d", "made"]).await;
    world.is_content().await;
    let log = world.end().await;
    let gone: Vec<&String> = log.iter().filter(|entry| entry.starts_with('-')).collect();
    assert_eq!(gone, ["-a"]);
}

#[tokio::test]
async fn a_kubeconfig_that_hangs_delays_no_other_cluster() {
    let world = World::start(&["a"]);
    world.engages(&["a"]).await;
    world.write("before", "case \"$4\" in hangs) sleep 600 ;; esac");
    world.write("clusters", "a\nhangs");
    let begun = || world.read("calls").contains("--name hangs");
    world.until("the kubeconfig to be read", begun).await;
    world.write("z.kubeconfig", &kubeconfig(9));
    world.write("clusters", "hangs\nz");
    world.engages(&["z"]).await;
    world.end().await;
}

#[tokio::test]
async fn a_list_that_fails_takes_no_cluster_away() {
    let world = World::start(&["a"]);
    world.engages(&["a"]).await;
    for (before, message) in [
        ("exit 1", "start its container runtime"),
        (
            "echo 'no such command'; exit 0",
            "something else than names",
        ),
        ("yes", "printed more than"),
    ] {
        world.write(
            "before",
            &format!("[ \"$2\" != clusters ] || {{ {before}; }}"),
        );
        world.reports("laptop", message).await;
        world.lists(2).await;
        assert_eq!(world.recorder.names(), ["a"]);
    }
    world.write("before", "");
    world.is_content().await;
    assert_eq!(world.end().await, ["+a"]);
}

#[tokio::test]
async fn without_the_program_the_remedy_is_reported_and_clusters_join_when_it_appears() {
    let world = World::start(&["a"]);
    let program = world.folder.path().join("kind");
    let away = world.folder.path().join("away");
    std::fs::rename(&program, &away).unwrap();
    world.reports("laptop", "install kind").await;
    std::fs::rename(&away, &program).unwrap();
    world.engages(&["a"]).await;
    world.is_content().await;
    world.end().await;
}

#[tokio::test]
async fn a_program_that_does_not_end_is_killed_at_its_deadline() {
    let pace = Pace {
        deadline: Duration::from_millis(300),
        ..QUICK
    };
    let world = World::with(&["a"], pace, "");
    world.write("before", "sleep 600");
    world.reports("laptop", "did not end within 300ms").await;
    world.end().await;
}

#[tokio::test]
async fn a_stop_kills_the_program() {
    let world = World::start(&["a"]);
    world.write(
        "before",
        "echo $$ > running.new; mv running.new running; sleep 600",
    );
    world
        .until("the program to run", || !world.read("running").is_empty())
        .await;
    let stat = format!("/proc/{}/stat", world.read("running").trim());
    world.stop.cancel();
    let runs = || {
        let status = std::fs::read_to_string(&stat).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    world.until("the end of the program", || !runs()).await;
    world.end().await;
}

#[tokio::test]
async fn a_name_of_another_provider_joins_once_it_is_free() {
    let world = World::start(&[]);
    world.recorder.until_listed().await;
    world.recorder.refuse("a");
    world.write("a.kubeconfig", &kubeconfig(1));
    world.write("clusters", "a");
    world.reports("a", "provided by other already").await;
    world.recorder.free_all();
    world.engages(&["a"]).await;
    world.is_content().await;
    world.end().await;
}

#[tokio::test]
async fn a_kubeconfig_that_runs_a_program_is_refused() {
    let world = World::start(&["a"]);
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}";
    world.write("b.kubeconfig", &kubeconfig(2).replace("token: t", exec));
    world.write("clusters", "a\nb");
    world.reports("b", "what cannot be used").await;
    // The two are read at once, and either may be first.
    world.engages(&["a"]).await;
    world.end().await;
}
