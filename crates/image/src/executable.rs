//! The little of an ELF file that an image has to know.

use anyhow::{Context, bail};

/// The processors that there are images for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// As images name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

const MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
/// The program header that names a loader.
const INTERPRETER: u32 = 3;

/// What an executable runs on.
pub fn architecture(executable: &[u8]) -> anyhow::Result<Architecture> {
    if !executable.starts_with(MAGIC) {
        bail!("it is no executable of Linux");
    }
    if executable.get(4..6) != Some(&[CLASS_64, LITTLE_ENDIAN]) {
        bail!("only 64-bit little-endian executables are supported");
    }
    match u16::from_le_bytes(field(executable, 18)?) {
        62 => Ok(Architecture::Amd64),
        183 => Ok(Architecture::Arm64),
        other => bail!("there are images for amd64 and arm64, and this is for ELF machine {other}"),
    }
}

/// An executable that asks for a loader does not run where there are no libraries.
pub fn check_alone(executable: &[u8]) -> anyhow::Result<()> {
    architecture(executable)?;
    let headers = number(u64::from_le_bytes(field(executable, 32)?))?;
    let size = usize::from(u16::from_le_bytes(field(executable, 54)?));
    let count = usize::from(u16::from_le_bytes(field(executable, 56)?));
    for index in 0..count {
        let header = index.checked_mul(size).and_then(|offset| offset.checked_add(headers));
        let header = header.context(BROKEN)?;
        if u32::from_le_bytes(field(executable, header)?) == INTERPRETER {
            bail!(
                "it needs shared libraries, and the image has none: build it with -C target-feature=+crt-static, as `cargo xtask image` does"
            );
        }
    }
    Ok(())
}

const BROKEN: &str = "it is cut off or broken";

fn number(value: u64) -> anyhow::Result<usize> {
    usize::try_from(value).context(BROKEN)
}

fn field<const SIZE: usize>(bytes: &[u8], at: usize) -> anyhow::Result<[u8; SIZE]> {
    let found = at.checked_add(SIZE).and_then(|end| bytes.get(at..end));
    found.and_then(|found| found.try_into().ok()).context(BROKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An executable with program headers of these types.
    fn elf(machine: u16, headers: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(headers.len()).unwrap();
        for header in headers {
            bytes.extend(header.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn the_processor_is_read_and_others_are_refused() {
        assert_eq!(architecture(&elf(62, &[])).unwrap(), Architecture::Amd64);
        assert_eq!(architecture(&elf(183, &[])).unwrap(), Architecture::Arm64);
        let mut wide = elf(62, &[]);
        wide[4] = 1;
        for (bytes, why) in [
            (elf(40, &[]), "ELF machine 40"),
            (wide, "64-bit"),
            (b"#!/bin/sh\n".to_vec(), "no executable"),
            (Vec::new(), "no executable"),
            (elf(62, &[])[..10].to_vec(), "cut off"),
        ] {
            let error = architecture(&bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn one_that_asks_for_a_loader_is_refused() {
        check_alone(&elf(62, &[1, 2, 1])).unwrap();
        let error = check_alone(&elf(62, &[1, 2, INTERPRETER])).unwrap_err().to_string();
        assert!(error.contains("crt-static"), "{error}");
        let cut = elf(62, &[1, 2]);
        assert!(check_alone(&cut[..122]).unwrap_err().to_string().contains("cut off"));
        // The executable of this test is an everyday one, with libraries.
        let ours = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(check_alone(&ours).is_err(), !cfg!(target_feature = "crt-static"));
    }
}
