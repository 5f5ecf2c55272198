//! Cases about other clusters. Entry points: a function for each.

use crate::Scene;
use crate::words::{ConfigMap, color, names, refused};
use crate::writes::answered;
use windlass_sdk::fleet;
use windlass_sdk::prelude::*;
use windlass_sdk::{ClusterInfo, Operation};

/// All granted clusters, some by label, and an invalid selector.
pub(crate) fn clusters() -> Result<()> {
    for info in fleet::clusters()? {
        info!(
            "cluster",
            name = info.name,
            labels = pairs(&info.labels),
            properties = pairs(&info.properties),
            ready = info.ready,
        );
    }
    let second: Vec<ClusterInfo> = fleet::clusters_labelled("tier=second")?;
    info!(
        "by label",
        names = names(second.iter().map(|info| &*info.name))
    );
    if let Err(error) = fleet::clusters_labelled("tier in (") {
        refused("no selector", &error);
    }
    Ok(())
}

fn pairs(pairs: &[(String, String)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    pairs.join(",")
}

/// Reads and writes in a granted cluster; clusters that are not granted or not there.
pub(crate) fn open(scene: &Scene) -> Result<()> {
    let beta = fleet::open("beta")?;
    let apple: Option<ConfigMap> = beta.get(&scene.at("apple"))?;
    info!("opened", name = beta.name(), color = color(apple.as_ref()));
    let sent = ConfigMap::with(&scene.at("sent"), [("from", &*scene.cluster.name())]);
    let sent = beta.create(&sent)?;
    info!("sent", from = sent.value("from"));
    for name in ["gamma", "bye", ""] {
        if let Err(error) = fleet::open(name) {
            refused("not opened", &error);
        }
    }
    Ok(())
}

/// A batch over several clusters.
pub(crate) fn across(scene: &Scene) -> Result<()> {
    let pear = ConfigMap::with(&scene.at("pear"), [("color", "green")]);
    let read = Operation::get::<ConfigMap>(&scene.at("apple"));
    let operations = [
        ("alpha".to_owned(), read.clone()),
        ("beta".to_owned(), read.clone()),
        ("gamma".to_owned(), read),
        ("beta".to_owned(), Operation::create(&pear)?),
        (
            "bye".to_owned(),
            Operation::delete::<ConfigMap>(&scene.at("apple")),
        ),
    ];
    for reply in fleet::batch(&operations) {
        answered(reply)?;
    }
    Ok(())
}
