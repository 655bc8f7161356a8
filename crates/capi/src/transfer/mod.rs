//! Transfers between OpenCL devices and host memory, by the way that was measured to be the fastest.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use towpath_settings::calibration::{Entry, Key, Store};
use towpath_transfer::engine::Shape;
use towpath_transfer::opencl::{Cl, Device, Handle, Options, Staging, calibrate};
use towpath_transfer::policy::{Calibration, Policy};

use crate::boundary::{Answer, Opaque, borrow, give, guard, path, take};
use crate::log::{Log, Speaker, tp_log};
use crate::status::{tp_status, tp_status as Status};

pub(crate) mod calls;
mod driver;
pub(crate) mod gathered;

use driver::Driver;

/// Transfers on one OpenCL context and device. Freed by `tp_transfer_free`; may be used from any thread until
/// then. It keeps the context alive.
#[derive(Debug)]
pub struct tp_transfer {
    _opaque: (),
}

impl Opaque for tp_transfer {
    type Value = Transfers;
    const MARK: u64 = 0x7472_616e_7366_6572;
    fn is_busy(transfers: &Transfers) -> bool {
        transfers.log.is_speaking()
    }
}

/// What a `tp_transfer` is inside.
#[derive(Debug)]
pub(crate) struct Transfers {
    driver: Driver,
    context: Handle,
    device: Device,
    policy: RwLock<Arc<Policy>>,
    stagings: Mutex<Vec<Arc<Staging>>>,
    log: Speaker,
    // Last, so that the context goes after all that is in it.
    cl: Cl,
}

impl Transfers {
    pub(crate) fn cl(&self) -> &Cl {
        &self.cl
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, calibration: Calibration) {
        let policy = Arc::new(Policy::new(Some(calibration)));
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// The staging of a shape; with a queue of its own, made at its first use.
    fn staging(&self, shape: Shape) -> Answer<Arc<Staging>> {
        let mut stagings = self.stagings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = stagings.iter().find(|one| one.engine().shape() == shape) {
            return Ok(Arc::clone(found));
        }
        let cl = self
            .cl
            .another_queue()
            .map_err(|_refused| Status::TP_ERROR_DRIVER)?;
        let made = Arc::new(Staging::new(cl, shape, SCRATCH_BYTES_MAX));
        stagings.push(Arc::clone(&made));
        Ok(made)
    }

    fn key(&self) -> Key {
        Key::of_this_machine(Calibration::SUBJECT, &self.device.name, &self.device.driver)
    }
}

/// Makes transfers for a device of an OpenCL context and stores the handle in `*transfer`.
///
/// `context` is the program's cl_context, `device` its cl_device_id, `library` the file of the OpenCL loader that
/// they come from (NULL: libOpenCL.so.1); it is opened at run time and stays open. `log` may be NULL. The caller
/// owns the handle and frees it with `tp_transfer_free`. Without a calibration cold destinations are prefaulted by
/// a rule table, and all else is the driver's own call.
///
/// TP_ERROR_UNSUPPORTED: no such loader, or older than OpenCL 1.2. TP_ERROR_DRIVER: the device is not one of the
/// context's, or the driver gives no queue; the log has its code.
///
/// # Safety
///
/// `context` and `device` are null or live and of that loader; `library` is null or a C string; `log` is null or
/// valid for a read; `transfer` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_create(
    context: *mut c_void,
    device: *mut c_void,
    library: *const c_char,
    log: *const tp_log,
    transfer: *mut *mut tp_transfer,
) -> tp_status {
    guard(|| {
        if context.is_null() || device.is_null() || transfer.is_null() {
            return Err(Status::TP_ERROR_NULL);
        }
        // SAFETY: the caller's promise.
        let log = unsafe { Log::take(log) }?;
        let library = if library.is_null() {
            c"libOpenCL.so.1".as_ptr()
        } else {
            library
        };
        // SAFETY: a C string by the caller's promise.
        let driver = unsafe { Driver::open(library) }.map_err(|refusal| {
            log.warn(&refusal);
            Status::TP_ERROR_UNSUPPORTED
        })?;
        // SAFETY: live, and of that driver, by the caller's promise.
        let cl = unsafe { Cl::on_context(&driver.functions, context, device) };
        let cl = cl.map_err(|refused| {
            log.warn(&refused.to_string());
            Status::TP_ERROR_DRIVER
        })?;
        // SAFETY: a device of the driver by the caller's promise.
        let device = unsafe { Device::describe(&driver.functions, device, "") };
        let made = Transfers {
            driver,
            context,
            device,
            policy: RwLock::default(),
            stagings: Mutex::new(Vec::new()),
            log: Speaker::new(log),
            cl,
        };
        // SAFETY: the caller's promise.
        unsafe { give(transfer, made) }
    })
}

/// Frees the handle and its pinned and device memory; NULL is none. No call may be under way with it.
/// TP_ERROR_BUSY: its log is being called; nothing was freed.
///
/// # Safety
///
/// `transfer` is null or from `tp_transfer_create`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_free(transfer: *mut tp_transfer) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { take(transfer) }.map(drop)
    })
}

/// Gives pinned and device memory back that is not in use. Waits for queues of the library's own.
///
/// # Safety
///
/// `transfer` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_trim(transfer: *const tp_transfer) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        let stagings = std::mem::take(
            &mut *transfers
                .stagings
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        drop(stagings);
        Ok(())
    })
}

/// Measures the device for about `budget_ns` on buffers of its own, and from now on chooses by what it found.
///
/// The device should be idle. `folder` is NULL or where the result is stored, one file per device, driver and
/// machine, by an atomic rename; the files of `towpath bench calibrate` are the same. Blocks; two times 64 MiB of
/// host memory at most. TP_ERROR_DRIVER: the device could not be measured; nothing has changed. TP_ERROR_IO: it was
/// measured and is in force, but not stored.
///
/// # Safety
///
/// `transfer` is null or a live handle; `folder` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_calibrate(
    transfer: *const tp_transfer,
    budget_ns: u64,
    folder: *const c_char,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        // SAFETY: the caller's promise.
        let folder = unsafe { optional(folder) }?;
        let mut options = Options::default();
        options.budget = Duration::from_nanos(budget_ns);
        let measured = calibrate(&transfers.cl, &transfers.device, &options).map_err(|error| {
            transfers.log.warn(&error.to_string());
            Status::TP_ERROR_DRIVER
        })?;
        for class in &measured.classes {
            let text = format!(
                "{:?}, {:?}, {} MiB: {}",
                class.direction,
                class.warmth,
                class.bytes >> 20,
                class.text()
            );
            transfers.log.note(&text);
        }
        transfers.set(measured.clone());
        let Some(folder) = folder else {
            return Ok(());
        };
        let stored = Entry::new(transfers.key(), &measured)
            .and_then(|entry| Store::new(folder).save(&entry));
        stored.map_err(|error| {
            transfers.log.warn(&error.to_string());
            Status::TP_ERROR_IO
        })
    })
}

/// Takes the stored calibration of this device, driver and machine from `folder`.
///
/// TP_ERROR_NOT_FOUND: there is none. TP_ERROR_DAMAGED: there is a file that cannot be used. Both leave everything
/// as it was.
///
/// # Safety
///
/// `transfer` is null or a live handle; `folder` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_transfer_load(
    transfer: *const tp_transfer,
    folder: *const c_char,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let transfers = unsafe { borrow(transfer) }?;
        // SAFETY: the caller's promise.
        let folder = unsafe { path(folder) }?;
        let damaged = |error: towpath_settings::calibration::Error| {
            transfers.log.warn(&error.to_string());
            Status::TP_ERROR_DAMAGED
        };
        let entry = Store::new(folder).load(&transfers.key()).map_err(damaged)?;
        let calibration: Calibration = entry
            .ok_or(Status::TP_ERROR_NOT_FOUND)?
            .values()
            .map_err(damaged)?;
        if !calibration.is_sane() {
            return Err(Status::TP_ERROR_DAMAGED);
        }
        transfers.set(calibration);
        Ok(())
    })
}

/// # Safety
///
/// `text` is null or a C string.
unsafe fn optional<'a>(text: *const c_char) -> Answer<Option<&'a Path>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { path(text) }.map(Some)
}

/// 256 MiB of device memory kept between calls for each way of staging.
const SCRATCH_BYTES_MAX: usize = 256 << 20;
