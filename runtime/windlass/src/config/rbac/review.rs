//! Which permissions a user of a server lacks, by as few questions as possible. No I/O. Entry point: [`Review`].
//!
//! A rules review says everything that is allowed in a namespace. It costs one question, however many permissions are in doubt.
//! Servers that ask another program about rights cannot answer it completely. What is still in doubt then is asked one by one.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_fleet::Rule;
use windlass_fleet::grant::{Right, RuleSet};

/// Most questions about one user of one server.
const MOST_QUESTIONS: usize = 1000;

/// A name that no namespace can have, because it is no DNS label. So no Role is bound in it, and its rules are exactly those that hold in
/// all namespaces. A rules review without a namespace is refused.
const NO_NAMESPACE: &str = "windlass.preflight";

/// A question to the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    /// Everything that is allowed in a namespace, or in all of them (`None`).
    Rules(Option<Arc<str>>),
    /// Whether one thing is allowed.
    Access(Right),
}

impl Question {
    /// The `spec` of the review that asks it.
    pub(crate) fn spec(&self) -> Json {
        match self {
            Self::Rules(namespace) => {
                json!({"namespace": namespace.as_deref().unwrap_or(NO_NAMESPACE)})
            }
            Self::Access(permission) => json!({"resourceAttributes": attributes(permission)}),
        }
    }
}

fn attributes(permission: &Right) -> Json {
    let (resource, subresource) = permission.resource_parts();
    let mut attributes =
        json!({"verb": permission.verb.as_str(), "group": permission.group, "resource": resource});
    let more = [
        ("namespace", permission.namespace.as_deref()),
        ("subresource", subresource),
        ("name", permission.name.as_deref()),
    ];
    for (field, value) in more {
        if let Some(value) = value {
            attributes[field] = value.into();
        }
    }
    attributes
}

/// What a user lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The permissions that the server does not grant.
    pub(crate) missing: RuleSet,
    /// The permissions that are still in doubt.
    pub(crate) unchecked: RuleSet,
    /// Why they are.
    pub(crate) problem: Option<String>,
}

/// A review that goes on. Ask the [`Review::questions`], give every answer back, and repeat until there is no question.
#[derive(Debug)]
pub(crate) struct Review {
    /// The permissions without an answer, to be asked about by namespace.
    open: RuleSet,
    /// The namespaces that are not asked about yet.
    namespaces: BTreeSet<Option<Arc<str>>>,
    /// The permissions that a rules review left in doubt.
    doubtful: RuleSet,
    /// How many more questions may be asked.
    left: usize,
    findings: Findings,
}

impl Review {
    /// Begins to ask about permissions.
    pub(crate) fn new(permissions: RuleSet) -> Self {
        let namespaces = permissions.iter().map(|one| one.namespace.clone());
        Self {
            namespaces: namespaces.collect(),
            open: permissions,
            doubtful: RuleSet::default(),
            left: MOST_QUESTIONS,
            findings: Findings::default(),
        }
    }

    /// The next questions, which may be asked all at once. Empty: the review is over.
    pub(crate) fn questions(&mut self) -> Vec<Question> {
        let questions: Vec<Question> = if self.namespaces.is_empty() {
            let doubtful = std::mem::take(&mut self.doubtful);
            doubtful.iter().cloned().map(Question::Access).collect()
        } else {
            let namespaces = std::mem::take(&mut self.namespaces).into_iter();
            namespaces.map(Question::Rules).collect()
        };
        let (asked, refused) = questions.split_at(questions.len().min(self.left));
        self.left -= asked.len();
        for question in refused {
            let problem = format!("more than {MOST_QUESTIONS} questions would have to be asked");
            self.answer(question, Err(problem));
        }
        asked.to_vec()
    }

    /// Takes the `status` of an answer, or why there is none.
    pub(crate) fn answer(&mut self, question: &Question, answer: Result<Json, String>) {
        match question {
            Question::Rules(namespace) => {
                let rules = answer
                    .ok()
                    .and_then(|status| Rules::deserialize(status).ok());
                self.take_rules(namespace.as_deref(), &rules.unwrap_or_else(Rules::unknown));
            }
            Question::Access(permission) => match answer {
                Ok(status) if status["allowed"] == true => {}
                Ok(_) => self.findings.missing.add(permission.clone()),
                Err(problem) => {
                    self.findings.unchecked.add(permission.clone());
                    self.findings.problem.get_or_insert(problem);
                }
            },
        }
    }

    fn take_rules(&mut self, namespace: Option<&str>, rules: &Rules) {
        let asked = self.open.iter();
        let asked = asked.filter(|one| one.namespace.as_deref() == namespace);
        let refused = asked.filter(|one| !rules.grant(one)).cloned();
        let refused: RuleSet = refused.collect();
        if rules.is_complete() {
            self.findings.missing.extend(refused)
        } else {
            self.doubtful.extend(refused)
        }
    }

    /// What was found.
    pub(crate) fn findings(self) -> Findings {
        self.findings
    }
}

/// The `status` of a `SelfSubjectRulesReview`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rules {
    resource_rules: Vec<Rule>,
    incomplete: bool,
    evaluation_error: String,
}

impl Rules {
    fn unknown() -> Self {
        Self {
            incomplete: true,
            ..Self::default()
        }
    }

    fn is_complete(&self) -> bool {
        !self.incomplete && self.evaluation_error.is_empty()
    }

    fn grant(&self, permission: &Right) -> bool {
        let mut rules = self.resource_rules.iter();
        rules.any(|rule| rule.grants(permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::grant::Verb;

    fn permission(resource: &str, verb: Verb) -> Right {
        Right::new("", resource, verb)
    }

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> Json {
        json!({"apiGroups": groups, "resources": resources, "verbs": verbs, "resourceNames": names})
    }

    fn complete(rules: &[Json]) -> Result<Json, String> {
        Ok(json!({"resourceRules": rules, "nonResourceRules": [], "incomplete": false}))
    }

    #[test]
    fn one_question_for_each_namespace_answers_everything() {
        let team = permission("configmaps", Verb::Patch).within("team");
        let asked = [
            permission("configmaps", Verb::Get),
            permission("configmaps", Verb::List),
            permission("secrets", Verb::Get),
            team.clone(),
        ];
        let mut review = Review::new(asked.iter().cloned().collect());
        let everywhere = Question::Rules(None);
        let in_team = Question::Rules(Some("team".into()));
        assert_eq!(review.questions(), [everywhere.clone(), in_team.clone()]);
        assert_eq!(in_team.spec(), json!({"namespace": "team"}));
        let cluster_wide = rule(&[""], &["configmaps"], &["get", "list"], &[]);
        review.answer(&everywhere, complete(std::slice::from_ref(&cluster_wide)));
        let bound = rule(&["", "apps"], &["configmaps"], &["*"], &[]);
        review.answer(&in_team, complete(&[cluster_wide, bound]));
        assert_eq!(review.questions(), []);
        let missing = [permission("secrets", Verb::Get)].into_iter().collect();
        assert_eq!(
            review.findings(),
            Findings {
                missing,
                ..Findings::default()
            }
        );
    }

    #[test]
    fn what_an_incomplete_answer_does_not_grant_is_asked_one_by_one() {
        let broken = json!({"resourceRules": [], "evaluationError": "role \"a\" not found"});
        let partly =
            json!({"resourceRules": [rule(&[""], &["pods"], &["get"], &[])], "incomplete": true});
        for answer in [
            Ok(partly),
            Ok(broken),
            Ok(json!("?")),
            Err("forbidden".to_owned()),
        ] {
            let (pods, secrets) = (
                permission("pods", Verb::Get),
                permission("secrets", Verb::Get),
            );
            let mut review = Review::new([pods.clone(), secrets.clone()].into_iter().collect());
            for question in review.questions() {
                review.answer(&question, answer.clone());
            }
            let doubtful = review.questions();
            assert!(doubtful.contains(&Question::Access(secrets.clone())));
            for question in doubtful {
                let allowed = question == Question::Access(pods.clone());
                review.answer(&question, Ok(json!({"allowed": allowed})));
            }
            assert_eq!(review.questions(), []);
            assert_eq!(review.findings().missing, [secrets].into_iter().collect());
        }
    }

    #[test]
    fn without_an_answer_a_permission_is_neither_granted_nor_missing() {
        let pods = permission("pods", Verb::Get);
        let mut review = Review::new([pods.clone()].into_iter().collect());
        for _ in 0..2 {
            for question in review.questions() {
                review.answer(&question, Err("the server is gone".to_owned()));
            }
        }
        let findings = review.findings();
        assert!(findings.missing.is_empty());
        assert_eq!(findings.unchecked, [pods].into_iter().collect());
        assert_eq!(findings.problem.as_deref(), Some("the server is gone"));
    }

    #[test]
    fn questions_are_bounded() {
        let namespaces = 0..MOST_QUESTIONS + 5;
        let one = |index| permission("pods", Verb::Get).within(&*format!("team-{index}"));
        let mut review = Review::new(namespaces.map(one).collect());
        let questions = review.questions();
        assert_eq!(questions.len(), MOST_QUESTIONS);
        for question in questions {
            review.answer(&question, complete(&[]));
        }
        assert_eq!(review.questions(), []);
        let findings = review.findings();
        assert_eq!(findings.unchecked.iter().count(), 5);
        assert!(findings.problem.unwrap().contains("more than 1000"));
    }

    #[test]
    fn an_access_review_names_what_rules_write_in_one_word() {
        let named = permission("deployments/status", Verb::Patch)
            .within("a")
            .named("b");
        let asked = Question::Access(named).spec();
        assert_eq!(
            asked,
            json!({"resourceAttributes": {"verb": "patch", "group": "", "resource": "deployments",
                "subresource": "status", "namespace": "a", "name": "b"}})
        );
        let all = Question::Access(Right::new("*", "*", Verb::Get)).spec();
        assert_eq!(
            all,
            json!({"resourceAttributes": {"verb": "get", "group": "*", "resource": "*"}})
        );
    }
}
