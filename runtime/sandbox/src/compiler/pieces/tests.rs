//! That a module in pieces does what it did, and can be interrupted.

use super::*;
use wasm_encoder::{
    CodeSection, ConstExpr, DataCountSection, DataSection, DataSegment, DataSegmentMode,
    EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalType as Constant,
    ImportSection, InstructionSink, MemArg, MemorySection, MemoryType, Module as Built,
    TypeSection, ValType,
};
use wasmtime::{
    Config, Engine, Global, GlobalType, Instance, Linker, Module, Mutability, Store, Trap,
    UpdateDeadline,
};

/// Of the memory.
const PAGES: u32 = 6;
const MEMORY: u32 = PAGES << 16;
/// Bytes of the segment.
const SEGMENT: u32 = 3 * PIECE + 100;

type Instruction = fn(&mut InstructionSink<'_>);

/// How much an instruction works on.
#[derive(Clone, Copy)]
enum Length {
    Parameter,
    Constant(u32),
}

fn memory() -> MemoryType {
    MemoryType {
        minimum: PAGES.into(),
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    }
}

/// A module with an imported function, whose exports are instructions on three parameters.
fn module_of(exports: &[(&str, Length, Instruction)], segment: &[u8]) -> Vec<u8> {
    let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
    types.ty().function([ValType::I32; 3], []);
    types.ty().function([], []);
    imports.import("host", "nothing", EntityType::Function(1));
    let (mut functions, mut exported) = (FunctionSection::new(), ExportSection::new());
    let mut code = CodeSection::new();
    exported.export("memory", ExportKind::Memory, 0);
    for (index, (name, length, instruction)) in (1..).zip(exports) {
        functions.function(0);
        exported.export(name, ExportKind::Func, index);
        let mut function = Function::new([(1, ValType::I64)]);
        let mut sink = function.instructions();
        sink.call(0).local_get(0).local_get(1);
        match length {
            Length::Parameter => sink.local_get(2),
            Length::Constant(length) => sink.i32_const(length.cast_signed()),
        };
        instruction(&mut sink);
        sink.call(0).end();
        code.function(&function);
    }
    let (mut memories, mut data) = (MemorySection::new(), DataSection::new());
    memories.memory(memory());
    data.segment(DataSegment {
        mode: DataSegmentMode::Passive,
        data: segment.iter().copied(),
    });
    data.active(0, &ConstExpr::i32_const(1000), *b"kept as it is");
    let mut module = Built::new();
    module
        .section(&types)
        .section(&imports)
        .section(&functions)
        .section(&memories)
        .section(&exported)
        .section(&DataCountSection { count: 2 })
        .section(&code)
        .section(&data);
    module.finish()
}

fn bulk() -> Vec<u8> {
    let segment: Vec<u8> = (0..SEGMENT).map(|at| (at % 251) as u8).collect();
    module_of(
        &[
            ("copy", Length::Parameter, |code| {
                code.memory_copy(0, 0);
            }),
            ("fill", Length::Parameter, |code| {
                code.memory_fill(0);
            }),
            ("init", Length::Parameter, |code| {
                code.memory_init(0, 0);
            }),
        ],
        &segment,
    )
}

/// An instance, and how often it looked for a tick.
struct Running {
    store: Store<usize>,
    instance: Instance,
}

impl Running {
    fn of(module: &[u8]) -> Self {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let engine = Engine::new(&config).unwrap();
        let module = Module::new(&engine, module).unwrap();
        let mut store = Store::new(&engine, 0);
        // At each look the next tick is there already.
        store.set_epoch_deadline(0);
        store.epoch_deadline_callback(|mut store| {
            *store.data_mut() += 1;
            Ok(UpdateDeadline::Continue(0))
        });
        let mut linker = Linker::new(&engine);
        linker.func_wrap("host", "nothing", || {}).unwrap();
        let pages = wasmtime::MemoryType::new(PAGES, None);
        let memory = wasmtime::Memory::new(&mut store, pages).unwrap();
        linker.define(&store, "host", "memory", memory).unwrap();
        let constant = GlobalType::new(wasmtime::ValType::I32, Mutability::Const);
        let global = Global::new(&mut store, constant, 120_000.into()).unwrap();
        linker.define(&store, "host", "global", global).unwrap();
        let instance = linker.instantiate(&mut store, &module).unwrap();
        Self { store, instance }
    }

    fn call(&mut self, name: &str, [to, from, length]: [u32; 3]) -> Result<(), Trap> {
        let function = self
            .instance
            .get_typed_func::<(u32, u32, u32), ()>(&mut self.store, name)
            .unwrap();
        function
            .call(&mut self.store, (to, from, length))
            .map_err(|error| error.downcast().unwrap())
    }

    fn memory(&mut self) -> &mut [u8] {
        let memory = self.instance.get_memory(&mut self.store, "memory").unwrap();
        memory.data_mut(&mut self.store)
    }

    fn looks(&self) -> usize {
        *self.store.data()
    }
}

/// Near the ends of memory, of pieces and of numbers, and anywhere else.
fn place(random: &mut fastrand::Rng) -> u32 {
    let near = [0, PIECE, 2 * PIECE, 3 * PIECE, SEGMENT, MEMORY, u32::MAX];
    match random.choice(near) {
        Some(near) if random.u8(..4) > 0 => near
            .wrapping_add(random.u32(..40))
            .wrapping_sub(random.u32(..40)),
        _ => random.u32(..MEMORY),
    }
}

#[test]
fn it_does_what_the_instruction_does() {
    let original = bulk();
    let pieces = in_pieces(&original).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let fresh = || [&original, &pieces].map(|module| Running::of(module));
    let mut both = fresh();
    let (mut trapped, mut done) = (0, 0);
    for round in 0..3000 {
        let name = random.choice(["copy", "fill", "init"]).unwrap();
        let parameters = [(); 3].map(|()| place(&mut random));
        let [one, other] = both.each_mut().map(|of| of.call(name, parameters));
        assert_eq!(one, other, "{name} {parameters:?} in round {round}");
        if one.is_err() {
            trapped += 1;
            if name == "init" {
                both = fresh(); // no instance lives on after a trap
                continue;
            }
        } else {
            done += 1;
        }
        let [one, other] = both.each_mut().map(Running::memory);
        assert!(one == other, "{name} {parameters:?} in round {round}");
        one[round % MEMORY as usize] = round as u8;
        other[round % MEMORY as usize] = round as u8;
    }
    assert!(
        trapped > 300 && done > 300,
        "{trapped} trapped, {done} did not"
    );
}

#[test]
fn it_can_be_interrupted_in_the_middle() {
    let original = bulk();
    let pieces = in_pieces(&original).unwrap();
    let of = [PAGES - 1, 1].map(|pages| pages << 16);
    for (name, parameters) in [
        ("copy", [0, of[1], of[0]]),
        ("copy", [of[1], 0, of[0]]),
        ("fill", [of[1], 1, of[0]]),
        ("init", [0, 0, 3 * PIECE]),
    ] {
        let looks = [&original, &pieces].map(|module| {
            let mut running = Running::of(module);
            running.call(name, parameters).unwrap();
            running.looks()
        });
        let pieces = (parameters[2] / PIECE) as usize;
        assert!(
            looks[0] < 3,
            "{name} has become one that can be interrupted"
        );
        assert!(looks[1] >= looks[0] + pieces, "{name}: {looks:?}");
    }
}

/// A module that begins with much data in a memory of its host's, some of them over others, and takes and drops segments behind them.
fn beginning(segments: &[(ConstExpr, Vec<u8>)]) -> Vec<u8> {
    let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
    types.ty().function([ValType::I32; 3], []);
    imports.import("host", "memory", memory());
    let global = Constant {
        val_type: ValType::I32,
        mutable: false,
        shared: false,
    };
    imports.import("host", "global", global);
    let (mut functions, mut exports) = (FunctionSection::new(), ExportSection::new());
    let (mut code, mut data) = (CodeSection::new(), DataSection::new());
    exports.export("memory", ExportKind::Memory, 0);
    for (offset, bytes) in segments {
        data.active(0, offset, bytes.iter().copied());
    }
    let passive = segments.len() as u32;
    for byte in [1, 2] {
        data.passive([byte; 100]);
    }
    let take: Instruction = |code| {
        code.memory_init(0, 3);
    };
    let instructions: [(&str, Instruction); 2] = [
        ("first", take),
        ("second", |code| {
            code.memory_init(0, 4).data_drop(4);
        }),
    ];
    assert_eq!(passive, 3);
    for (index, (name, instruction)) in (0..).zip(instructions) {
        functions.function(0);
        exports.export(name, ExportKind::Func, index);
        let mut function = Function::new([]);
        let mut sink = function.instructions();
        sink.local_get(0).local_get(1).i32_const(50);
        instruction(&mut sink);
        sink.end();
        code.function(&function);
    }
    let mut module = Built::new();
    module
        .section(&types)
        .section(&imports)
        .section(&functions)
        .section(&exports)
        .section(&DataCountSection { count: passive + 2 })
        .section(&code)
        .section(&data);
    module.finish()
}

#[test]
fn what_a_memory_begins_with_is_the_same_and_comes_in_pieces() {
    let long = |byte: u8| (0..200_000).map(|at| (at % 241) as u8 ^ byte).collect();
    let original = beginning(&[
        (ConstExpr::i32_const(100), long(1)),
        (ConstExpr::global_get(0), long(2)),
        (ConstExpr::i32_const(150_000), vec![7; 90]),
    ]);
    let pieces = in_pieces(&original).unwrap();
    let [mut one, mut other] = [&original, &pieces].map(|module| Running::of(module));
    assert!(one.memory() == other.memory());
    let looks = [one.looks(), other.looks()];
    assert_eq!(looks[1], looks[0] + 6, "each has become four");
    for name in ["first", "second", "first", "second"] {
        let parameters = [MEMORY - 60, 10, 0];
        let [one, other] = [&mut one, &mut other].map(|of| of.call(name, parameters));
        assert_eq!(one, other, "{name}");
    }
    assert!(one.memory() == other.memory());
}

#[test]
fn what_an_image_is_made_of_stays_such() {
    let long = vec![1; 3 * PIECE as usize];
    let module = with_data(&ConstExpr::i32_const(1000), &long);
    let pieces = in_pieces(&module).unwrap();
    assert_ne!(pieces, module);
    // None of it is copied, so that nothing is looked for: as before.
    let [mut one, mut other] = [&module, &pieces].map(|module| Running::of(module));
    assert_eq!((one.looks(), other.looks()), (0, 0));
    assert!(one.memory() == other.memory());
    // One that ends beyond all memory is left for the engine to find.
    let beyond = with_data(&ConstExpr::i32_const(-1000), &long);
    assert_eq!(in_pieces(&beyond).unwrap(), beyond);
}

/// A module with a memory of its own that begins with data.
fn with_data(offset: &ConstExpr, bytes: &[u8]) -> Vec<u8> {
    let (mut memories, mut exports) = (MemorySection::new(), ExportSection::new());
    let mut data = DataSection::new();
    memories.memory(memory());
    exports.export("memory", ExportKind::Memory, 0);
    data.active(0, offset, bytes.iter().copied());
    let mut module = Built::new();
    module.section(&memories).section(&exports).section(&data);
    module.finish()
}

#[test]
fn what_is_short_wherever_it_comes_from_is_left_as_it_is() {
    let of = |length: u32| {
        let copy: Instruction = |code| {
            code.memory_copy(0, 0);
        };
        module_of(&[("copy", Length::Constant(length), copy)], &[])
    };
    assert_eq!(in_pieces(&of(PIECE)).unwrap(), of(PIECE));
    assert_ne!(in_pieces(&of(PIECE + 1)).unwrap(), of(PIECE + 1));
    let negative = of(u32::MAX);
    assert_ne!(in_pieces(&negative).unwrap(), negative);
}

#[test]
fn a_long_row_of_instructions_can_be_interrupted() {
    let instruction: Instruction = |code| {
        code.drop().drop().drop();
        for at in 0..1000 {
            code.i32_const(at * 64).i32_const(at).i32_store(MemArg {
                offset: 0,
                align: 0,
                memory_index: 0,
            });
        }
    };
    let original = module_of(&[("row", Length::Parameter, instruction)], &[]);
    let pieces = in_pieces(&original).unwrap();
    let [mut one, mut other] = [&original, &pieces].map(|module| {
        let mut running = Running::of(module);
        running.call("row", [0; 3]).unwrap();
        running
    });
    assert!(one.memory() == other.memory());
    // The first of them soon, as it begins with a call.
    assert_eq!(other.looks(), one.looks() + 1 + 3000 / ROW);
}

#[test]
fn what_is_more_than_an_engine_takes_is_refused_before_it_is_kept() {
    let many = |binary: &[u8]| matches!(in_pieces(binary), Err(PieceError::Many { .. }));
    let sections = [&COMPONENT[..], &[0, 0].repeat(MOST_SECTIONS + 1)].concat();
    assert!(many(&sections));
    // A section that says how many elements it has, and has none.
    let section = |id: u8, count: u32| {
        let mut module = MODULE.to_vec();
        put(&mut module, id, &encoded(count));
        module
    };
    assert!(many(&section(section::FUNCTION, u32::MAX)));
    assert!(many(&section(section::CODE, u32::MAX)));
    assert!(many(&section(section::DATA, u32::MAX)));
}

/// A component of some sections.
fn around(sections: &[(u8, &[u8])]) -> Vec<u8> {
    let mut component = COMPONENT.to_vec();
    for (id, body) in sections {
        put(&mut component, *id, body);
    }
    component
}

/// A component with a module that fills a memory, or one that is not there.
pub(in super::super) fn with_a_fill(is_there: bool) -> Vec<u8> {
    let fill: Instruction = match is_there {
        true => |code| {
            code.memory_fill(0);
        },
        false => |code| {
            code.memory_fill(3);
        },
    };
    let module = module_of(&[("fill", Length::Parameter, fill)], &[]);
    around(&[(section::MODULE, &module)])
}

#[test]
fn modules_inside_components_inside_components_are_found() {
    let custom: &[u8] = b"\x04nameanything";
    let nested = |module: &[u8]| {
        let inner = around(&[(section::MODULE, module), (0, custom)]);
        around(&[
            (0, custom),
            (section::COMPONENT, &inner),
            (section::MODULE, module),
        ])
    };
    let pieces = in_pieces(&nested(&bulk())).unwrap();
    assert_eq!(pieces, nested(&in_pieces(&bulk()).unwrap()));
}

#[test]
fn components_are_inside_each_other_only_so_deep() {
    let deep = |levels| (1..levels).fold(around(&[]), |of, _| around(&[(section::COMPONENT, &of)]));
    assert!(in_pieces(&deep(DEEPEST)).is_ok());
    assert!(matches!(in_pieces(&deep(2_000)), Err(PieceError::Deep)));
}

#[test]
fn bytes_that_are_no_component_are_refused_or_left_to_the_engine() {
    let whole = around(&[(section::MODULE, &bulk())]);
    for kept in 0..whole.len() {
        let _ = in_pieces(&whole[..kept]);
    }
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut changed = whole.clone();
        for _ in 0..random.usize(1..4) {
            // The beginning, where all is but data.
            changed[random.usize(..300)] = random.u8(..);
        }
        let _ = in_pieces(&changed);
    }
}
