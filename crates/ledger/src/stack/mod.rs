//! Where in the program a call came from: several frames, each a module and an offset in it.
//!
//! Contract: the unwinder of libgcc walks the stack by unwind tables, so that programs without frame
//! pointers work. The walk allocates nothing; finding modules takes the dynamic loader's list lock
//! for a moment, which no code of a program ever runs under. Both cost microseconds, so that only
//! calls of [`STACK_BYTES_MIN`] bytes and more take a stack, and a thread keeps its last ones
//! (`recent.rs`): where the same return addresses lie at the same places, the stack is the same.

#![expect(
    unsafe_code,
    reason = "the unwinder and the loader's module list are C interfaces"
)]

mod recent;

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::calls::{mix, mix_word};
use crate::layout::STACK_FRAMES;

/// Calls that move fewer bytes take no stack: 1 MiB takes the fastest host tens of microseconds, a
/// stack a few.
pub const STACK_BYTES_MIN: u64 = 1 << 20;

/// Up to six frames of a call's stack, and a hash of them that is equal between runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stack {
    hash: u64,
    addresses: [usize; STACK_FRAMES],
    len: usize,
}

impl Stack {
    /// No stack.
    pub const NONE: Self = Self {
        hash: 0,
        addresses: [0; STACK_FRAMES],
        len: 0,
    };

    /// The stack of this call without its innermost `skip` callers.
    ///
    /// Inside a shared library all leading frames of that library are left out as well, so that a
    /// layer's own functions never show, however they are inlined.
    ///
    /// # Cost
    ///
    /// Some tens of nanoseconds where the thread has had the same stack lately. Else some microseconds,
    /// no allocation, the loader's list lock for a moment.
    #[must_use]
    #[inline(never)]
    pub fn capture(skip: usize) -> Self {
        // This frame's place: below every return address that counts.
        let mark = 0_u8;
        let mark = std::hint::black_box(&raw const mark).addr();
        if let Some(known) = recent::find(mark, skip) {
            return known;
        }
        let own: fn(usize) -> Self = Self::capture;
        // An address in this library, to know its frames by.
        let walk = walk(own as usize);
        let (stack, used) = Self::of_walk(&walk, skip);
        recent::keep(mark, skip, walk.slots().take(used), stack);
        stack
    }

    /// The stack of a walk, and how many of its frames that took.
    fn of_walk(walk: &Walk, skip: usize) -> (Self, usize) {
        let modules = locate(walk);
        let (is_library, leading) = own_frames(walk, &modules);
        // Without a library of its own (tests, programs) only this function is left out.
        let left_out = if is_library { leading } else { 2 + skip };
        let mut stack = Self::NONE;
        for (address, module) in walk.frames().zip(&modules).skip(left_out) {
            let Some(to) = stack.addresses.get_mut(stack.len) else {
                break;
            };
            *to = address;
            stack.len += 1;
            stack.hash = mix_word(mix_word(stack.hash, module.name_hash), module.offset);
        }
        (stack, left_out + stack.len)
    }

    /// [`Stack::capture`] for calls of [`STACK_BYTES_MIN`] bytes and more, else none.
    #[must_use]
    #[inline]
    pub fn for_bytes(bytes: u64, skip: usize) -> Self {
        if bytes < STACK_BYTES_MIN {
            Self::NONE
        } else {
            Self::capture(skip + 1)
        }
    }

    /// The hash of the frames; 0 without a stack.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Return addresses in this process, innermost first.
    pub(crate) fn addresses(&self) -> &[usize] {
        self.addresses.get(..self.len).unwrap_or_default()
    }
}

/// Frames walked at most: ours, the loader's, and six of the program.
const WALK_FRAMES: usize = 24;

/// Return addresses as the unwinder gave them, innermost first.
#[derive(Clone, Copy)]
struct Walk {
    addresses: [usize; WALK_FRAMES],
    /// The stack pointer of each frame's caller: the return address lies right below.
    pointers: [usize; WALK_FRAMES],
    len: usize,
    own: usize,
}

impl Walk {
    fn frames(&self) -> impl Iterator<Item = usize> {
        self.addresses.into_iter().take(self.len)
    }

    /// Each return address and the place on the stack where it should lie.
    fn slots(&self) -> impl Iterator<Item = recent::Slot> {
        let places = self.pointers.into_iter();
        self.frames()
            .zip(places)
            .map(|(value, pointer)| recent::Slot {
                place: pointer.wrapping_sub(size_of::<usize>()),
                value,
            })
    }
}

/// Where an address lies.
#[derive(Clone, Copy, Default)]
struct Located {
    name_hash: u64,
    offset: u64,
    is_own: bool,
    is_program: bool,
}

/// Opaque state of the unwinder.
#[repr(C)]
struct UnwindContext {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    // libgcc_s, which std links for its own backtraces.
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
    fn _Unwind_GetCFA(context: *mut UnwindContext) -> usize;
}

/// `_URC_NO_REASON` of the unwinder: go on.
const GO_ON: c_int = 0;
/// `_URC_END_OF_STACK`: stop.
const STOP: c_int = 5;

#[inline(never)]
fn walk(own: usize) -> Walk {
    let mut walk = Walk {
        addresses: [0; WALK_FRAMES],
        pointers: [0; WALK_FRAMES],
        len: 0,
        own,
    };
    let argument: *mut Walk = &raw mut walk;
    // SAFETY: `visit` gets back exactly `argument`, which outlives the call.
    let _reason = unsafe { _Unwind_Backtrace(visit, argument.cast()) };
    walk
}

extern "C" fn visit(context: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the `Walk` of the function above, used by nobody else meanwhile.
    let Some(walk) = (unsafe { argument.cast::<Walk>().as_mut() }) else {
        return STOP;
    };
    let Some(to) = walk.addresses.get_mut(walk.len) else {
        return STOP;
    };
    // SAFETY: the unwinder hands a context that is valid during this call.
    let address = unsafe { _Unwind_GetIP(context) };
    // After the outermost frame the unwinder calls once more, with no address.
    if address == 0 {
        return STOP;
    }
    *to = address;
    if let Some(to) = walk.pointers.get_mut(walk.len) {
        // SAFETY: as above.
        *to = unsafe { _Unwind_GetCFA(context) };
    }
    walk.len += 1;
    GO_ON
}

/// A search for the modules of several addresses in one pass over the loader's list.
struct Search<'a> {
    walk: &'a Walk,
    found: [Located; WALK_FRAMES],
    position: usize,
}

fn locate(walk: &Walk) -> [Located; WALK_FRAMES] {
    let mut search = Search {
        walk,
        found: [Located::default(); WALK_FRAMES],
        position: 0,
    };
    let argument: *mut Search<'_> = &raw mut search;
    // SAFETY: `inspect` gets back exactly `argument`, which outlives the call.
    let _last = unsafe { libc::dl_iterate_phdr(Some(inspect), argument.cast()) };
    search.found
}

unsafe extern "C" fn inspect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the loader hands a module's record that is valid during this call.
    let info = unsafe { info.as_ref() };
    // SAFETY: `argument` is the `Search` of `locate`, used by nobody else meanwhile.
    let search = unsafe { argument.cast::<Search<'_>>().as_mut() };
    if let (Some(info), Some(search)) = (info, search) {
        look(info, search);
    }
    0
}

fn look(info: &libc::dl_phdr_info, search: &mut Search<'_>) {
    // The loader lists the program first.
    let is_program = search.position == 0;
    search.position += 1;
    let base = usize::try_from(info.dlpi_addr).unwrap_or(usize::MAX);
    let has_own = contains(info, base, search.walk.own);
    let mut name_hash = None;
    for (found, address) in search.found.iter_mut().zip(search.walk.frames()) {
        if !contains(info, base, address) {
            continue;
        }
        let name_hash = *name_hash.get_or_insert_with(|| mix(0, file_name(name(info))));
        *found = Located {
            name_hash,
            offset: u64::try_from(address.wrapping_sub(base)).unwrap_or(0),
            is_own: has_own,
            is_program,
        };
    }
}

/// Whether `address` lies in a loaded segment of the module.
fn contains(info: &libc::dl_phdr_info, base: usize, address: usize) -> bool {
    (0..usize::from(info.dlpi_phnum)).any(|index| {
        // SAFETY: the record says that `dlpi_phnum` headers lie at `dlpi_phdr`; index is below it.
        let header = unsafe { info.dlpi_phdr.add(index) };
        // SAFETY: as above; headers stay mapped as long as the module.
        let Some(header) = (unsafe { header.as_ref() }) else {
            return false;
        };
        let start = usize::try_from(header.p_vaddr).unwrap_or(usize::MAX);
        let length = usize::try_from(header.p_memsz).unwrap_or(0);
        header.p_type == libc::PT_LOAD && address.wrapping_sub(base.wrapping_add(start)) < length
    })
}

/// The module's path; empty for the program itself.
fn name(info: &libc::dl_phdr_info) -> &[u8] {
    text(info.dlpi_name)
}

fn text<'a>(pointer: *const c_char) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: the loader keeps a module's name, ended by zero, as long as the module; it is read
    // within the callback only.
    unsafe { CStr::from_ptr(pointer) }.to_bytes()
}

/// What follows the last slash: two machines may have a library in different folders.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether this code lies in a shared library, and how many leading frames are its own.
fn own_frames(walk: &Walk, modules: &[Located]) -> (bool, usize) {
    let own = walk
        .frames()
        .zip(modules)
        .take_while(|(_, module)| module.is_own);
    let (count, is_library) = own.fold((0, false), |(count, _), (_, module)| {
        (count + 1, !module.is_program)
    });
    (is_library, count)
}

/// Longest module name kept, in bytes.
pub(crate) const MODULE_NAME_BYTES: usize = 120;

/// A module's name, its hash, and the address in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModuleAt {
    pub(crate) name: [u8; MODULE_NAME_BYTES],
    pub(crate) len: usize,
    pub(crate) offset: u64,
}

/// The module of `address`, with its name copied: it may be unloaded at any time.
///
/// # Cost
///
/// One pass over the loader's list; no allocation. Only for new sites.
pub(crate) fn module_at(address: usize) -> Option<ModuleAt> {
    let mut request = Request {
        address,
        answer: None,
    };
    let argument: *mut Request = &raw mut request;
    // SAFETY: `answer` gets back exactly `argument`, which outlives the call.
    let _last = unsafe { libc::dl_iterate_phdr(Some(answer), argument.cast()) };
    request.answer
}

struct Request {
    address: usize,
    answer: Option<ModuleAt>,
}

unsafe extern "C" fn answer(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the loader hands a module's record that is valid during this call.
    let info = unsafe { info.as_ref() };
    // SAFETY: `argument` is the `Request` of `module_at`, used by nobody else meanwhile.
    let request = unsafe { argument.cast::<Request>().as_mut() };
    let (Some(info), Some(request)) = (info, request) else {
        return 0;
    };
    let base = usize::try_from(info.dlpi_addr).unwrap_or(usize::MAX);
    if !contains(info, base, request.address) {
        return 0;
    }
    let path = name(info);
    // The end of a long path tells more than its beginning.
    let kept = path
        .get(path.len().saturating_sub(MODULE_NAME_BYTES)..)
        .unwrap_or(path);
    let mut found = ModuleAt {
        name: [0; MODULE_NAME_BYTES],
        len: kept.len(),
        offset: u64::try_from(request.address.wrapping_sub(base)).unwrap_or(0),
    };
    for (to, from) in found.name.iter_mut().zip(kept) {
        *to = *from;
    }
    request.answer = Some(found);
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn first() -> Stack {
        std::hint::black_box(Stack::capture(0))
    }

    #[inline(never)]
    fn second() -> Stack {
        std::hint::black_box(Stack::capture(0))
    }

    #[test]
    fn one_place_gives_one_hash_and_two_places_two() {
        let stacks: Vec<Stack> = (0..2).map(|_| first()).collect();
        assert_eq!(stacks[0], stacks[1]);
        assert_ne!(stacks[0].hash(), second().hash());
        assert_ne!(stacks[0].hash(), 0);
        assert_eq!(stacks[0].addresses().len(), STACK_FRAMES);
    }

    #[inline(never)]
    fn wrapper() -> Stack {
        std::hint::black_box(Stack::capture(0))
    }

    /// Two callers whose frames have the same size, so that the wrapper's stands at the same place.
    #[inline(never)]
    fn left() -> Stack {
        std::hint::black_box(wrapper())
    }

    #[inline(never)]
    fn right() -> Stack {
        std::hint::black_box(wrapper())
    }

    #[test]
    fn callers_of_one_wrapper_stay_apart_and_a_known_stack_is_the_same() {
        let turns: Vec<[Stack; 2]> = (0..20).map(|_| [left(), right()]).collect();
        for turn in &turns {
            assert_eq!(turn, &turns[0]);
            assert_ne!(turn[0].hash(), turn[1].hash());
        }
        recent::forget();
        let anew: Vec<[Stack; 2]> = (0..2).map(|_| [left(), right()]).collect();
        assert_eq!(anew[0][0].addresses()[0], turns[0][0].addresses()[0]);
        assert_eq!(anew[1], anew[0]);
    }

    extern "C" fn shallow(answer: *mut c_void) -> *mut c_void {
        let mut stacks = [Stack::NONE; 2];
        for stack in &mut stacks {
            *stack = first();
        }
        let answer: *mut ([Stack; 2], usize) = answer.cast();
        // SAFETY: the test's own variable, which outlives the thread.
        unsafe { answer.write((stacks, recent::kept())) };
        std::ptr::null_mut()
    }

    /// A program whose `main` calls the API has fewer frames than are kept. The unwinder's call after the
    /// last one, without an address, was taken for a frame; it lies nowhere, so that the stack was not
    /// kept, and every call of such a program walked it again.
    #[test]
    fn a_stack_of_few_frames_is_kept_as_well() {
        let mut answer = ([Stack::NONE; 2], 0_usize);
        let argument: *mut ([Stack; 2], usize) = &raw mut answer;
        let mut thread = std::mem::MaybeUninit::uninit();
        // SAFETY: `thread` is filled by the call; `shallow` gets what it expects.
        let code = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                std::ptr::null(),
                shallow,
                argument.cast(),
            )
        };
        assert_eq!(code, 0);
        // SAFETY: filled by the call above.
        let thread = unsafe { thread.assume_init() };
        // SAFETY: a thread that nobody else joins.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        let (stacks, kept) = answer;
        assert!(stacks[0].addresses().len() < STACK_FRAMES, "{stacks:?}");
        assert!(!stacks[0].addresses().contains(&0), "{stacks:?}");
        assert_eq!(stacks[0], stacks[1]);
        if cfg!(target_arch = "x86_64") {
            assert!(kept > 0);
        }
    }

    #[test]
    fn frames_lie_in_named_modules() {
        let stack = first();
        let module = module_at(stack.addresses()[0]).unwrap();
        // The program itself has no name in the loader's list.
        assert_eq!(module.len, 0);
        assert!(module.offset > 0);
        let libc_function: unsafe extern "C" fn() -> c_int = libc::getpid;
        let module = module_at(libc_function as usize).unwrap();
        let name = String::from_utf8_lossy(&module.name[..module.len]).into_owned();
        assert!(name.contains("libc"), "{name}");
        assert!(module_at(1).is_none());
    }

    #[test]
    fn small_calls_take_no_stack() {
        assert_eq!(Stack::for_bytes(STACK_BYTES_MIN - 1, 0), Stack::NONE);
        assert_ne!(Stack::for_bytes(STACK_BYTES_MIN, 0), Stack::NONE);
    }
}
