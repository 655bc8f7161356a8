//! A guest that sends whatever comes to its mind: the library must answer, and leave memory, as without the layer.

#![expect(clippy::indexing_slicing, reason = "tests")]

use std::process::Command;

use towpath_needs::{Need, artifact, can_run};
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec, commands};

use crate::pattern;

#[test]
fn answers_and_memory_are_those_of_the_library_alone() {
    if !can_run(&[Need::Virglrenderer]) {
        return;
    }
    let right = digests(None);
    assert!(right.len() > 50, "{right:?}");
    for fix in ["none", "auto", "upload"] {
        assert_eq!(digests(Some(fix)), right, "{fix}");
    }
}

/// What the guest saw, without the layer or with it and a fix.
fn digests(fix: Option<&str>) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "hostile::inner_hostile",
        "--ignored",
        "--nocapture",
    ]);
    if let Some(fix) = fix {
        command.env("TOWPATH_FIX", fix);
        command.env("LD_PRELOAD", artifact("libtowpath_virgl_layer.so"));
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{fix:?}: {text}");
    let lines = text.lines().filter(|line| line.starts_with("digest "));
    lines.map(str::to_owned).collect()
}

const HANDLES: u32 = 4;
const RAM_BYTES: u64 = 1 << 20;
const STEPS: u32 = 6000;

/// A guest, and what it has told the library.
struct Fool {
    api: Api,
    renderer: Renderer,
    guest: Guest,
    random: fastrand::Rng,
    specs: Vec<Option<Spec>>,
    /// The list attached last. All lists stay: the library may hold any of them.
    lists: Vec<(u32, Attached)>,
    digest: u64,
}

impl Fool {
    fn note(&mut self, value: u64) {
        self.digest = (self.digest ^ value)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    /// A texture with known contents.
    fn create(&mut self, handle: u32) {
        let spec = Spec {
            handle,
            format: [Format::R8, Format::Rgba8][self.random.usize(..2)],
            width: self.random.u32(1..100),
            height: self.random.u32(1..100),
        };
        let is_new = self.renderer.create(&self.api, &spec).is_ok();
        self.note(u64::from(is_new));
        if !is_new {
            return;
        }
        let pieces = self.guest.take(spec.bytes()).unwrap();
        let mut list = Attached::new(&self.guest, &pieces);
        self.guest
            .write(&pieces, &pattern(spec.bytes(), handle.into()));
        self.renderer.attach(&self.api, handle, &mut list).unwrap();
        let whole = [0, 0, spec.width, spec.height];
        self.renderer
            .write(&self.api, handle, whole, spec.stride(), 0)
            .unwrap();
        assert!(self.renderer.detach(&self.api, handle, &list));
        self.guest.give_back(&pieces);
        self.specs[handle as usize] = Some(spec);
    }

    /// Pages anywhere, now and then twice, empty, ragged, or too few.
    fn attach(&mut self, handle: u32) {
        let bytes = self.specs[handle as usize].map_or(4096, |spec| spec.bytes());
        let is_strange = self.random.u8(..4) == 0;
        let count = if is_strange {
            self.random.u64(2..12)
        } else {
            bytes.div_ceil(4096).max(2)
        };
        let pages = RAM_BYTES / 4096;
        let start = self.random.u64(..pages);
        let pieces: Vec<Piece> = (0..count)
            .map(|index| {
                let page = if is_strange {
                    self.random.u64(..pages)
                } else {
                    (start + index * 3) % pages
                };
                let len = if is_strange {
                    [4096, 4096, 0, 100][self.random.usize(..4)]
                } else {
                    4096
                };
                Piece {
                    address: page * 4096,
                    len,
                }
            })
            .collect();
        let mut list = Attached::new(&self.guest, &pieces);
        let is_taken = self.renderer.attach(&self.api, handle, &mut list).is_ok();
        self.note(u64::from(is_taken));
        self.lists.push((handle, list));
    }

    fn detach(&mut self, handle: u32) {
        let mut mine = self.lists.iter().filter(|(of, _)| *of == handle);
        if let Some((_, list)) = mine.next_back() {
            let is_mine = self.renderer.detach(&self.api, handle, list);
            self.note(u64::from(is_mine));
        }
    }

    fn transfer(&mut self, handle: u32) {
        let Some(spec) = self.specs[handle as usize] else {
            return;
        };
        let random = &mut self.random;
        let is_strange = random.u8(..6) == 0;
        let mut region = [0, 0, spec.width, spec.height];
        let (mut stride, mut offset) = (spec.stride(), 0);
        if is_strange {
            region = [(); 4].map(|()| random.u32(..spec.width.max(spec.height) + 2));
            stride = [0, stride, stride + 4, stride * 2][random.usize(..4)];
            offset = [0, 4, 4096, 1 << 40][random.usize(..4)];
        }
        let (way, is_upload) = (random.u8(..3), random.bool());
        let (api, renderer) = (&self.api, &self.renderer);
        let done = match way {
            0 => {
                let size = [spec.width, spec.height];
                let mut words = commands::transfer(handle, size, stride, is_upload);
                renderer.submit(api, &mut words)
            }
            _ if is_upload => renderer.write(api, handle, region, stride, offset),
            _ => renderer.read(api, handle, region, stride, offset),
        };
        self.note(u64::from(done.is_ok()));
    }

    fn scribble(&mut self) {
        let address = self.random.u64(..RAM_BYTES / 4096) * 4096;
        let bytes = pattern(4096, self.random.u64(..1 << 20));
        self.guest.write(&[Piece { address, len: 4096 }], &bytes);
    }

    fn step(&mut self) {
        let handle = self.random.u32(1..=HANDLES);
        // A list lives through about a hundred transfers: long enough for a view that must pay first.
        match self.random.u16(..1000) {
            0..3 => {
                self.renderer.unref(&self.api, handle);
                self.specs[handle as usize] = None;
            }
            3..9 => self.create(handle),
            9..21 => self.attach(handle),
            21..26 => self.detach(handle),
            26..200 => self.scribble(),
            _ => self.transfer(handle),
        }
    }
}

#[test]
#[ignore = "runs in a child"]
fn inner_hostile() {
    let api = Api::linked().unwrap();
    let renderer = Renderer::new(&api).unwrap();
    let mut fool = Fool {
        api,
        renderer,
        guest: Guest::new(RAM_BYTES, 4096, 8).unwrap(),
        random: fastrand::Rng::with_seed(9),
        specs: vec![None; HANDLES as usize + 1],
        lists: Vec::new(),
        digest: 1,
    };
    let all = [Piece {
        address: 0,
        len: RAM_BYTES,
    }];
    fool.guest.write(&all, &pattern(RAM_BYTES, 0));
    for step in 1..=STEPS {
        fool.step();
        if step % 100 == 0 {
            for word in fool.guest.read(&all).chunks_exact(8) {
                fool.note(u64::from_le_bytes(word.try_into().unwrap()));
            }
            println!("digest {step} {:016x}", fool.digest);
        }
    }
}
