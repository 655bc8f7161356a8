//! Staged reads and writes of buffers, rectangles and images on PoCL give the bytes that the plain
//! calls give, and refuse what the driver refuses.

#![cfg(feature = "opencl")]
#![expect(unsafe_code, reason = "tests call OpenCL")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::ptr::{null, null_mut};

use towpath_needs::{Need, can_run};
use towpath_transfer::engine::{Bring, Error, Shape};
use towpath_transfer::opencl::{
    Buffer, Cl, Functions, Handle, HostRows, Image, Options, Region, Staging, TRUE, Transfer,
    calibrate, devices,
};
use towpath_transfer::readback::ImageShape;

fn open() -> Option<Cl> {
    if !can_run(&[Need::Pocl]) {
        return None;
    }
    let functions = Functions::load("libOpenCL.so.1").unwrap();
    let all = devices(&functions).unwrap();
    let device = all
        .iter()
        .find(|device| device.matches("portable"))
        .unwrap();
    Some(Cl::open(&functions, device).unwrap())
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|n| (n * 31 + n / 257 + 1).to_le_bytes()[0])
        .collect()
}

fn filled(cl: &Cl, bytes: &[u8]) -> Buffer {
    let memory = cl.buffer(bytes.len()).unwrap();
    let (queue, handle) = (cl.queue(), memory.handle());
    let from = bytes.as_ptr().cast();
    // SAFETY: live queue and buffer; the slice has as many bytes as the buffer; blocking.
    let code = unsafe {
        (cl.functions().write_buffer)(
            queue,
            handle,
            TRUE,
            0,
            bytes.len(),
            from,
            0,
            null(),
            null_mut(),
        )
    };
    assert_eq!(code, 0);
    memory
}

fn content(cl: &Cl, memory: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0_u8; memory.bytes()];
    let (queue, handle) = (cl.queue(), memory.handle());
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: live queue and buffer; the vector has as many bytes as the buffer; blocking.
    let code = unsafe {
        (cl.functions().read_buffer)(
            queue,
            handle,
            TRUE,
            0,
            bytes.len(),
            to,
            0,
            null(),
            null_mut(),
        )
    };
    assert_eq!(code, 0);
    bytes
}

fn staging(cl: &Cl) -> Staging {
    Staging::new(cl.clone(), Shape::new(2, 64 << 10), 64 << 20)
}

/// A queue of the program's: a second `Cl` brings one along.
fn program_queue(cl: &Cl) -> (Cl, Handle) {
    let other = cl.another_queue().unwrap();
    let queue = other.queue();
    (other, queue)
}

/// Stages a read, with and without an event, and forwards the rest as a layer does.
fn read(
    staging: &Staging,
    queue: Handle,
    call: &Transfer,
    with_event: bool,
) -> Result<usize, Error> {
    let cl = staging.engine().backend();
    // SAFETY: live queue and memory of the tests; the rows lie in a vector that only this call uses.
    let staged = unsafe { staging.read(queue, call, Bring::HugePages, &[], with_event) }?;
    let mut moved = staged.moved().bytes;
    assert_eq!(staged.rest().is_some(), with_event);
    if let Some(rest) = staged.rest() {
        let mut event = null_mut();
        // SAFETY: as above.
        let code = unsafe { rest.forward_read(cl.functions(), queue, true, &[], &raw mut event) };
        assert_eq!(code, 0);
        assert!(!event.is_null());
        // SAFETY: the event made above, released once.
        let code = unsafe { (cl.functions().release_event)(event) };
        assert_eq!(code, 0);
        moved += rest.footprint().unwrap().bytes();
    }
    // SAFETY: as above.
    unsafe { staged.finish() }?;
    Ok(moved)
}

fn buffer(memory: &Buffer, offset: usize, host: &mut [u8]) -> Transfer {
    Transfer {
        region: Region::Buffer {
            memory: memory.handle(),
            offset,
        },
        host: host.as_mut_ptr().expose_provenance(),
        rows: HostRows::Bytes(host.len()),
    }
}

fn image_call(image: &Image, origin: [usize; 3], region: [usize; 3], host: &mut [u8]) -> Transfer {
    Transfer {
        region: Region::Image {
            memory: image.handle(),
            origin,
            region,
        },
        host: host.as_mut_ptr().expose_provenance(),
        rows: HostRows::Image {
            shape: ImageShape::D2,
            element_bytes: 16,
            row_pitch: 0,
            slice_pitch: 0,
        },
    }
}

#[test]
fn buffers_and_rectangles_and_images_are_read_as_the_plain_calls_read_them() {
    let Some(cl) = open() else { return };
    let (_keep, queue) = program_queue(&cl);
    let staging = staging(&cl);
    let data = pattern(2_000_000);
    let memory = filled(&cl, &data);
    for round in 0..4 {
        let mut host = vec![0_u8; 1_500_000];
        let call = buffer(&memory, 1000 + round, &mut host);
        assert_eq!(
            read(&staging, queue, &call, round % 2 == 1).unwrap(),
            host.len()
        );
        assert!(host == data[1000 + round..][..host.len()]);
    }
    for with_event in [false, true] {
        rectangles_are_read(&cl, &staging, queue, &memory, with_event);
    }
    images_are_read_and_written(&cl, &staging, queue);
}

fn rectangles_are_read(
    cl: &Cl,
    staging: &Staging,
    queue: Handle,
    memory: &Buffer,
    with_event: bool,
) {
    let mut host = vec![0_u8; 700 * 60 * 3];
    let call = Transfer {
        region: Region::Rect {
            memory: memory.handle(),
            origin: [16, 2, 1],
            region: [600, 50, 3],
            row_pitch: 1000,
            slice_pitch: 100_000,
        },
        host: host.as_mut_ptr().expose_provenance(),
        rows: HostRows::Rect {
            origin: [8, 1, 0],
            row_pitch: 700,
            slice_pitch: 42_000,
        },
    };
    assert_eq!(
        read(staging, queue, &call, with_event).unwrap(),
        600 * 50 * 3
    );
    let mut plain = vec![0_u8; host.len()];
    let to = plain.as_mut_ptr().cast();
    // SAFETY: live queue and buffer; the rows lie in the vector by the pitches given; blocking.
    let code = unsafe {
        (cl.functions().read_buffer_rect)(
            queue,
            memory.handle(),
            TRUE,
            [16, 2, 1].as_ptr(),
            [8, 1, 0].as_ptr(),
            [600, 50, 3].as_ptr(),
            1000,
            100_000,
            700,
            42_000,
            to,
            0,
            null(),
            null_mut(),
        )
    };
    assert_eq!(code, 0);
    assert!(host == plain);
}

fn images_are_read_and_written(cl: &Cl, staging: &Staging, queue: Handle) {
    let image = cl.image(200, 300).unwrap();
    let mut pixels = pattern(200 * 300 * 16);
    let whole = image_call(&image, [0; 3], [200, 300, 1], &mut pixels);
    // SAFETY: live queue and image of this test; the pixels lie in a vector that nobody writes.
    unsafe { staging.write(queue, &whole, &[]) }.unwrap();
    let mut host = vec![0_u8; 150 * 200 * 16];
    let part = image_call(&image, [3, 5, 0], [150, 200, 1], &mut host);
    assert_eq!(read(staging, queue, &part, true).unwrap(), host.len());
    for (row, bytes) in host.chunks(150 * 16).enumerate() {
        let start = ((row + 5) * 200 + 3) * 16;
        assert!(bytes == &pixels[start..start + bytes.len()]);
    }
}

#[test]
fn writes_reach_the_buffer_in_the_order_of_the_queue() {
    let Some(cl) = open() else { return };
    let (program, queue) = program_queue(&cl);
    let staging = staging(&cl);
    let memory = filled(&cl, &vec![0; 500_000]);
    for round in 0..20_u8 {
        let mut data = vec![round + 1; 300_000];
        let call = buffer(&memory, 100, &mut data);
        // SAFETY: live queue and buffer of this test; the bytes lie in a vector that nobody writes.
        unsafe { staging.write(queue, &call, &[]) }.unwrap();
        let found = content(&program, &memory);
        assert!(found[100..300_100].iter().all(|byte| *byte == round + 1));
        assert!(
            found[..100]
                .iter()
                .chain(&found[300_100..])
                .all(|byte| *byte == 0)
        );
    }
}

#[test]
fn what_the_driver_refuses_is_refused_and_nothing_is_written() {
    let Some(cl) = open() else { return };
    let (_keep, queue) = program_queue(&cl);
    let staging = staging(&cl);
    let memory = filled(&cl, &pattern(100_000));
    let mut host = vec![0xee_u8; 90_000];
    let call = buffer(&memory, 20_000, &mut host);
    let answer = read(&staging, queue, &call, false);
    assert!(matches!(
        answer,
        Err(Error::Driver {
            call: "clEnqueueCopyBuffer",
            ..
        })
    ));
    assert!(host.iter().all(|byte| *byte == 0xee));
}

#[test]
fn memory_is_given_back() {
    let Some(cl) = open() else { return };
    let (_keep, queue) = program_queue(&cl);
    let staging = staging(&cl);
    let memory = filled(&cl, &pattern(3 << 20));
    let mut host = vec![0_u8; 3 << 20];
    let call = buffer(&memory, 0, &mut host);
    read(&staging, queue, &call, true).unwrap();
    assert!(staging.engine().idle_pinned_bytes() > 0);
    assert!(staging.engine().idle_pinned_bytes() <= staging.engine().shape().pinned_bytes());
    staging.trim();
    assert_eq!(staging.engine().idle_pinned_bytes(), 0);
}

#[test]
fn a_staged_read_never_mixes_two_states_of_a_queue_that_another_thread_fills() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let Some(cl) = open() else { return };
    let (program, queue) = program_queue(&cl);
    let staging = staging(&cl);
    let len = 1 << 20;
    let (ones, twos) = (
        filled(&program, &vec![1; len]),
        filled(&program, &vec![2; len]),
    );
    let memory = filled(&program, &vec![1; len]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = false;
            while !is_over.load(Ordering::Relaxed) {
                turn = !turn;
                let from = if turn { twos.handle() } else { ones.handle() };
                let calls = program.functions();
                // SAFETY: live queue and buffers of this size.
                let code = unsafe {
                    (calls.copy_buffer)(
                        program.queue(),
                        from,
                        memory.handle(),
                        0,
                        0,
                        len,
                        0,
                        null(),
                        null_mut(),
                    )
                };
                assert_eq!(code, 0);
                // SAFETY: a live queue; keeps the thread from running away.
                let code = unsafe { (calls.finish)(program.queue()) };
                assert_eq!(code, 0);
            }
        });
        for round in 0..60 {
            let mut host = vec![0_u8; len];
            let call = buffer(&memory, 0, &mut host);
            let answer = read(&staging, queue, &call, round % 2 == 1);
            let first = host[0];
            let is_mixed = host.iter().any(|byte| *byte != first);
            is_over.store(
                round == 59 || answer.is_err() || is_mixed,
                Ordering::Relaxed,
            );
            assert!(!is_mixed, "round {round} mixed two states");
            answer.unwrap();
        }
    });
}

/// From half cold memory of 1 MiB a form lost that had won from wholly cold memory.
#[test]
fn a_calibration_does_not_stage_what_is_small() {
    let Some(cl) = open() else { return };
    let all = devices(cl.functions()).unwrap();
    let device = all.iter().find(|device| device.matches("portable"));
    let mut options = Options::default();
    options.sizes = vec![1 << 20, 4 << 20];
    options.rounds = 2;
    options.shapes = vec![Shape::new(1, Shape::CHUNK_BYTES)];
    let calibration = calibrate(&cl, device.unwrap(), &options).unwrap();
    assert!(calibration.classes.len() >= 4);
    for class in &calibration.classes {
        let mut options = class.options.iter().map(|option| option.mechanism);
        let is_staged = options.any(|mechanism| mechanism.shape().is_some());
        assert_eq!(is_staged, class.bytes >= 4 << 20, "{class:?}");
    }
}
