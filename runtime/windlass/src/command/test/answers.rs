//! Answers the calls of guests to servers that are no API servers, from the files of a test. Entry point: [`AnswersDoor`].

use windlass_author::cases::{Case, HttpAnswers};
use windlass_fleet::api::{ApiCode, ApiError};
use windlass_fleet::outbound::{HttpRequest, HttpResponse};
use windlass_sandbox::{Door, Fate, HostCall, HttpFate};

/// Lets every call of clusters pass, and answers the others.
pub(super) struct AnswersDoor(HttpAnswers);

impl AnswersDoor {
    pub(super) fn new(case: &Case) -> Self {
        Self(HttpAnswers::new(case.http.clone()))
    }
}

impl Door for AnswersDoor {
    fn decide(&self, _: &HostCall<'_>) -> Fate {
        Fate::Pass
    }

    fn outside(&self, request: &HttpRequest) -> HttpFate {
        HttpFate::Ended(answer(&self.0, request))
    }
}

/// The answer of a test to a request.
pub(super) fn answer(
    answers: &HttpAnswers,
    request: &HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let HttpRequest { method, url, .. } = request;
    let answer = answers.take(method, url).ok_or_else(|| {
        let message = format!(
            "the test has no answer to {method} {url}: add {{method: {method}, url: {url:?}, status: 200}} to its http"
        );
        ApiError::host(ApiCode::Unavailable, message)
    })?;
    let (body, content_type) = answer.body();
    let typed = content_type.map(|it| ("content-type".to_owned(), it.to_owned()));
    let given = answer.headers.iter();
    let given = given.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    Ok(HttpResponse {
        status: answer.status,
        headers: typed.into_iter().chain(given).collect(),
        body: body.into(),
    })
}
