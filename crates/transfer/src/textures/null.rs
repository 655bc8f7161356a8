//! The backend without a device: images are bytes in memory, rows without gaps.

use towpath_memory::volatile::VolatileBytes;

use super::backend::{Backend, Copied, Source};
use super::error::{Error, Result};
use super::gather::Stores;
use super::plan::Plan;
use super::shape::Texture;

/// Keeps images in memory. Also a device model's way to feed a display without a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

/// A texture as bytes.
#[derive(Clone, Debug)]
pub struct NullImage {
    levels: Vec<Vec<u8>>,
}

impl NullImage {
    /// The bytes of a level, rows without gaps.
    #[must_use]
    pub fn level(&self, level: u32) -> Option<&[u8]> {
        self.levels
            .get(usize::try_from(level).ok()?)
            .map(Vec::as_slice)
    }

    fn bytes(&mut self, level: u32) -> Option<VolatileBytes<'_>> {
        let level = self.levels.get_mut(usize::try_from(level).ok()?)?;
        Some(VolatileBytes::of(level))
    }
}

impl Backend for Null {
    type Image = NullImage;

    fn create(&mut self, texture: &Texture) -> Result<NullImage> {
        texture.check()?;
        let mut levels = Vec::new();
        let mut total = 0_u64;
        for level in 0..texture.levels {
            let bytes = texture.linear_bytes(level).ok_or(TOO_LARGE)?;
            total = total.checked_add(bytes).ok_or(TOO_LARGE)?;
            if total > IMAGE_BYTES_MAX {
                return Err(TOO_LARGE);
            }
            let bytes = usize::try_from(bytes).map_err(|_too_large| TOO_LARGE)?;
            levels.push(vec![0; bytes]);
        }
        Ok(NullImage { levels })
    }

    fn destroy(&mut self, image: NullImage) {
        drop(image);
    }

    fn transfer(
        &mut self,
        image: &mut NullImage,
        plan: &Plan,
        source: Source<'_>,
        stores: Stores,
    ) -> Result<Copied> {
        if plan.payload() == 0 {
            return Ok(Copied::default());
        }
        let memory = image.bytes(plan.level).ok_or(NO_LEVEL)?;
        source.copy(plan, &memory, &plan.image, stores)?;
        Ok(Copied {
            by_cpu: plan.payload(),
            imported: false,
        })
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self, _id: u64) {}

    fn reads_by_cpu(&self) -> bool {
        // Nobody reads the image soon: it is as large as the guest made it.
        false
    }

    fn can_import(&self, _plan: &Plan) -> bool {
        false
    }
}

/// 4 GiB: what a guest can make this process allocate by one command.
pub const IMAGE_BYTES_MAX: u64 = 4 << 30;

const TOO_LARGE: Error = Error::Texture {
    reason: "more than 4 GiB",
};
const NO_LEVEL: Error = Error::Request {
    reason: "no such level",
};
