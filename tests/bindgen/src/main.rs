//! Generates the bindings that an SDK keeps beside its code: `windlass-bindgen c WIT WORLD FOLDER`, or
//! `windlass-bindgen go WIT FOLDER [MODULE]` and `windlass-bindgen rust WIT FOLDER`, for all worlds at once. Entry point: [`main`].

mod go;
mod rust;

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_parser::{Resolve, WorldId};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [language, wit, world, folder] = match arguments.as_slice() {
        ["go", wit, folder] => {
            return go::generate(Path::new(wit), Path::new(folder), go::INTERNAL);
        }
        ["rust", wit, folder] => {
            return rust::generate(Path::new(wit), Path::new(folder));
        }
        ["go", wit, folder, module] => {
            return go::generate(Path::new(wit), Path::new(folder), module);
        }
        [language, wit, world, folder] => [*language, *wit, *world, *folder],
        _ => bail!(
            "usage: windlass-bindgen c WIT WORLD FOLDER, go WIT FOLDER [MODULE], or rust WIT FOLDER"
        ),
    };
    let generator: Box<dyn WorldGenerator> = match language {
        // The build embeds the world itself. The file is called alike whatever the world is.
        "c" => wit_bindgen_c::Opts {
            no_object_file: true,
            rename_world: Some("contract".to_owned()),
            ..Default::default()
        }
        .build(),
        other => bail!("{other}: bindings are generated for c, go and rust only"),
    };
    let (mut resolve, world) = load(Path::new(wit), world)?;
    write(generator, &mut resolve, world, Path::new(folder))
}

fn load(wit: &Path, world: &str) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .with_context(|| format!("read {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}

fn write(
    mut generator: Box<dyn WorldGenerator>,
    resolve: &mut Resolve,
    world: WorldId,
    folder: &Path,
) -> Result<()> {
    let mut files = Files::default();
    generator.generate(resolve, world, &mut files)?;
    for (name, bytes) in files.iter() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
