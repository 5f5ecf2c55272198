//! Brings an in-memory fleet in line with the folder of its seed while `dev` runs. Entry point: [`Simulated::follow_seed`].

use super::{FOLLOW_EVERY, LOCAL, Simulated, describes_cluster, put};
use crate::seed::{Seed, unreadable};
use anyhow::{Context, Error, Result};
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
    /// are changed labels of a cluster; one that is gone deletes nothing. `first` is what the fleet began with, which may be older than the
    /// folder is now. Never ends.
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
            let errors = match Seed::read(folder) {
                Ok(seed) => {
                    let errors = self.follow(&last, &seed);
                    // After a failure, the next change of the folder applies all of this again.
                    if errors.is_empty() {
                        last = seed;
                    }
                    errors
                }
                Err(problems) => vec![unreadable("the seed", &problems)],
            };
            for error in errors {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the clusters are not as the seed has them now"
                );
            }
        }
    }

    /// Brings each cluster in line. The failure of one keeps none of the others.
    fn follow(&self, before: &Seed, now: &Seed) -> Vec<Error> {
        let mut followed = Vec::new();
        // Without a Provider there are none, whatever the folders are.
        if self.provider.is_some() {
            let there = self.names();
            let wanted: BTreeSet<String> = now.clusters.keys().cloned().collect();
            let gone = there.difference(&wanted);
            followed.extend(gone.map(|name| self.follow_gone(name)));
            for (name, objects) in &now.clusters {
                followed.push(if there.contains(name) {
                    self.follow_member(name, before, objects)
                } else {
                    self.follow_new(name, objects)
                });
            }
        }
        if let (Some(_), Some(objects)) = (&self.local, &now.local) {
            let before = before.local.as_deref().unwrap_or_default();
            followed.push(self.apply_new(LOCAL, before, objects));
        }
        followed.into_iter().filter_map(Result::err).collect()
    }

    fn follow_gone(&self, name: &str) -> Result<()> {
        self.leave(name)?;
        tracing::info!(
            cluster = name,
            "the cluster leaves, as the seed has it no more"
        );
        Ok(())
    }

    fn follow_new(&self, name: &str, objects: &[Json]) -> Result<()> {
        self.join(name, objects, super::Description::default())?;
        tracing::info!(cluster = name, "the cluster joins, as the seed has it now");
        Ok(())
    }

    fn follow_member(&self, name: &str, before: &Seed, objects: &[Json]) -> Result<()> {
        let before = before.clusters.get(name);
        let before = before.map_or(&[][..], Vec::as_slice);
        self.apply_new(name, before, objects)?;
        let describing = |objects: &[Json]| {
            let all = objects.iter().filter(|object| describes_cluster(object));
            all.cloned().collect::<Vec<_>>()
        };
        if describing(before) != describing(objects) {
            self.describe(name, objects)?;
        }
        Ok(())
    }

    fn apply_new(&self, cluster: &str, before: &[Json], objects: &[Json]) -> Result<()> {
        let mut objects = objects.iter();
        objects.try_for_each(|object| self.apply_if_new(cluster, before, object))
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
        assert!(fleet.follow(&first, &second).is_empty());
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
        assert!(fleet.follow(&second, &third).is_empty());
        assert_eq!(fleet.membership().there["eu"]["region"], "north");

        std::fs::remove_dir_all(seed.join("us")).unwrap();
        assert!(fleet.follow(&third, &Seed::read(&seed).unwrap()).is_empty());
        assert_eq!(fleet.names().len(), 1);
        assert_eq!(fleet.membership().gone, ["us".to_owned()].into());
    }

    #[tokio::test]
    async fn a_cluster_with_a_bad_label_keeps_none_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let seed = folder.path().join("seed");
        write(&seed, "eu/own.yaml", &map("own", "one"));
        write(&seed, "us/own.yaml", &map("own", "one"));
        let first = Seed::read(&seed).unwrap();
        let fleet = Simulated::start(&first, 0, folder.path()).await.unwrap();
        write(
            &seed,
            "eu/cluster.yaml",
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {labels: {tier: 1}}\n",
        );
        write(&seed, "us/own.yaml", &map("own", "two"));
        write(&seed, "za/own.yaml", &map("own", "one"));
        let errors = fleet.follow(&first, &Seed::read(&seed).unwrap());
        let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(
            said.len() == 1 && said[0].contains("tier among the labels of cluster eu"),
            "{said:?}"
        );
        let us = fleet.cluster("us").unwrap();
        let own = us.get("v1", "ConfigMap", "default", "own").unwrap();
        assert_eq!(own.unwrap()["data"]["x"], "two");
        assert!(fleet.names().contains("za"));
    }
}
