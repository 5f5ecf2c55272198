//! Answers to a guest, within its limits. Entry point: [`Room`].

use super::convert::text;
use crate::bindings::windlass::runtime::client as wit;
use crate::bindings::windlass::runtime::types;
use crate::identity::Identity;
use crate::limit::Limit;
use crate::memory::Size;
use std::sync::Arc;
use windlass_fleet::ApiCode;
use windlass_fleet::api::{ApiError, Json, ListPage, Reply};

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
        match self.left.checked_sub(json.len()) {
            Some(left) => {
                self.left = left;
                text(json)
            }
            None => {
                self.identity.hit(Limit::ResponseBytes);
                let message = format!(
                    "the answer is larger than {}: ask for fewer objects at once, or for metadata only",
                    Size(self.response)
                );
                Err(ApiError::host(ApiCode::LimitExceeded, message))
            }
        }
    }

    pub(super) fn page(&mut self, page: &ListPage) -> Result<wit::ListPage, ApiError> {
        Ok(wit::ListPage {
            items: page
                .items
                .iter()
                .map(|item| self.object(item))
                .collect::<Result<_, _>>()?,
            continue_token: page.continue_token.clone(),
            resource_version: page.resource_version.clone(),
        })
    }

    pub(super) fn reply(
        &mut self,
        reply: Result<Reply, ApiError>,
    ) -> Result<wit::Reply, types::ApiError> {
        let converted = reply.and_then(|reply| match &reply {
            Reply::Nothing => Ok(wit::Reply::Nothing),
            Reply::Object(json) => self.object(json).map(wit::Reply::Object),
            Reply::Page(page) => self.page(page).map(wit::Reply::Page),
        });
        converted.map_err(Into::into)
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

    #[test]
    fn a_page_over_the_limit_is_refused_as_a_whole() {
        let page = |sizes: &[usize]| ListPage {
            items: sizes
                .iter()
                .map(|size| Json::from(vec![b' '; *size]))
                .collect(),
            ..ListPage::default()
        };
        assert_eq!(room().page(&page(&[8, 7])).unwrap().items.len(), 2);
        assert_eq!(
            room().page(&page(&[8, 8])).unwrap_err().code,
            ApiCode::LimitExceeded
        );
    }

    #[test]
    fn what_is_not_utf_8_is_refused() {
        assert_eq!(
            room().object(&Json::from_static(b"\xff")).unwrap_err().code,
            ApiCode::Other
        );
    }
}
