//! Reviews: questions about access, answered by a server that allows everything.

use serde_json::{Value, json};

use crate::resource::Resource;

/// The answer to a review, or `None` where the resource is an ordinary one.
pub(crate) fn review(resource: &Resource, body: &Value) -> Option<Value> {
    let status = match resource.plural.as_str() {
        "selfsubjectaccessreviews" => json!({"allowed": true}),
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "selfsubjectreviews" => {
            json!({"userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}})
        }
        _ => return None,
    };
    let mut answer = body.clone();
    answer["status"] = status;
    Some(answer)
}
