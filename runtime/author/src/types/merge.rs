//! Structs that are equal become one. Entry point: [`merged`].
//!
//! Generated schemas say the same again wherever a type of Go is used: a Workflow of Argo has 2,366 objects, of which 362 differ.

use super::schema::{Field, Struct, Type};
use std::collections::HashMap;

/// The structs with one of each body, and the types of fields that lead to it. The order stays.
///
/// It has the name of the place that the fewest fields lead to, and of the first of these: a name that stays when a schema gets further fields.
/// Its description is what all places say of it. Structs whose schemas have names stay apart, and so does the object itself.
pub(super) fn merged(mut structs: Vec<Struct>) -> Vec<Struct> {
    let mut bodies: HashMap<(Vec<Field>, bool), usize> = HashMap::new();
    // The struct that stands for each one.
    let mut by: Vec<usize> = (0..structs.len()).collect();
    // A struct is before those of its fields, which are shared already.
    for at in (0..structs.len()).rev() {
        structs[at]
            .fields
            .iter_mut()
            .for_each(|field| lead(&mut field.of, &by));
        if at == 0 || structs[at].depth.is_none() {
            continue;
        }
        let body = (structs[at].fields.clone(), structs[at].is_open);
        by[at] = *bodies.entry(body).or_insert(at);
    }
    let mut best = by.clone();
    for at in (0..structs.len()).rev() {
        let found = &mut best[by[at]];
        // Of equals the one that is met last, which is the first.
        if structs[at].depth <= structs[*found].depth {
            *found = at;
        }
    }
    let says_the_same = |at: usize| {
        let mut equals = (0..by.len()).filter(|other| by[*other] == by[at]);
        equals.all(|other| structs[other].description == structs[at].description)
    };
    let described: Vec<bool> = (0..by.len()).map(says_the_same).collect();
    let stands: Vec<usize> = by.iter().map(|by| best[*by]).collect();
    let kept: Vec<usize> = (0..by.len()).filter(|at| stands[*at] == *at).collect();
    let place: HashMap<usize, usize> = kept.iter().copied().zip(0..).collect();
    let new: Vec<usize> = stands.iter().map(|at| place[at]).collect();
    let one = |at: &usize| {
        let mut one = structs[*at].clone();
        one.fields
            .iter_mut()
            .for_each(|field| lead(&mut field.of, &new));
        if !described[*at] {
            one.description.clear();
        }
        one
    };
    kept.iter().map(one).collect()
}

/// Leads a type to other structs.
fn lead(of: &mut Type, to: &[usize]) {
    match of {
        Type::Struct(at) => *at = to[*at],
        Type::List(item) | Type::Map(item) => lead(item, to),
        _ => {}
    }
}
