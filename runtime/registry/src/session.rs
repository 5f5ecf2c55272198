//! The calls of a registry's API about one image. Entry point: [`Session`].

mod challenge;
mod push;
mod signatures;

use crate::credentials::Login;
use crate::digest::ImageDigest;
use crate::error::RegistryError;
use crate::manifest::MANIFESTS;
use crate::reference::Reference;
use crate::transport::{Answer, Ask, Http, is_same_origin};
use challenge::Challenge;
use http::header::HeaderName;
use http::{HeaderValue, Method, StatusCode, Uri};
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Largest manifest or index, in bytes.
const MAX_MANIFEST: u64 = 4 << 20;
/// Largest token and largest message about an error, in bytes.
const MAX_TOKEN: u64 = 64 << 10;
const MAX_MESSAGE: u64 = 16 << 10;
/// How much of a registry's message is shown.
const SHOWN: usize = 200;

/// The type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Calls about one image, with one login.
pub(super) struct Session<'a> {
    http: &'a Http,
    image: &'a Reference,
    login: Option<Login>,
    /// `pull` or `pull,push`.
    actions: &'static str,
    /// What the registry accepted last.
    authorization: Mutex<Option<HeaderValue>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        http: &'a Http,
        image: &'a Reference,
        login: Option<Login>,
        actions: &'static str,
    ) -> Self {
        Self {
            http,
            image,
            login,
            actions,
            authorization: Mutex::default(),
        }
    }

    /// The digest that a tag, or a digest, has in the registry.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub(super) async fn resolve(&self, tag: &str) -> Result<ImageDigest, RegistryError> {
        let path = format!("manifests/{tag}");
        let answer = self.get(Method::HEAD, &path).await?;
        let named = answer.headers.get(DIGEST);
        let named = named.and_then(|value| ImageDigest::parse(value.to_str().ok()?));
        if let Some(digest) = named.filter(|_| answer.status == StatusCode::OK) {
            return Ok(digest);
        }
        // Not every registry answers HEAD, or names the digest. An error has its text only here.
        let answer = self.get(Method::GET, &path).await?;
        let answer = self.succeeded(answer, Method::GET, &path).await?;
        let what = format!("the manifest of {}", self.image);
        Ok(ImageDigest::of(&answer.read(&what, MAX_MANIFEST).await?))
    }

    /// A manifest by its digest, verified.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub(super) async fn manifest(&self, digest: ImageDigest) -> Result<Vec<u8>, RegistryError> {
        let path = format!("manifests/{digest}");
        let answer = self.get(Method::GET, &path).await?;
        let answer = self.succeeded(answer, Method::GET, &path).await?;
        let what = format!("the manifest {digest} of {}", self.image);
        let bytes = answer.read(&what, MAX_MANIFEST).await?;
        verified(what, bytes, digest)
    }

    /// Writes a blob of that size, verified. What was written counts only if this returns.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub(super) async fn blob<W: AsyncWrite + Unpin>(
        &self,
        digest: ImageDigest,
        size: u64,
        into: &mut W,
    ) -> Result<(), RegistryError> {
        let path = format!("blobs/{digest}");
        let answer = self.get(Method::GET, &path).await?;
        let mut answer = self.succeeded(answer, Method::GET, &path).await?;
        let what = format!("the layer {digest} of {}", self.image);
        let (mut hash, mut read) = (Sha256::new(), 0);
        while let Some(piece) = answer.piece().await? {
            read += piece.len() as u64;
            if read > size {
                return Err(RegistryError::TooLarge {
                    what,
                    most: size,
                    remedy: "its manifest says so, push it again",
                });
            }
            hash.update(&piece);
            into.write_all(&piece).await.map_err(unwritten)?;
        }
        into.flush().await.map_err(unwritten)?;
        let found = ImageDigest::finish(hash);
        if found == digest {
            Ok(())
        } else {
            Err(RegistryError::Digest {
                what,
                expected: digest,
                found,
            })
        }
    }

    /// A blob of at most so many bytes, verified.
    async fn small_blob(&self, digest: ImageDigest, most: u64) -> Result<Vec<u8>, RegistryError> {
        let path = format!("blobs/{digest}");
        let answer = self.get(Method::GET, &path).await?;
        let answer = self.succeeded(answer, Method::GET, &path).await?;
        let what = format!("the blob {digest} of {}", self.image);
        let bytes = answer.read(&what, most).await?;
        verified(what, bytes, digest)
    }

    async fn get(&self, method: Method, path: &str) -> Result<Answer, RegistryError> {
        let url = self.url(path)?;
        self.call(Ask {
            accept: path.starts_with("manifests/").then_some(MANIFESTS),
            ..Ask::new(method, url)
        })
        .await
    }

    fn url(&self, path: &str) -> Result<Uri, RegistryError> {
        let host = match self.image.host() {
            // Its API is elsewhere than its name says.
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let name = self.image.name();
        self.http.url(host, &format!("/v2/{name}/{path}"))
    }

    /// Sends a request, once more if the registry asks for a login.
    async fn call(&self, mut ask: Ask) -> Result<Answer, RegistryError> {
        ask.authorization = self.authorization.lock().clone();
        let answer = self.http.send(&ask).await?;
        // A host that the registry redirects to could ask for the login, and name a token server of its own.
        if answer.status != StatusCode::UNAUTHORIZED || !is_same_origin(&ask.url, &answer.url) {
            return Ok(answer);
        }
        let Some(challenge) = Challenge::read(&answer.headers) else {
            return Ok(answer);
        };
        let Some(authorization) = self.answer_to(challenge, &ask.url).await? else {
            return Ok(answer);
        };
        *self.authorization.lock() = Some(authorization.clone());
        ask.authorization = Some(authorization);
        self.http.send(&ask).await
    }

    /// The header that a registry asks for. `None`: it wants a login, and there is none.
    async fn answer_to(
        &self,
        challenge: Challenge,
        from: &Uri,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        let (realm, service) = match challenge {
            Challenge::Basic => return Ok(self.login.as_ref().and_then(Login::header)),
            Challenge::Bearer { realm, service } => (realm, service),
        };
        let ask = self.ask_for_token(from, &realm, service.as_deref())?;
        let answer = self.http.send(&ask).await?;
        let answer = self.succeeded(answer, ask.method, ask.url.path()).await?;
        let bytes = answer.read("a token", MAX_TOKEN).await?;
        /// A token server may name it twice.
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let token: Option<Token> = serde_json::from_slice(&bytes).ok();
        let token = token.and_then(|named| named.token.or(named.access_token));
        let token = token.unwrap_or_default();
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| RegistryError::Foreign {
            host: self.image.host().to_owned(),
            reason: "its token cannot be sent".to_owned(),
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// The request for a token: with the login, or in exchange for an identity token.
    fn ask_for_token(
        &self,
        from: &Uri,
        realm: &str,
        service: Option<&str>,
    ) -> Result<Ask, RegistryError> {
        let scope = format!("repository:{}:{}", self.image.name(), self.actions);
        if let Some(Login::IdentityToken(token)) = &self.login {
            let form = challenge::token_form(service, &scope, token);
            return Ok(Ask {
                content: Some((FORM, form.into())),
                ..Ask::new(Method::POST, self.http.resolve(from, realm)?)
            });
        }
        let url = challenge::token_url(realm, service, &scope);
        Ok(Ask {
            authorization: self.login.as_ref().and_then(Login::header),
            ..Ask::new(Method::GET, self.http.resolve(from, &url)?)
        })
    }

    /// The answer, if it is of success.
    async fn succeeded(
        &self,
        answer: Answer,
        method: Method,
        path: &str,
    ) -> Result<Answer, RegistryError> {
        let status = answer.status;
        if status.is_success() {
            return Ok(answer);
        }
        let host = self.image.host().to_owned();
        Err(match status {
            StatusCode::NOT_FOUND => RegistryError::NotFound(self.image.to_string()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Denied {
                host,
                image: self.image.to_string(),
                status,
                remedy: match self.login {
                    None => {
                        "there are no credentials: log in with docker login, or name a pullSecret"
                    }
                    Some(_) => "the credentials are not accepted, or may not do this",
                },
            },
            _ => RegistryError::Status {
                detail: message(answer).await,
                host,
                status,
                method: method.to_string(),
                path: path.to_owned(),
            },
        })
    }
}

/// What a registry says about an error, for people.
async fn message(answer: Answer) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        message: String,
    }
    let bytes = answer
        .read("a message", MAX_MESSAGE)
        .await
        .unwrap_or_default();
    let errors: Option<Errors> = serde_json::from_slice(&bytes).ok();
    let first = errors.and_then(|errors| errors.errors.into_iter().next());
    first.map_or_else(String::new, |one| {
        let text: String = one.message.chars().take(SHOWN).collect();
        format!(" ({text})")
    })
}

fn verified(what: String, bytes: Vec<u8>, expected: ImageDigest) -> Result<Vec<u8>, RegistryError> {
    let found = ImageDigest::of(&bytes);
    if found == expected {
        Ok(bytes)
    } else {
        Err(RegistryError::Digest {
            what,
            expected,
            found,
        })
    }
}

fn unwritten(error: std::io::Error) -> RegistryError {
    RegistryError::Store {
        path: "the cache".into(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
