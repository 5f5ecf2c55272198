//! The walk over an expression: [`Run`].

use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::Value;

use super::Failure;
use super::call;
use super::fields::TYPES;
use super::syntax::{Expr, Loop, Operator};
use super::value::Val;

/// One evaluation: variables in scope, and what it may still cost.
pub(super) struct Run<'a, 'b> {
    variables: Vec<(String, Val<'a>)>,
    budget: &'b mut u64,
}

type Outcome<'a> = Result<Val<'a>, Failure>;

impl<'a, 'b> Run<'a, 'b> {
    pub(super) fn new(variables: &[(&str, Val<'a>)], budget: &'b mut u64) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        Self { variables, budget }
    }

    pub(super) fn charge(&mut self, cost: usize) -> Result<(), Failure> {
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let left = self.budget.checked_sub(cost);
        *self.budget = left.unwrap_or_default();
        left.map(drop).ok_or(Failure::Cost)
    }

    pub(super) fn eval(&mut self, expr: &Expr) -> Outcome<'a> {
        self.charge(1)?;
        match expr {
            Expr::Literal(literal) => Ok(Val::literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select {
                of,
                field,
                optional,
                test,
            } => self.select(of, field, *optional, *test),
            Expr::Index {
                of,
                index,
                optional,
            } => self.index(of, index, *optional),
            Expr::Call { target, name, args } => {
                let target = target
                    .as_ref()
                    .map(|target| self.eval(target))
                    .transpose()?;
                let args: Vec<Val<'a>> = args
                    .iter()
                    .map(|arg| self.eval(arg))
                    .collect::<Result<_, _>>()?;
                self.charge(cost(target.as_ref(), &args))?;
                call::call(name, target, &args)
            }
            Expr::List(items) => {
                let items = items.iter().map(|item| self.eval(item));
                Ok(Val::List(items.collect::<Result<_, _>>()?))
            }
            Expr::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok((self.eval(key)?, self.eval(value)?)));
                Ok(Val::Map(entries.collect::<Result<_, Failure>>()?))
            }
            Expr::Not(of) => Ok(Val::Bool(!self.eval(of)?.truth()?)),
            Expr::Negate(of) => match self.eval(of)? {
                Val::Int(number) => number.checked_neg().map(Val::Int).ok_or_else(overflow),
                Val::Double(number) => Ok(Val::Double(-number)),
                other => Err(no_overload("-_", &[other])),
            },
            Expr::Binary(operator, left, right) => self.binary(*operator, left, right),
            Expr::Condition(condition, yes, no) => {
                if self.eval(condition)?.truth()? {
                    self.eval(yes)
                } else {
                    self.eval(no)
                }
            }
            Expr::Loop {
                kind,
                over,
                variables,
                when,
                body,
            } => {
                let over = self.eval(over)?;
                self.each(*kind, &over, variables, when.as_deref(), body)
            }
            Expr::OptionalMap {
                of,
                name,
                body,
                flat,
            } => {
                let Val::Optional(value) = self.eval(of)? else {
                    return Err(Failure::new("no such overload: optMap"));
                };
                let Some(value) = value else {
                    return Ok(Val::Optional(None));
                };
                let mapped = self.with(&[(name, (*value).clone())], body)?;
                Ok(if *flat {
                    mapped
                } else {
                    Val::optional(Some(mapped))
                })
            }
        }
    }

    fn variable(&self, name: &str) -> Outcome<'a> {
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return Ok(value.clone());
        }
        TYPES
            .iter()
            .find(|known| **known == name)
            .map(|name| Val::Type(name))
            .ok_or_else(|| Failure::new(format!("undeclared reference to '{name}'")))
    }

    fn with(&mut self, variables: &[(&String, Val<'a>)], body: &Expr) -> Outcome<'a> {
        let before = self.variables.len();
        self.variables.extend(
            variables
                .iter()
                .map(|(name, value)| ((*name).clone(), value.clone())),
        );
        let outcome = self.eval(body);
        self.variables.truncate(before);
        outcome
    }

    fn select(&mut self, of: &Expr, field: &str, optional: bool, test: bool) -> Outcome<'a> {
        let of = self.eval(of)?;
        let (of, optional) = match of {
            Val::Optional(None) if test => return Ok(Val::Bool(false)),
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(of)) => ((*of).clone(), !test),
            of => (of, optional),
        };
        let found = of.field(field);
        if test {
            return Ok(Val::Bool(found.is_some()));
        }
        if optional {
            return Ok(Val::optional(found));
        }
        if of.entries().is_none() {
            return Err(Failure::new(format!(
                "no such overload: {}.{field}",
                of.type_name()
            )));
        }
        found.ok_or_else(|| Failure::new(format!("no such key: {field}")))
    }

    fn index(&mut self, of: &Expr, index: &Expr, optional: bool) -> Outcome<'a> {
        let (of, index) = (self.eval(of)?, self.eval(index)?);
        self.charge(of.size().unwrap_or_default() / 10)?;
        let (of, optional) = match of {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(of)) => ((*of).clone(), true),
            of => (of, optional),
        };
        let (found, why) = if let Some(items) = of.items() {
            let at = index.double().filter(|at| at.fract() == 0.0 && *at >= 0.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number that is not negative"
            )]
            let found = at.and_then(|at| items.get(at as usize).cloned());
            (found, "index out of bounds")
        } else {
            (of.key(&index), "no such key")
        };
        if optional {
            return Ok(Val::optional(found));
        }
        found.ok_or_else(|| Failure::new(format!("{why}: {}", call::shown(&index))))
    }

    /// `&&` and `||` know their answer if either side decides it, whatever the other side is.
    fn decide(&mut self, decisive: bool, left: &Expr, right: &Expr) -> Outcome<'a> {
        let left = self.eval(left).and_then(|value| value.truth());
        if left == Ok(decisive) {
            return Ok(Val::Bool(decisive));
        }
        if left == Err(Failure::Cost) {
            return Err(Failure::Cost);
        }
        let right = self.eval(right)?.truth()?;
        if right == decisive {
            return Ok(Val::Bool(decisive));
        }
        left.map(Val::Bool)
    }

    fn binary(&mut self, operator: Operator, left: &Expr, right: &Expr) -> Outcome<'a> {
        match operator {
            Operator::Or => return self.decide(true, left, right),
            Operator::And => return self.decide(false, left, right),
            _ => {}
        }
        let (left, right) = (self.eval(left)?, self.eval(right)?);
        let sizes = cost(Some(&left), std::slice::from_ref(&right));
        self.charge(sizes)?;
        let ordered = |fits: fn(Ordering) -> bool| {
            left.compare(&right)
                .map(|order| Val::Bool(fits(order)))
                .ok_or_else(|| no_overload("compare", &[left.clone(), right.clone()]))
        };
        match operator {
            Operator::Equal => Ok(Val::Bool(left.equals(&right))),
            Operator::Unequal => Ok(Val::Bool(!left.equals(&right))),
            Operator::Less => ordered(Ordering::is_lt),
            Operator::LessOrEqual => ordered(Ordering::is_le),
            Operator::Greater => ordered(Ordering::is_gt),
            Operator::GreaterOrEqual => ordered(Ordering::is_ge),
            Operator::In => {
                if let Some(items) = right.items() {
                    return Ok(Val::Bool(items.iter().any(|item| item.equals(&left))));
                }
                if right.entries().is_none() {
                    return Err(no_overload("_in_", &[left, right]));
                }
                Ok(Val::Bool(right.key(&left).is_some()))
            }
            _ => arithmetic(operator, &left, &right),
        }
    }

    fn each(
        &mut self,
        kind: Loop,
        over: &Val<'a>,
        names: &[String],
        when: Option<&Expr>,
        body: &Expr,
    ) -> Outcome<'a> {
        let pairs: Vec<(Val<'a>, Val<'a>)> = match (over.items(), over.entries()) {
            (Some(items), _) => (0..).map(Val::Int).zip(items).collect(),
            (None, Some(entries)) => entries,
            (None, None) => return Err(no_overload("comprehension", std::slice::from_ref(over))),
        };
        let is_map = over.items().is_none();
        let (mut found, mut count, mut failure) = (Vec::new(), 0, None);
        for (key, value) in pairs {
            self.charge(1)?;
            let scope: Vec<(&String, Val<'a>)> = match names {
                [one] if is_map => vec![(one, key.clone())],
                [one] => vec![(one, value.clone())],
                [one, other, ..] => vec![(one, key.clone()), (other, value.clone())],
                [] => Vec::new(),
            };
            if let Some(when) = when
                && !self.with(&scope, when)?.truth()?
            {
                continue;
            }
            let outcome = self.with(&scope, body);
            if matches!(kind, Loop::Map | Loop::TransformMap) {
                found.push((key, outcome?));
                continue;
            }
            let holds = match outcome.and_then(|value| value.truth()) {
                Ok(holds) => holds,
                // Another item may decide.
                Err(error @ Failure::Error(_)) if matches!(kind, Loop::All | Loop::Exists) => {
                    failure = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match kind {
                Loop::All if !holds => return Ok(Val::Bool(false)),
                Loop::Exists if holds => return Ok(Val::Bool(true)),
                Loop::Filter if holds => {
                    let item = if is_map { key.clone() } else { value };
                    found.push((key, item));
                }
                _ => count += usize::from(holds),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        Ok(match kind {
            Loop::All => Val::Bool(true),
            Loop::Exists => Val::Bool(false),
            Loop::ExistsOne => Val::Bool(count == 1),
            Loop::Filter | Loop::Map => {
                Val::list(found.into_iter().map(|(_, value)| value).collect())
            }
            Loop::TransformMap => Val::Map(Rc::from(found)),
        })
    }
}

/// What an operation on these values costs beside itself.
fn cost(target: Option<&Val<'_>>, args: &[Val<'_>]) -> usize {
    let size = |value: &Val<'_>| match value {
        Val::Text(text) => text.len() / 10,
        Val::Object(object, _) => object.values().map(weight).sum(),
        Val::Array(items, _) => items.iter().map(weight).sum(),
        other => other.size().unwrap_or_default(),
    };
    target.map_or(0, size) + args.iter().map(size).sum::<usize>()
}

/// How many values there are in a value.
fn weight(value: &Value) -> usize {
    match value {
        Value::Object(object) => 1 + object.values().map(weight).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        _ => 1,
    }
}

fn overflow() -> Failure {
    Failure::new("integer overflow")
}

pub(super) fn no_overload(name: &str, values: &[Val<'_>]) -> Failure {
    let types: Vec<&str> = values.iter().map(Val::type_name).collect();
    Failure::new(format!("no such overload: {name}({})", types.join(", ")))
}

fn arithmetic<'a>(operator: Operator, left: &Val<'a>, right: &Val<'a>) -> Outcome<'a> {
    let whole = |value: Option<i64>| value.map(Val::Int).ok_or_else(overflow);
    match (operator, left, right) {
        (Operator::Divide, Val::Int(_), Val::Int(0))
        | (Operator::Divide, Val::Uint(_), Val::Uint(0)) => Err(Failure::new("division by zero")),
        (Operator::Remainder, Val::Int(_), Val::Int(0))
        | (Operator::Remainder, Val::Uint(_), Val::Uint(0)) => Err(Failure::new("modulus by zero")),
        (Operator::Add, Val::Int(one), Val::Int(other)) => whole(one.checked_add(*other)),
        (Operator::Subtract, Val::Int(one), Val::Int(other)) => whole(one.checked_sub(*other)),
        (Operator::Multiply, Val::Int(one), Val::Int(other)) => whole(one.checked_mul(*other)),
        (Operator::Divide, Val::Int(one), Val::Int(other)) => whole(one.checked_div(*other)),
        (Operator::Remainder, Val::Int(one), Val::Int(other)) => whole(one.checked_rem(*other)),
        (_, Val::Uint(one), Val::Uint(other)) => {
            let value = match operator {
                Operator::Add => one.checked_add(*other),
                Operator::Subtract => one.checked_sub(*other),
                Operator::Multiply => one.checked_mul(*other),
                Operator::Divide => one.checked_div(*other),
                _ => one.checked_rem(*other),
            };
            value.map(Val::Uint).ok_or_else(overflow)
        }
        (Operator::Add, Val::Double(one), Val::Double(other)) => Ok(Val::Double(one + other)),
        (Operator::Subtract, Val::Double(one), Val::Double(other)) => Ok(Val::Double(one - other)),
        (Operator::Multiply, Val::Double(one), Val::Double(other)) => Ok(Val::Double(one * other)),
        (Operator::Divide, Val::Double(one), Val::Double(other)) => Ok(Val::Double(one / other)),
        (Operator::Add, Val::Text(one), Val::Text(other)) => Ok(Val::text(format!("{one}{other}"))),
        (Operator::Add, Val::Bytes(one), Val::Bytes(other)) => {
            Ok(Val::Bytes([&one[..], &other[..]].concat().into()))
        }
        (Operator::Add, Val::Duration(one), Val::Duration(other)) => one
            .checked_add(*other)
            .map(Val::Duration)
            .ok_or_else(overflow),
        (Operator::Subtract, Val::Duration(one), Val::Duration(other)) => one
            .checked_sub(*other)
            .map(Val::Duration)
            .ok_or_else(overflow),
        (Operator::Add, Val::Time(time), Val::Duration(duration))
        | (Operator::Add, Val::Duration(duration), Val::Time(time)) => time
            .checked_add(*duration)
            .map(Val::Time)
            .map_err(|_| overflow()),
        (Operator::Subtract, Val::Time(time), Val::Duration(duration)) => time
            .checked_sub(*duration)
            .map(Val::Time)
            .map_err(|_| overflow()),
        (Operator::Subtract, Val::Time(one), Val::Time(other)) => {
            Ok(Val::Duration(one.duration_since(*other)))
        }
        _ => match (operator, left.items(), right.items()) {
            (Operator::Add, Some(one), Some(other)) => {
                Ok(Val::list(one.into_iter().chain(other).collect()))
            }
            _ => Err(no_overload("arithmetic", &[left.clone(), right.clone()])),
        },
    }
}
