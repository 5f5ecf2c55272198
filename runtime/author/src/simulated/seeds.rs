//! Brings an in-memory fleet in line with the folder of its seed while `dev` runs. Entry point: [`Simulated::follow_seed`].

use super::{FOLLOW_EVERY, LOCAL, Simulated, describes_cluster, put};
use crate::seed::{Seed, unreadable};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How deep the folders of clusters lie in that of the seed.
const DEPTH: usize = 1;

/// The files and folders of a seed, each with the time of its last change.
type Looks = BTreeMap<PathBuf, Option<SystemTime>>;

impl Simulated {
    /// Lets clusters join whose folder has come, and those leave whose folder has gone. A manifest that is new or has changed is applied, and so
    /// are changed labels of a cluster; one that is gone deletes nothing. `first` is what the fleet began with, which may be older than the folder is now. Never ends.
    pub async fn follow_seed(&self, folder: &Path, first: Seed) {
        let (mut last, mut known, mut before) = (first, Looks::new(), None);
        loop {
            tokio::time::sleep(FOLLOW_EVERY).await;
            let now = looks(folder);
            // A change counts when it has ended.
            let has_ended = before.replace(now.clone()).as_ref() == Some(&now);
            if now == known || !has_ended {
                continue;
            }
            known = now;
            let followed = Seed::read(folder).map_err(|problems| unreadable("the seed", &problems));
            match followed.and_then(|seed| self.follow(&last, &seed).map(|()| seed)) {
                Ok(seed) => last = seed,
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "the clusters are not as the seed has them now"
                ),
            }
        }
    }

    fn follow(&self, before: &Seed, now: &Seed) -> Result<()> {
        // Without a Provider there are none, whatever the folders are.
        if self.provider.is_some() {
            self.follow_members(before, now)?;
        }
        let local = self.local.iter().flat_map(|_| &now.local);
        local.flatten().try_for_each(|object| {
            let before = before.local.as_deref().unwrap_or_default();
            self.apply_if_new(LOCAL, before, object)
        })
    }

    fn follow_members(&self, before: &Seed, now: &Seed) -> Result<()> {
        let there = self.names();
        let wanted: BTreeSet<String> = now.clusters.keys().cloned().collect();
        for name in there.difference(&wanted) {
            self.leave(name)?;
            tracing::info!(
                cluster = name,
                "the cluster leaves, as the seed has it no more"
            );
        }
        for (name, objects) in &now.clusters {
            if !there.contains(name) {
                self.join(name, objects, super::Description::default())?;
                tracing::info!(cluster = name, "the cluster joins, as the seed has it now");
                continue;
            }
            let before = before.clusters.get(name);
            let before = before.map_or(&[][..], Vec::as_slice);
            for object in objects {
                self.apply_if_new(name, before, object)?;
            }
            let describing = |objects: &[Json]| {
                let all = objects.iter().filter(|object| describes_cluster(object));
                all.cloned().collect::<Vec<_>>()
            };
            if describing(before) != describing(objects) {
                self.describe(name, objects)?;
            }
        }
        Ok(())
    }

    fn apply_if_new(&self, cluster: &str, before: &[Json], object: &Json) -> Result<()> {
        if describes_cluster(object) || before.contains(object) {
            return Ok(());
        }
        let served = self.cluster(cluster).context("the cluster is gone")?;
        put(&served, &format!("cluster {cluster}"), object)
    }
}

fn looks(folder: &Path) -> Looks {
    let mut looks = Looks::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // As the seed is read, which follows links.
            let metadata = std::fs::metadata(&path).ok();
            if metadata.as_ref().is_some_and(std::fs::Metadata::is_dir) && depth < DEPTH {
                folders.push((path.clone(), depth + 1));
            }
            looks.insert(path, metadata.and_then(|it| it.modified().ok()));
        }
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn map(name: &str, value: &str) -> String {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{x: {value}}}\n"
        )
    }

    #[tokio::test]
    async fn clusters_come_and_go_with_their_folders_and_new_manifests_are_applied() {
        let folder = tempfile::tempdir().unwrap();
        let seed = folder.path().join("seed");
        write(&seed, "all.yaml", &map("shared", "one"));
        write(&seed, "eu/own.yaml", &map("own", "one"));
        let first = Seed::read(&seed).unwrap();
        let fleet = Simulated::start(&first, 0, folder.path()).await.unwrap();
        let value = |cluster: &str, name: &str| {
            let served = fleet.cluster(cluster)?;
            let found = served.get("v1", "ConfigMap", "default", name).unwrap()?;
            Some(found["data"]["x"].as_str()?.to_owned())
        };
        // A write of somebody else to what has not changed stays.
        let eu = fleet.cluster("eu").unwrap();
        let other: Json = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "own", "namespace": "default"}, "data": {"x": "two"}});
        eu.apply(other).unwrap();
        write(&seed, "us/own.yaml", &map("own", "one"));
        write(&seed, "all.yaml", &map("shared", "two"));
        let second = Seed::read(&seed).unwrap();
        fleet.follow(&first, &second).unwrap();
        let names: Vec<String> = fleet.names().into_iter().collect();
        assert_eq!(names, ["eu", "us"]);
        assert_eq!(value("us", "shared").as_deref(), Some("two"));
        assert_eq!(value("us", "own").as_deref(), Some("one"));
        assert_eq!(value("eu", "shared").as_deref(), Some("two"));
        assert_eq!(value("eu", "own").as_deref(), Some("two"));
        let kubeconfig = std::fs::read_to_string(fleet.kubeconfig()).unwrap();
        assert!(kubeconfig.contains("us"), "{kubeconfig}");

        let about = |region: &str| {
            format!(
                "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{labels: {{region: {region}}}}}\n"
            )
        };
        write(&seed, "eu/cluster.yaml", &about("north"));
        let third = Seed::read(&seed).unwrap();
        fleet.follow(&second, &third).unwrap();
        assert_eq!(fleet.membership().there["eu"]["region"], "north");

        std::fs::remove_dir_all(seed.join("us")).unwrap();
        fleet.follow(&third, &Seed::read(&seed).unwrap()).unwrap();
        assert_eq!(fleet.names().len(), 1);
        assert_eq!(fleet.membership().gone, ["us".to_owned()].into());
    }
}
