//! The machine's own memory: making sure that it is at hand before something is measured.

use towpath_sys::madvise::{Advice, advise};

use crate::{Huge, Mapping, Prefault, Result, prefault};

/// Touches and frees `bytes`, so that the machine has that much memory ready, in huge pages as well.
///
/// A virtual machine may give freed memory back to its host within a second or two; the next touch
/// then costs 20 times as much. Call this right before each measured run, of either arm.
///
/// # Cost
///
/// Up to 2.2 s per GiB where the host had taken the memory, 0.1 to 0.4 s otherwise.
///
/// # Errors
///
/// - [`crate::Error::Map`] or [`crate::Error::Prefault`] if there is not so much memory.
pub fn warm_host(bytes: usize) -> Result<()> {
    let mapping = Mapping::anonymous(bytes)?;
    let range = mapping.range();
    // In huge pages, since it is those that the host takes back. Refused where there are none.
    let _refused = advise(range.address, range.len, Advice::HugePage);
    let how = Prefault {
        huge: Huge::Never,
        limit: std::time::Duration::from_mins(1),
        ..Prefault::default()
    };
    let _touched = prefault(range, &how)?;
    Ok(())
}
