//! Sets darktable up under the folder given: `cargo run -p towpath-darktable --example prepare -- DIR`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: prepare FOLDER")?;
    let darktable = towpath_darktable::Darktable::prepare(folder.as_ref())?;
    darktable.compile_kernels()?;
    Ok(())
}
