//! The ways of saving that are compared: what programs do today, and ours.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use towpath_cache::saving::save_blob;
use towpath_cache::{Disk, Folder, Kind, Options, Pace, Store};

/// One way of keeping a growing list of entries.
pub(super) trait Arm {
    /// Saves; `all` are the entries in the driver's order, `new` those since the last save.
    fn save(&mut self, all: &[Vec<u8>], new: &[Vec<u8>]) -> Result<()>;

    /// Ends the session.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Name and meaning of each arm, in the order of the table.
pub(super) const ARMS: [(&str, &str); 6] = [
    ("null", "saves nothing: the disk at rest"),
    (
        "whole-file",
        "writes the whole blob to a new file, closes and renames it (most programs)",
    ),
    (
        "append-unsynced",
        "appends records, fflush only (as Fossilize)",
    ),
    (
        "chunks",
        "content-defined chunks of the whole blob into the store",
    ),
    (
        "store",
        "appends records to the store, one fdatasync per save",
    ),
    (
        "store-in-play",
        "the same from a thread of the idle I/O class at 48 MB/s, heeding pressure",
    ),
];

/// Makes an arm in its own folder, with `base` saved already.
pub(super) fn make(name: &str, place: &Path, base: &[Vec<u8>]) -> Result<Box<dyn Arm>> {
    std::fs::create_dir_all(place)?;
    let mut arm: Box<dyn Arm> = match name {
        "null" => Box::new(Null),
        "whole-file" => Box::new(WholeFile {
            place: place.to_owned(),
        }),
        "append-unsynced" => Box::new(Append {
            file: BufWriter::new(std::fs::File::create(place.join("records"))?),
        }),
        "chunks" => Box::new(Chunks {
            store: store(place)?.0,
        }),
        _ => {
            let (store, folder) = store(place)?;
            Box::new(Records {
                store,
                folder,
                is_in_play: false,
                next: 0,
            })
        }
    };
    arm.save(base, base)?;
    if name == "store-in-play" {
        let (store, folder) = store(place)?;
        folder.set_pace(Pace::IN_PLAY);
        arm = Box::new(Records {
            store,
            folder,
            is_in_play: true,
            next: 1 << 20,
        });
    }
    Ok(arm)
}

fn store(place: &Path) -> Result<(Store, Arc<Folder>)> {
    let folder = Arc::new(Folder::open(&place.join("store"))?);
    let disk: Arc<dyn Disk> = Arc::<Folder>::clone(&folder);
    Ok((
        Store::open(disk, Options::new(*b"bench of savings"))?,
        folder,
    ))
}

struct Null;

impl Arm for Null {
    fn save(&mut self, _all: &[Vec<u8>], _new: &[Vec<u8>]) -> Result<()> {
        Ok(())
    }
}

struct WholeFile {
    place: std::path::PathBuf,
}

impl Arm for WholeFile {
    fn save(&mut self, all: &[Vec<u8>], _new: &[Vec<u8>]) -> Result<()> {
        let temporary = self.place.join("pipelines.tmp");
        let mut file = std::fs::File::create(&temporary)?;
        // The driver hands one blob out; making it is not part of writing it.
        for entry in all {
            file.write_all(entry)?;
        }
        drop(file);
        std::fs::rename(temporary, self.place.join("pipelines.bin"))?;
        Ok(())
    }
}

struct Append {
    file: BufWriter<std::fs::File>,
}

impl Arm for Append {
    fn save(&mut self, _all: &[Vec<u8>], new: &[Vec<u8>]) -> Result<()> {
        for entry in new {
            // 40 digits of name, 16 bytes of header.
            self.file.write_all(&[b'0'; 56])?;
            self.file.write_all(entry)?;
        }
        self.file.flush()?;
        Ok(())
    }
}

struct Chunks {
    store: Store,
}

impl Arm for Chunks {
    fn save(&mut self, all: &[Vec<u8>], _new: &[Vec<u8>]) -> Result<()> {
        save_blob(&self.store, b"pipelines", &all.concat())?;
        self.store.flush()?;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.store.seal()?;
        Ok(())
    }
}

struct Records {
    store: Store,
    folder: Arc<Folder>,
    is_in_play: bool,
    next: u32,
}

impl Arm for Records {
    fn save(&mut self, _all: &[Vec<u8>], new: &[Vec<u8>]) -> Result<()> {
        let (store, first) = (&self.store, self.next);
        let work = || -> towpath_cache::Result<()> {
            for (n, entry) in (first..).zip(new) {
                store.append(Kind::BINARY, &n.to_le_bytes(), entry)?;
            }
            store.flush()?;
            Ok(())
        };
        self.next += u32::try_from(new.len())?;
        if !self.is_in_play {
            return Ok(work()?);
        }
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                towpath_cache::storage::block_signals();
                // Where the kernel refuses, the pace alone has to do.
                let _is_idle = towpath_cache::storage::idle_io_class();
                work()
            });
            let joined = thread.join();
            joined
                .map_err(|_panic| anyhow::anyhow!("the saving thread panicked"))?
                .map_err(Into::into)
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.folder.set_pace(Pace::PROMPT);
        self.store.seal()?;
        Ok(())
    }
}
