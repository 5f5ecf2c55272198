//! The requests that keep a store in step. Entry point: [`StoreCall::call`].

use crate::api::Projection;
use crate::cache::store::Store;
use crate::http::transport::{Call, JSON};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;
use std::time::Duration;

/// Media type of one object's metadata.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// Media type of a list of metadata.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A request for the objects of a store. No list names a version: only then does the server read it from a quorum, and not from the
/// past of one replica.
pub(crate) enum StoreCall<'a> {
    /// A page of a list, in the store's projection.
    Page {
        limit: usize,
        token: Option<&'a str>,
    },
    /// A page of a list of metadata, whatever the store's projection is.
    MetadataPage {
        limit: usize,
        token: Option<&'a str>,
    },
    /// A streamed list, which continues as a watch.
    Stream { timeout: Duration },
    /// A watch from a version.
    Watch { version: &'a str, timeout: Duration },
}

impl StoreCall<'_> {
    /// The HTTP call for a store.
    pub(crate) fn call(&self, store: &Store) -> Call {
        let mut path = collection(store);
        match self {
            Self::Page { limit, token } | Self::MetadataPage { limit, token } => {
                let _ = write!(path, "limit={limit}");
                if let Some(token) = token {
                    let _ = write!(path, "&continue={}", encoded(token));
                }
            }
            Self::Stream { timeout } => {
                let _ = write!(
                    path,
                    "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds={}",
                    timeout.as_secs().max(1)
                );
            }
            Self::Watch { version, timeout } => {
                let _ = write!(
                    path,
                    "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
                    timeout.as_secs().max(1),
                    encoded(version)
                );
            }
        }
        let metadata = store.key.projection == Projection::Metadata;
        let accept = match self {
            Self::MetadataPage { .. } => METADATA_LIST,
            Self::Page { .. } if metadata => METADATA_LIST,
            Self::Stream { .. } | Self::Watch { .. } if metadata => METADATA,
            _ => JSON,
        };
        Call::get(path, accept)
    }
}

/// The collection's path with the store's selectors, ready for more parameters.
fn collection(store: &Store) -> String {
    let key = &store.key;
    let mut path = store.resource.collection_path(key.namespace.as_deref());
    path.push('?');
    for (name, selector) in [
        ("labelSelector", &key.label_selector),
        ("fieldSelector", &key.field_selector),
    ] {
        if !selector.is_empty() {
            let _ = write!(path, "{name}={}&", encoded(selector));
        }
    }
    path
}

fn encoded(text: &str) -> percent_encoding::PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}
