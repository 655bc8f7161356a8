//! A stream of a guest's commands against a device model in this process: create, attach, transfer,
//! detach, unref, memory removed, in any order and with any numbers.
//!
//! The device model is what a virtual GPU would be: tables of images and backings by the guest's numbers,
//! over one engine. After every stream, what the guest can see must be what the model says.

use std::collections::HashMap;
use std::sync::Arc;

use towpath_transfer::textures::null::{Null, NullImage};
use towpath_transfer::textures::shape::Texture;
use towpath_transfer::textures::views::Budget;
use towpath_transfer::textures::{
    Backend as _, Backing, Done, Entry, Error, Memory, Model, Ram, Request, Result, Transfers,
};

use crate::{Input, RAM_BYTES, is_refusal};

/// A small device model.
pub struct Device {
    memory: Arc<dyn Memory>,
    transfers: Transfers<Null>,
    images: HashMap<u32, (Texture, NullImage)>,
    backings: HashMap<u32, Backing>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("images", &self.images.len())
            .field("backings", &self.backings.len())
            .finish_non_exhaustive()
    }
}

impl Device {
    /// A device over guest memory of [`RAM_BYTES`].
    #[must_use]
    pub fn new(model: Model, budget: Budget) -> Self {
        let memory = Arc::new(Ram::new(RAM_BYTES).expect("memory"));
        Self::over(memory, model, budget)
    }

    /// A device over some guest memory.
    #[must_use]
    pub fn over(memory: Arc<dyn Memory>, model: Model, budget: Budget) -> Self {
        Self {
            memory,
            transfers: Transfers::new(Null, model, budget, None),
            images: HashMap::new(),
            backings: HashMap::new(),
        }
    }

    /// The engine, for looking at its counts.
    #[must_use]
    pub const fn transfers(&self) -> &Transfers<Null> {
        &self.transfers
    }

    /// The image of a resource.
    #[must_use]
    pub fn image(&self, id: u32) -> Option<&NullImage> {
        self.images.get(&id).map(|(_, image)| image)
    }

    /// RESOURCE_CREATE. A number in use is refused.
    pub fn create(&mut self, id: u32, texture: Texture) -> Result<()> {
        if self.images.contains_key(&id) {
            return Err(IN_USE);
        }
        let image = self.transfers.backend().create(&texture)?;
        self.images.insert(id, (texture, image));
        Ok(())
    }

    /// RESOURCE_ATTACH_BACKING. A second one is refused (CVE-2021-3544).
    pub fn attach(&mut self, id: u32, entries: &[Entry]) -> Result<()> {
        if !self.images.contains_key(&id) || self.backings.contains_key(&id) {
            return Err(IN_USE);
        }
        let backing = Backing::attach(&self.memory, entries)?;
        self.backings.insert(id, backing);
        Ok(())
    }

    /// RESOURCE_DETACH_BACKING.
    pub fn detach(&mut self, id: u32) -> Result<()> {
        let backing = self.backings.remove(&id).ok_or(UNKNOWN)?;
        self.transfers.detach(&backing)
    }

    /// RESOURCE_UNREF, also of a resource that is still attached.
    pub fn unref(&mut self, id: u32) -> Result<()> {
        let (_, image) = self.images.remove(&id).ok_or(UNKNOWN)?;
        if self.backings.contains_key(&id) {
            self.detach(id)?;
        }
        self.transfers.backend().destroy(image);
        Ok(())
    }

    /// TRANSFER_TO_HOST and TRANSFER_FROM_HOST.
    pub fn transfer(&mut self, id: u32, request: &Request) -> Result<Done> {
        let (texture, image) = self.images.get_mut(&id).ok_or(UNKNOWN)?;
        match self.backings.get(&id) {
            Some(backing) => self.transfers.transfer(texture, image, backing, request),
            None if request.region.is_empty() => {
                let nothing = Backing::attach(&self.memory, &[])?;
                self.transfers.transfer(texture, image, &nothing, request)
            }
            None => Err(UNKNOWN),
        }
    }

    /// The memory table changed: every backing loses its memory.
    pub fn remove_memory(&mut self) {
        for backing in self.backings.values() {
            // A failure to finish is the device's; the views are gone all the same.
            let _unfinished = self.transfers.detach(backing);
            backing.revoke();
        }
    }

    /// The memory table changed: what is attached loses its memory, what is attached from now on lies in
    /// `memory`.
    pub fn replace_memory(&mut self, memory: Arc<dyn Memory>) {
        self.remove_memory();
        self.memory = memory;
    }

    /// A balloon took pages of every backing.
    pub fn discard(&mut self) {
        for backing in self.backings.values() {
            backing.discard();
        }
    }
}

const IN_USE: Error = Error::Request {
    reason: "the number is in use",
};
const UNKNOWN: Error = Error::Request {
    reason: "no such resource or backing",
};

/// Plays `data` as commands. Every refusal must be one that a guest may cause.
pub fn play(data: &[u8]) {
    let eager = Model {
        per_view: 0.0,
        map_run: 0.0,
        map_page: 0.0,
        ..Model::default()
    };
    let budget = Budget {
        entries: 4,
        mappings: 64,
        bytes: 1 << 20,
    };
    let mut device = Device::new(eager, budget);
    let mut input = Input::new(data);
    while !input.is_empty() {
        step(&mut device, &mut input);
    }
    let held = device.transfers.views().held();
    assert!(held <= budget.entries, "{held} views");
}

fn step(device: &mut Device, input: &mut Input<'_>) {
    let id = u32::from(input.byte() % 6);
    let answer = match input.byte() % 16 {
        0..3 => {
            let texture = input.texture();
            if texture.linear_bytes(0).is_none_or(|bytes| bytes > 1 << 20) {
                return;
            }
            device.create(id, texture)
        }
        3..6 => {
            let entries = input.entries();
            device.attach(id, &entries)
        }
        6 => device.detach(id),
        7 => device.unref(id),
        8 => {
            device.discard();
            Ok(())
        }
        9 if input.byte() == 0 => {
            device.remove_memory();
            Ok(())
        }
        _ => {
            let texture = device.images.get(&id).map(|(texture, _)| *texture);
            let texture = texture.unwrap_or(Texture::buffer(64));
            let request = input.request(&texture);
            device.transfer(id, &request).map(|_done| ())
        }
    };
    if let Err(error) = answer {
        assert!(is_refusal(&error), "{error}");
    }
}
