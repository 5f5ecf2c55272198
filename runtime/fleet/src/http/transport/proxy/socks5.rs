//! CONNECT to a SOCKS5 proxy (RFC 1928), with a user and a password (RFC 1929). Entry point: [`connect`].

use super::{ProxyError, Target};
use crate::http::proxy::Login;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const LOGIN_VERSION: u8 = 1;
/// "No acceptable methods".
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What an answer should be one of, for errors.
const FOREIGN: ProxyError = ProxyError::Foreign("a SOCKS5 proxy");

/// Makes the stream a tunnel to the target. The proxy resolves a name.
///
/// # Errors
/// [`ProxyError`].
pub(super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    target: Target,
    login: Option<&Login>,
) -> Result<(), ProxyError> {
    log_in(stream, login).await?;
    send(stream, &request(&target)?).await?;
    let [version, reply, _, kind] = read(stream).await?;
    if version != VERSION {
        return Err(FOREIGN);
    }
    if reply != 0 {
        return Err(refusal(target, reply));
    }
    // The proxy's own address on the far side, of which nothing is needed.
    match kind {
        IPV4 => skip(stream, 4 + 2).await,
        IPV6 => skip(stream, 16 + 2).await,
        NAME => {
            let [length] = read(stream).await?;
            skip(stream, usize::from(length) + 2).await
        }
        _ => Err(FOREIGN),
    }
}

async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    login: Option<&Login>,
) -> Result<(), ProxyError> {
    let methods: &[u8] = match login {
        Some(_) => &[VERSION, 2, NO_LOGIN, USER_AND_PASSWORD],
        None => &[VERSION, 1, NO_LOGIN],
    };
    send(stream, methods).await?;
    let [version, method] = read(stream).await?;
    match (version, method, login) {
        (VERSION, NO_LOGIN, _) => Ok(()),
        (VERSION, USER_AND_PASSWORD, Some(login)) => {
            send(stream, &credentials(login)).await?;
            let [_, status] = read(stream).await?;
            match status {
                0 => Ok(()),
                _ => Err(ProxyError::LoginRejected),
            }
        }
        (VERSION, NO_METHOD, None) => Err(ProxyError::LoginDemanded),
        (VERSION, NO_METHOD, Some(_)) => Err(ProxyError::LoginRejected),
        _ => Err(FOREIGN),
    }
}

/// The URL's parser has checked the lengths.
fn credentials(login: &Login) -> Vec<u8> {
    let mut message = vec![LOGIN_VERSION];
    for text in [&login.user, &login.password] {
        let bytes = &text.as_bytes()[..text.len().min(usize::from(u8::MAX))];
        message.extend(u8::try_from(bytes.len()));
        message.extend_from_slice(bytes);
    }
    message
}

fn request(target: &Target) -> Result<Vec<u8>, ProxyError> {
    let mut message = vec![VERSION, CONNECT, 0];
    let host = target.host.trim_matches(['[', ']']);
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            message.push(IPV4);
            message.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            message.push(IPV6);
            message.extend(address.octets());
        }
        Err(_) => {
            let length = u8::try_from(host.len());
            message.push(NAME);
            message.push(length.map_err(|_| ProxyError::LongName(host.len()))?);
            message.extend(host.as_bytes());
        }
    }
    message.extend(target.port.to_be_bytes());
    Ok(message)
}

fn refusal(target: Target, reply: u8) -> ProxyError {
    let reason = match reply {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "time to live expired",
        7 => "command not supported",
        8 => "type of address not supported",
        _ => "unknown reply",
    };
    let answer = format!("{reason}, reply {reply}");
    match reply {
        2 | 7 | 8 => ProxyError::Refused { target, answer },
        _ => ProxyError::Failed { target, answer },
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, message: &[u8]) -> Result<(), ProxyError> {
    stream.write_all(message).await?;
    Ok(stream.flush().await?)
}

async fn read<S: AsyncRead + Unpin, const N: usize>(stream: &mut S) -> Result<[u8; N], ProxyError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn skip<S: AsyncRead + Unpin>(stream: &mut S, bytes: usize) -> Result<(), ProxyError> {
    let mut skipped = vec![0; bytes];
    stream.read_exact(&mut skipped).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Uri;

    fn target(url: &str) -> Target {
        Target::of(&url.parse::<Uri>().unwrap())
    }

    /// The outcome if the proxy gives these answers, what the proxy was sent, and what follows the answers.
    async fn outcome(
        answers: &[u8],
        to: &str,
        login: Option<&Login>,
    ) -> (Result<(), ProxyError>, Vec<u8>, Vec<u8>) {
        let (mut client, proxy) = tokio::io::duplex(4096);
        let (mut sent, mut write) = tokio::io::split(proxy);
        write.write_all(answers).await.unwrap();
        write.shutdown().await.unwrap();
        let outcome = connect(&mut client, target(to), login).await;
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        drop(client);
        let mut bytes = Vec::new();
        sent.read_to_end(&mut bytes).await.unwrap();
        (outcome, bytes, rest)
    }

    #[tokio::test]
    async fn names_are_sent_as_names_and_addresses_as_addresses() {
        let answers = [5, 0, 5, 0, 0, 1, 10, 0, 0, 1, 0, 80];
        for (to, request) in [
            ("https://a.b", vec![3, 3, b'a', b'.', b'b', 1, 187]),
            ("http://a.b", vec![3, 3, b'a', b'.', b'b', 0, 80]),
            ("https://10.0.0.1:6443", vec![1, 10, 0, 0, 1, 25, 43]),
            (
                "https://[fd00::1]:1",
                vec![4, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1],
            ),
        ] {
            let (outcome, sent, _) = outcome(&answers, to, None).await;
            assert!(outcome.is_ok(), "{outcome:?}");
            let expected = [&[5, 1, 0, 5, 1, 0][..], &request].concat();
            assert_eq!(sent, expected, "{to}");
        }
    }

    #[tokio::test]
    async fn nothing_of_the_server_is_read() {
        for bound in [
            vec![1, 1, 2, 3, 4, 0, 80],
            [vec![4], vec![7; 16], vec![0, 80]].concat(),
            vec![3, 2, b'a', b'b', 0, 80],
        ] {
            let answers = [&[5, 0, 5, 0, 0][..], &bound, b"hello"].concat();
            let (outcome, _, rest) = outcome(&answers, "https://a.b", None).await;
            assert!(outcome.is_ok(), "{outcome:?}");
            assert_eq!(rest, b"hello");
        }
    }

    #[tokio::test]
    async fn a_user_and_a_password_are_sent_if_the_proxy_asks() {
        let login = Login {
            user: "me".to_owned(),
            password: "hush".to_owned(),
        };
        let answers = [5, 2, 1, 0, 5, 0, 0, 1, 10, 0, 0, 1, 0, 80];
        let (accepted, sent, _) = outcome(&answers, "https://a.b", Some(&login)).await;
        assert!(accepted.is_ok(), "{accepted:?}");
        let expected = [&[5, 2, 0, 2, 1, 2][..], b"me", &[4], b"hush", &[5, 1]].concat();
        assert!(sent.starts_with(&expected), "{sent:?}");
        let (rejected, _, _) = outcome(&[5, 2, 1, 1], "https://a.b", Some(&login)).await;
        assert!(matches!(rejected, Err(ProxyError::LoginRejected)));
        let (demanded, _, _) = outcome(&[5, 0xff], "https://a.b", None).await;
        assert!(matches!(demanded, Err(ProxyError::LoginDemanded)));
        // Asked for although none was offered.
        let (foreign, _, _) = outcome(&[5, 2], "https://a.b", None).await;
        assert!(matches!(foreign, Err(ProxyError::Foreign(_))));
    }

    #[tokio::test]
    async fn refusals_name_the_server_and_other_answers_are_errors() {
        let (refused, _, _) = outcome(&[5, 0, 5, 2, 0, 1], "https://a.b", None).await;
        assert_eq!(
            refused.unwrap_err().to_string(),
            "it refuses a connection to a.b:443 (not allowed by its rules, reply 2): allow a.b:443 in its rules, or reach the server without it"
        );
        let (failed, _, _) = outcome(&[5, 0, 5, 4, 0, 1], "https://a.b", None).await;
        assert!(matches!(failed, Err(ProxyError::Failed { .. })));
        for answers in [
            &b"HTTP/1.1 400"[..],
            &[5, 0, 5, 0, 0, 9],
            &[5, 0, 4, 0, 0, 1],
        ] {
            let (foreign, _, _) = outcome(answers, "https://a.b", None).await;
            assert!(
                matches!(foreign, Err(ProxyError::Foreign(_))),
                "{foreign:?}"
            );
        }
        for cut in [&[][..], &[5], &[5, 0, 5, 0, 0, 1, 10]] {
            let (broken, _, _) = outcome(cut, "https://a.b", None).await;
            assert!(matches!(broken, Err(ProxyError::Broken(_))), "{broken:?}");
        }
        let long = format!("https://{}", "a".repeat(300));
        let (refused, _, _) = outcome(&[5, 0], &long, None).await;
        assert!(matches!(refused, Err(ProxyError::LongName(300))));
    }
}
