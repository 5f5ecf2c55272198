//! Logins that a registry with a token server accepts.

use super::*;
use crate::transport::HttpOptions;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

/// The token of the server below.
const TOKEN: &str = "granted";

/// A registry and its token server, which exchanges the identity token `refresh` and knows no password.
async fn registry() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let host = listener.local_addr()?.to_string();
    let own = host.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, own.clone()));
        }
    });
    Ok(host)
}

/// Answers one request, and closes.
async fn serve(mut stream: TcpStream, host: String) -> std::io::Result<()> {
    let mut asked = vec![0; 8 << 10];
    let mut read = 0;
    let asked = loop {
        read += stream.read(&mut asked[read..]).await?;
        let text = String::from_utf8_lossy(&asked[..read]).into_owned();
        let is_whole = match text.split_once("\r\n\r\n") {
            Some((head, body)) => !head.starts_with("POST") || body.contains("refresh_token="),
            None => false,
        };
        if is_whole {
            break text;
        }
    };
    let answer = match asked.split(' ').next() {
        Some("POST")
            if asked.contains("grant_type=refresh_token") && asked.ends_with("=refresh") =>
        {
            // As some token servers do, it names the token twice.
            let body = format!("{{\"token\":{TOKEN:?},\"access_token\":{TOKEN:?}}}");
            format!("200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        }
        Some("HEAD") if asked.contains(&format!("Bearer {TOKEN}")) => {
            let digest = ImageDigest::of(b"manifest");
            format!("200 OK\r\ndocker-content-digest: {digest}\r\ncontent-length: 8\r\n\r\n")
        }
        _ => format!(
            "401 Unauthorized\r\nwww-authenticate: Bearer realm=\"http://{host}/token\",service=\"s\"\r\ncontent-length: 0\r\n\r\n"
        ),
    };
    let answer = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    stream
        .write_all(format!("HTTP/1.1 {answer}").as_bytes())
        .await
}

#[tokio::test]
async fn an_identity_token_is_exchanged_for_the_token_of_a_registry() {
    let host = registry().await.unwrap();
    let image = Reference::parse(&format!("{host}/team/hello:1")).unwrap();
    let http = Http::new(HttpOptions {
        plain: vec![host],
        ..HttpOptions::default()
    });
    let resolve = async |login| {
        let session = Session::new(&http, &image, login, "pull");
        session.resolve("1").await
    };
    let login = Login::IdentityToken("refresh".to_owned());
    let found = resolve(Some(login)).await.unwrap();
    assert_eq!(found, ImageDigest::of(b"manifest"));
    let stranger = Login::IdentityToken("another".to_owned());
    let refused = resolve(Some(stranger)).await.err().unwrap();
    assert!(matches!(refused, RegistryError::Denied { .. }), "{refused}");
}
