//! Requests to the program's admin endpoints, without the program's own client. Entry point: [`Http::get`].

use crate::program::runtime_folder;
use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client of the admin endpoints.
#[derive(Debug, Clone)]
pub struct Http {
    /// The address of the endpoints: `host:port`.
    pub address: String,
}

impl Http {
    /// Requests a path, and returns the status and body of the answer.
    ///
    /// # Errors
    /// When there is no answer, or the answer is not HTTP.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let (host, token) = (&self.address, self.authorization());
        self.send(&format!(
            "GET {path} HTTP/1.0\r\nHost: {host}\r\n{token}\r\n"
        ))
        .await
    }

    /// A line with the token that the program at this address has written to a file; empty if it has written none.
    #[must_use]
    pub fn authorization(&self) -> String {
        let file = runtime_folder().join(format!("windlass/admin/{}.token", self.address));
        match std::fs::read_to_string(file) {
            Ok(token) => format!("Authorization: Bearer {}\r\n", token.trim()),
            Err(_) => String::new(),
        }
    }

    /// Sends a request as it is, and returns the status and body of the answer.
    ///
    /// # Errors
    /// As [`Http::get`].
    pub async fn send(&self, request: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(request.as_bytes()).await?;
        answer(stream).await
    }

    /// The metrics whose line begins with a prefix: the text between prefix and value, and the value.
    ///
    /// # Errors
    /// As [`Http::get`], and when a value is no number.
    pub async fn series(&self, beginning: &str) -> Result<Vec<(String, f64)>> {
        let (_, metrics) = self.get("/metrics").await?;
        let lines = metrics.lines();
        let rests = lines.filter_map(|line| line.strip_prefix(beginning));
        let parts = rests.map(|rest| {
            let (labels, value) = rest.rsplit_once(' ').context("a value")?;
            Ok((labels.to_owned(), value.parse()?))
        });
        parts.collect()
    }
}

/// Reads an answer, which ends with its connection.
async fn answer(mut stream: TcpStream) -> Result<(u16, String)> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, body.to_owned()))
}
