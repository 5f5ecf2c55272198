//! A function that does piece by piece what one instruction does at once. Entry point: [`Bulk::function`].

use wasm_encoder::{BlockType, Function, InstructionSink};
use wasmparser::Operator;

/// Bytes that are worked on between two looks for a tick: so small that those in between are over in some ten microseconds, page faults
/// included, and so large that to look costs nothing beside them.
pub(super) const PIECE: u32 = 64 << 10;

/// The type of all these functions, as it is encoded: three numbers, and no result.
pub(super) const TYPE: [u8; 6] = [0x60, 3, I32, I32, I32, 0];
const I32: u8 = 0x7f;

/// Parameters: where to, what or where from, how much.
const TO: u32 = 0;
const FROM: u32 = 1;
const LENGTH: u32 = 2;

/// Bits of an address in a page.
const PAGE: i64 = 16;

/// An instruction that works on any amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bulk {
    Copy { to: u32, from: u32 },
    Fill { memory: u32 },
    Init { memory: u32, segment: u32 },
}

impl Bulk {
    /// `moved`: the number that a segment has now.
    pub(super) fn of(operator: &Operator<'_>, moved: impl Fn(u32) -> u32) -> Option<Self> {
        match *operator {
            Operator::MemoryCopy { dst_mem, src_mem } => Some(Self::Copy {
                to: dst_mem,
                from: src_mem,
            }),
            Operator::MemoryFill { mem } => Some(Self::Fill { memory: mem }),
            Operator::MemoryInit { data_index, mem } => Some(Self::Init {
                memory: mem,
                segment: moved(data_index),
            }),
            _ => None,
        }
    }

    /// What does the same. Where the instruction traps, this traps by that instruction, and before anything is written; but for `memory.init`,
    /// which then has written what is in the segment: nobody sees it, as no instance lives on after a trap.
    pub(super) fn function(self) -> Function {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        self.at_once_if(&mut code, |code| {
            code.local_get(LENGTH).i32_const(piece()).i32_le_u();
        });
        match self {
            Self::Copy { to, from } => {
                self.at_once_if(&mut code, |code| is_beyond(code, TO, to));
                self.at_once_if(&mut code, |code| is_beyond(code, FROM, from));
                // From the end on, where the beginning of what is copied would be written over first.
                code.local_get(TO)
                    .local_get(FROM)
                    .i32_gt_u()
                    .if_(BlockType::Empty);
                self.backwards(&mut code, to, from);
                code.end();
            }
            Self::Fill { memory } | Self::Init { memory, .. } => {
                self.at_once_if(&mut code, |code| is_beyond(code, TO, memory));
            }
        }
        self.forwards(&mut code);
        code.end();
        function
    }

    fn forwards(self, code: &mut InstructionSink<'_>) {
        code.loop_(BlockType::Empty);
        self.at_once_if(code, |code| {
            code.local_get(LENGTH).i32_const(piece()).i32_le_u();
        });
        code.local_get(TO).local_get(FROM).i32_const(piece());
        self.instruction(code);
        advance(code, TO);
        if !matches!(self, Self::Fill { .. }) {
            advance(code, FROM);
        }
        shorten(code);
        code.br(0).end();
    }

    fn backwards(self, code: &mut InstructionSink<'_>, to: u32, from: u32) {
        code.loop_(BlockType::Empty);
        self.at_once_if(code, |code| {
            code.local_get(LENGTH).i32_const(piece()).i32_le_u();
        });
        shorten(code);
        code.local_get(TO).local_get(LENGTH).i32_add();
        code.local_get(FROM).local_get(LENGTH).i32_add();
        code.i32_const(piece()).memory_copy(to, from);
        code.br(0).end();
    }

    /// Does all that is left in one instruction, and returns, if what `condition` leaves is not 0.
    fn at_once_if(
        self,
        code: &mut InstructionSink<'_>,
        condition: impl FnOnce(&mut InstructionSink<'_>),
    ) {
        condition(code);
        code.if_(BlockType::Empty);
        code.local_get(TO).local_get(FROM).local_get(LENGTH);
        self.instruction(code);
        code.return_().end();
    }

    fn instruction(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Copy { to, from } => code.memory_copy(to, from),
            Self::Fill { memory } => code.memory_fill(memory),
            Self::Init { memory, segment } => code.memory_init(memory, segment),
        };
    }
}

fn piece() -> i32 {
    PIECE.cast_signed()
}

/// Whether what begins at a parameter ends beyond a memory.
fn is_beyond(code: &mut InstructionSink<'_>, begin: u32, memory: u32) {
    code.local_get(begin).i64_extend_i32_u();
    code.local_get(LENGTH).i64_extend_i32_u().i64_add();
    code.memory_size(memory).i64_extend_i32_u();
    code.i64_const(PAGE).i64_shl().i64_gt_u();
}

fn advance(code: &mut InstructionSink<'_>, parameter: u32) {
    code.local_get(parameter)
        .i32_const(piece())
        .i32_add()
        .local_set(parameter);
}

fn shorten(code: &mut InstructionSink<'_>) {
    code.local_get(LENGTH)
        .i32_const(piece())
        .i32_sub()
        .local_set(LENGTH);
}
