//! Components changed byte by byte into ones that no compiler makes. Entry point: [`Mutation`].

use anyhow::{Context, Result, ensure};

/// `loop {}`
pub(crate) const LOOP: &[u8] = &[0x03, 0x40, 0x0c, 0, 0x0b];
/// `unreachable`
pub(crate) const TRAP: &[u8] = &[0x00];

/// Bytes before the sections, of a component and of a module.
const HEADER: usize = 8;

/// Numbers of a module's sections.
mod section {
    pub(super) const CUSTOM: u8 = 0;
    pub(super) const TYPE: u8 = 1;
    pub(super) const IMPORT: u8 = 2;
    pub(super) const FUNCTION: u8 = 3;
    pub(super) const TABLE: u8 = 4;
    pub(super) const MEMORY: u8 = 5;
    pub(super) const EXPORT: u8 = 7;
    pub(super) const START: u8 = 8;
    pub(super) const ELEMENT: u8 = 9;
    pub(super) const CODE: u8 = 10;
    pub(super) const DATA: u8 = 11;
    pub(super) const DATA_COUNT: u8 = 12;
}

/// A component whose main module is taken apart.
pub(crate) struct Mutation {
    before: Vec<u8>,
    sections: Vec<(u8, Vec<u8>)>,
    after: Vec<u8>,
}

impl Mutation {
    /// Takes a component apart. Its main module is the largest.
    pub(crate) fn of(component: &[u8]) -> Result<Self> {
        let mut main: Option<(usize, usize, usize)> = None;
        let mut at = HEADER;
        while at < component.len() {
            let (id, begin) = (component[at], at);
            let (size, body) = number(component, at + 1)?;
            at = body + size;
            if id == 1 && main.is_none_or(|(_, from, to)| size > to - from) {
                main = Some((begin, body, at));
            }
        }
        let (begin, from, to) = main.context("the component has no module")?;
        Ok(Self {
            before: component[..begin].to_vec(),
            sections: sections(&component[from..to])?,
            after: component[to..].to_vec(),
        })
    }

    /// The function whose name in the name section holds this.
    pub(crate) fn function(&self, part: &str) -> Result<usize> {
        for (id, body) in &self.sections {
            if *id != section::CUSTOM || !body.starts_with(b"\x04name") {
                continue;
            }
            let mut at = 5;
            while at < body.len() {
                let (kind, (size, inner)) = (body[at], number(body, at + 1)?);
                if kind == 1 {
                    let names = function_names(&body[inner..inner + size])?;
                    let found = names.into_iter().find(|(_, name)| name.contains(part));
                    return found.map(|(index, _)| index).context("no such function");
                }
                at = inner + size;
            }
        }
        anyhow::bail!("the module has no names of functions")
    }

    /// Gives a function another name in the name section.
    pub(crate) fn rename(&mut self, function: usize, name: &str) -> Result<()> {
        let named =
            |(id, body): &(u8, Vec<u8>)| *id == section::CUSTOM && body.starts_with(b"\x04name");
        self.sections.retain(|section| !named(section));
        let entry = [
            &unsigned(function)[..],
            &unsigned(name.len()),
            name.as_bytes(),
        ]
        .concat();
        let names = [&unsigned(1)[..], &entry].concat();
        let body = [&b"\x04name\x01"[..], &unsigned(names.len()), &names].concat();
        self.sections.push((section::CUSTOM, body));
        Ok(())
    }

    /// Gives a function another body. It has no local variables but its parameters.
    pub(crate) fn replace(&mut self, function: usize, body: &[u8]) -> Result<()> {
        let defined = function - self.imported_functions()?;
        let code = self.body(section::CODE)?;
        let (count, mut at) = number(code, 0)?;
        ensure!(defined < count, "function {function} is not defined");
        for _ in 0..defined {
            let (size, inner) = number(code, at)?;
            at = inner + size;
        }
        let (size, inner) = number(code, at)?;
        let end = inner + size;
        code.splice(at..end, entry(body));
        Ok(())
    }

    /// Adds a function of a type, such as `[0x60, 0, 0]` for one without parameters and results.
    pub(crate) fn add(&mut self, of: &[u8], body: &[u8]) -> Result<usize> {
        let of = self.append(section::TYPE, of)?;
        let defined = self.append(section::FUNCTION, &unsigned(of))?;
        self.append(section::CODE, &entry(body))?;
        Ok(self.imported_functions()? + defined)
    }

    /// The number of the function that is added next.
    fn next_function(&mut self) -> Result<usize> {
        let defined = number(self.body(section::FUNCTION)?, 0)?.0;
        Ok(self.imported_functions()? + defined)
    }

    /// Adds a table that may grow without end.
    pub(crate) fn add_table(&mut self, elements: usize) -> Result<usize> {
        self.append(
            section::TABLE,
            &[&[0x70, 0][..], &unsigned(elements)].concat(),
        )
    }

    /// Has its only memory begin with so many pages.
    fn set_memory(&mut self, pages: usize) -> Result<()> {
        let memories = self.body(section::MEMORY)?;
        ensure!(
            memories[..2] == [1, 0],
            "the module has one memory that may grow"
        );
        let rest = number(memories, 2)?.1;
        memories.splice(2..rest, unsigned(pages));
        Ok(())
    }

    /// Adds data that are there from the beginning.
    fn add_data(&mut self, at: usize, data: &[u8]) -> Result<()> {
        let place = [&[0, 0x41][..], &signed(at), &[0x0b]].concat();
        let segment = [&place[..], &unsigned(data.len()), data].concat();
        let count = self.append(section::DATA, &segment)? + 1;
        if let Ok(counted) = self.body(section::DATA_COUNT) {
            *counted = unsigned(count);
        }
        Ok(())
    }

    /// Has a function called whenever the module is instantiated.
    pub(crate) fn start(&mut self, function: usize) {
        let later = |id: u8| id >= section::ELEMENT;
        let at = self.sections.iter().position(|(id, _)| later(*id));
        let at = at.unwrap_or(self.sections.len());
        self.sections
            .insert(at, (section::START, unsigned(function)));
    }

    /// Exports another function under a name that is exported.
    pub(crate) fn export(&mut self, name: &str, function: usize) -> Result<usize> {
        let exports = self.body(section::EXPORT)?;
        let (count, mut at) = number(exports, 0)?;
        for _ in 0..count {
            let (length, text) = number(exports, at)?;
            let index = text + length + 1;
            let (exported, next) = number(exports, index)?;
            if &exports[text..text + length] == name.as_bytes() {
                exports.splice(index..next, unsigned(function));
                return Ok(exported);
            }
            at = next;
        }
        anyhow::bail!("{name} is not exported")
    }

    /// The component put together again.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        for (id, body) in &self.sections {
            module.extend(section(*id, body));
        }
        [self.before, section(1, &module), self.after].concat()
    }

    fn body(&mut self, id: u8) -> Result<&mut Vec<u8>> {
        let found = self.sections.iter_mut().find(|(found, _)| *found == id);
        found
            .map(|(_, body)| body)
            .with_context(|| format!("the module has no section {id}"))
    }

    /// Adds an element to a section, and returns how many there were.
    fn append(&mut self, id: u8, element: &[u8]) -> Result<usize> {
        let body = self.body(id)?;
        let (count, rest) = number(body, 0)?;
        body.splice(..rest, unsigned(count + 1));
        body.extend_from_slice(element);
        Ok(count)
    }

    /// Rust's modules import functions and nothing else.
    fn imported_functions(&mut self) -> Result<usize> {
        let imports = self.body(section::IMPORT)?;
        let (count, mut at) = number(imports, 0)?;
        for _ in 0..count {
            for _ in 0..2 {
                let (length, text) = number(imports, at)?;
                at = text + length;
            }
            ensure!(imports[at] == 0, "the module imports more than functions");
            at = number(imports, at + 1)?.1;
        }
        Ok(count)
    }
}

/// A section of a module or a component.
pub(crate) fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &unsigned(body.len()), body].concat()
}

/// A component around a module of these sections.
pub(crate) fn component(sections: &[Vec<u8>]) -> Vec<u8> {
    let module = [b"\0asm\x01\0\0\0", &sections.concat()[..]].concat();
    [&b"\0asm\x0d\0\x01\0"[..], &section(1, &module)].concat()
}

/// A number as WebAssembly writes it.
pub(crate) fn unsigned(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// The number at a place, and the place after it.
fn number(bytes: &[u8], mut at: usize) -> Result<(usize, usize)> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *bytes.get(at).context("a number is cut off")?;
        number |= usize::from(byte & 0x7f) << shift;
        at += 1;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok((number, at));
        }
    }
}

fn sections(module: &[u8]) -> Result<Vec<(u8, Vec<u8>)>> {
    let mut sections = Vec::new();
    let mut at = HEADER;
    while at < module.len() {
        let (size, body) = number(module, at + 1)?;
        sections.push((module[at], module[body..body + size].to_vec()));
        at = body + size;
    }
    Ok(sections)
}

fn function_names(names: &[u8]) -> Result<Vec<(usize, String)>> {
    let (count, mut at) = number(names, 0)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let (index, next) = number(names, at)?;
        let (length, text) = number(names, next)?;
        at = text + length;
        found.push((
            index,
            String::from_utf8_lossy(&names[text..at]).into_owned(),
        ));
    }
    Ok(found)
}

/// A function's code: no local variables, the body, its end.
fn entry(body: &[u8]) -> Vec<u8> {
    [&unsigned(body.len() + 2)[..], &[0], body, &[0x0b]].concat()
}

/// The guest `test-loop` with a table that it grows until it may not, and then traps.
pub(crate) fn growing_table(test_loop: &[u8]) -> Result<Vec<u8>> {
    let mut mutation = Mutation::of(test_loop)?;
    let table = u8::try_from(mutation.add_table(1)?)?;
    let spin = mutation.function("test_loop4spin")?;
    // loop { if table.grow(null, 1000) == -1 { unreachable } }
    let body = [
        0x03, 0x40, 0xd0, 0x70, 0x41, 0xe8, 0x07, 0xfc, 0x0f, table, 0x41, 0x7f, 0x46, 0x04, 0x40,
        0x00, 0x0b, 0x0c, 0, 0x0b, 0x00,
    ];
    mutation.replace(spin, &body)?;
    Ok(mutation.finish())
}

/// The guest `test-loop` that takes much memory and fills it, again and again, each time in one instruction.
pub(crate) fn filling_memory(test_loop: &[u8]) -> Result<Vec<u8>> {
    let mut mutation = Mutation::of(test_loop)?;
    let spin = mutation.function("test_loop4spin")?;
    let (from, bytes, pages) = (signed(2 << 20), signed(24 << 20), signed(26 << 4));
    // memory.grow(26 MiB); loop { memory.fill(2 MiB, 1, 24 MiB) }
    let body = [
        &[0x41][..],
        &pages,
        &[0x40, 0, 0x1a, 0x03, 0x40, 0x41],
        &from,
        &[0x41, 1, 0x41],
        &bytes,
        &[0xfc, 0x0b, 0, 0x0c, 0, 0x0b, 0x00],
    ];
    mutation.replace(spin, &body.concat())?;
    Ok(mutation.finish())
}

/// The guest `test-loop` that calls a function 5000 deep, again and again, which computes much on its way back from each.
pub(crate) fn unwinding(test_loop: &[u8]) -> Result<Vec<u8>> {
    let mut mutation = Mutation::of(test_loop)?;
    let spin = mutation.function("test_loop4spin")?;
    let deep = mutation.next_function()?;
    let rest = [0x20, 0, 0x70].repeat(200);
    let (one, depth) = (signed(1), signed(5_000));
    // if n { deep(n - 1); -1 % n % n …; drop }
    let body = [
        &[0x20, 0, 0x04, 0x40, 0x20, 0, 0x41][..],
        &one,
        &[0x6b, 0x10],
        &unsigned(deep),
        &[0x41, 0x7f],
        &rest,
        &[0x1a, 0x0b],
    ];
    mutation.add(&[0x60, 1, 0x7f, 0], &body.concat())?;
    // loop { deep(5000) }
    let body = [
        &[0x03, 0x40, 0x41][..],
        &depth,
        &[0x10],
        &unsigned(deep),
        &[0x0c, 0, 0x0b, 0x00],
    ];
    mutation.replace(spin, &body.concat())?;
    Ok(mutation.finish())
}

/// Two components, one of which hands the other a text of 12 MiB three times as it is made.
const TEXTS: &str = r#"
(component
  (component $to
    (core module $m
      (memory (export "memory") 208)
      (func (export "allocate") (param i32 i32 i32 i32) (result i32) i32.const 65536)
      (func (export "take") (param i32 i32)))
    (core instance $m (instantiate $m))
    (func (export "take") (param "text" string)
      (canon lift (core func $m "take") (memory $m "memory") (realloc (func $m "allocate")))))
  (component $from
    (import "take" (func $take (param "text" string)))
    (core module $memory (memory (export "memory") 208))
    (core instance $memory (instantiate $memory))
    (core func $take (canon lower (func $take) (memory $memory "memory")))
    (core module $m
      (import "to" "take" (func $take (param i32 i32)))
      (func $three
        (call $take (i32.const 0) (i32.const 12582912))
        (call $take (i32.const 0) (i32.const 12582912))
        (call $take (i32.const 0) (i32.const 12582912)))
      (start $three))
    (core instance (instantiate $m (with "to" (instance (export "take" (func $take)))))))
  (instance $to (instantiate $to))
  (instance (instantiate $from (with "take" (func $to "take")))))
"#;

/// A guest with two components inside that hand each other long texts as they are made. What they hand each other is copied by the engine.
pub(crate) fn texts(guest: &[u8]) -> Result<Vec<u8>> {
    const COMPONENT: u8 = 4;
    const INSTANCE: u8 = 5;
    let mut before = 0;
    let mut at = HEADER;
    while at < guest.len() {
        before += usize::from(guest[at] == COMPONENT);
        let (size, body) = number(guest, at + 1)?;
        at = body + size;
    }
    // One instance, of that component, without arguments.
    let instance = [&[1, 0][..], &unsigned(before), &[0]].concat();
    let made = [
        guest,
        &section(COMPONENT, &wat::parse_str(TEXTS)?),
        &section(INSTANCE, &instance),
    ];
    Ok(made.concat())
}

/// A number that is not negative as WebAssembly writes constants.
fn signed(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x40 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A guest with so much data, and so much room in it, that the engine would copy it into each instance were it not told otherwise.
pub(crate) fn sparse(guest: &[u8]) -> Result<Vec<u8>> {
    let mut mutation = Mutation::of(guest)?;
    mutation.set_memory(32 << 4)?;
    let data = vec![b'x'; 7 << 20];
    for at in [2, 24] {
        mutation.add_data(at << 20, &data)?;
    }
    Ok(mutation.finish())
}
