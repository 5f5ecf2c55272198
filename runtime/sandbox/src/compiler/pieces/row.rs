//! How long a function computes before the engine looks for a tick, whichever way it takes. Entry point: [`Rows::look_before`].

use wasmparser::{Catch, Operator};

/// Follows a function from its beginning, and counts the instructions in a row in which the engine does not look, on the longest of the ways
/// that lead to each place. It looks where a function begins and at the head of each loop, so that no way goes back without a look.
///
/// What is called looks where it begins, and counts for itself. From the last look in it to its end there may be a row, and behind the
/// call another one, and so on in each of those that called one the other, as many as the stack has room for: so it is not long there.
pub(super) struct Rows {
    /// Longest row that is let be.
    most: usize,
    /// Longest behind a call.
    after_call: usize,
    /// Instructions since the last look. `None` where no way leads.
    row: Option<usize>,
    /// The blocks around, the function's own first.
    blocks: Vec<Block>,
}

/// Where ways meet: the longest row on any of them. `None`: none leads there.
#[derive(Default)]
struct Block {
    /// Its head is where branches lead to.
    is_loop: bool,
    /// At its end, of those that branch to it.
    end: Option<usize>,
    /// At the beginning of what is done if not.
    otherwise: Option<usize>,
}

impl Rows {
    /// At the beginning of a function.
    pub(super) fn new(most: usize, after_call: usize) -> Self {
        Self {
            most,
            after_call,
            row: Some(0),
            blocks: vec![Block::default()],
        }
    }

    /// Whether the engine is to be had look before an instruction, the next one as they stand. From then on it counts as looked.
    pub(super) fn look_before(&mut self, operator: &Operator<'_>) -> bool {
        let looks = self.row.is_some_and(|row| row >= self.most);
        if looks {
            self.row = Some(0);
        }
        self.row = self.row.map(|row| row + 1);
        self.follow(operator);
        looks
    }

    fn follow(&mut self, operator: &Operator<'_>) {
        match operator {
            Operator::Block { .. } => self.blocks.push(Block::default()),
            Operator::Loop { .. } => {
                self.row = self.row.map(|_| 0);
                self.blocks.push(Block {
                    is_loop: true,
                    ..Block::default()
                });
            }
            Operator::If { .. } => self.blocks.push(Block {
                otherwise: self.row,
                ..Block::default()
            }),
            Operator::Else => {
                if let Some(block) = self.blocks.last_mut() {
                    block.end = block.end.max(self.row);
                    self.row = block.otherwise.take();
                }
            }
            Operator::End => {
                if let Some(block) = self.blocks.pop() {
                    self.row = self.row.max(block.end).max(block.otherwise);
                }
            }
            Operator::TryTable { try_table } => {
                for catch in &try_table.catches {
                    let (Catch::One { label, .. }
                    | Catch::OneRef { label, .. }
                    | Catch::All { label }
                    | Catch::AllRef { label }) = catch;
                    // From anywhere inside.
                    let longest = self.row.map(|_| self.most);
                    self.meet(*label, longest);
                }
                self.blocks.push(Block::default());
            }
            Operator::Br { relative_depth } => {
                self.meet(*relative_depth, self.row);
                self.row = None;
            }
            Operator::BrIf { relative_depth }
            | Operator::BrOnNull { relative_depth }
            | Operator::BrOnNonNull { relative_depth }
            | Operator::BrOnCast { relative_depth, .. }
            | Operator::BrOnCastFail { relative_depth, .. } => self.meet(*relative_depth, self.row),
            Operator::BrTable { targets } => {
                for target in targets.targets().flatten() {
                    self.meet(target, self.row);
                }
                self.meet(targets.default(), self.row);
                self.row = None;
            }
            Operator::Return
            | Operator::Unreachable
            | Operator::Throw { .. }
            | Operator::ThrowRef
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. } => self.row = None,
            Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. } => {
                let least = self.most.saturating_sub(self.after_call);
                self.row = self.row.map(|row| row.max(least));
            }
            _ => {}
        }
    }

    /// A way with such a row leads to the end of a block, or to the head of a loop. No block is so far out in a component that is valid.
    fn meet(&mut self, depth: u32, row: Option<usize>) {
        let block = self.blocks.iter_mut().nth_back(depth as usize);
        if let Some(block) = block.filter(|block| !block.is_loop) {
            block.end = block.end.max(row);
        }
    }
}

#[cfg(test)]
mod tests;
