//! ConfigMaps as a user sees them, by a client independent of Windlass's own. Entry point: [`ConfigMaps`].

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube_client::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};

const SOON: Duration = Duration::from_secs(60);

/// The ConfigMaps of the namespace `default` of one cluster.
#[derive(Clone)]
pub(crate) struct ConfigMaps {
    api: Api<ConfigMap>,
    events: Api<Event>,
}

impl ConfigMaps {
    /// Those that a client sees.
    pub(crate) fn of(client: Client) -> Self {
        Self {
            api: Api::namespaced(client.clone(), "default"),
            events: Api::namespaced(client, "default"),
        }
    }

    /// Those in a context of a kubeconfig file.
    pub(crate) async fn in_context(kubeconfig: &Path, context: &str) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)
            .with_context(|| format!("read {}", kubeconfig.display()))?;
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        Ok(Self::of(Client::try_from(
            Config::from_custom_kubeconfig(kubeconfig, &options).await?,
        )?))
    }

    /// Creates one that asks the hello guest for a greeting.
    pub(crate) async fn ask(&self, name: &str, who: &str) -> Result<()> {
        let asking = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"hello.windlass.dev/greet": who}},
        });
        self.api
            .create(&PostParams::default(), &serde_json::from_value(asking)?)
            .await?;
        Ok(())
    }

    /// Creates one that a field manager holds by a finalizer.
    pub(crate) async fn create_held(
        &self,
        name: &str,
        manager: &str,
        finalizer: &str,
    ) -> Result<()> {
        let held = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "finalizers": [finalizer]},
        });
        let parameters = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        self.api
            .create(&parameters, &serde_json::from_value(held)?)
            .await?;
        Ok(())
    }

    /// Waits until one has these finalizers, or is gone.
    pub(crate) async fn expect_finalizers(
        &self,
        name: &str,
        expected: Option<&[&str]>,
    ) -> Result<()> {
        let wanted = expected.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        eventually(
            SOON,
            &format!("{name} to be held by {wanted:?}"),
            || async {
                let found = self.api.get_opt(name).await?;
                let found = found.map(|found| found.metadata.finalizers.unwrap_or_default());
                Ok(Seen::of(found, |found| *found == wanted))
            },
        )
        .await
        .map(drop)
    }

    /// Creates one that the guest `test-calls` runs for.
    pub(crate) async fn run_script(&self, name: &str) -> Result<()> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"test.windlass.dev/run": "yes"}},
        });
        self.api
            .create(&PostParams::default(), &serde_json::from_value(map)?)
            .await?;
        Ok(())
    }

    /// Asks in another's name.
    pub(crate) async fn ask_again(&self, name: &str, who: &str) -> Result<()> {
        let patch = json!({"metadata": {"labels": {"hello.windlass.dev/greet": who}}});
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Gives one an annotation, or takes it away.
    pub(crate) async fn annotate(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Waits until these are the Events about pauses of one, by their reasons, sorted.
    pub(crate) async fn expect_pauses(&self, name: &str, expected: &[&str]) -> Result<()> {
        eventually(
            SOON,
            &format!("Events {expected:?} about {name}"),
            || async {
                let all = self.events.list(&ListParams::default()).await?.items;
                let about = all
                    .into_iter()
                    .filter(|event| event.involved_object.name.as_deref() == Some(name));
                let mut reasons: Vec<String> = about.filter_map(|event| event.reason).collect();
                reasons.retain(|reason| ["Paused", "Resumed"].contains(&reason.as_str()));
                reasons.sort();
                Ok(Seen::of(reasons, |reasons| reasons == expected))
            },
        )
        .await
        .map(drop)
    }

    /// Deletes one.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The greeting beside the ConfigMap `name`, if there is one.
    pub(crate) async fn greeting(&self, name: &str) -> Result<Option<String>> {
        let child = self.api.get_opt(&format!("{name}-greeting")).await?;
        Ok(child.and_then(|child| child.data?.remove("greeting")))
    }

    /// What a ConfigMap holds under `key`, if it is there and has it.
    pub(crate) async fn value(&self, name: &str, key: &str) -> Result<Option<String>> {
        let map = self.api.get_opt(name).await?;
        Ok(map.and_then(|map| map.data?.remove(key)))
    }

    /// Waits until a ConfigMap holds this under `key`, or does not have it, or is absent.
    pub(crate) async fn expect_value(
        &self,
        name: &str,
        key: &str,
        expected: Option<&str>,
    ) -> Result<()> {
        eventually(
            SOON,
            &format!("{key} of {name} to be {expected:?}"),
            || async {
                let value = self.value(name, key).await?;
                Ok(Seen::of(value, |value| value.as_deref() == expected))
            },
        )
        .await?;
        Ok(())
    }

    /// Waits until the world is greeted beside the ConfigMap `name`.
    pub(crate) async fn expect_greeted(&self, name: &str) -> Result<()> {
        eventually(SOON, &format!("the greeting of {name}"), || async {
            Ok(Seen::of(self.greeting(name).await?, |seen| {
                seen.as_ref()
                    .is_some_and(|text| text.starts_with("hello, world, from "))
            }))
        })
        .await?;
        Ok(())
    }

    /// Waits until the greeting beside the ConfigMap `name` is this one, or there is none.
    pub(crate) async fn expect_greeting(&self, name: &str, expected: Option<&str>) -> Result<()> {
        eventually(
            SOON,
            &format!("the greeting of {name} to be {expected:?}"),
            || async {
                Ok(Seen::of(self.greeting(name).await?, |seen| {
                    seen.as_deref() == expected
                }))
            },
        )
        .await?;
        Ok(())
    }
}
