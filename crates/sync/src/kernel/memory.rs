//! Memory of this process at addresses that a program passed, which may be unmapped.
#![expect(
    unsafe_code,
    reason = "process_vm_readv and process_vm_writev on this process"
)]

use super::Answer;

/// How many bytes one array may have: more is the kernel's `ENOMEM` for absurd counts.
const ARRAY_BYTES_MAX: usize = 1 << 26;

/// Reads `count` elements of four bytes. Cost: an allocation and a system call.
pub(crate) fn read_u32s(address: u64, count: u32) -> Answer<Vec<u32>> {
    let bytes = read(address, count, 4)?;
    let (words, _rest) = bytes.as_chunks::<4>();
    #[expect(
        clippy::host_endian_bytes,
        reason = "integers of this machine's memory"
    )]
    Ok(words.iter().map(|word| u32::from_ne_bytes(*word)).collect())
}

/// Reads `count` elements of eight bytes; address zero is all zeros.
pub(crate) fn read_u64s_or_zeros(address: u64, count: u32) -> Answer<Vec<u64>> {
    if address == 0 {
        return Ok(vec![0; usize::try_from(count).unwrap_or(usize::MAX)]);
    }
    let bytes = read(address, count, 8)?;
    let (words, _rest) = bytes.as_chunks::<8>();
    #[expect(
        clippy::host_endian_bytes,
        reason = "integers of this machine's memory"
    )]
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// Reads bytes.
pub(crate) fn read_bytes(address: u64, count: u32) -> Answer<Vec<u8>> {
    read(address, count, 1)
}

fn read(address: u64, count: u32, element: usize) -> Answer<Vec<u8>> {
    let bytes = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .saturating_mul(element);
    if bytes > ARRAY_BYTES_MAX {
        return Err(libc::ENOMEM);
    }
    let mut buffer = vec![0; bytes];
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let remote = remote(address, bytes)?;
    // SAFETY: `local` is a buffer of ours of that length; the other side is only read, by the kernel,
    // which answers EFAULT for what is not mapped.
    let done =
        unsafe { libc::process_vm_readv(own_pid(), &raw const local, 1, &raw const remote, 1, 0) };
    if usize::try_from(done) == Ok(bytes) {
        Ok(buffer)
    } else {
        Err(libc::EFAULT)
    }
}

/// Writes bytes at an address of this process.
pub(crate) fn write(address: u64, bytes: &[u8]) -> Answer<()> {
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = remote(address, bytes.len())?;
    // SAFETY: `local` is only read. The other side is memory that the program gave as the target of
    // its request, as it would give it to the kernel.
    let done =
        unsafe { libc::process_vm_writev(own_pid(), &raw const local, 1, &raw const remote, 1, 0) };
    if usize::try_from(done) == Ok(bytes.len()) {
        Ok(())
    } else {
        Err(libc::EFAULT)
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn remote(address: u64, bytes: usize) -> Answer<libc::iovec> {
    let address = usize::try_from(address).or(Err(libc::EFAULT))?;
    Ok(libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address),
        iov_len: bytes,
    })
}
