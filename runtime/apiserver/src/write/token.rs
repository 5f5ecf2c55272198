//! Tokens of service accounts: [`State::issue_token`] answers a request for one with a text that opens nothing.

use serde_json::{Value, json};

use super::{WriteOptions, empty_object, strip_managed_fields};
use crate::apply::field_set::FieldSet;
use crate::apply::{Managers, Writer};
use crate::resource::Resource;
use crate::stamp::{later, now};
use crate::state::State;
use crate::status::{ApiError, FieldError, Subject};

/// Where every token begins, so that nobody takes one for a secret.
const MARK: &str = "not-a-credential";
/// Audiences of a request that names none.
const AUDIENCE: &str = "https://kubernetes.default.svc";
/// Seconds that a token is valid for at least.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

impl State {
    /// Completes a request for a token of a service account.
    ///
    /// # Errors
    /// 404 for an absent account or object to bind to, 409 for another uid, 422 for another name or a time out of bounds, 400 for a
    /// pod of another account or a kind that no token is bound to.
    pub(crate) fn issue_token(
        &self,
        (accounts, kind): (&Resource, &Resource),
        (namespace, name): (&str, &str),
        mut request: Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let subject = Subject {
            plural: &kind.kind,
            ..kind.subject()
        };
        strip_managed_fields(&mut request);
        let mut managers = Managers::default();
        let writer = Writer {
            manager: &options.manager,
            api_version: &kind.api_version(),
            subresource: "token",
            now: &now(),
            reset: &FieldSet::default(),
        };
        managers.update(&empty_object(kind), &request, kind.schema(), &writer);
        managers.write(&mut request);
        let given = |field: &str| request["metadata"][field].as_str().unwrap_or_default();
        if !given("name").is_empty() && given("name") != name {
            let detail = "must match the service account name if specified";
            let error = FieldError::invalid("metadata.name", &request["metadata"]["name"], detail);
            return Err(ApiError::invalid(subject, name, &[error]));
        }
        let account = self.object(accounts, namespace, name)?;
        let (uid, wanted) = (&account.head.uid, given("uid"));
        if !wanted.is_empty() && wanted != &**uid {
            let why = format!(
                "the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
            );
            return Err(ApiError::conflict(subject, name, &why));
        }
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(0);
        check_seconds(subject, seconds)?;
        self.check_bound(name, namespace, &request["spec"]["boundObjectRef"])?;
        let metadata = &mut request["metadata"];
        metadata["name"] = name.into();
        metadata["namespace"] = namespace.into();
        metadata["uid"] = (**uid).into();
        metadata["creationTimestamp"] = now().into();
        let spec = &mut request["spec"];
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = json!([AUDIENCE]);
        }
        if spec.get("boundObjectRef").is_none() {
            spec["boundObjectRef"] = Value::Null;
        }
        let token = format!("{MARK}.{namespace}.{name}");
        request["status"] = json!({"token": token, "expirationTimestamp": later(seconds)});
        Ok(request)
    }

    /// The object that a token is to end with.
    fn check_bound(&self, account: &str, namespace: &str, bound: &Value) -> Result<(), ApiError> {
        let text = |field: &str| bound[field].as_str().unwrap_or_default();
        if bound.is_null() {
            return Ok(());
        }
        let (plural, namespace) = match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => ("pods", namespace),
            ("v1", "Secret") => ("secrets", namespace),
            ("v1", "Node") => ("nodes", ""),
            (version, kind) => {
                let version = version.rsplit('/').next().unwrap_or_default();
                let text = format!("cannot bind token to object of type /{version}, Kind={kind}");
                return Err(ApiError::bad_request(text));
            }
        };
        let Some(resource) = self.resource("", "v1", plural) else {
            return Err(ApiError::no_such_resource());
        };
        let object = self.object(&resource, namespace, text("name"))?;
        if plural == "pods" && object.value()["spec"]["serviceAccountName"] != account {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        let uid = text("uid");
        if !uid.is_empty() && uid != &*object.head.uid {
            let subject = Subject {
                plural: text("kind"),
                ..resource.subject()
            };
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(subject, text("name"), &why));
        }
        Ok(())
    }
}

fn check_seconds(subject: Subject<'_>, seconds: i64) -> Result<(), ApiError> {
    let detail = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), detail);
    Err(ApiError::invalid(subject, "", &[error]))
}
