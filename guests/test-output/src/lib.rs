//! Writes to standard output and error, as guests of languages with a runtime do. Entry point: [`Output`].

use serde::Deserialize;
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// The part of WASI that it imports.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod wasi {
    wit_bindgen::generate!({
        inline: "
            package windlass:test-output;
            world output {
                import wasi:cli/stdout@0.2.0;
                import wasi:cli/stderr@0.2.0;
            }
            package wasi:io@0.2.0 {
                interface error { resource error; }
                interface streams {
                    use error.{error};
                    variant stream-error { last-operation-failed(error), closed }
                    resource output-stream {
                        blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
                    }
                }
            }
            package wasi:cli@0.2.0 {
                interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
                interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
            }
        ",
        generate_all,
    });
}

/// The largest size of one write.
const CHUNK: usize = 4096;

/// The configuration.
#[derive(Deserialize)]
struct Config {
    /// Kilobytes to write to standard output, without line ends.
    #[serde(default)]
    kilobytes: usize,
}

/// The guest.
struct Output;
windlass_sdk::guest!(Output);

impl Reconciler for Output {
    fn describe() -> Result<Description> {
        Ok(Description::new("writes to its outputs")
            .primary_watch(Watch::of(GroupVersionKind::new("v1", "ConfigMap"))))
    }

    fn reconcile(request: &Request, _: &Cluster) -> Result<Action> {
        let line = format!("out: {}\nout: and more", request.key.name);
        wasi::wasi::cli::stdout::get_stdout().blocking_write_and_flush(line.as_bytes())?;
        for _ in 0..config::<Config>()?.kilobytes * 1000 / CHUNK {
            wasi::wasi::cli::stdout::get_stdout().blocking_write_and_flush(&[b'x'; CHUNK])?;
        }
        wasi::wasi::cli::stderr::get_stderr().blocking_write_and_flush(b"err: a warning\n")?;
        Ok(Action::Done)
    }
}
