//! Tokens put together: [`parse`]. Macros are taken apart here.

use super::lexer::{Token, tokens};
use super::syntax::{Expr, Literal, Loop, Operator};

/// Brackets and operators inside each other.
const DEPTH: usize = 100;
/// Operators or fields after each other; `&&` and `||` may be more, as they are put together in halves.
const CHAIN: usize = 100;
/// Names in front of functions that are no variables.
const NAMESPACES: [&str; 5] = ["sets", "optional", "format", "ip", "strings"];

/// # Errors
/// What stands where something else should.
pub(super) fn parse(text: &str) -> Result<Expr, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        end: text.len(),
    };
    let expr = parser.condition()?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    end: usize,
}

type Parsed = Result<Expr, String>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    fn require(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(format!("{}, expecting '{symbol}'", self.unexpected()))
        }
    }

    fn unexpected(&self) -> String {
        let position = self.tokens.get(self.at).map_or(self.end, |(at, _)| *at) + 1;
        match self.peek() {
            Some(Token::Symbol(symbol)) => format!("unexpected '{symbol}' at position {position}"),
            Some(Token::Ident(name)) => format!("unexpected '{name}' at position {position}"),
            Some(Token::Literal(_)) => format!("unexpected value at position {position}"),
            None => format!("unexpected end at position {position}"),
        }
    }

    fn condition(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let condition = self.binary(0)?;
        let expr = if self.take("?") {
            let yes = self.binary(0)?;
            self.require(":")?;
            let no = self.condition()?;
            Expr::Condition(condition.into(), yes.into(), no.into())
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn operator(&self, level: usize) -> Option<Operator> {
        let symbol = match self.peek()? {
            Token::Symbol(symbol) => *symbol,
            Token::Ident(name) if name == "in" => "in",
            _ => return None,
        };
        let (found, operator) = match symbol {
            "||" => (0, Operator::Or),
            "&&" => (1, Operator::And),
            "==" => (2, Operator::Equal),
            "!=" => (2, Operator::Unequal),
            "<" => (2, Operator::Less),
            "<=" => (2, Operator::LessOrEqual),
            ">" => (2, Operator::Greater),
            ">=" => (2, Operator::GreaterOrEqual),
            "in" => (2, Operator::In),
            "+" => (3, Operator::Add),
            "-" => (3, Operator::Subtract),
            "*" => (4, Operator::Multiply),
            "/" => (4, Operator::Divide),
            "%" => (4, Operator::Remainder),
            _ => return None,
        };
        (found == level).then_some(operator)
    }

    fn binary(&mut self, level: usize) -> Parsed {
        if level > 4 {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        if level < 2 {
            let mut sides = vec![left];
            let operator = self.operator(level);
            while self.operator(level).is_some() {
                self.at += 1;
                sides.push(self.binary(level + 1)?);
            }
            return Ok(halves(operator.unwrap_or(Operator::And), sides));
        }
        let mut length = 0;
        while let Some(operator) = self.operator(level) {
            self.at += 1;
            length = chained(length)?;
            let right = self.binary(level + 1)?;
            left = Expr::Binary(operator, left.into(), right.into());
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let expr = if self.take("!") {
            Expr::Not(self.unary()?.into())
        } else if self.take("-") {
            match self.unary()? {
                Expr::Literal(Literal::Int(number)) => Expr::Literal(Literal::Int(-number)),
                Expr::Literal(Literal::Double(number)) => Expr::Literal(Literal::Double(-number)),
                Expr::Literal(Literal::Uint(number)) if number == 1 << 63 => {
                    Expr::Literal(Literal::Int(i64::MIN))
                }
                other => Expr::Negate(other.into()),
            }
        } else {
            self.member()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        let mut length = 0;
        loop {
            length = chained(length)?;
            if self.take(".") {
                let optional = self.take("?");
                let Some(Token::Ident(field)) = self.peek().cloned() else {
                    return Err(self.unexpected());
                };
                self.at += 1;
                expr = if !optional && self.take("(") {
                    let args = self.list(")")?;
                    call(expr, field, args)?
                } else {
                    Expr::Select {
                        of: expr.into(),
                        field,
                        optional,
                        test: false,
                    }
                };
            } else if self.take("[") {
                let optional = self.take("?");
                let index = self.condition()?;
                self.require("]")?;
                expr = Expr::Index {
                    of: expr.into(),
                    index: index.into(),
                    optional,
                };
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek().cloned();
        match token {
            Some(Token::Literal(literal)) => {
                self.at += 1;
                Ok(Expr::Literal(literal))
            }
            Some(Token::Ident(name)) if name != "in" => {
                self.at += 1;
                if self.take("(") {
                    let args = self.list(")")?;
                    return function(name, args);
                }
                Ok(Expr::Ident(name))
            }
            Some(Token::Symbol("(")) => {
                self.at += 1;
                let expr = self.condition()?;
                self.require(")")?;
                Ok(expr)
            }
            Some(Token::Symbol("[")) => {
                self.at += 1;
                Ok(Expr::List(self.list("]")?))
            }
            Some(Token::Symbol("{")) => {
                self.at += 1;
                self.map()
            }
            _ => Err(self.unexpected()),
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expr>, String> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.condition()?);
            if !self.take(",") {
                self.require(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn map(&mut self) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.condition()?;
            self.require(":")?;
            entries.push((key, self.condition()?));
            if !self.take(",") {
                self.require("}")?;
                break;
            }
        }
        Ok(Expr::Map(entries))
    }
}

fn chained(length: usize) -> Result<usize, String> {
    if length > CHAIN {
        return Err("the expression is too long".to_owned());
    }
    Ok(length + 1)
}

/// A tree of two sides each, so that many are not nested deeply.
fn halves(operator: Operator, mut sides: Vec<Expr>) -> Expr {
    if sides.len() > 1 {
        let right = sides.split_off(sides.len() / 2);
        let (left, right) = (halves(operator, sides), halves(operator, right));
        return Expr::Binary(operator, left.into(), right.into());
    }
    sides.pop().unwrap_or(Expr::Literal(Literal::Null))
}

fn function(name: String, mut args: Vec<Expr>) -> Parsed {
    if name != "has" {
        return Ok(Expr::Call {
            target: None,
            name,
            args,
        });
    }
    match (args.pop(), args.is_empty()) {
        (
            Some(Expr::Select {
                of,
                field,
                optional: false,
                ..
            }),
            true,
        ) => Ok(Expr::Select {
            of,
            field,
            optional: false,
            test: true,
        }),
        _ => Err("invalid argument to has() macro".to_owned()),
    }
}

/// A call on something: a macro, a function with a namespace, or a method.
fn call(target: Expr, name: String, args: Vec<Expr>) -> Parsed {
    if let Expr::Ident(namespace) = &target
        && NAMESPACES.contains(&namespace.as_str())
    {
        return Ok(Expr::Call {
            target: None,
            name: format!("{namespace}.{name}"),
            args,
        });
    }
    let kind = match name.as_str() {
        "all" => Loop::All,
        "exists" => Loop::Exists,
        "exists_one" | "existsOne" => Loop::ExistsOne,
        "filter" => Loop::Filter,
        "map" | "transformList" => Loop::Map,
        "transformMap" => Loop::TransformMap,
        "optMap" | "optFlatMap" => {
            let flat = name == "optFlatMap";
            let [name, body] = <[Expr; 2]>::try_from(args).map_err(|_| count(&name))?;
            return Ok(Expr::OptionalMap {
                of: target.into(),
                name: variable(name)?,
                body: body.into(),
                flat,
            });
        }
        _ => {
            return Ok(Expr::Call {
                target: Some(target.into()),
                name,
                args,
            });
        }
    };
    each(kind, target, &name, args)
}

fn count(name: &str) -> String {
    format!("undeclared reference to '{name}' with this number of arguments")
}

fn variable(expr: Expr) -> Result<String, String> {
    match expr {
        Expr::Ident(name) => Ok(name),
        _ => Err("argument must be a simple name".to_owned()),
    }
}

fn each(kind: Loop, over: Expr, name: &str, args: Vec<Expr>) -> Parsed {
    // `map(x, when, body)` has three arguments as `all(i, x, body)` has; `filter` is known with one variable only.
    let variables = match (name, args.len()) {
        ("map", 2 | 3) | ("filter", 2) | ("all" | "exists" | "exists_one" | "existsOne", 2) => 1,
        ("all" | "exists" | "exists_one" | "existsOne", 3) => 2,
        ("transformList" | "transformMap", 3 | 4) => 2,
        _ => return Err(count(name)),
    };
    let mut args = args.into_iter();
    let variables: Vec<String> = args
        .by_ref()
        .take(variables)
        .map(variable)
        .collect::<Result<_, _>>()?;
    let mut rest: Vec<Expr> = args.collect();
    let body = rest.pop().ok_or_else(|| count(name))?;
    Ok(Expr::Loop {
        kind,
        over: over.into(),
        variables,
        when: rest.pop().map(Box::new),
        body: body.into(),
    })
}
