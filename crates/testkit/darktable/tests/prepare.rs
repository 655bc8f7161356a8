//! The set-up with the real program; the minute of compiling kernels is left to the demo.

use towpath_darktable::{Darktable, History};
use towpath_needs::{Need, can_run};

#[test]
fn the_device_is_seen_and_switched_on_and_a_second_time_nothing_is_done() {
    if !can_run(&[Need::Darktable, Need::Pocl]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let darktable = Darktable::prepare(folder.path()).unwrap();
    let settings = folder.path().join("settings/darktablerc");
    let text = std::fs::read_to_string(&settings).unwrap();
    assert!(text.contains("cldevice_v4_"), "{text}");
    assert!(text.contains("opencl=TRUE"), "{text}");
    let picture = folder.path().join("picture.pfm");
    let header = "PF\n3888 2592\n-1.0\n".len() as u64;
    assert_eq!(picture.metadata().unwrap().len(), header + 3888 * 2592 * 12);
    let command = darktable.command(History::Heavy, &folder.path().join("out.jpg"));
    assert!(command.get_args().any(|word| word == "heavy"));

    let made = picture.metadata().unwrap().modified().unwrap();
    Darktable::prepare(folder.path()).unwrap();
    assert_eq!(picture.metadata().unwrap().modified().unwrap(), made);
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), text);
}
