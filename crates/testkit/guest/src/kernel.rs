//! Kernels for the guest: Debian's packages, unpacked into a cache folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use crate::{Error, Result, at, run_host};

/// A kernel that a guest can boot.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Kernel {
    /// Debian's `linux-image-6.12-amd64` (bookworm): udmabuf, PAGEMAP_SCAN, syncobj eventfd.
    V6_12,
    /// Debian's `linux-image-amd64` of bookworm, 6.1: the older kernel, without any of these.
    V6_1,
}

/// Where an unpacked kernel lies.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    /// The kernel's release, such as `6.12.117+deb12-amd64`.
    pub release: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// A flat folder of modules, `.ko` or `.ko.xz`.
    pub modules: PathBuf,
}

impl Kernel {
    /// Every kernel, newest first.
    pub const ALL: [Self; 2] = [Self::V6_12, Self::V6_1];

    /// The name on the command line and of the cache folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_12 => "6.12",
            Self::V6_1 => "6.1",
        }
    }

    /// The kernel of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    const fn metapackage(self) -> &'static str {
        match self {
            Self::V6_12 => "linux-image-6.12-amd64",
            Self::V6_1 => "linux-image-amd64",
        }
    }

    /// The kernel's files, downloaded with `apt-get` and unpacked if they are not in the cache.
    ///
    /// Cost: a stat when cached, else 70-100 MiB from the distribution's mirror, once per machine.
    ///
    /// # Errors
    ///
    /// [`Error::Program`] if apt or dpkg fails, [`Error::File`] if the cache cannot be written.
    pub fn fetch(self) -> Result<KernelFiles> {
        let cache = cache_folder();
        fs::create_dir_all(&cache).map_err(at(&cache))?;
        let lock_path = cache.join("lock");
        let lock = File::create(&lock_path).map_err(at(&lock_path))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|errno| at(&lock_path)(errno.into()))?;
        let folder = cache.join(self.name());
        if !folder.join("release").exists() {
            self.unpack_into(&cache, &folder)?;
        }
        let release_path = folder.join("release");
        let release = fs::read_to_string(&release_path).map_err(at(&release_path))?;
        Ok(KernelFiles {
            release,
            image: folder.join("vmlinuz"),
            modules: folder.join("modules"),
        })
    }

    fn unpack_into(self, cache: &Path, folder: &Path) -> Result<()> {
        let work = tempfile::tempdir_in(cache).map_err(at(cache))?;
        let package = self.package()?;
        run_host(
            Command::new("apt-get")
                .args(["--quiet", "download", &package])
                .current_dir(work.path()),
        )?;
        let deb = entries(work.path())?
            .into_iter()
            .find(|path| path.extension().is_some_and(|end| end == "deb"))
            .ok_or_else(|| Error::Program {
                program: "apt-get".into(),
                text: format!("left no package file for {package}"),
            })?;
        let unpacked = work.path().join("unpacked");
        run_host(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&unpacked))?;

        let release = package.trim_start_matches("linux-image-").to_owned();
        let made = work.path().join("made");
        let modules = made.join("modules");
        fs::create_dir_all(&modules).map_err(at(&modules))?;
        copy(
            &unpacked.join(format!("boot/vmlinuz-{release}")),
            &made.join("vmlinuz"),
        )?;
        let drivers = unpacked.join(format!("lib/modules/{release}/kernel/drivers"));
        for name in ["virtio", "gpu/drm", "gpu/drm/virtio", "gpu/drm/vgem"] {
            for path in entries(&drivers.join(name))? {
                let is_module = path.to_string_lossy().contains(".ko");
                if let (true, Some(file)) = (is_module && path.is_file(), path.file_name()) {
                    copy(&path, &modules.join(file))?;
                }
            }
        }
        let release_path = made.join("release");
        fs::write(&release_path, &release).map_err(at(&release_path))?;
        fs::rename(&made, folder).map_err(at(folder))
    }

    /// The package that the metapackage names today.
    fn package(self) -> Result<String> {
        let text = run_host(Command::new("apt-cache").args(["depends", self.metapackage()]))?;
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
            .map(|rest| format!("linux-image-{rest}"))
            .next()
            .ok_or_else(|| Error::Program {
                program: "apt-cache".into(),
                text: format!("{} depends on no kernel: {text}", self.metapackage()),
            })
    }
}

impl KernelFiles {
    /// The file of a module, whose name may be written with `-` or `_`; `None` if it is built in.
    pub(crate) fn module(&self, name: &str) -> Option<PathBuf> {
        let names = [
            name.to_owned(),
            name.replace('_', "-"),
            name.replace('-', "_"),
        ];
        names
            .iter()
            .flat_map(|name| [format!("{name}.ko.xz"), format!("{name}.ko")])
            .map(|file| self.modules.join(file))
            .find(|path| path.exists())
    }
}

fn cache_folder() -> PathBuf {
    let home = std::env::home_dir().filter(|home| home.is_dir());
    let base = home.unwrap_or_else(std::env::temp_dir);
    base.join(".cache/towpath/guest-kernels")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).map_err(at(folder))?;
    read.map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(at(folder))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(|_bytes| ()).map_err(at(from))
}
