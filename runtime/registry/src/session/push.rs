//! Pushes an image. Entry point: [`Session::push`].

use super::Session;
use crate::digest::ImageDigest;
use crate::error::RegistryError;
use crate::manifest::OCI_MANIFEST;
use crate::transport::{Ask, authority, is_same_origin};
use bytes::Bytes;
use http::header::LOCATION;
use http::{Method, StatusCode};

const BLOB: &str = "application/octet-stream";

impl Session<'_> {
    /// Pushes blobs that are not there, and then the manifest under a tag.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub(crate) async fn push(
        &self,
        blobs: Vec<Vec<u8>>,
        manifest: Vec<u8>,
        tag: &str,
    ) -> Result<(), RegistryError> {
        for blob in blobs {
            self.push_blob(blob).await?;
        }
        let path = format!("manifests/{tag}");
        let ask = Ask {
            content: Some((OCI_MANIFEST, Bytes::from(manifest))),
            ..Ask::new(Method::PUT, self.url(&path)?)
        };
        let answer = self.call(ask).await?;
        self.succeeded(answer, Method::PUT, &path).await?;
        Ok(())
    }

    async fn push_blob(&self, blob: Vec<u8>) -> Result<(), RegistryError> {
        let digest = ImageDigest::of(&blob);
        let there = self.get(Method::HEAD, &format!("blobs/{digest}")).await?;
        if there.status == StatusCode::OK {
            return Ok(());
        }
        let path = "blobs/uploads/";
        let begin = Ask {
            content: Some((BLOB, Bytes::new())),
            ..Ask::new(Method::POST, self.url(path)?)
        };
        let began = self.call(begin.clone()).await?;
        let began = self.succeeded(began, Method::POST, path).await?;
        let location = began.headers.get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| RegistryError::Foreign {
            host: authority(&begin.url).to_owned(),
            reason: "it names no place for an upload".to_owned(),
        })?;
        let divider = if location.contains('?') { '&' } else { '?' };
        let to = format!("{location}{divider}digest={digest}");
        let url = self.http.resolve(&begin.url, &to)?;
        let send = Ask {
            content: Some((BLOB, Bytes::from(blob))),
            ..Ask::new(Method::PUT, url.clone())
        };
        let answer = if is_same_origin(&begin.url, &url) {
            self.call(send).await?
        } else {
            // Another host is not given the credentials.
            self.http.send(&send).await?
        };
        self.succeeded(answer, Method::PUT, path).await?;
        Ok(())
    }
}
