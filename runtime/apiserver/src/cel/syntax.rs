//! What an expression is made of: [`Expr`].

/// A value that is written out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// What is done with each item of a list or key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// Also `transformList`.
    Map,
    TransformMap,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Literal),
    Ident(String),
    /// `of.field`, `of.?field`, and `has(of.field)`.
    Select {
        of: Box<Expr>,
        field: String,
        optional: bool,
        test: bool,
    },
    /// `of[index]` and `of[?index]`.
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        /// With its namespace: `optional.of`.
        name: String,
        args: Vec<Expr>,
    },
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Condition(Box<Expr>, Box<Expr>, Box<Expr>),
    Loop {
        kind: Loop,
        over: Box<Expr>,
        /// One or two variables.
        variables: Vec<String>,
        /// Items for which it does not hold are left out.
        when: Option<Box<Expr>>,
        body: Box<Expr>,
    },
    /// `of.optMap(name, body)`, and `optFlatMap` where `flat`.
    OptionalMap {
        of: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
}

impl Expr {
    /// Shows each part to `see`, from the outside in.
    pub(crate) fn walk(&self, see: &mut impl FnMut(&Expr)) {
        see(self);
        match self {
            Self::Literal(_) | Self::Ident(_) => {}
            Self::Select { of, .. } | Self::Not(of) | Self::Negate(of) => of.walk(see),
            Self::Index { of, index, .. } => {
                of.walk(see);
                index.walk(see);
            }
            Self::Call { target, args, .. } => {
                target.iter().for_each(|target| target.walk(see));
                args.iter().for_each(|arg| arg.walk(see));
            }
            Self::List(items) => items.iter().for_each(|item| item.walk(see)),
            Self::Map(entries) => entries.iter().for_each(|(key, value)| {
                key.walk(see);
                value.walk(see);
            }),
            Self::Binary(_, left, right) => {
                left.walk(see);
                right.walk(see);
            }
            Self::Condition(condition, yes, no) => {
                condition.walk(see);
                yes.walk(see);
                no.walk(see);
            }
            Self::Loop {
                over, when, body, ..
            } => {
                over.walk(see);
                when.iter().for_each(|when| when.walk(see));
                body.walk(see);
            }
            Self::OptionalMap { of, body, .. } => {
                of.walk(see);
                body.walk(see);
            }
        }
    }
}
