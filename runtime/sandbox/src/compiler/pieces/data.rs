//! What a module's memories begin with, piece by piece. Entry point: [`Data::of`].
//!
//! Where the engine cannot make an image of it, as for a memory of another module, it copies it into each instance, and looks for a tick
//! before each segment: so none is longer than a piece. An image is the same with or without.

use super::function::PIECE;
use super::{MOST_SEGMENTS, PieceError, at_most};
use wasm_encoder::{ConstExpr, Encode};
use wasmparser::{BinaryReader, DataKind, DataSectionReader, Operator};

/// Ends an expression.
const END: u8 = 0x0b;

/// A data section whose segments have been divided.
pub(super) struct Data {
    /// The section's body.
    pub(super) section: Vec<u8>,
    /// How many segments there are.
    pub(super) count: u32,
    /// Where each of those from before begins.
    moved: Vec<u32>,
}

impl Data {
    /// `None` if all are short.
    pub(super) fn of(section: &[u8]) -> Result<Option<Self>, PieceError> {
        let (mut segments, mut count, mut moved) = (Vec::new(), 0_u32, Vec::new());
        let before = DataSectionReader::new(BinaryReader::new(section, 0))?;
        at_most(MOST_SEGMENTS, "segments of data", before.count())?;
        for segment in before {
            let segment = segment?;
            moved.push(count);
            let pieces = match &segment.kind {
                DataKind::Active {
                    memory_index,
                    offset_expr,
                } if segment.data.len() > PIECE as usize => {
                    pieces(*memory_index, offset_expr, segment.data)?
                }
                _ => None,
            };
            for piece in pieces.unwrap_or_else(|| vec![section[segment.range].to_vec()]) {
                segments.extend_from_slice(&piece);
                count = count.saturating_add(1);
            }
        }
        if count as usize == moved.len() {
            return Ok(None);
        }
        let mut divided = Vec::with_capacity(segments.len() + 5);
        count.encode(&mut divided);
        divided.extend_from_slice(&segments);
        Ok(Some(Self {
            section: divided,
            count,
            moved,
        }))
    }

    /// The number that a segment has now. One that there never was stays one.
    pub(super) fn number(&self, segment: u32) -> u32 {
        let moved = self.moved.get(segment as usize);
        moved.copied().unwrap_or(u32::MAX)
    }
}

/// The segments that a long one becomes. `None` where its end is beyond all memory, which the engine is to find.
fn pieces(
    memory: u32,
    offset: &wasmparser::ConstExpr<'_>,
    data: &[u8],
) -> Result<Option<Vec<Vec<u8>>>, PieceError> {
    let offset = Offset::of(offset)?;
    let pieces = (0..)
        .step_by(PIECE as usize)
        .zip(data.chunks(PIECE as usize));
    let segment = |(at, data): (u32, &[u8])| {
        let mut segment = vec![OF_A_MEMORY];
        memory.encode(&mut segment);
        offset.behind(at)?.encode(&mut segment);
        data.encode(&mut segment);
        Some(segment)
    };
    Ok(pieces.map(segment).collect())
}

/// Begins a segment that names its memory.
const OF_A_MEMORY: u8 = 2;

/// Where a segment begins.
enum Offset<'a> {
    /// What the engine makes images of; it has to stay one number.
    Constant(u32),
    /// An expression without its end.
    Other(&'a [u8]),
}

impl<'a> Offset<'a> {
    fn of(expression: &wasmparser::ConstExpr<'a>) -> Result<Self, PieceError> {
        let mut operators = expression.get_operators_reader();
        let first = operators.read()?;
        if let (Operator::I32Const { value }, Operator::End) = (&first, operators.read()?) {
            return Ok(Self::Constant(value.cast_unsigned()));
        }
        let mut reader = expression.get_binary_reader();
        let bytes = reader.read_bytes(reader.bytes_remaining())?;
        Ok(Self::Other(bytes.strip_suffix(&[END]).unwrap_or(bytes)))
    }

    /// So many bytes later.
    fn behind(&self, at: u32) -> Option<ConstExpr> {
        Some(match self {
            Self::Constant(offset) => ConstExpr::i32_const(offset.checked_add(at)?.cast_signed()),
            Self::Other(bytes) => ConstExpr::raw(bytes.iter().copied())
                .with_i32_const(at.cast_signed())
                .with_i32_add(),
        })
    }
}
