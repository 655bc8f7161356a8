//! The lines of darktable's settings file that let it use PoCL.

use std::path::Path;

const READY: &str = "performance_configuration_version_completed=14";

/// Whether [`switch_on`] has been here.
pub(crate) fn is_ready(text: &str) -> bool {
    text.lines().any(|line| line == READY)
}

/// Switches on the device that darktable noted in its settings; `None` if there is none.
///
/// Field 8 of `cldevice_v4_NAME` is "disabled". The compiler options go without quotes: PoCL 3.1 does
/// not strip the ones that darktable puts round its own `-I`. The version line keeps darktable from
/// writing the options anew.
pub(crate) fn switch_on(text: &str) -> Option<String> {
    let mut device = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let dropped = key == "opencl"
            || key == "performance_configuration_version_completed"
            || key.ends_with("_building");
        if dropped {
            continue;
        }
        let is_device = key.starts_with("cldevice_v4_") && !key.contains("_id");
        if is_device {
            let mut fields: Vec<&str> = value.split_whitespace().collect();
            *fields.get_mut(7)? = "0";
            lines.push(format!("{key}={}", fields.join(" ")));
            device = Some(key.to_owned());
        } else {
            lines.push(line.to_owned());
        }
    }
    let device = device?;
    lines.push(format!(
        "{device}_building=-cl-fast-relaxed-math -I{}",
        kernels().display()
    ));
    lines.push(READY.to_owned());
    lines.push("opencl=TRUE\n".to_owned());
    Some(lines.join("\n"))
}

fn kernels() -> &'static Path {
    Path::new("/usr/share/darktable/kernels")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_switched_on() {
        let seen = "a=1\ncldevice_v4_cpu=0 1000 0 16 16 128 0 1 0.000 0.000\n\
                    cldevice_v4_cpu_id0=400\nopencl=FALSE";
        let text = switch_on(seen).unwrap();
        assert!(text.contains("cldevice_v4_cpu=0 1000 0 16 16 128 0 0 0.000 0.000\n"));
        assert!(text.contains("cldevice_v4_cpu_id0=400\n"));
        assert!(text.contains("cldevice_v4_cpu_building=-cl-fast-relaxed-math -I/usr"));
        assert!(text.ends_with("opencl=TRUE\n") && !text.contains("FALSE"));
        assert!(is_ready(&text) && !is_ready(seen));
        assert_eq!(switch_on("opencl=FALSE"), None);
    }
}
