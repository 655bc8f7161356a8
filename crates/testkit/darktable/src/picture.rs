//! The picture: 3888x2592 pixels of RGB float, the seed's size.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::{Error, io as failed};

const WIDTH: u32 = 3888;
const HEIGHT: u32 = 2592;

/// Writes the picture as PFM, 121 MB.
pub(crate) fn write(path: &Path) -> Result<(), Error> {
    let part = path.with_extension("part");
    fill(&part).map_err(failed("write", &part))?;
    std::fs::rename(&part, path).map_err(failed("name", path))
}

fn fill(path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    // A negative scale says little-endian.
    write!(file, "PF\n{WIDTH} {HEIGHT}\n-1.0\n")?;
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            for channel in 0..3 {
                file.write_all(&value(x, y, channel).to_le_bytes())?;
            }
        }
    }
    file.flush()
}

/// A gradient with texture, between 0 and 0.8, the same on each machine.
fn value(x: u32, y: u32, channel: u32) -> f32 {
    let texture = u16::try_from((x * 7 + y * 13 + channel * 5) % 251).unwrap_or(0);
    let height = u16::try_from(y).unwrap_or(0);
    f32::from(texture) / 251.0 * 0.6 + 0.2 * f32::from(height) / 2592.0
}
