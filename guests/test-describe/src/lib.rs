//! Describes itself badly, in the way that its config says. Entry point: [`Describe`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// How badly.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Trap,
    Loop,
    Refuse,
    UnknownOption,
    WatchSecrets,
    /// Of a kind that only some clusters serve.
    WatchGeese,
    WatchNothing,
    /// Not badly at all.
    Well,
}

/// The configuration.
#[derive(Deserialize)]
struct Config {
    way: Way,
}

/// The guest.
struct Describe;
windlass_sdk::guest!(Describe);

impl Reconciler for Describe {
    #[expect(clippy::panic, reason = "this is what the guest is for")]
    fn describe() -> Result<Description> {
        let watch = |kind| Watch::of(GroupVersionKind::new("v1", kind));
        let description = Description::new("describes itself badly");
        Ok(match config::<Config>()?.way {
            Way::Trap => panic!("no words for it"),
            Way::Loop => loop {
                std::hint::black_box(());
            },
            Way::Refuse => return Err(Error::terminal("the config asks for the impossible")),
            Way::UnknownOption => {
                let mut watch = watch("ConfigMap");
                watch.options.push(("debounce".to_owned(), "1s".to_owned()));
                description.primary_watch(watch)
            }
            Way::WatchSecrets => description.primary_watch(watch("Secret")),
            Way::WatchGeese => {
                let geese = GroupVersionKind::new("example.dev/v1", "Goose");
                description.primary_watch(Watch::of(geese))
            }
            Way::WatchNothing => description,
            Way::Well => description.primary_watch(watch("ConfigMap")),
        })
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        Ok(Action::Done)
    }
}
