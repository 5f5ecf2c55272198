//! Instructions that work on much memory at once, piece by piece. Entry point: [`in_pieces`].
//!
//! The engine looks for a tick before `memory.copy`, `memory.fill` and `memory.init`, and not while one of them runs: a guest that fills
//! all of its memory in one computes for tens of milliseconds, most of them in page faults, and whoever comes next on its thread waits
//! for the end of it. So each of them becomes a call of a function that does the same in a loop, at whose head the engine looks; one that
//! is short wherever it comes from stays. Nor does it look in a row of instructions that neither loops nor calls anything: in long ones it
//! is had look now and then. And long segments of the data that a module begins with become several. All else of a component is left as it
//! is, byte by byte.

mod data;
mod function;
mod row;

use data::Data;
use function::{Bulk, PIECE, TYPE};
use row::Rows;
use std::collections::HashMap;
use std::ops::Range;
use wasm_encoder::{Encode, InstructionSink};
use wasmparser::{
    BinaryReader, BinaryReaderError, CodeSectionReader, FunctionBody, FunctionSectionReader,
    ImportSectionReader, Operator, TypeRef, TypeSectionReader,
};

/// Instructions in a row, whichever way a function takes, after which the engine is had look for a tick: each may touch a page that is not
/// there yet, and a function may have millions.
const ROW: usize = 512;

/// The same behind a call: there may be ten thousand calls inside each other, and one such row after the other as all of them return. Less
/// makes the code of most guests a tenth larger or more.
const ROW_AFTER_CALL: usize = 64;

/// Where the engine looks for a tick: a loop that does nothing, once.
const LOOK: [u8; 3] = [0x03, 0x40, 0x0b];

/// Most sections of a component or module. A guest's has some hundreds.
const MOST_SECTIONS: usize = 100_000;

/// Most functions and segments of a module, as the engine has it.
const MOST_FUNCTIONS: u32 = 1_000_000;
const MOST_SEGMENTS: u32 = 100_000;

/// How deep components may be inside each other; a guest's language puts some two or three.
const DEEPEST: usize = 64;

/// Bytes before the sections: four that say what it is, and the version of its encoding.
const HEADER: usize = 8;
const MODULE: [u8; HEADER] = *b"\0asm\x01\0\0\0";
const COMPONENT: [u8; HEADER] = *b"\0asm\x0d\0\x01\0";

/// Numbers of sections.
mod section {
    /// In a component.
    pub(super) const MODULE: u8 = 1;
    /// In a component.
    pub(super) const COMPONENT: u8 = 4;
    pub(super) const TYPE: u8 = 1;
    pub(super) const IMPORT: u8 = 2;
    pub(super) const FUNCTION: u8 = 3;
    pub(super) const CODE: u8 = 10;
    pub(super) const DATA: u8 = 11;
    pub(super) const DATA_COUNT: u8 = 12;
}

/// A component that cannot be taken apart. The engine does not take it either, and says more about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum PieceError {
    #[error("it is neither a component nor a module")]
    Unknown,
    #[error("components are inside each other more than {DEEPEST} deep")]
    Deep,
    #[error("it has more than {most} {what}")]
    Many { what: &'static str, most: usize },
    #[error(transparent)]
    Syntax(#[from] BinaryReaderError),
}

/// A component, or a module, that does the same and can be interrupted in the middle of what works on much memory.
///
/// # Errors
/// [`PieceError`] for bytes that are neither. Any others that the engine would not take are not looked for.
pub(super) fn in_pieces(binary: &[u8]) -> Result<Vec<u8>, PieceError> {
    rewritten(binary, 0)
}

fn rewritten(binary: &[u8], depth: usize) -> Result<Vec<u8>, PieceError> {
    if depth > DEEPEST {
        return Err(PieceError::Deep);
    }
    match binary.first_chunk::<HEADER>() {
        Some(&MODULE) => module(binary),
        Some(&COMPONENT) => component(binary, depth),
        _ => Err(PieceError::Unknown),
    }
}

fn component(binary: &[u8], depth: usize) -> Result<Vec<u8>, PieceError> {
    let mut changed = COMPONENT.to_vec();
    for section in sections(binary)? {
        match section.id {
            section::MODULE | section::COMPONENT => {
                put(
                    &mut changed,
                    section.id,
                    &rewritten(section.body, depth + 1)?,
                );
            }
            _ => changed.extend_from_slice(section.whole),
        }
    }
    Ok(changed)
}

fn module(binary: &[u8]) -> Result<Vec<u8>, PieceError> {
    let sections = sections(binary)?;
    let data = sections.iter().find(|section| section.id == section::DATA);
    let data = data.map(|data| Data::of(data.body)).transpose()?.flatten();
    let mut types = 0;
    let mut functions = 0;
    let mut code = None;
    for section in &sections {
        let reader = BinaryReader::new(section.body, 0);
        match section.id {
            section::TYPE => types = count_types(reader)?,
            section::IMPORT => functions = more(functions, count_imported(reader)?)?,
            section::FUNCTION => {
                functions = more(functions, FunctionSectionReader::new(reader)?.count())?;
            }
            section::CODE => code = Some(Code::of(section.body, functions, data.as_ref())?),
            _ => {}
        }
    }
    let added = code.as_ref().map_or(0, |code| code.added.len());
    let mut changed = MODULE.to_vec();
    for section in &sections {
        let body = match (section.id, &code, &data) {
            (section::TYPE, ..) if added > 0 => longer(section.body, &[TYPE])?,
            (section::FUNCTION, ..) if added > 0 => {
                longer(section.body, &vec![encoded(types); added])?
            }
            (section::CODE, Some(code), _) if code.is_changed() => code.encoded(),
            (section::DATA_COUNT, _, Some(data)) => encoded(data.count),
            (section::DATA, _, Some(data)) => data.section.clone(),
            _ => {
                changed.extend_from_slice(section.whole);
                continue;
            }
        };
        put(&mut changed, section.id, &body);
    }
    Ok(changed)
}

/// A section of a module or a component.
struct Section<'a> {
    id: u8,
    body: &'a [u8],
    /// With its number and size.
    whole: &'a [u8],
}

fn sections(binary: &[u8]) -> Result<Vec<Section<'_>>, PieceError> {
    let mut reader = BinaryReader::new(binary, 0);
    reader.read_bytes(HEADER)?;
    let mut sections = Vec::new();
    while !reader.eof() {
        let begin = reader.current_position();
        let id = reader.read_u8()?;
        let size = reader.read_var_u32()? as usize;
        let body = reader.read_bytes(size)?;
        let whole = &binary[begin..reader.current_position()];
        sections.push(Section { id, body, whole });
        if sections.len() > MOST_SECTIONS {
            return Err(PieceError::Many {
                what: "sections",
                most: MOST_SECTIONS,
            });
        }
    }
    Ok(sections)
}

/// So many functions more.
fn more(functions: u32, added: u32) -> Result<u32, PieceError> {
    let sum = functions.saturating_add(added);
    at_most(MOST_FUNCTIONS, "functions", sum)
}

fn at_most(most: u32, what: &'static str, count: u32) -> Result<u32, PieceError> {
    if count > most {
        let most = most as usize;
        return Err(PieceError::Many { what, most });
    }
    Ok(count)
}

fn put(binary: &mut Vec<u8>, id: u8, body: &[u8]) {
    binary.push(id);
    body.encode(binary);
}

fn count_types(reader: BinaryReader<'_>) -> Result<u32, PieceError> {
    let mut count = 0_u32;
    for group in TypeSectionReader::new(reader)? {
        count = count.saturating_add(u32::try_from(group?.types().len()).unwrap_or(u32::MAX));
    }
    Ok(count)
}

fn count_imported(reader: BinaryReader<'_>) -> Result<u32, PieceError> {
    let mut count = 0;
    for import in ImportSectionReader::new(reader)?.into_imports() {
        count += u32::from(matches!(
            import?.ty,
            TypeRef::Func(_) | TypeRef::FuncExact(_)
        ));
    }
    Ok(count)
}

/// A section's body with more elements.
fn longer<T: AsRef<[u8]>>(body: &[u8], elements: &[T]) -> Result<Vec<u8>, PieceError> {
    let mut reader = BinaryReader::new(body, 0);
    let count = u64::from(reader.read_var_u32()?) + elements.len() as u64;
    let mut longer = Vec::with_capacity(body.len());
    count.encode(&mut longer);
    longer.extend_from_slice(&body[reader.current_position()..]);
    for element in elements {
        longer.extend_from_slice(element.as_ref());
    }
    Ok(longer)
}

fn encoded(number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    number.encode(&mut bytes);
    bytes
}

/// A module's functions.
struct Code<'a> {
    functions: Vec<Changed<'a>>,
    /// What is done by functions that are added, by the number of each among them.
    added: HashMap<Bulk, u32>,
}

/// A function, and what is changed in it.
struct Changed<'a> {
    body: FunctionBody<'a>,
    edits: Vec<Edit>,
}

/// A place in the section, and what stands there instead.
type Edit = (Range<usize>, Vec<u8>);

impl<'a> Code<'a> {
    /// `functions`: those that the module has. `data`: its segments, where they have others' numbers.
    fn of(section: &'a [u8], functions: u32, data: Option<&Data>) -> Result<Self, PieceError> {
        let mut code = Self {
            functions: Vec::new(),
            added: HashMap::new(),
        };
        let bodies = CodeSectionReader::new(BinaryReader::new(section, 0))?;
        at_most(MOST_FUNCTIONS, "functions", bodies.count())?;
        for body in bodies {
            let body = body?;
            let edits = code.edits(&body, functions, data)?;
            code.functions.push(Changed { body, edits });
        }
        Ok(code)
    }

    fn edits(
        &mut self,
        body: &FunctionBody<'_>,
        functions: u32,
        data: Option<&Data>,
    ) -> Result<Vec<Edit>, PieceError> {
        let moved = |segment| data.map_or(segment, |data| data.number(segment));
        let mut edits = Vec::new();
        let mut reader = body.get_operators_reader()?;
        let mut is_short = false;
        let mut rows = Rows::new(ROW, ROW_AFTER_CALL);
        while !reader.eof() {
            let begin = reader.original_position();
            let operator = reader.read()?;
            let place = begin..reader.original_position();
            if rows.look_before(&operator) {
                edits.push((begin..begin, LOOK.to_vec()));
            }
            if let Some(bulk) = Bulk::of(&operator, moved) {
                let is_moved = data.is_some() && matches!(bulk, Bulk::Init { .. });
                if !is_short || is_moved {
                    let next = u32::try_from(self.added.len()).unwrap_or(u32::MAX);
                    let number = *self.added.entry(bulk).or_insert(next);
                    edits.push((place, call(functions.saturating_add(number))));
                }
            } else if let (Operator::DataDrop { data_index }, Some(data)) = (&operator, data) {
                edits.push((place, data_drop(data.number(*data_index))));
            }
            // The last that is pushed is how much.
            is_short =
                matches!(operator, Operator::I32Const { value } if value.cast_unsigned() <= PIECE);
        }
        Ok(edits)
    }

    fn is_changed(&self) -> bool {
        self.functions
            .iter()
            .any(|function| !function.edits.is_empty())
    }

    fn encoded(&self) -> Vec<u8> {
        let mut section = Vec::new();
        (self.functions.len() + self.added.len()).encode(&mut section);
        for function in &self.functions {
            function.encoded().encode(&mut section);
        }
        let mut added: Vec<_> = self.added.iter().collect();
        added.sort_unstable_by_key(|(_, number)| **number);
        for (bulk, _) in added {
            bulk.function().encode(&mut section);
        }
        section
    }
}

impl Changed<'_> {
    fn encoded(&self) -> Vec<u8> {
        let (body, first) = (self.body.as_bytes(), self.body.range().start);
        let mut changed = Vec::with_capacity(body.len());
        let mut from = 0;
        for (range, instead) in &self.edits {
            changed.extend_from_slice(&body[from..range.start - first]);
            changed.extend_from_slice(instead);
            from = range.end - first;
        }
        changed.extend_from_slice(&body[from..]);
        changed
    }
}

fn call(function: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    InstructionSink::new(&mut bytes).call(function);
    bytes
}

fn data_drop(segment: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    InstructionSink::new(&mut bytes).data_drop(segment);
    bytes
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::with_a_fill;
