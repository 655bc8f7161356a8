//! Edit histories, as XMP sidecar files.

use std::fmt::Write as _;

/// What is done to the picture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum History {
    /// darktable's own minimum: one readback at the end.
    Plain,
    /// Back and forth between modules on the GPU and modules that exist for the CPU only: four
    /// readbacks of the full picture.
    Heavy,
    /// Back and forth as well, between modules that compute little: exposure on the GPU and
    /// pixelation by nothing on the CPU, so that the copies are the larger part. Three readbacks.
    Light,
    /// As before, once back and forth: two readbacks.
    Once,
    /// As [`History::Light`], and then the picture gets a frame. darktable allocates anew for the larger
    /// picture, so that two of the three large readbacks are cold; with a driver that takes 2.3 s for each
    /// cold one about half of the program's time is in reads, as it was with the seed's stack (8.0 of 16.8 s).
    Framed,
}

/// Round trips of [`History::Light`]. Each adds a readback into memory that darktable recycles, and half
/// a second of computing on two cores.
const LIGHT_TRIPS: u32 = 2;

impl History {
    /// The word that `run.sh` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Heavy => "heavy",
            Self::Light => "light",
            Self::Once => "once",
            Self::Framed => "framed",
        }
    }
}

/// One edit: a module, the version of its parameters, and the parameters' bytes.
struct Edit {
    module: &'static str,
    instance: u32,
    version: u32,
    parameters: Vec<u8>,
}

fn edit(module: &'static str, version: u32, parameters: &[Value]) -> Edit {
    let bytes = parameters.iter().flat_map(|value| match value {
        Value::F(float) => float.to_le_bytes(),
        Value::I(int) => int.to_le_bytes(),
    });
    Edit {
        module,
        instance: 0,
        version,
        parameters: bytes.collect(),
    }
}

#[derive(Clone, Copy)]
enum Value {
    F(f32),
    I(i32),
}

/// exposure (GPU), tone equalizer (CPU), [input profile (GPU)], defringe (CPU), sharpen (GPU),
/// grain (CPU), [output profile (GPU), display encoding (CPU)]: darktable 4.2's module order.
pub(crate) fn heavy() -> String {
    use Value::{F, I};
    let edits = [
        edit(
            "exposure",
            6,
            &[I(0), F(0.0), F(0.3), F(50.0), F(-4.0), I(0)],
        ),
        edit("toneequal", 2, &tone_equalizer()),
        edit("defringe", 1, &[F(4.0), F(20.0), I(0)]),
        edit("grain", 2, &[I(2), F(7.5), F(25.0), F(100.0)]),
        edit("sharpen", 1, &[F(2.0), F(0.5), F(0.5)]),
    ];
    sidecar(&edits, &Order::Standard)
}

/// Nine bands; blending, smoothing, feathering, quantization, contrast, exposure; three choices.
fn tone_equalizer() -> Vec<Value> {
    use Value::{F, I};
    let bands = [0.0, 0.0, 0.0, 0.1, 0.1, 0.0, 0.0, -0.1, 0.0];
    let mask = [5.0, std::f32::consts::SQRT_2, 1.0, 0.0, 0.0, 0.0];
    let mut all: Vec<Value> = bands.into_iter().chain(mask).map(F).collect();
    all.extend([I(1), I(3), I(1)]);
    all
}

pub(crate) fn plain() -> String {
    sidecar(&[], &Order::Standard)
}

pub(crate) fn light() -> String {
    trips(LIGHT_TRIPS, Vec::new())
}

pub(crate) fn once() -> String {
    trips(1, Vec::new())
}

pub(crate) fn framed() -> String {
    trips(LIGHT_TRIPS, vec![edit("borders", 3, &frame())])
}

/// A white frame of 2 % of the width, the picture in the middle, no line. Color, aspect and its text, its
/// orientation; size; the place across and down with their texts; the line's size, place and color; a choice.
fn frame() -> Vec<Value> {
    use Value::{F, I};
    let mut all = vec![F(1.0), F(1.0), F(1.0), F(-1.0)];
    all.extend([I(0); 5]);
    all.extend([I(0), F(0.02), F(0.5)]);
    all.extend([I(0); 5]);
    all.push(F(0.5));
    all.extend([I(0); 5]);
    all.extend([F(0.0), F(0.5), F(0.0), F(0.0), F(0.0), I(1)]);
    all
}

/// Instances of two modules in turn, which needs an order of modules of its own, and `more` edits.
fn trips(count: u32, more: Vec<Edit>) -> String {
    use Value::{F, I};
    let mut edits = Vec::new();
    let mut turns = String::new();
    for instance in 0..count {
        let stops = [I(0), F(0.0), F(0.05), F(50.0), F(-4.0), I(0)];
        let exposure = edit("exposure", 6, &stops);
        let pixelate = edit("censorize", 1, &[F(0.0); 4]);
        edits.extend([exposure, pixelate].map(|edit| Edit { instance, ..edit }));
        turns += &format!("exposure,{instance},censorize,{instance},");
    }
    edits.extend(more);
    sidecar(&edits, &Order::Own(format!("{BEFORE}{turns}{AFTER}")))
}

/// In which order the modules work.
enum Order {
    /// darktable 4.2's own.
    Standard,
    /// Module and instance, all of them.
    Own(String),
}

impl Order {
    fn attributes(&self) -> String {
        match self {
            Self::Standard => r#"darktable:iop_order_version="2""#.to_owned(),
            Self::Own(list) => {
                format!(r#"darktable:iop_order_version="0" darktable:iop_order_list="{list}""#)
            }
        }
    }
}

/// darktable 4.2's modules in their order up to the input profile's neighbours, less the two of [`light`].
const BEFORE: &str = "rawprepare,0,invert,0,temperature,0,highlights,0,cacorrect,0,hotpixels,0,\
rawdenoise,0,demosaic,0,denoiseprofile,0,bilateral,0,rotatepixels,0,scalepixels,0,lens,0,\
cacorrectrgb,0,hazeremoval,0,ashift,0,flip,0,clipping,0,liquify,0,spots,0,retouch,0,\
mask_manager,0,tonemap,0,toneequal,0,crop,0,graduatednd,0,profile_gamma,0,equalizer,0,colorin,0,\
channelmixerrgb,0,";
/// The rest of them.
const AFTER: &str = "diffuse,0,negadoctor,0,blurs,0,nlmeans,0,colorchecker,0,defringe,0,atrous,0,\
lowpass,0,highpass,0,sharpen,0,grain,0,colortransfer,0,colormapping,0,channelmixer,0,basicadj,0,\
colorbalance,0,colorbalancergb,0,rgbcurve,0,rgblevels,0,basecurve,0,filmic,0,sigmoid,0,\
filmicrgb,0,lut3d,0,colisa,0,tonecurve,0,levels,0,shadhi,0,zonesystem,0,globaltonemap,0,\
relight,0,bilat,0,colorcorrection,0,colorcontrast,0,velvia,0,vibrance,0,colorzones,0,bloom,0,\
colorize,0,lowlight,0,monochrome,0,soften,0,splittoning,0,vignette,0,colorreconstruct,0,\
colorout,0,clahe,0,finalscale,0,overexposed,0,rawoverexposed,0,dither,0,borders,0,watermark,0,\
gamma,0";

fn sidecar(edits: &[Edit], order: &Order) -> String {
    let mut items = String::new();
    for (number, edit) in edits.iter().enumerate() {
        let mut parameters = String::new();
        for byte in &edit.parameters {
            // Writing to a String cannot fail.
            let _never = write!(parameters, "{byte:02x}");
        }
        let Edit {
            module,
            version,
            instance,
            ..
        } = edit;
        let _never = writeln!(
            items,
            r#"     <rdf:li darktable:num="{number}" darktable:operation="{module}" darktable:enabled="1" darktable:modversion="{version}" darktable:params="{parameters}" darktable:multi_name="" darktable:multi_priority="{instance}" darktable:blendop_version="11" darktable:blendop_params="gz12eJxjYGBgkGAAgRNODESDBnsIHll8ANNSGQM="/>"#
        );
    }
    let count = edits.len();
    let order = order.attributes();
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:darktable="http://darktable.sf.net/"
   darktable:xmp_version="5" darktable:raw_params="0" darktable:auto_presets_applied="1"
   darktable:history_end="{count}" {order}>
   <darktable:history>
    <rdf:Seq>
{items}    </rdf:Seq>
   </darktable:history>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_little_endian_hex() {
        let text = heavy();
        assert!(text.contains(r#"operation="sharpen""#));
        assert!(text.contains(r#"params="000000400000003f0000003f""#));
        assert!(text.contains(r#"history_end="5""#));
        assert!(plain().contains(r#"history_end="0""#));
        assert!(light().contains(r#"multi_priority="1""#));
        assert!(once().contains("exposure,0,censorize,0,diffuse,0"));
        assert!(framed().contains(r#"operation="borders""#));
        assert_eq!(frame().len() * 4, 116, "the parameters of version 3");
        assert!(light().contains("exposure,0,censorize,0,exposure,1,censorize,1,diffuse,0"));
    }
}
