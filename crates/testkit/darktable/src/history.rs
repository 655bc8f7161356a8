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
}

impl History {
    /// The word that `run.sh` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Heavy => "heavy",
        }
    }
}

/// One edit: a module, the version of its parameters, and the parameters' bytes.
struct Edit {
    module: &'static str,
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
    sidecar(&[
        edit(
            "exposure",
            6,
            &[I(0), F(0.0), F(0.3), F(50.0), F(-4.0), I(0)],
        ),
        edit("toneequal", 2, &tone_equalizer()),
        edit("defringe", 1, &[F(4.0), F(20.0), I(0)]),
        edit("grain", 2, &[I(2), F(7.5), F(25.0), F(100.0)]),
        edit("sharpen", 1, &[F(2.0), F(0.5), F(0.5)]),
    ])
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
    sidecar(&[])
}

fn sidecar(edits: &[Edit]) -> String {
    let mut items = String::new();
    for (number, edit) in edits.iter().enumerate() {
        let mut parameters = String::new();
        for byte in &edit.parameters {
            // Writing to a String cannot fail.
            let _never = write!(parameters, "{byte:02x}");
        }
        let Edit {
            module, version, ..
        } = edit;
        let _never = writeln!(
            items,
            r#"     <rdf:li darktable:num="{number}" darktable:operation="{module}" darktable:enabled="1" darktable:modversion="{version}" darktable:params="{parameters}" darktable:multi_name="" darktable:multi_priority="0" darktable:blendop_version="11" darktable:blendop_params="gz12eJxjYGBgkGAAgRNODESDBnsIHll8ANNSGQM="/>"#
        );
    }
    let count = edits.len();
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:darktable="http://darktable.sf.net/"
   darktable:xmp_version="5" darktable:raw_params="0" darktable:auto_presets_applied="1"
   darktable:history_end="{count}" darktable:iop_order_version="2">
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
    }
}
