//! Recognises wasmtime's errors by their messages where they have no type. Entry points: the functions, one for each meaning.
//!
//! Each test provokes its message with the wasmtime that this program is built with. So an upgrade that changes a message fails here.

/// Whether the compiler's message says that the component ends in the middle.
pub(crate) fn is_cut_off(message: &str) -> bool {
    [
        "unexpected end",
        "extends past end",
        "is out of bounds (bound",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// Whether the engine's message says that a compiled component needs more than the engine has room for in any instance.
pub(crate) fn is_too_large(message: &str) -> bool {
    message.contains("exceeds the ")
}

/// The interface and the function that the linker's message says are missing.
pub(crate) fn missing_function(message: &str) -> Option<(&str, &str)> {
    if !message.contains("implementation is missing") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.last()?))
}

/// Whether a call ended because the guest held too many handles.
pub(crate) fn is_out_of_handles(message: &str) -> bool {
    message.contains("handle limit exceeded")
}

/// Whether a call ended because the guest handed the host too many bytes at once.
pub(crate) fn is_host_call_too_large(message: &str) -> bool {
    message.contains("fuel allocated for hostcalls has been exhausted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::component::{Component, Linker};
    use wasmtime::{
        Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreContextMut,
    };

    fn chain(error: &wasmtime::Error) -> String {
        format!("{error:#}")
    }

    fn root(error: &wasmtime::Error) -> String {
        error.root_cause().to_string()
    }

    fn component(engine: &Engine, text: &str) -> Component {
        Component::new(engine, wat::parse_str(text).unwrap()).unwrap()
    }

    /// Instantiates a component and calls its export `run`. Returns how that failed.
    fn failure_of(linker: &Linker<()>, text: &str, limit: impl Fn(&mut Store<()>)) -> String {
        let engine = linker.engine();
        let mut store = Store::new(engine, ());
        limit(&mut store);
        let instance = linker.instantiate(&mut store, &component(engine, text));
        let run = instance
            .unwrap()
            .get_typed_func::<(), ()>(&mut store, "run");
        root(&run.unwrap().call(&mut store, ()).unwrap_err())
    }

    #[test]
    fn a_component_that_is_cut_off_is_recognised() {
        let engine = Engine::default();
        let module = r#"(component (core module (func (export "run") nop nop nop)))"#;
        let bytes = wat::parse_str(module).unwrap();
        for length in [9, 10, 12, 20, 30, bytes.len() - 1] {
            let refused = engine.precompile_component(&bytes[..length]).unwrap_err();
            assert!(is_cut_off(&chain(&refused)), "{length} bytes: {refused:#}");
        }
        let broken = wat::parse_str("(component)").map(|mut bytes| {
            bytes.extend([99, 0]); // no section has this number
            engine.precompile_component(&bytes).unwrap_err()
        });
        assert!(!is_cut_off(&chain(&broken.unwrap())));
    }

    #[test]
    fn a_component_that_the_engine_has_no_room_for_is_recognised() {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_memories(4)
            .max_memories_per_component(1)
            .max_tables_per_module(1)
            .table_elements(10)
            .max_memory_size(1 << 20);
        let mut config = Config::new();
        config
            .memory_reservation(1 << 20)
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).unwrap();
        for module in [
            "(memory 100)",
            "(table 100 funcref)",
            "(table 1 funcref) (table 1 funcref)",
        ] {
            let text =
                format!("(component (core module $m {module}) (core instance (instantiate $m)))");
            let bytes = wat::parse_str(text).unwrap();
            let refused = Component::new(&engine, &bytes).err().unwrap();
            assert!(is_too_large(&chain(&refused)), "{module}: {refused:#}");
        }
    }

    #[test]
    fn a_missing_function_is_named_and_one_with_another_type_is_not() {
        let engine = Engine::default();
        let importing = |result: &str| {
            let text = format!(
                r#"(component (import "windlass:runtime/clock@0.1.1" (instance (export "uptime-ms" (func (result {result}))))))"#
            );
            component(&engine, &text)
        };
        let mut linker = Linker::<()>::new(&engine);
        let mut clock = linker.instance("windlass:runtime/clock@0.1.1").unwrap();
        let now = |_: StoreContextMut<'_, ()>, (): ()| Ok((0_u32,));
        clock.func_wrap("now", now).unwrap();
        let refused = linker.instantiate_pre(&importing("u32")).err().unwrap();
        assert_eq!(
            missing_function(&chain(&refused)),
            Some(("windlass:runtime/clock@0.1.1", "uptime-ms")),
            "{refused:#}"
        );
        let mut clock = linker.instance("windlass:runtime/clock@0.1.1").unwrap();
        clock.func_wrap("uptime-ms", now).unwrap();
        let refused = linker.instantiate_pre(&importing("string")).err().unwrap();
        assert_eq!(missing_function(&chain(&refused)), None, "{refused:#}");
    }

    #[test]
    fn a_guest_that_holds_too_many_handles_is_recognised() {
        let text = r#"(component
            (type $handle (resource (rep i32)))
            (core func $new (canon resource.new $handle))
            (core module $m
                (import "" "new" (func $new (param i32) (result i32)))
                (func (export "run") (loop (drop (call $new (i32.const 1))) (br 0))))
            (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func (export "run") (canon lift (core func $i "run"))))"#;
        let linker = Linker::new(&Engine::default());
        let failure = failure_of(&linker, text, |store| {
            store.set_max_component_handles(10);
        });
        assert!(is_out_of_handles(&failure), "{failure}");
        assert!(!is_host_call_too_large(&failure));
    }

    #[test]
    fn a_guest_that_hands_the_host_too_much_is_recognised() {
        let text = r#"(component
            (import "take" (func $take (param "text" string)))
            (core module $memory (memory (export "memory") 1))
            (core instance $memory (instantiate $memory))
            (core func $take (canon lower (func $take) (memory (core memory $memory "memory"))))
            (core module $m
                (import "" "take" (func $take (param i32 i32)))
                (func (export "run") (call $take (i32.const 0) (i32.const 1000))))
            (core instance $i (instantiate $m (with "" (instance (export "take" (func $take))))))
            (func (export "run") (canon lift (core func $i "run"))))"#;
        let mut linker = Linker::new(&Engine::default());
        let take = |_: StoreContextMut<'_, ()>, (_,): (String,)| Ok(());
        linker.root().func_wrap("take", take).unwrap();
        let failure = failure_of(&linker, text, |store| store.set_hostcall_fuel(100));
        assert!(is_host_call_too_large(&failure), "{failure}");
        assert!(!is_out_of_handles(&failure));
    }
}
