//! From the fleet's answers to those of the contract, within the limits of the guest. Entry points: the methods of [`AnswerBudget`].

use super::convert::text;
use crate::contract::handle::Refused;
use crate::contract::windlass::runtime::client as wit;
use crate::contract::windlass::runtime::fleet::ClusterInfo;
use crate::contract::windlass::runtime::types;
use crate::door::{self, Passage};
use crate::instance::answers::{AnswerBudget, FEWER};
use crate::instance::memory::Size;
use crate::tenant::usage::Limit;
use futures::StreamExt;
use std::sync::Arc;
use windlass_fleet::api::{ApiError, Json, ListPage, Operation, Reply};
use windlass_fleet::breaks::{Breaks, collected};
use windlass_fleet::path::FieldMask;
use windlass_fleet::{ApiCode, Client};

/// Operations of a batch that run at once, over all clusters.
const BATCH_WIDTH: usize = 16;

/// The cost of a cluster's text besides its bytes: the pointer and the length that guests keep for it.
const TEXT: usize = 8;

impl AnswerBudget {
    /// `mask`: the guest gets these fields alone.
    pub(super) fn object(&self, json: &Json, mask: Option<&FieldMask>) -> Result<String, ApiError> {
        let part = mask.map(|mask| mask.of(json));
        let json = part.as_ref().unwrap_or(json);
        let most = self.guest.limits.object_bytes;
        if json.len() > most {
            self.guest.hit(Limit::ObjectBytes);
            let message = format!(
                "an object of {} is larger than this guest is given: raise limits.objectBytes ({})",
                Size(json.len()),
                Size(most)
            );
            return Err(ApiError::host(ApiCode::LimitExceeded, message));
        }
        self.take(json.len(), FEWER)?;
        text(json)
    }

    /// Charges the description of a cluster.
    pub(super) fn cluster(&self, info: ClusterInfo) -> Result<ClusterInfo, ApiError> {
        let pairs = info.labels.iter().chain(&info.properties);
        let texts = pairs.flat_map(|(key, value)| [key, value]);
        let bytes = texts.chain([&info.name]).map(|text| text.len() + TEXT);
        self.take(
            bytes.sum(),
            "ask for fewer clusters at once, by a label selector, or raise limits.responseBytes",
        )?;
        Ok(info)
    }

    /// Takes a break now and then, because a guest cannot be interrupted while the host copies for it.
    pub(super) async fn page(
        &self,
        page: ListPage,
        mask: Option<&FieldMask>,
    ) -> Result<wit::ListPage, ApiError> {
        let mut items = Vec::with_capacity(page.items.len());
        let mut breaks = Breaks::begin();
        for item in page.items {
            items.push(self.object(&item, mask)?);
            breaks.check().await;
        }
        Ok(wit::ListPage {
            items,
            continue_token: page.continue_token,
            resource_version: page.resource_version,
        })
    }

    /// Runs operations, each with its client, some of them at once. Each answer is charged as it becomes text; the server's bytes are
    /// released by then. The answers have the order of the operations. A trap: the door ended the run.
    pub(super) async fn batch(
        self: &Arc<Self>,
        operations: Vec<(Result<Client, ApiError>, Operation)>,
        passage: Option<Passage>,
    ) -> wasmtime::Result<Vec<Result<wit::Reply, types::ApiError>>> {
        let mut runs = Vec::with_capacity(operations.len());
        for (client, operation) in operations {
            runs.push(self.clone().run(client, operation, passage.clone()));
        }
        let answers = collected(futures::stream::iter(runs).buffered(BATCH_WIDTH)).await;
        let answers = answers.into_iter().map(|answer| match answer {
            Ok(reply) => Ok(Ok(reply)),
            Err(Refused::Api(error)) => Ok(Err(error.into())),
            Err(Refused::Told(error)) => Ok(Err(error)),
            Err(Refused::Trap(trap)) => Err(trap),
        });
        answers.collect()
    }

    async fn run(
        self: Arc<Self>,
        client: Result<Client, ApiError>,
        operation: Operation,
        passage: Option<Passage>,
    ) -> Result<wit::Reply, Refused> {
        let client = client?.charged_to(self.clone());
        self.guest.check_replaces(&operation)?;
        let mask = self.guest.mask_of(&operation);
        let reply = door::run(passage, client, operation).await?;
        Ok(self.reply(reply, mask.as_ref()).await?)
    }

    async fn reply(&self, reply: Reply, mask: Option<&FieldMask>) -> Result<wit::Reply, ApiError> {
        Ok(match reply {
            Reply::Nothing => wit::Reply::Nothing,
            Reply::Object(json) => wit::Reply::Object(self.object(&json, mask)?),
            Reply::Page(page) => wit::Reply::Page(self.page(page, mask).await?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Limits, TenantLimits};
    use crate::tenant::Tenant;
    use crate::tenant::context::{GuestContext, History};
    use windlass_fleet::{ControllerName, Grant, TenantName};

    fn budget(object_bytes: usize, response_bytes: usize) -> Arc<AnswerBudget> {
        let limits = Limits {
            object_bytes,
            response_bytes,
            ..Limits::default()
        };
        AnswerBudget::new(&GuestContext::new(
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
        let error = budget(10, 15)
            .object(&Json::from(vec![b' '; 11]), None)
            .unwrap_err();
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
        assert_eq!(
            budget(10, 15)
                .page(page(&[8, 7]), None)
                .await
                .unwrap()
                .items
                .len(),
            2
        );
        assert_eq!(
            budget(10, 15)
                .page(page(&[8, 8]), None)
                .await
                .unwrap_err()
                .code,
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
        let budget = budget(10, 60);
        assert!(budget.cluster(info("")).is_ok(), "26 bytes");
        let error = budget.cluster(info("123456789")).unwrap_err();
        assert_eq!(error.code, ApiCode::LimitExceeded);
        assert!(error.message.contains("label selector"), "{error}");
        assert!(budget.cluster(info("12345678")).is_ok());
    }

    #[test]
    fn what_is_not_utf_8_is_refused() {
        assert_eq!(
            budget(10, 15)
                .object(&Json::from_static(b"\xff"), None)
                .unwrap_err()
                .code,
            ApiCode::Other
        );
    }
}
