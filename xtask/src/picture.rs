//! The picture of the demo and its editing history, made rather than shipped.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Width in pixels: the seed's picture.
const WIDTH: u32 = 3888;
/// Height in pixels.
const HEIGHT: u32 = 2592;
/// How often the history goes from a GPU module to a CPU module and back.
const ROUND_TRIPS: u32 = 4;

/// Writes a 3888x2592 PFM: a gradient with texture, so that each row and tile differs.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write_pfm(path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write!(out, "PF\n{WIDTH} {HEIGHT}\n-1.0\n")?;
    let mut state = 0x2545_F491_u32;
    for y in 0..HEIGHT {
        let base = 0.2 + 0.3 * f64::from(y) / f64::from(HEIGHT);
        for _ in 0..WIDTH * 3 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            let texture = f64::from(state >> 8) / f64::from(1 << 24) * 0.05;
            #[expect(clippy::cast_possible_truncation, reason = "a pixel is a 32-bit float")]
            out.write_all(&((base + texture) as f32).to_le_bytes())?;
        }
    }
    out.flush()
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the editing history: `vibrance` runs on the GPU and `grain` on the CPU only, alternated, so
/// that each pair moves the whole picture to the host and back, as the seed's stack did.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn write_history(path: &Path) -> Result<()> {
    let mut items = String::new();
    let mut order = String::new();
    for trip in 0..ROUND_TRIPS {
        items += &item(trip * 2, "vibrance", &hex(&[25.0_f32.to_le_bytes()]), trip);
        items += &item(trip * 2 + 1, "grain", &grain(), trip);
        order += &format!("vibrance,{trip},grain,{trip},");
    }
    let end = ROUND_TRIPS * 2;
    let order = format!("{BEFORE}{order}{AFTER}");
    let text = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:darktable="http://darktable.sf.net/"
   darktable:xmp_version="5" darktable:raw_params="0" darktable:auto_presets_applied="1"
   darktable:history_end="{end}" darktable:iop_order_version="0"
   darktable:iop_order_list="{order}">
   <darktable:history>
    <rdf:Seq>
{items}    </rdf:Seq>
   </darktable:history>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"#
    );
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn item(number: u32, operation: &str, parameters: &str, instance: u32) -> String {
    let name = if instance == 0 {
        String::new()
    } else {
        instance.to_string()
    };
    format!(
        "     <rdf:li darktable:num=\"{number}\" darktable:operation=\"{operation}\" \
         darktable:enabled=\"1\" darktable:modversion=\"2\" darktable:params=\"{parameters}\" \
         darktable:multi_name=\"{name}\" darktable:multi_priority=\"{instance}\"/>\n"
    )
}

/// Channel (lightness), scale, strength, midtones bias.
fn grain() -> String {
    hex(&[
        2_i32.to_le_bytes(),
        7.5_f32.to_le_bytes(),
        25.0_f32.to_le_bytes(),
        100.0_f32.to_le_bytes(),
    ])
}

fn hex(words: &[[u8; 4]]) -> String {
    words
        .iter()
        .flatten()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

// The order of darktable 4.2's modules, without `vibrance` and `grain`, which the history places itself.
const BEFORE: &str = "rawprepare,0,invert,0,temperature,0,highlights,0,cacorrect,0,hotpixels,0,\
rawdenoise,0,demosaic,0,denoiseprofile,0,bilateral,0,rotatepixels,0,scalepixels,0,lens,0,\
cacorrectrgb,0,hazeremoval,0,ashift,0,flip,0,clipping,0,liquify,0,spots,0,retouch,0,exposure,0,\
mask_manager,0,tonemap,0,toneequal,0,crop,0,graduatednd,0,profile_gamma,0,equalizer,0,colorin,0,\
channelmixerrgb,0,diffuse,0,censorize,0,negadoctor,0,blurs,0,nlmeans,0,colorchecker,0,defringe,0,\
atrous,0,lowpass,0,highpass,0,sharpen,0,";
const AFTER: &str = "colortransfer,0,colormapping,0,channelmixer,0,basicadj,0,colorbalance,0,\
colorbalancergb,0,rgbcurve,0,rgblevels,0,basecurve,0,filmic,0,sigmoid,0,filmicrgb,0,lut3d,0,\
colisa,0,tonecurve,0,levels,0,shadhi,0,zonesystem,0,globaltonemap,0,relight,0,bilat,0,\
colorcorrection,0,colorcontrast,0,velvia,0,colorzones,0,bloom,0,colorize,0,lowlight,0,\
monochrome,0,soften,0,splittoning,0,vignette,0,colorreconstruct,0,colorout,0,clahe,0,\
finalscale,0,overexposed,0,rawoverexposed,0,dither,0,borders,0,watermark,0,gamma,0";
