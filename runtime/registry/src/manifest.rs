//! The layout of an image that holds a component. Entry points: [`Manifest::read`] and [`Manifest::of_component`].
//!
//! Read are the Wasm artifacts of the CNCF (`wkg`, `wash` and `windlass push` write these), and what older `wash` and `spin` push:
//! exactly one layer is a component. Other layers, such as the description of an application that `spin` adds, are not read.

use crate::digest::ImageDigest;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// Media types of manifests, in the order of preference.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// What a request for a manifest accepts.
pub(crate) const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// The config and the layer of a Wasm artifact, as it is written.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
/// Layers that are components.
const LAYERS: [&str; 3] = [
    LAYER,
    // spin, and artifacts before the CNCF's layout.
    "application/vnd.wasm.content.layer.v1+wasm",
    // wash before 1.0.
    "application/vnd.module.wasm.content.layer.v1+wasm",
];

/// A manifest, as far as it matters here.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    #[serde(default)]
    pub(crate) media_type: Option<String>,
    #[serde(default)]
    pub(crate) layers: Vec<Descriptor>,
    /// The images of an index.
    #[serde(default)]
    pub(crate) manifests: Vec<Descriptor>,
}

/// What names a blob or a manifest.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(crate) annotations: Json,
}

/// The layer of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ComponentLayer {
    pub(crate) digest: ImageDigest,
    pub(crate) size: u64,
}

/// Why an image holds no guest. Reads behind the name of the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No manifest of an image.
    #[error("has a manifest that cannot be read: {0}")]
    Unreadable(String),
    /// Several images under one name.
    #[error("is an index of {0} images: name one of them by its digest")]
    Index(usize),
    /// An image of another sort, with the types of its layers.
    #[error("holds no component, but layers of the types {0}: push it with windlass push")]
    NoComponent(String),
    /// More than one component.
    #[error("holds {0} components: push each as an image of its own")]
    Several(usize),
    /// A hash of another sort.
    #[error("names its component by {0:?}, which is not a SHA-256 digest")]
    Digest(String),
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`LayoutError::Unreadable`]
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, LayoutError> {
        serde_json::from_slice(bytes).map_err(|error| LayoutError::Unreadable(error.to_string()))
    }

    /// The one component of an image.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn component(&self) -> Result<ComponentLayer, LayoutError> {
        let kind = self.media_type.as_deref();
        if kind.is_some_and(|kind| [OCI_INDEX, DOCKER_INDEX].contains(&kind))
            || !self.manifests.is_empty()
        {
            return Err(LayoutError::Index(self.manifests.len()));
        }
        if kind.is_some_and(|kind| ![OCI_MANIFEST, DOCKER_MANIFEST].contains(&kind)) {
            let kind = kind.unwrap_or_default();
            return Err(LayoutError::Unreadable(format!("its type is {kind:?}")));
        }
        let is_component = |layer: &&Descriptor| LAYERS.contains(&layer.media_type.as_str());
        let components: Vec<&Descriptor> = self.layers.iter().filter(is_component).collect();
        match components[..] {
            [layer] => Ok(ComponentLayer {
                digest: ImageDigest::parse(&layer.digest)
                    .ok_or_else(|| LayoutError::Digest(layer.digest.clone()))?,
                size: layer.size,
            }),
            [] => {
                let types = self.layers.iter().map(|layer| layer.media_type.as_str());
                let types: Vec<String> = types.take(5).map(|kind| format!("{kind:?}")).collect();
                Err(LayoutError::NoComponent(types.join(", ")))
            }
            _ => Err(LayoutError::Several(components.len())),
        }
    }

    /// The config and the manifest of a component, as JSON. The same component has the same manifest.
    pub(crate) fn of_component(
        component: &[u8],
        imports: &[String],
        exports: &[String],
    ) -> (Vec<u8>, Vec<u8>) {
        let layer = ImageDigest::of(component);
        let config = json!({
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [layer.to_string()],
            "component": {"imports": imports, "exports": exports},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": CONFIG, "digest": ImageDigest::of(&config).to_string(), "size": config.len()},
            "layers": [{"mediaType": LAYER, "digest": layer.to_string(), "size": component.len()}],
        });
        (config, manifest.to_string().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(layers: Json) -> Result<ComponentLayer, LayoutError> {
        let manifest = json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": layers});
        Manifest::read(manifest.to_string().as_bytes())?.component()
    }

    fn layer(kind: &str) -> Json {
        json!({"mediaType": kind, "digest": ImageDigest::of(b"wasm").to_string(), "size": 4})
    }

    #[test]
    fn the_layouts_of_wkg_wash_and_spin_hold_a_component() {
        let spin = layer("application/vnd.fermyon.spin.application.v1+config");
        let expected = ComponentLayer {
            digest: ImageDigest::of(b"wasm"),
            size: 4,
        };
        for layers in [
            json!([layer("application/wasm")]),
            json!([layer("application/vnd.module.wasm.content.layer.v1+wasm")]),
            json!([layer("application/vnd.wasm.content.layer.v1+wasm"), spin]),
        ] {
            assert_eq!(component(layers), Ok(expected));
        }
    }

    #[test]
    fn other_images_are_refused_by_what_they_are() {
        let tar = "application/vnd.oci.image.layer.v1.tar+gzip";
        let none = LayoutError::NoComponent(format!("{tar:?}"));
        assert_eq!(component(json!([layer(tar)])), Err(none));
        let two = json!([layer("application/wasm"), layer("application/wasm")]);
        assert_eq!(component(two), Err(LayoutError::Several(2)));
        let index = json!({"mediaType": OCI_INDEX, "manifests": [layer(OCI_MANIFEST)]});
        let index = Manifest::read(index.to_string().as_bytes()).unwrap();
        assert_eq!(index.component(), Err(LayoutError::Index(1)));
        let md5 = json!([{"mediaType": "application/wasm", "digest": "md5:0", "size": 1}]);
        assert_eq!(component(md5), Err(LayoutError::Digest("md5:0".to_owned())));
    }

    #[test]
    fn a_component_is_written_as_it_is_read() {
        let (config, manifest) = Manifest::of_component(b"wasm", &["a:b/c".to_owned()], &[]);
        assert!(String::from_utf8(config.clone()).unwrap().contains("a:b/c"));
        let named = ImageDigest::of(&config).to_string();
        assert!(
            String::from_utf8(manifest.clone())
                .unwrap()
                .contains(&named)
        );
        let read = Manifest::read(&manifest).unwrap();
        assert_eq!(read.component().unwrap().digest, ImageDigest::of(b"wasm"));
    }
}
