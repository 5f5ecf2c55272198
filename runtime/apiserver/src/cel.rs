//! Rules in the Common Expression Language, as far as CRDs use it: [`Program`], parsed once and run over values with their schemas.
//!
//! A tree walk with a budget: each step, each item of a list and each ten letters of a text cost one unit, and a program that has none
//! left ends with [`Failure::Cost`]. Types are looked at when the program runs; a real server checks them when a CRD is created, of
//! which [`Program::check`] does the names.
//! Functions that are not in [`call::FUNCTIONS`] are named by [`Program::lacks`], so that a rule that needs them is not run.

mod call;
mod eval;
mod fields;
mod lexer;
mod list;
mod net;
mod parser;
mod syntax;
mod text;
mod time;
mod value;

use std::collections::BTreeSet;

use crate::schema::Schema;
use eval::Run;
use fields::Scope;
use syntax::Expr;
pub(crate) use value::Val;

/// What a rule may cost. A real server has ten million units that it counts otherwise; the order is the same.
pub(crate) const BUDGET: u64 = 10_000_000;

/// Why a program has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Error(String),
    #[error("the rule costs too much")]
    Cost,
}

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }
}

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Program {
    root: Expr,
    names: BTreeSet<String>,
    lacks: BTreeSet<String>,
}

impl Program {
    /// # Errors
    /// Where the text is no expression, and what stands there.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let root = parser::parse(text)?;
        let (mut names, mut calls) = (BTreeSet::new(), BTreeSet::new());
        root.walk(&mut |expr| match expr {
            Expr::Ident(name) => drop(names.insert(name.clone())),
            Expr::Call { name, .. } => drop(calls.insert(name.clone())),
            _ => {}
        });
        let lacks = calls
            .into_iter()
            .filter(|name| !call::FUNCTIONS.contains(&name.as_str()))
            .collect();
        Ok(Self { root, names, lacks })
    }

    /// Looks for variables and fields that are not there; a variable without a schema may have any.
    ///
    /// # Errors
    /// The first name that is not there.
    pub(crate) fn check(&self, variables: &[(&str, Option<Schema<'_>>)]) -> Result<(), String> {
        let known = variables
            .iter()
            .map(|(name, schema)| ((*name).to_owned(), *schema));
        let mut scope: Scope<'_> = known.collect();
        fields::check(&self.root, &mut scope).map(drop)
    }

    /// Whether a variable is mentioned.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Functions that are not known here.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = &str> {
        self.lacks.iter().map(String::as_str)
    }

    /// # Errors
    /// What a value does not have, or that `budget` is used up.
    pub(crate) fn run<'a>(
        &self,
        variables: &[(&str, Val<'a>)],
        budget: &mut u64,
    ) -> Result<Val<'a>, Failure> {
        let mut run = Run::new(variables, budget);
        run.eval(&self.root)
    }
}

#[cfg(test)]
mod tests;
