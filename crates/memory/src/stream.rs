//! Copies that store past the caches.
//!
//! A large copy through the caches first reads the lines that it then overwrites. Streaming stores do
//! not; they pay where the destination is larger than the caches and not read again at once.

#![expect(unsafe_code, reason = "vector stores through raw pointers")]

/// Copies `source` into `destination` with streaming stores where the machine has them.
///
/// When it returns, the stores are ordered before every later store of this thread.
///
/// # Cost
///
/// No allocation, no system call. Below [`STREAM_BYTES_MIN`] an ordinary copy.
///
/// # Panics
///
/// Never: only as many bytes as both have are copied.
pub fn copy(source: &[u8], destination: &mut [u8]) {
    let len = source.len().min(destination.len());
    // SAFETY: `len` is within both slices, and a shared and an exclusive slice do not overlap.
    unsafe { copy_raw(source.as_ptr(), destination.as_mut_ptr(), len) };
}

/// As [`copy`], for memory that is not a slice: of a driver, or not written yet.
///
/// # Safety
///
/// `source` is valid for reading `len` bytes, `destination` for writing `len`, and they do not overlap.
pub unsafe fn copy_raw(source: *const u8, destination: *mut u8, len: usize) {
    if len >= STREAM_BYTES_MIN {
        // SAFETY: the caller's promise.
        unsafe { stream_raw(source, destination, len) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, destination, len) };
}

/// As [`copy_raw`], with streaming stores at any length: for one piece of a large copy.
///
/// # Safety
///
/// As [`copy_raw`].
pub unsafe fn stream_raw(source: *const u8, destination: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let head = destination.align_offset(LINE_BYTES).min(len);
        // SAFETY: `head <= len`, within the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, head) };
        let lines = (len - head) / LINE_BYTES;
        let (from, to) = (source.wrapping_add(head), destination.wrapping_add(head));
        // SAFETY: `to` is aligned to a line by `align_offset`; `lines` lines from `head` are within `len`.
        unsafe { x86::stream_lines(from, to, lines) };
        let done = head + lines * LINE_BYTES;
        let (from, to) = (source.wrapping_add(done), destination.wrapping_add(done));
        // SAFETY: `len - done` bytes are left of the caller's range.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len - done) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(source, destination, len);
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "loads may be unaligned; stores start at a line"
)]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128,
        _mm256_loadu_si256, _mm256_stream_si256,
    };

    use super::LINE_BYTES;

    /// Lines of a small page.
    const PAGE_LINES: usize = 64;
    /// Pages that are copied side by side: a processor fetches ahead within a page, and several pages
    /// keep more of its memory busy. Measured on the machine of `bench/record/h200`: 161 MB into pinned
    /// memory by one thread take 15.4 ms in place of 18.8 line after line.
    const PAGES: usize = 4;
    /// How far ahead lines are fetched.
    const AHEAD_LINES: usize = 8;

    /// # Safety
    ///
    /// `to` is aligned to a line; `lines` lines are readable and writable.
    pub(super) unsafe fn stream_lines(from: *const u8, to: *mut u8, lines: usize) {
        if std::arch::is_x86_feature_detected!("avx") {
            let groups = lines / (PAGES * PAGE_LINES);
            let done = groups * PAGES * PAGE_LINES;
            // SAFETY: AVX was just found; the rest is the caller's promise.
            unsafe { stream_pages_avx(from, to, groups) };
            let (from, to) = (
                from.wrapping_add(done * LINE_BYTES),
                to.wrapping_add(done * LINE_BYTES),
            );
            // SAFETY: as above, for the lines that are left.
            unsafe { stream_avx(from, to, lines - done) };
        } else {
            // SAFETY: the caller's promise; SSE2 is part of x86-64.
            unsafe { stream_sse(from, to, lines) };
        }
        // SAFETY: SSE is part of x86-64. Streaming stores are weakly ordered: without the fence a later
        // flag could be seen first.
        unsafe { _mm_sfence() };
    }

    /// `groups` times [`PAGES`] pages, two lines of each in turn.
    #[target_feature(enable = "avx")]
    unsafe fn stream_pages_avx(from: *const u8, to: *mut u8, groups: usize) {
        for pair in 0..groups * (PAGE_LINES / 2) {
            let group = pair / (PAGE_LINES / 2) * PAGES * PAGE_LINES;
            let in_page = pair % (PAGE_LINES / 2) * 2;
            for page in 0..PAGES {
                let line = group + page * PAGE_LINES + in_page;
                prefetch(from.wrapping_add(ahead(line, in_page) * LINE_BYTES));
                prefetch(from.wrapping_add((ahead(line, in_page) + 1) * LINE_BYTES));
                // SAFETY: the line and the next are of the caller's lines.
                unsafe { stream_line_avx(from, to, line) };
                // SAFETY: as above.
                unsafe { stream_line_avx(from, to, line + 1) };
            }
        }
    }

    /// The line to fetch while `line` is copied: of the same page, or of the one in its place in the next
    /// group.
    const fn ahead(line: usize, in_page: usize) -> usize {
        if in_page + AHEAD_LINES < PAGE_LINES {
            line + AHEAD_LINES
        } else {
            line + AHEAD_LINES + (PAGES - 1) * PAGE_LINES
        }
    }

    fn prefetch(at: *const u8) {
        // SAFETY: SSE is part of x86-64; a prefetch of any address has no effect that a program sees.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }

    #[target_feature(enable = "avx")]
    unsafe fn stream_avx(from: *const u8, to: *mut u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: one of the caller's lines.
            unsafe { stream_line_avx(from, to, line) };
        }
    }

    #[target_feature(enable = "avx")]
    unsafe fn stream_line_avx(from: *const u8, to: *mut u8, line: usize) {
        let from = from.wrapping_add(line * LINE_BYTES).cast::<__m256i>();
        let to = to.wrapping_add(line * LINE_BYTES).cast::<__m256i>();
        let (from_high, to_high) = (from.wrapping_add(1), to.wrapping_add(1));
        // SAFETY: 32 readable bytes; the load may be unaligned.
        let low = unsafe { _mm256_loadu_si256(from) };
        // SAFETY: the second half of the line.
        let high = unsafe { _mm256_loadu_si256(from_high) };
        // SAFETY: 32 writable bytes, aligned because `to` is aligned to a line.
        unsafe { _mm256_stream_si256(to, low) };
        // SAFETY: the second half of the line.
        unsafe { _mm256_stream_si256(to_high, high) };
    }

    unsafe fn stream_sse(from: *const u8, to: *mut u8, lines: usize) {
        for part in 0..lines * (LINE_BYTES / 16) {
            let from = from.wrapping_add(part * 16).cast::<__m128i>();
            let to = to.wrapping_add(part * 16).cast::<__m128i>();
            // SAFETY: 16 readable bytes of the caller's lines; the load may be unaligned.
            let value = unsafe { _mm_loadu_si128(from) };
            // SAFETY: 16 writable bytes, aligned because the first is aligned to a line.
            unsafe { _mm_stream_si128(to, value) };
        }
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn the_form_without_avx_copies_the_same() {
            let source: Vec<u8> = (0..4096_u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
            let mut target = vec![0_u8; 4096 + 64];
            let head = target.as_ptr().align_offset(64);
            let to = target[head..].as_mut_ptr();
            // SAFETY: 64 lines from an aligned start inside the vector.
            unsafe { super::stream_sse(source.as_ptr(), to, 64) };
            assert_eq!(&target[head..head + 4096], &source[..]);
        }
    }
}

/// 256 KiB: smaller copies fit in the second cache and are likely read again.
pub const STREAM_BYTES_MIN: usize = 256 << 10;
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_copies_exactly_its_bytes() {
        let len_max = STREAM_BYTES_MIN + 300;
        let source: Vec<u8> = (0..len_max + 64)
            .map(|n| (n * 7 + n / 251).to_le_bytes()[0])
            .collect();
        let mut target = vec![0_u8; len_max + 256];
        for (from, to, len) in [
            (0, 0, STREAM_BYTES_MIN),
            (1, 0, STREAM_BYTES_MIN),
            (0, 1, STREAM_BYTES_MIN + 1),
            (3, 63, STREAM_BYTES_MIN + 200),
            (17, 33, STREAM_BYTES_MIN - 1),
            (5, 64, 0),
            (0, 7, len_max),
        ] {
            target.fill(0xee);
            copy(&source[from..from + len], &mut target[to..to + len]);
            assert_eq!(&target[to..to + len], &source[from..from + len]);
            assert!(target[..to].iter().all(|byte| *byte == 0xee));
            assert!(target[to + len..].iter().all(|byte| *byte == 0xee));
        }
    }
}
