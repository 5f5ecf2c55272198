//! Answers to a guest, within its limits. Entry point: [`Room`].

use super::convert::text;
use crate::bindings::windlass::runtime::client as wit;
use crate::bindings::windlass::runtime::fleet::ClusterInfo;
use crate::bindings::windlass::runtime::types;
use crate::identity::Identity;
use crate::limit::Limit;
use crate::memory::Size;
use std::sync::Arc;
use windlass_fleet::ApiCode;
use windlass_fleet::api::{ApiError, Json, ListPage, Reply};
use windlass_fleet::pause::Pauses;

/// What a text of a cluster costs besides its bytes: where it begins and how long it is, as guests have it in memory.
const TEXT: usize = 8;

/// What one answer may still hold, in bytes.
#[derive(Debug)]
pub(super) struct Room {
    identity: Arc<Identity>,
    object: usize,
    response: usize,
    left: usize,
}

impl Room {
    pub(super) fn new(identity: &Arc<Identity>) -> Self {
        let limits = &identity.limits;
        Self {
            object: limits.object_bytes,
            response: limits.response_bytes,
            left: limits.response_bytes,
            identity: identity.clone(),
        }
    }

    pub(super) fn object(&mut self, json: &Json) -> Result<String, ApiError> {
        if json.len() > self.object {
            self.identity.hit(Limit::ObjectBytes);
            let message = format!(
                "an object of {} is larger than this guest is given: raise limits.objectBytes ({})",
                Size(json.len()),
                Size(self.object)
            );
            return Err(ApiError::host(ApiCode::LimitExceeded, message));
        }
        self.take(
            json.len(),
            "ask for fewer objects at once, or for metadata only",
        )?;
        text(json)
    }

    /// What is known of a cluster.
    pub(super) fn cluster(&mut self, info: ClusterInfo) -> Result<ClusterInfo, ApiError> {
        let pairs = info.labels.iter().chain(&info.properties);
        let texts = pairs.flat_map(|(key, value)| [key, value]);
        let bytes = texts.chain([&info.name]).map(|text| text.len() + TEXT);
        self.take(
            bytes.sum(),
            "ask for fewer clusters at once, by a label selector, or raise limits.responseBytes",
        )?;
        Ok(info)
    }

    /// Takes so many bytes. `instead`: what a guest can do that needs more.
    fn take(&mut self, bytes: usize, instead: &str) -> Result<(), ApiError> {
        let Some(left) = self.left.checked_sub(bytes) else {
            self.identity.hit(Limit::ResponseBytes);
            let message = format!(
                "the answer is larger than {}: {instead}",
                Size(self.response)
            );
            return Err(ApiError::host(ApiCode::LimitExceeded, message));
        };
        self.left = left;
        Ok(())
    }

    /// Pauses now and then, as all that copies much here: a guest is not interrupted while the host works for it.
    pub(super) async fn page(&mut self, page: &ListPage) -> Result<wit::ListPage, ApiError> {
        let mut items = Vec::with_capacity(page.items.len());
        let mut pauses = Pauses::begin();
        for item in &page.items {
            items.push(self.object(item)?);
            pauses.look().await;
        }
        Ok(wit::ListPage {
            items,
            continue_token: page.continue_token.clone(),
            resource_version: page.resource_version.clone(),
        })
    }

    /// Answers to a batch, which share the room in their order.
    pub(super) async fn replies(
        &mut self,
        replies: Vec<Result<Reply, ApiError>>,
    ) -> Vec<Result<wit::Reply, types::ApiError>> {
        let mut converted = Vec::with_capacity(replies.len());
        let mut pauses = Pauses::begin();
        for reply in replies {
            let reply = match reply {
                Ok(reply) => self.reply(reply).await,
                Err(error) => Err(error),
            };
            converted.push(reply.map_err(Into::into));
            pauses.look().await;
        }
        converted
    }

    async fn reply(&mut self, reply: Reply) -> Result<wit::Reply, ApiError> {
        Ok(match reply {
            Reply::Nothing => wit::Reply::Nothing,
            Reply::Object(json) => wit::Reply::Object(self.object(&json)?),
            Reply::Page(page) => wit::Reply::Page(self.page(&page).await?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::History;
    use crate::options::{Limits, TenantLimits};
    use crate::tenant::Tenant;
    use windlass_fleet::{ControllerName, Grant, TenantName};

    fn room() -> Room {
        let limits = Limits {
            object_bytes: 10,
            response_bytes: 15,
            ..Limits::default()
        };
        Room::new(&Identity::new(
            Tenant::new(TenantName::default(), &TenantLimits::default()),
            ControllerName::new("reader").unwrap(),
            Arc::new(Grant::none()),
            "{}".into(),
            limits,
            History::default(),
        ))
    }

    #[test]
    fn an_object_over_the_limit_is_refused_with_both_sizes() {
        let error = room().object(&Json::from(vec![b' '; 11])).unwrap_err();
        assert_eq!(error.code, ApiCode::LimitExceeded);
        assert!(
            error.message.contains("11 bytes")
                && error.message.contains("limits.objectBytes (10 bytes)"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_page_over_the_limit_is_refused_as_a_whole() {
        let page = |sizes: &[usize]| ListPage {
            items: sizes
                .iter()
                .map(|size| Json::from(vec![b' '; *size]))
                .collect(),
            ..ListPage::default()
        };
        assert_eq!(room().page(&page(&[8, 7])).await.unwrap().items.len(), 2);
        assert_eq!(
            room().page(&page(&[8, 8])).await.unwrap_err().code,
            ApiCode::LimitExceeded
        );
    }

    #[test]
    fn clusters_take_room_with_all_that_is_known_of_them() {
        let info = |properties: &str| ClusterInfo {
            name: "a".to_owned(),
            labels: Vec::new(),
            properties: vec![("p".to_owned(), properties.to_owned())],
            ready: true,
        };
        let mut room = room();
        room.left = 60;
        assert!(room.cluster(info("")).is_ok(), "26 bytes");
        let error = room.cluster(info("123456789")).unwrap_err();
        assert_eq!(error.code, ApiCode::LimitExceeded);
        assert!(error.message.contains("label selector"), "{error}");
        assert!(room.cluster(info("12345678")).is_ok());
    }

    #[test]
    fn what_is_not_utf_8_is_refused() {
        assert_eq!(
            room().object(&Json::from_static(b"\xff")).unwrap_err().code,
            ApiCode::Other
        );
    }
}
