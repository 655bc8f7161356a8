//! The program's functions that give a driver's blob.

use std::ffi::c_void;

use towpath_cache::Error;
use towpath_cache::saving::{BlobSource, Fetched};

use crate::boundary::Answer;
use crate::status::tp_status as Status;

/// Asks the driver: with `data` NULL for the size only, else for up to `*bytes` bytes into `data`. Stores the
/// size, or how many bytes came, in `*bytes`.
///
/// Returns 0 for all of it, 1 if more than the given room is there (VK_INCOMPLETE), below 0 for a failure.
/// `vkGetPipelineCacheData` behind three lines. Called only inside `tp_blob_save` and `tp_cache_save`, on their
/// thread. It may call the library, but for the handle that is being saved: that is TP_ERROR_BUSY. It must return:
/// no longjmp (undefined). A C++ exception that leaves it ends the process.
pub type tp_blob_source = Option<
    unsafe extern "C-unwind" fn(context: *mut c_void, bytes: *mut usize, data: *mut c_void) -> i32,
>;

/// A driver behind the program's function.
pub(crate) struct Driver {
    ask: unsafe extern "C-unwind" fn(*mut c_void, *mut usize, *mut c_void) -> i32,
    context: *mut c_void,
}

impl Driver {
    /// # Safety
    ///
    /// `source` keeps its promise, given `context`, as long as the answer is used.
    pub(crate) unsafe fn new(source: tp_blob_source, context: *mut c_void) -> Answer<Self> {
        let ask = source.ok_or(Status::TP_ERROR_NULL)?;
        Ok(Self { ask, context })
    }

    fn failed(code: i32) -> Error {
        Error::Driver {
            call: "tp_blob_source",
            problem: format!("answered {code}"),
        }
    }
}

impl BlobSource for Driver {
    fn size(&mut self) -> Result<u64, Error> {
        let mut bytes = 0_usize;
        // SAFETY: promised to `new`; no data is asked for.
        let code = unsafe { (self.ask)(self.context, &raw mut bytes, std::ptr::null_mut()) };
        if code < 0 {
            Err(Self::failed(code))
        } else {
            Ok(bytes as u64)
        }
    }

    fn data(&mut self) -> Result<Fetched, Error> {
        let size = usize::try_from(self.size()?).map_err(|_huge| Self::failed(i32::MIN))?;
        let mut room = Vec::new();
        // A size that cannot be is an error, not the end of the process.
        room.try_reserve_exact(size)
            .map_err(|_none| Self::failed(i32::MIN))?;
        room.resize(size, 0_u8);
        let mut bytes = size;
        // SAFETY: promised to `new`; `room` holds `bytes` bytes.
        let code = unsafe { (self.ask)(self.context, &raw mut bytes, room.as_mut_ptr().cast()) };
        if code < 0 {
            return Err(Self::failed(code));
        }
        room.truncate(bytes);
        Ok(Fetched {
            bytes: room,
            is_whole: code == 0,
        })
    }
}
