//! Servers behind proxy programs. Entry points: the tests.

use crate::secrets::{labelled, options};
use crate::stage::{EAST, SOON, Scene};
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use windlass_fleet::provider::kubeconfig_secrets::KubeconfigSecrets;
use windlass_fleet::{ObjectKey, Request};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::fleet::name;
use windlass_harness::testenv::Server;
use windlass_harness::testenv::real_proxy::{RealProxy, Scheme};

/// A server's kubeconfig with a `proxy-url`, which trusts the proxy's authority too.
fn through(server: &Server, proxy: &RealProxy, url: &str) -> Result<String> {
    let authority = server.ca_pem();
    let both = STANDARD.encode(format!("{authority}{}", proxy.certificate()?));
    let text = server.kubeconfig();
    let text = text.replace(&STANDARD.encode(authority), &both);
    let proxied = format!("    proxy-url: '{url}'\n    server: ");
    Ok(text.replace("    server: ", &proxied))
}

/// A request for an animal of the scene.
fn animal(scene: &Scene, cluster: &str, animal: &str) -> Request {
    Request::new(name(cluster), ObjectKey::namespaced(scene.name, animal))
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn clusters_are_read_written_and_watched_through_each_kind_of_proxy() -> Result<()> {
    let scene = Scene::start("real-proxies").await?;
    let mut proxies = Vec::new();
    for scheme in Scheme::ALL {
        for (with_login, cluster) in [(false, "open"), (true, "login")] {
            let proxy = RealProxy::start(scheme, with_login).await?;
            let cluster = format!("{}-{cluster}", scheme.as_str());
            let text = through(scene.server(EAST), &proxy, &proxy.url())?;
            scene.put(labelled(&cluster, &text)).await?;
            proxies.push((cluster, proxy));
        }
    }
    proxies.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<&str> = proxies.iter().map(|(name, _)| name.as_str()).collect();
    let secrets = KubeconfigSecrets::new("secrets", options(&scene));
    let play = scene.play(vec![Arc::new(secrets)])?;
    play.engaged(&names).await?;

    // The second one finds every watch open.
    for object in ["first", "second"] {
        scene.animal(EAST, object).await?;
        scene.fed(EAST, object).await?;
        for name in &names {
            let request = animal(&scene, name, object);
            let what = format!("a run for {request}");
            eventually(SOON, &what, || async {
                let alike = play.feeder.alike(&request);
                Ok(Seen::of(alike, Option::is_some))
            })
            .await?;
        }
    }
    let url = scene.server(EAST).url();
    let server = url.strip_prefix("https://").context("https")?;
    for (name, proxy) in &proxies {
        assert_eq!(proxy.connections()?, [server], "{name}");
        let counts = play.status(name)?.connections;
        let made = (counts.http2.made, counts.http1.made);
        assert_eq!(made, (1, 0), "{name}: one connection for everything");
    }
    play.end().await
}

#[tokio::test]
#[ignore = "needs real servers"]
async fn a_login_that_a_proxy_refuses_is_a_reason_with_the_remedy_until_it_is_corrected()
-> Result<()> {
    let scene = Scene::start("refused-logins").await?;
    let secrets = KubeconfigSecrets::new("secrets", options(&scene));
    let play = scene.play(vec![Arc::new(secrets)])?;
    for scheme in Scheme::ALL {
        let (proxy, cluster) = (RealProxy::start(scheme, true).await?, scheme.as_str());
        for (url, remedy) in [
            (
                proxy.bare_url(),
                "it demands a user and a password: write them into its URL",
            ),
            (
                proxy.url_with("me:hush"),
                "it rejects the user or the password in its URL: correct them",
            ),
        ] {
            let text = through(scene.server(EAST), &proxy, &url)?;
            scene.put(labelled(cluster, &text)).await?;
            let expected = format!("through the proxy {}: {remedy}", proxy.bare_url());
            eventually(SOON, &format!("the reason {expected:?}"), || async {
                let status = play.status(cluster)?;
                Ok(Seen::of(status, |status| {
                    status.reason.contains(&expected) && !format!("{status:?}").contains("hush")
                }))
            })
            .await?;
        }
        assert_eq!(proxy.connections()?, [""; 0], "{cluster}");
        let text = through(scene.server(EAST), &proxy, &proxy.url())?;
        scene.put(labelled(cluster, &text)).await?;
        play.ready_soon(cluster).await?;
    }
    play.end().await
}
