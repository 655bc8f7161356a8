//! Copies of the first structures of a program's chain, the last of which may be changed: the program's
//! own are not written to.

#![expect(
    unsafe_code,
    reason = "copies structures of a chain by their known size"
)]

use core::ffi::c_void;

use ash::vk;

use crate::abi;

/// Copies that point at each other, and the last at the rest of the program's chain.
pub(crate) struct Copied(Vec<Box<[u64]>>);

impl Copied {
    /// Copies `chain` up to its structure `T`; `None` where there is none, or `size` does not know one
    /// before it.
    pub(crate) fn until<T: vk::TaggedStructure>(
        chain: *const c_void,
        size: impl Fn(vk::StructureType) -> Option<usize>,
    ) -> Option<Self> {
        let mut copies = Vec::new();
        let mut is_there = false;
        for structure in abi::chain(chain) {
            copies.push(copy(structure, size(structure.s_type)?));
            is_there = structure.s_type == T::STRUCTURE_TYPE;
            if is_there {
                break;
            }
        }
        let mut behind: Option<*const c_void> = None;
        for copied in copies.iter_mut().rev() {
            let first: *mut u64 = copied.as_mut_ptr();
            let head = first.cast::<vk::BaseOutStructure<'_>>();
            if let (Some(head), Some(behind)) = (abi::get_mut(head), behind) {
                head.p_next = behind.cast_mut().cast();
            }
            behind = Some(first.cast_const().cast());
        }
        is_there.then_some(Self(copies))
    }

    /// The chain to pass on, alive as long as these copies.
    pub(crate) fn chain(&self) -> *const c_void {
        self.0
            .first()
            .map_or(core::ptr::null(), |first| first.as_ptr().cast())
    }

    /// The last copy.
    pub(crate) fn last<T: vk::TaggedStructure>(&mut self) -> Option<&mut T> {
        let last: *mut u64 = self.0.last_mut()?.as_mut_ptr();
        let head = abi::get(last.cast_const().cast::<vk::BaseInStructure<'_>>())?;
        let is_it = head.s_type == T::STRUCTURE_TYPE;
        abi::get_mut(last.cast::<T>()).filter(|_| is_it)
    }
}

fn copy(structure: &vk::BaseInStructure<'_>, size: usize) -> Box<[u64]> {
    let from = core::ptr::from_ref(structure).cast::<u8>();
    // Of words, so that the alignment is that of any structure.
    let mut words = vec![0_u64; size.div_ceil(8)].into_boxed_slice();
    let to: *mut u64 = words.as_mut_ptr();
    // SAFETY: the structure's type says that it has `size` bytes; the copy has room for them.
    unsafe { core::ptr::copy_nonoverlapping(from, to.cast::<u8>(), size) };
    words
}
