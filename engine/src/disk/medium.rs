//! What kind of file system the store lives on, and whether that is a place for durable data.
//! Guarantees: an unknown file system is named by its number, never guessed.
//! Must not know: the store.
//! Next: files.rs puts it into the report.

use super::DiskError;
use super::names::{Names, disk_error};

/// A file system and the doubt about it.
pub(super) struct FileSystem {
    pub(super) name: String,
    pub(super) note: Option<String>,
}

/// Magic number, name, and what an operator should be told. A successful O_DIRECT open proves nothing, since
/// tmpfs and overlayfs accept it; only the magic number tells.
const FILE_SYSTEMS: &[(u32, &str, &str)] = &[
    (0xef53, "ext4", ""),
    (0x5846_5342, "xfs", ""),
    (0xf2f5_2010, "f2fs", ""),
    (
        0x9123_683e,
        "btrfs",
        "btrfs copies on write, which multiplies small durable writes: set NOCOW (chattr +C) on the directory",
    ),
    (0xca45_1a4e, "bcachefs", ""),
    (0x2fc1_2fc1, "zfs", ""),
    (0x2405_1905, "ubifs", ""),
    (0x72b6, "jffs2", ""),
    (0x4d44, "vfat", "vfat has no journal: names may be lost or doubled by a power cut"),
    (0x2011_bab0, "exfat", "exfat has no journal: names may be lost or doubled by a power cut"),
    (0x6969, "nfs", "nfs: durability is the server's word, and locks may not hold between machines"),
    (0xff53_4d42, "cifs", "cifs: durability is the server's word, and locks may not hold between machines"),
    (0xfe53_4d42, "smb2", "smb2: durability is the server's word, and locks may not hold between machines"),
    (0x6573_5546, "fuse", "fuse: durability is the word of a program in user space"),
    (0x0102_1997, "9p", "9p: durability is the host's word"),
    (0x0102_1994, "tmpfs", "not durable: tmpfs"),
    (0x8584_58f6, "ramfs", "not durable: ramfs"),
    (0x794c_7630, "overlayfs", "not durable: overlayfs goes with its container; put the store on a volume"),
    (0x7371_7368, "squashfs", "squashfs cannot be written"),
];

/// Finds out where the store lives.
pub(super) fn identify(names: &Names) -> Result<FileSystem, DiskError> {
    let stat =
        rustix::fs::fstatfs(&names.root).map_err(|errno| disk_error("identify file system of", &names.place, errno))?;
    // The field's width and sign differ between machines; the numbers have 32 bits everywhere.
    Ok(by_magic(stat.f_type as u32))
}

fn by_magic(magic: u32) -> FileSystem {
    match FILE_SYSTEMS.iter().find(|(known, _, _)| *known == magic) {
        Some((_, name, "")) => FileSystem { name: (*name).to_owned(), note: None },
        Some((_, name, note)) => FileSystem { name: (*name).to_owned(), note: Some((*note).to_owned()) },
        None => FileSystem { name: format!("file system {magic:#x}"), note: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_memory_is_called_not_durable() {
        assert_eq!(by_magic(0x0102_1994).note.as_deref(), Some("not durable: tmpfs"));
        assert!(by_magic(0xef53).note.is_none());
        assert_eq!(by_magic(0x1234).name, "file system 0x1234");
    }
}
