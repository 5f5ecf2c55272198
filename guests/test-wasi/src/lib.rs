//! Uses the parts of WASI that the host offers: only clocks and random numbers work. Entry point: [`Wasi`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The imports from WASI: only the functions that it calls.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod wasi {
    wit_bindgen::generate!({
        inline: "
            package windlass:test-wasi;

            world takes {
              import wasi:clocks/wall-clock@0.2.0;
              import wasi:clocks/monotonic-clock@0.2.0;
              import wasi:random/random@0.2.0;
              import wasi:cli/environment@0.2.0;
              import wasi:filesystem/preopens@0.2.0;
              import wasi:sockets/tcp-create-socket@0.2.0;
            }

            package wasi:io@0.2.0 {
              interface poll {
                resource pollable {
                  block: func();
                }
              }
            }

            package wasi:clocks@0.2.0 {
              interface wall-clock {
                record datetime { seconds: u64, nanoseconds: u32 }
                now: func() -> datetime;
              }
              interface monotonic-clock {
                use wasi:io/poll@0.2.0.{pollable};
                type instant = u64;
                type duration = u64;
                now: func() -> instant;
                subscribe-duration: func(when: duration) -> pollable;
              }
            }

            package wasi:random@0.2.0 {
              interface random {
                get-random-bytes: func(len: u64) -> list<u8>;
              }
            }

            package wasi:cli@0.2.0 {
              interface environment {
                get-environment: func() -> list<tuple<string, string>>;
                get-arguments: func() -> list<string>;
              }
            }

            package wasi:filesystem@0.2.0 {
              interface types {
                resource descriptor;
              }
              interface preopens {
                use types.{descriptor};
                get-directories: func() -> list<tuple<descriptor, string>>;
              }
            }

            package wasi:sockets@0.2.0 {
              interface network {
                enum ip-address-family { ipv4, ipv6 }
                enum error-code {
                  unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict, not-in-progress,
                  would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use, remote-unreachable,
                  connection-refused, connection-reset, connection-aborted, datagram-too-large, name-unresolvable,
                  temporary-resolver-failure, permanent-resolver-failure
                }
              }
              interface tcp {
                resource tcp-socket;
              }
              interface tcp-create-socket {
                use network.{error-code, ip-address-family};
                use tcp.{tcp-socket};
                create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
              }
            }
        ",
        world: "windlass:test-wasi/takes",
        generate_all,
    });
}

use wasi::wasi::cli::environment::{get_arguments, get_environment};
use wasi::wasi::clocks::{monotonic_clock, wall_clock};
use wasi::wasi::filesystem::preopens::get_directories;
use wasi::wasi::random::random::get_random_bytes;
use wasi::wasi::sockets::network::IpAddressFamily;
use wasi::wasi::sockets::tcp_create_socket::create_tcp_socket;

/// Its action.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// Reports the clocks, the random numbers and all that the host refuses.
    Look,
    /// Waits for an hour.
    Sleep,
    /// Waits for three seconds, and logs a line.
    Nap,
    /// Asks for 100 MB of random bytes at once.
    Gamble,
}

/// The configuration.
#[derive(Deserialize)]
struct Config {
    way: Way,
}

/// The guest.
struct Wasi;
windlass_sdk::guest!(Wasi);

impl Reconciler for Wasi {
    fn describe() -> Result<Description> {
        let watch = Watch::of(GroupVersionKind::new("v1", "ConfigMap"));
        Ok(Description::new("takes what WASI offers").primary_watch(watch))
    }

    fn reconcile(_: &Request, _: &Cluster) -> Result<Action> {
        match config::<Config>()?.way {
            Way::Look => Err(Error::terminal(look())),
            Way::Sleep => {
                monotonic_clock::subscribe_duration(3_600_000_000_000).block();
                Ok(Action::Done)
            }
            Way::Nap => {
                monotonic_clock::subscribe_duration(3_000_000_000).block();
                info!("rested");
                Ok(Action::Done)
            }
            Way::Gamble => {
                std::hint::black_box(get_random_bytes(100_000_000));
                Ok(Action::Done)
            }
        }
    }
}

fn look() -> String {
    let (before, random) = (monotonic_clock::now(), get_random_bytes(32));
    let differs = random != get_random_bytes(32) && random.len() == 32;
    let socket = match create_tcp_socket(IpAddressFamily::Ipv4) {
        Ok(_) => "made".to_owned(),
        Err(code) => code.name().to_owned(),
    };
    format!(
        "seconds: {}, monotonic: {}, random: {differs}, environment: {:?}, arguments: {:?}, folders: {}, socket: {socket}",
        wall_clock::now().seconds,
        monotonic_clock::now() >= before,
        get_environment(),
        get_arguments(),
        get_directories().len(),
    )
}
