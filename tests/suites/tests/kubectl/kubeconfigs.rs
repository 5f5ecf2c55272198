//! Odd kubeconfigs, read by kubectl and by the program. Entry point: [`compare`].

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;
use windlass_fleet::cluster::{ClusterConfig, KubeconfigPolicy};
use windlass_fleet::provider::kubeconfig_files::read_merged;

/// `$KUBECONFIG` without its folder, and the contexts to read; `None` is the current one.
const CASES: &[(&[&str], &[Option<&str>])] = &[
    (
        &["contexts", "clusters", "users", "current"],
        &[
            None,
            Some("no-user"),
            Some("absent-user"),
            Some("absent-cluster"),
            Some("absent"),
        ],
    ),
    (
        &[
            "absent",
            "nothing",
            "no-current",
            "current",
            "later",
            "contexts",
            "clusters",
            "users",
        ],
        &[
            None,
            Some("no-user"),
            Some("absent-user"),
            Some("second-cluster"),
        ],
    ),
    (
        &["contexts", "clusters", "users", "later"],
        &[None, Some("absent-user")],
    ),
    (
        &["contexts", "here/cluster", "there/user"],
        &[None, Some("files")],
    ),
    (
        &["contexts", "clusters", "unfinished", "users", "current"],
        &[None],
    ),
    (
        &["contexts", "clusters", "here", "users", "current"],
        &[None],
    ),
    (&["absent"], &[None]),
    (&["comment"], &[None]),
    (&["documents"], &[None, Some("later")]),
    (&["nulls"], &[None, Some("absent")]),
];

/// Files that are read alone.
const ALONE: &[&str] = &[
    "anchors",
    "empty-data",
    "folded",
    "foreign",
    "json",
    "list",
    "marked",
    "no-base64",
    "repeated",
    "shapes",
    "started",
    "tabs",
    "twice",
    "types",
    "unknown",
    "version",
    "wrapped",
];

/// Contexts without a server, which kubectl takes for one at `localhost:8080`.
const WITHOUT_SERVER: &[&str] = &["no-cluster", "empty", "second-cluster"];

/// Reads all files by both, and names each context that they read in different ways.
pub(crate) async fn compare(kubectl: &Path) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl/kubeconfigs");
    let mut compared = 0;
    for (files, contexts) in CASES {
        for context in *contexts {
            let list = List::new(&folder, files, *context);
            list.compare(kubectl)
                .await
                .with_context(|| format!("{files:?}, {context:?}"))?;
            compared += 1;
        }
    }
    for file in ALONE {
        let list = List::new(&folder, &[file], None);
        list.compare(kubectl).await.context(*file)?;
        compared += 1;
    }
    for context in WITHOUT_SERVER {
        let list = List::new(&folder, &["contexts", "clusters", "users"], Some(context));
        let read = list.kubectl(kubectl, &[]).await?;
        let read = read.map_err(anyhow::Error::msg).context(*context)?;
        ensure!(!read.contains("https://"), "{context}: {read}");
        let refused = list.ours().err();
        let refused = refused.with_context(|| format!("{context} is read"))?;
        ensure!(format!("{refused:#}").contains("cluster"), "{refused:#}");
        compared += 1;
    }
    println!("{compared} contexts are read alike");
    Ok(())
}

/// A context of the files of a list.
struct List<'a> {
    folder: &'a Path,
    files: Vec<PathBuf>,
    context: Option<&'a str>,
}

impl<'a> List<'a> {
    fn new(folder: &'a Path, files: &[&str], context: Option<&'a str>) -> Self {
        let files = files.iter().map(|file| folder.join(file)).collect();
        Self {
            folder,
            files,
            context,
        }
    }

    async fn compare(&self, kubectl: &Path) -> Result<()> {
        let theirs = self.kubectl(kubectl, &["--flatten"]).await?;
        match (theirs, self.ours()) {
            (Err(theirs), Ok(_)) => bail!("kubectl refuses what is read here: {theirs}"),
            (Ok(theirs), Err(refused)) => bail!("{refused:#}, and kubectl reads {theirs}"),
            (Err(_), Err(_)) => Ok(()),
            (Ok(theirs), Ok(ours)) => self.is_alike(&theirs, &ours),
        }
    }

    /// Compares with kubectl's kubeconfig of the context alone, in which the contents of files stand.
    fn is_alike(&self, theirs: &str, ours: &ClusterConfig) -> Result<()> {
        let read =
            ClusterConfig::from_kubeconfig_text(theirs, None, None, &KubeconfigPolicy::file())?;
        ensure!(ours.namespace() == read.namespace(), "{theirs}");
        ensure!(ours.server() == read.server(), "{} {theirs}", ours.server());
        for file in ours.referenced_files() {
            let contents = STANDARD.encode(std::fs::read(file)?);
            ensure!(theirs.contains(&contents), "{file:?}: {theirs}");
        }
        let is_alike = !ours.referenced_files().is_empty() || ours.same(&read);
        ensure!(is_alike, "other credentials or TLS than {theirs}");
        Ok(())
    }

    fn ours(&self) -> Result<ClusterConfig> {
        let merged = read_merged(&self.files)?.unwrap_or_default();
        Ok(merged.context(self.context, &KubeconfigPolicy::file())?)
    }

    /// The kubeconfig of the context alone, or kubectl's reason.
    async fn kubectl(&self, program: &Path, args: &[&str]) -> Result<Result<String, String>> {
        let mut command = Command::new(program);
        command
            .args(["config", "view", "--minify", "--raw"])
            .args(args)
            .args(
                self.context
                    .iter()
                    .flat_map(|context| ["--context", context]),
            )
            .env("KUBECONFIG", std::env::join_paths(&self.files)?)
            .env("HOME", self.folder)
            // Else it is below HOME, which is a folder of this repository.
            .env("KUBECACHEDIR", env!("CARGO_TARGET_TMPDIR"))
            .kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(60), command.output());
        let output = output.await.context("kubectl did not end")??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        })
    }
}
