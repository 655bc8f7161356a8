//! Element size and shape of images, asked once for each and kept until the program releases it.
#![expect(unsafe_code, reason = "asks the driver about the program's image")]

use std::ffi::c_void;

use opencl_sys::{
    CL_IMAGE_ELEMENT_SIZE, CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE1D_ARRAY,
    CL_MEM_OBJECT_IMAGE1D_BUFFER, CL_MEM_OBJECT_IMAGE2D, CL_MEM_OBJECT_IMAGE2D_ARRAY,
    CL_MEM_OBJECT_IMAGE3D, CL_MEM_TYPE, CL_SUCCESS, cl_mem, cl_mem_object_type,
};
use towpath_transfer::readback::ImageShape;

use crate::handles::Handles;
use crate::{inside, next};

/// What a footprint needs to know of an image.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Image {
    pub(crate) element_bytes: usize,
    pub(crate) shape: ImageShape,
}

static IMAGES: Handles<4096> = Handles::new();

/// What is known of `image`, from the driver at the first call.
///
/// `None` where the driver does not say, and inside callbacks for an image not met before.
pub(crate) fn get(image: cl_mem) -> Option<Image> {
    if let Some(word) = IMAGES.get(image.addr()) {
        return unpack(word);
    }
    if inside::is_callback() {
        return None;
    }
    let kind = ask_kind(image)?;
    let element = ask_element(image)?;
    let word = u64::from(kind) << 32 | u64::from(u32::try_from(element).ok()?);
    let found = unpack(word)?;
    IMAGES.put(image.addr(), word);
    Some(found)
}

/// Forgets an image that the program releases. Cheap for what was never kept.
pub(crate) fn forget(memory: cl_mem) {
    IMAGES.remove(memory.addr());
}

fn unpack(word: u64) -> Option<Image> {
    let shape = match cl_mem_object_type::try_from(word >> 32).ok()? {
        CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => ImageShape::D1,
        CL_MEM_OBJECT_IMAGE1D_ARRAY => ImageShape::D1Array,
        CL_MEM_OBJECT_IMAGE2D => ImageShape::D2,
        CL_MEM_OBJECT_IMAGE2D_ARRAY => ImageShape::D2Array,
        CL_MEM_OBJECT_IMAGE3D => ImageShape::D3,
        _ => return None,
    };
    let element_bytes = usize::try_from(word & u64::from(u32::MAX)).ok()?;
    (element_bytes > 0).then_some(Image {
        element_bytes,
        shape,
    })
}

fn ask_kind(image: cl_mem) -> Option<cl_mem_object_type> {
    let ask = next::table()?.clGetMemObjectInfo?;
    let mut kind: cl_mem_object_type = 0;
    let value: *mut c_void = (&raw mut kind).cast();
    let size = size_of::<cl_mem_object_type>();
    // SAFETY: `value` has `size` bytes; a bad image is the driver's to refuse.
    let answer = unsafe { ask(image, CL_MEM_TYPE, size, value, std::ptr::null_mut()) };
    (answer == CL_SUCCESS).then_some(kind)
}

fn ask_element(image: cl_mem) -> Option<usize> {
    let ask = next::table()?.clGetImageInfo?;
    let mut element = 0_usize;
    let value: *mut c_void = (&raw mut element).cast();
    let size = size_of::<usize>();
    // SAFETY: as above.
    let answer = unsafe {
        ask(
            image,
            CL_IMAGE_ELEMENT_SIZE,
            size,
            value,
            std::ptr::null_mut(),
        )
    };
    (answer == CL_SUCCESS).then_some(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_unpacked_to_what_it_was_made_of() {
        let word = u64::from(CL_MEM_OBJECT_IMAGE3D) << 32 | 16;
        let image = Image {
            element_bytes: 16,
            shape: ImageShape::D3,
        };
        assert_eq!(unpack(word), Some(image));
        assert_eq!(unpack(u64::from(CL_MEM_OBJECT_IMAGE2D) << 32), None);
        assert_eq!(unpack(16), None);
    }
}
