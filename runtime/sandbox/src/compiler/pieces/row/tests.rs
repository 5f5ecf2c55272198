//! That no way through a function is longer than it may be, whatever the function.

use super::*;
use wasmparser::{BinaryReader, OperatorsReader};

/// Instructions in a row, and behind a call.
const MOST: usize = 5;
const AFTER_CALL: usize = 2;

/// Where to go on from an instruction, where it is not the next one.
#[derive(Clone, Copy)]
enum Way {
    On,
    /// On, or to there.
    Either(usize),
    To(usize),
    Out,
}

/// Nothing but blocks and branches at random, in bytes.
fn function(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut code = Vec::new();
    // Whether `else` may come in them.
    let mut blocks = vec![false];
    for _ in 0..random.usize(5..120) {
        let depth = random.u8(..blocks.len() as u8);
        match random.u8(..15) {
            0 if blocks.len() < 9 => {
                code.extend([0x02, 0x40]);
                blocks.push(false);
            }
            1 if blocks.len() < 9 => {
                code.extend([0x03, 0x40]);
                blocks.push(false);
            }
            2 if blocks.len() < 9 => {
                code.extend([0x04, 0x40]);
                blocks.push(true);
            }
            3 | 4 if blocks.len() > 1 => {
                code.push(0x0b);
                blocks.pop();
            }
            5 => {
                if let Some(is_open @ true) = blocks.last_mut() {
                    *is_open = false;
                    code.push(0x05);
                }
            }
            6 => code.extend([0x0c, depth]),
            7 | 8 => code.extend([0x0d, depth]),
            9 => code.extend([0x0e, 1, depth, random.u8(..blocks.len() as u8)]),
            10 if random.u8(..4) == 0 => code.push(0x0f),
            11 if random.u8(..4) == 0 => code.push(0x00),
            12 => code.extend([0x10, 0]),
            _ => code.push(0x01),
        }
    }
    code.extend(blocks.iter().map(|_| 0x0b));
    code
}

fn operators(code: &[u8]) -> Vec<Operator<'_>> {
    let reader = OperatorsReader::new(BinaryReader::new(code, 0));
    reader.into_iter().map(Result::unwrap).collect()
}

/// Where each instruction leads besides the next one. The naive way: each time the function is gone through from there.
fn ways(operators: &[Operator<'_>], at: usize) -> Vec<Way> {
    let to = |depth: u32| target(operators, at, depth);
    match &operators[at] {
        Operator::Br { relative_depth } => vec![Way::To(to(*relative_depth))],
        Operator::BrIf { relative_depth } => vec![Way::Either(to(*relative_depth))],
        Operator::BrTable { targets } => {
            let all = targets.targets().map(Result::unwrap);
            let all = all.chain([targets.default()]);
            all.map(|depth| Way::To(to(depth))).collect()
        }
        Operator::Return | Operator::Unreachable => vec![Way::Out],
        Operator::If { .. } => vec![Way::Either(past(operators, at, true))],
        Operator::Else => vec![Way::To(past(operators, at, false))],
        _ => vec![Way::On],
    }
}

/// The place that a branch out of so many blocks leads to.
fn target(operators: &[Operator<'_>], at: usize, depth: u32) -> usize {
    let mut out = 0;
    for before in (0..at).rev() {
        match &operators[before] {
            Operator::End => out -= 1,
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                out += 1;
                if out == i64::from(depth) + 1 {
                    return match &operators[before] {
                        Operator::Loop { .. } => before,
                        _ => past(operators, before, false),
                    };
                }
            }
            _ => {}
        }
    }
    operators.len()
}

/// Behind the block that begins or goes on there, or behind what is done if so.
fn past(operators: &[Operator<'_>], at: usize, or_else: bool) -> usize {
    let mut deep = 0;
    for (place, operator) in operators.iter().enumerate().skip(at + 1) {
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => deep += 1,
            Operator::Else if deep == 0 && or_else => return place + 1,
            Operator::End if deep == 0 => return place + 1,
            Operator::End => deep -= 1,
            _ => {}
        }
    }
    unreachable!("every block ends")
}

#[test]
fn on_no_way_through_a_function_is_a_row_longer_than_it_may_be() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut longest, mut looked) = (0, 0);
    for round in 0..3000 {
        let code = function(&mut random);
        let operators = operators(&code);
        let mut rows = Rows::new(MOST, AFTER_CALL);
        let looks: Vec<bool> = operators.iter().map(|it| rows.look_before(it)).collect();
        assert!(rows.blocks.is_empty(), "round {round}: {operators:?}");
        for _ in 0..20 {
            let (mut at, mut row, mut after_call) = (0, 0, None);
            for _ in 0..400 {
                let Some(operator) = operators.get(at) else {
                    break;
                };
                if looks[at] {
                    (row, after_call) = (0, None);
                    looked += 1;
                }
                row += 1;
                after_call = after_call.map(|row| row + 1);
                match operator {
                    Operator::Loop { .. } => (row, after_call) = (0, None),
                    Operator::Call { .. } => after_call = Some(0),
                    _ => {}
                }
                let is_short = row <= MOST && after_call.is_none_or(|row| row <= AFTER_CALL);
                assert!(is_short, "at {at} in round {round}: {operators:?}");
                longest = longest.max(row);
                at = match random.choice(ways(&operators, at)) {
                    Some(Way::To(there)) => there,
                    Some(Way::Either(there)) if random.bool() => there,
                    Some(Way::Out) | None => break,
                    Some(Way::On | Way::Either(_)) => at + 1,
                };
            }
        }
    }
    assert!(longest == MOST && looked > 1000, "{longest}, {looked}");
}

/// Looks in a function, in bytes.
fn looks(most: usize, code: &[u8]) -> Vec<usize> {
    let mut rows = Rows::new(most, most);
    let looks = operators(code)
        .iter()
        .map(|it| rows.look_before(it))
        .collect::<Vec<_>>();
    (0..looks.len()).filter(|at| looks[*at]).collect()
}

#[test]
fn loops_that_no_way_leads_to_are_no_looks() {
    // 4 × nop; block; br 0; loop; end; end; 4 × nop
    let dead = [
        1, 1, 1, 1, 0x02, 0x40, 0x0c, 0, 0x03, 0x40, 0x0b, 0x0b, 1, 1, 1, 1, 0x0b,
    ];
    assert_eq!(looks(8, &dead), [11]);
    // 4 × nop; loop; end; 4 × nop
    let live = [1, 1, 1, 1, 0x03, 0x40, 0x0b, 1, 1, 1, 1, 0x0b];
    assert_eq!(looks(8, &live), [0; 0]);
}

#[test]
fn of_ways_that_exclude_each_other_the_longest_counts() {
    // A switch of many arms: each is short.
    let arms = 50;
    let mut code = [0x02, 0x40].repeat(arms);
    code.extend([0x0e, arms as u8 - 1]);
    code.extend((0..arms as u8).collect::<Vec<_>>());
    for _ in 0..arms {
        code.extend([0x0b, 1, 1, 0x0f]);
    }
    code.push(0x0b);
    assert_eq!(looks(60, &code), [0; 0]);
}

#[test]
fn what_is_no_function_is_gone_through_all_the_same() {
    // More ends and `else` than blocks, and branches out of more than there are.
    let mut rows = Rows::new(2, 1);
    for operator in [
        Operator::Br { relative_depth: 9 },
        Operator::Else,
        Operator::End,
        Operator::End,
        Operator::BrIf {
            relative_depth: u32::MAX,
        },
        Operator::Nop,
    ] {
        rows.look_before(&operator);
    }
}
