//! CONNECT to an HTTP proxy (RFC 9110, 9.3.6). Entry point: [`connect`].

use super::{LOGIN_NEEDED, MAX_ANSWER, ProxyError, Target, basic, login_error};
use crate::http::proxy::Login;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What an answer should be one of, for errors.
const PROTOCOL: &str = "an HTTP proxy";

/// Makes the stream a tunnel to the target.
///
/// # Errors
/// [`ProxyError`].
pub(super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    target: Target,
    login: Option<&Login>,
) -> Result<(), ProxyError> {
    stream.write_all(&request(&target, login)).await?;
    stream.flush().await?;
    let head = read_head(stream).await?;
    match status(&head).ok_or(ProxyError::Foreign(PROTOCOL))? {
        200..300 => Ok(()),
        LOGIN_NEEDED => Err(login_error(login)),
        // What proxies answer if they could not connect.
        status @ 502..=504 => Err(ProxyError::Failed {
            target,
            answer: format!("status {status}"),
        }),
        status => Err(ProxyError::Refused {
            target,
            answer: format!("status {status}"),
        }),
    }
}

fn request(target: &Target, login: Option<&Login>) -> Vec<u8> {
    let agent = concat!("windlass/", env!("CARGO_PKG_VERSION"));
    let mut request =
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: {agent}\r\n")
            .into_bytes();
    if let Some(value) = login.and_then(basic) {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// Reads up to the empty line. The client speaks first in a tunnel, so nothing may follow.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Vec<u8>, ProxyError> {
    let mut head = Vec::with_capacity(512);
    loop {
        let room = MAX_ANSWER - head.len();
        if room == 0 {
            return Err(ProxyError::TooLarge);
        }
        let read = (&mut *stream).take(room as u64).read_buf(&mut head).await?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match end_of_head(&head) {
            Some(end) if end == head.len() => return Ok(head),
            // A refusal may have a body, which nobody reads.
            Some(_) if !matches!(status(&head), Some(200..300)) => return Ok(head),
            Some(_) => return Err(ProxyError::Foreign(PROTOCOL)),
            None => {}
        }
    }
}

/// The length of a head with its empty line. As Go, this takes a line feed alone for the end of a line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let ends = [&b"\n\r\n"[..], b"\n\n"].into_iter().filter_map(|end| {
        let at = bytes.windows(end.len()).position(|window| window == end)?;
        Some(at + end.len())
    });
    ends.min()
}

/// The status of an answer such as `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let (code, end) = (rest.get(2..5)?, rest.get(5)?);
    let is_line = rest[0].is_ascii_digit() && rest[1] == b' ' && b" \r\n".contains(end);
    if !is_line || !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(code).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Uri;

    /// The outcome if the proxy gives this answer, and what the proxy was sent.
    async fn outcome(answer: &[u8], login: Option<&Login>) -> (Result<(), ProxyError>, String) {
        let (mut client, mut proxy) = tokio::io::duplex(64 << 10);
        proxy.write_all(answer).await.unwrap();
        let server: Uri = "https://api.example.com:6443/clusters/a".parse().unwrap();
        // Half closed: what the client sends still arrives.
        let (mut sent, write) = tokio::io::split(proxy);
        let mut write = write;
        write.shutdown().await.unwrap();
        let outcome = connect(&mut client, Target::of(&server), login).await;
        drop(client);
        let mut text = String::new();
        sent.read_to_string(&mut text).await.unwrap();
        (outcome, text)
    }

    #[tokio::test]
    async fn a_success_without_more_makes_a_tunnel() {
        for answer in [
            "HTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.0 200\r\nVia: proxy\r\n\r\n",
            "HTTP/1.1 204 No Content\n\n",
        ] {
            let (outcome, sent) = outcome(answer.as_bytes(), None).await;
            assert!(outcome.is_ok(), "{answer}: {outcome:?}");
            assert!(sent.starts_with(
                "CONNECT api.example.com:6443 HTTP/1.1\r\nHost: api.example.com:6443\r\n"
            ));
            assert!(sent.ends_with("\r\n\r\n") && !sent.contains("Proxy-Authorization"));
        }
    }

    #[tokio::test]
    async fn credentials_are_sent_and_their_rejection_is_told_apart() {
        let login = Login {
            user: "me".to_owned(),
            password: "p@ss:/".to_owned(),
        };
        let answer =
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 5\r\n\r\nhush!";
        let (rejected, sent) = outcome(answer, Some(&login)).await;
        assert!(
            sent.contains("\r\nProxy-Authorization: Basic bWU6cEBzczov\r\n"),
            "{sent}"
        );
        let rejected = rejected.unwrap_err();
        assert!(matches!(rejected, ProxyError::LoginRejected));
        assert!(!format!("{rejected} {rejected:?}").contains("p@ss"));
        let (demanded, _) = outcome(answer, None).await;
        assert!(matches!(demanded, Err(ProxyError::LoginDemanded)));
    }

    #[tokio::test]
    async fn refusals_name_the_server_and_no_text_of_the_proxy() {
        let text = |error: Result<(), ProxyError>| error.unwrap_err().to_string();
        let (refused, _) = outcome(b"HTTP/1.1 403 <b>No\r\n\r\n<html>", None).await;
        assert_eq!(
            text(refused),
            "it refuses a connection to api.example.com:6443 (status 403): allow api.example.com:6443 in its rules, or reach the server without it"
        );
        let (failed, _) = outcome(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", None).await;
        assert!(
            matches!(failed, Err(ProxyError::Failed { .. })),
            "{failed:?}"
        );
    }

    #[tokio::test]
    async fn other_answers_are_errors() {
        for answer in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1  200 OK\r\n\r\n",
            "HTTP/1.1 20x OK\r\n\r\n",
            "\r\n\r\n\r\n",
            // In a tunnel the server does not speak first.
            "HTTP/1.1 200 OK\r\n\r\nhello",
        ] {
            let (refused, _) = outcome(answer.as_bytes(), None).await;
            assert!(
                matches!(refused, Err(ProxyError::Foreign(_))),
                "{answer}: {refused:?}"
            );
        }
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(2 * MAX_ANSWER));
        let (refused, _) = outcome(endless.as_bytes(), None).await;
        assert!(matches!(refused, Err(ProxyError::TooLarge)), "{refused:?}");
        for cut in ["", "HTTP/1.1 200 OK\r\n"] {
            let (refused, _) = outcome(cut.as_bytes(), None).await;
            assert!(matches!(refused, Err(ProxyError::Broken(_))), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_in_pieces_is_read_to_its_end() {
        let (mut client, mut proxy) = tokio::io::duplex(1024);
        let server: Uri = "https://[fd00::1]".parse().unwrap();
        let answers = tokio::spawn(async move {
            for byte in b"HTTP/1.1 200 OK\r\n\r\n" {
                proxy.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            proxy
        });
        let target = Target::of(&server);
        assert_eq!(target.to_string(), "[fd00::1]:443");
        connect(&mut client, target, None).await.unwrap();
        drop(answers.await.unwrap());
    }
}
