//! The configuration of the engine, with reasons. Entry point: [`engine`].

use crate::options::Options;
use sha2::{Digest, Sha256};
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;
use wasmtime::{
    CacheStore, Config, Enabled, Engine, InstanceAllocationStrategy, ModuleVersionStrategy,
    PoolingAllocationConfig, WasmBacktraceDetails, WasmFeatures,
};

/// The exact version of the compiler. The engine's own check compares only the major version, so it would accept code of a version with
/// a known flaw.
const WASMTIME: &str = "48.0.8";

/// Frames that a trap's backtrace keeps.
pub(crate) const BACKTRACE_FRAMES: usize = 32;

/// Most free slots that keep some of their memory, up to 384 KiB each.
const WARM: u32 = 256;

/// The smallest pool that is tried.
const SMALLEST_POOL: u32 = 16;

/// Makes the engine with the largest pool for which the machine has address space. Returns it, and its number of instances.
pub(super) fn engine(options: &Options) -> wasmtime::Result<(Engine, u32)> {
    let wanted = options.instances.max(1);
    let mut instances = wanted;
    loop {
        match Engine::new(&pooled(options, instances)?) {
            Ok(engine) => {
                if instances < wanted {
                    tracing::warn!(
                        wanted,
                        instances,
                        "fewer guests can run at once: the machine has too little address space"
                    );
                }
                return Ok((engine, instances));
            }
            Err(error) if instances > SMALLEST_POOL => {
                tracing::debug!(instances, error = %error, "a smaller pool of instances is tried");
                instances = (instances / 2).max(SMALLEST_POOL);
            }
            Err(error) => {
                tracing::warn!(error = %error, "instances are allocated one by one: the machine has too little address space for a pool");
                return Ok((Engine::new(&base()?)?, wanted));
            }
        }
    }
}

/// An engine that compiles code for [`engine`] and runs nothing, so that it reserves no address space. With `functions` it compiles
/// only those that are not there, on several processors.
pub(crate) fn compiling(functions: Option<Arc<dyn CacheStore>>) -> wasmtime::Result<Engine> {
    let mut config = base()?;
    if let Some(functions) = functions {
        config
            .parallel_compilation(true)
            .enable_incremental_compilation(functions)?;
    }
    Engine::new(&config)
}

/// A hash of everything that compiled code depends on: the exact version of the compiler, its settings, its features, the processor. Engines with
/// equal fingerprints may share code.
pub(super) fn fingerprint(engine: &Engine) -> String {
    let mut hasher = Fingerprint(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let hash = hasher.0.finalize();
    hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A hash that is the same in every build of this program.
struct Fingerprint(Sha256);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0 // not used: `fingerprint` takes the whole hash
    }
}

fn base() -> wasmtime::Result<Config> {
    let mut config = Config::new();
    config
        // Guests yield by time. Fuel would cost as much, and counts instructions.
        .epoch_interruption(true)
        .consume_fuel(false)
        .memory_init_cow(true)
        // Host functions run on the guest's fiber and have the other half of its stack.
        .max_wasm_stack(512 << 10)
        .async_stack_size(1 << 20)
        .async_stack_zeroing(true)
        .wasm_backtrace_max_frames(NonZeroUsize::new(BACKTRACE_FRAMES))
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .parallel_compilation(false)
        // The collector is not compiled in, so a guest with its types could abort the process. They are refused at load.
        .wasm_gc(false)
        .wasm_features(WasmFeatures::FUNCTION_REFERENCES, false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        // Multiple memories stay enabled: adapters between composed components need them.
        .module_version(ModuleVersionStrategy::Custom(format!(
            "{WASMTIME}+windlass-{}",
            env!("CARGO_PKG_VERSION")
        )))?;
    Ok(config)
}

/// The most core instances, memories and tables of one component. Even a small pool has room for one such component.
const MOST: [u32; 3] = [32, 4, 16];

/// The core instances, memories and tables in the pool for each instance: an average, below [`MOST`].
const USUAL: [u32; 3] = [12, 2, 8];

fn pooled(options: &Options, instances: u32) -> wasmtime::Result<Config> {
    let [cores, memories, tables] = MOST;
    let [usual_cores, usual_memories, usual_tables] = USUAL;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances((usual_cores * instances).max(cores))
        .total_memories((usual_memories * instances).max(memories))
        .total_tables((usual_tables * instances).max(tables))
        .total_stacks(instances)
        .max_core_instances_per_component(cores)
        .max_memories_per_component(memories)
        .max_tables_per_component(tables)
        .max_memories_per_module(1)
        .max_tables_per_module(4)
        .table_elements(60_000)
        .max_memory_size(options.max_memory)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20)
        .linear_memory_keep_resident(256 << 10)
        .table_keep_resident(64 << 10)
        // Zeroed after every call: as much stack as small guests use. More would cost every call, less would cause page faults.
        .async_stack_keep_resident(32 << 10)
        .max_unused_warm_slots(instances.min(WARM))
        .pagemap_scan(Enabled::Auto)
        // At once: memory in a batch would be charged to no tenant and not yet be free.
        .decommit_batch_size(1);
    let mut config = base()?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_manifest() {
        let manifest = include_str!("../../../../Cargo.toml");
        assert!(manifest.contains(&format!("wasmtime = {{ version = \"={WASMTIME}\"")));
    }

    #[test]
    fn code_of_the_engine_that_compiles_runs_in_the_one_that_runs() {
        let pooled = engine(&Options {
            instances: 4,
            ..Options::default()
        });
        let fingerprints = [pooled.unwrap().0, compiling(None).unwrap()].map(|of| fingerprint(&of));
        assert_eq!(fingerprints[0], fingerprints[1]);
        // The cache removes old entries only from folders of such a name.
        assert!(crate::cache::is_fingerprint(&fingerprints[0]));
        let mut other = base().unwrap();
        other.consume_fuel(true);
        assert_ne!(fingerprint(&Engine::new(&other).unwrap()), fingerprints[0]);
    }

    #[test]
    fn a_pool_is_made_as_large_as_asked_where_there_is_room() {
        let (engine, instances) = engine(&Options {
            instances: 8,
            ..Options::default()
        })
        .unwrap();
        assert_eq!(instances, 8);
        assert!(engine.pooling_allocator_metrics().is_some());
    }
}
