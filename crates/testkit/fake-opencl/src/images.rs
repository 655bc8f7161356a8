//! Image formats and shapes.

use opencl_sys::{
    CL_A, CL_BGRA, CL_FLOAT, CL_HALF_FLOAT, CL_IMAGE_FORMAT_NOT_SUPPORTED, CL_INVALID_IMAGE_SIZE,
    CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D,
    CL_MEM_OBJECT_IMAGE2D_ARRAY, CL_MEM_OBJECT_IMAGE3D, CL_R, CL_RG, CL_RGBA, CL_SIGNED_INT8,
    CL_SIGNED_INT16, CL_SIGNED_INT32, CL_SNORM_INT8, CL_SNORM_INT16, CL_UNORM_INT8, CL_UNORM_INT16,
    CL_UNSIGNED_INT8, CL_UNSIGNED_INT16, CL_UNSIGNED_INT32, cl_image_desc, cl_image_format, cl_int,
};

use crate::memory::Image;

/// What a description stands for.
pub(crate) fn image(format: cl_image_format, shape: &cl_image_desc) -> Result<Image, cl_int> {
    let channels = match format.image_channel_order {
        CL_R | CL_A => 1,
        CL_RG => 2,
        CL_RGBA | CL_BGRA => 4,
        _ => return Err(CL_IMAGE_FORMAT_NOT_SUPPORTED),
    };
    let bytes = match format.image_channel_data_type {
        CL_UNORM_INT8 | CL_SNORM_INT8 | CL_SIGNED_INT8 | CL_UNSIGNED_INT8 => 1,
        CL_UNORM_INT16 | CL_SNORM_INT16 | CL_SIGNED_INT16 | CL_UNSIGNED_INT16 | CL_HALF_FLOAT => 2,
        CL_SIGNED_INT32 | CL_UNSIGNED_INT32 | CL_FLOAT => 4,
        _ => return Err(CL_IMAGE_FORMAT_NOT_SUPPORTED),
    };
    let extent = match shape.image_type {
        CL_MEM_OBJECT_IMAGE1D => [shape.image_width, 1, 1],
        CL_MEM_OBJECT_IMAGE1D_ARRAY => [shape.image_width, shape.image_array_size, 1],
        CL_MEM_OBJECT_IMAGE2D => [shape.image_width, shape.image_height, 1],
        CL_MEM_OBJECT_IMAGE2D_ARRAY => [
            shape.image_width,
            shape.image_height,
            shape.image_array_size,
        ],
        CL_MEM_OBJECT_IMAGE3D => [shape.image_width, shape.image_height, shape.image_depth],
        _ => return Err(CL_INVALID_IMAGE_SIZE),
    };
    if extent.contains(&0) {
        return Err(CL_INVALID_IMAGE_SIZE);
    }
    Ok(Image {
        kind: shape.image_type,
        order: format.image_channel_order,
        data: format.image_channel_data_type,
        element: channels * bytes,
        extent,
    })
}

impl Image {
    /// Bytes of the whole image, packed.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.extent
            .iter()
            .try_fold(self.element, |all, &n| all.checked_mul(n))
    }
}
